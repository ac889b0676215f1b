"""The attacks by the names that users type."""

from __future__ import annotations

import difflib

from jgleak.attacks.attack import Attack
from jgleak.names import attacks, installed
from jgleak.names.entries import Entries

ATTACKS: Entries[Attack] = Entries(
    {name: named.home for name, named in attacks.ATTACKS.items()}, installed.ATTACKS, Attack
)


def get_attack(name: str) -> Attack:
    """The attack called ``name``.

    Raises:
      KeyError: there is none; the message names the closest one and lists all.
      ValueError: an installed package has it, and it cannot be had from there.
    """
    if name in ATTACKS:
        try:
            return ATTACKS[name]
        except ValueError as error:
            raise ValueError(f"attack: {error}") from error
    close = difflib.get_close_matches(name.lower(), ATTACKS)
    hint = f"did you mean {close[0]!r}? " if close else ""
    raise KeyError(f"attack: unknown {name!r}; {hint}choose one of {', '.join(sorted(ATTACKS))}")
