"""The list of attacks, by the name that users type."""

from __future__ import annotations

import difflib

from jgleak.attacks.attack import Attack
from jgleak.attacks.census.attack import CENSUS
from jgleak.attacks.grain.attack import GRAIN
from jgleak.attacks.trivial import EMPTY, MEAN_ADJACENCY, RANDOM

ATTACKS: dict[str, Attack] = {attack.name: attack for attack in (CENSUS, GRAIN, RANDOM, MEAN_ADJACENCY, EMPTY)}


def get_attack(name: str) -> Attack:
    """The attack called ``name``.

    Raises:
      KeyError: there is none; the message names the closest one and lists all.
    """
    if name in ATTACKS:
        return ATTACKS[name]
    close = difflib.get_close_matches(name.lower(), ATTACKS, n=1)
    hint = f"did you mean {close[0]!r}? " if close else ""
    raise KeyError(f"attack: unknown {name!r}; {hint}choose one of {', '.join(sorted(ATTACKS))}")
