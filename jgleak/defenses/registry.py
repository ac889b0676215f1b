"""The list of defences, by the name that users type, and the text that combines them."""

from __future__ import annotations

import math
import re

from jgleak.defenses.activation import ACTIVATIONS
from jgleak.defenses.defense import Defense, Kind, Step
from jgleak.defenses.noise import LAPLACE
from jgleak.did_you_mean import did_you_mean
from jgleak.names import installed
from jgleak.names.defenses import DEFENSES, HYBRID
from jgleak.names.entries import Entries

KINDS: Entries[Kind] = Entries({name: named.home for name, named in DEFENSES.items()}, installed.DEFENSES, Kind)


def parse(text: str) -> Defense:
    """The defence that a text names: ``name:strength`` or ``name``, joined by ``+`` in the order of application.

    ``clip:1+gaussian:0.1`` clips, then adds noise. ``hybrid:0.3`` is ``activations:0.212+laplace:0.212``, half the
    variance each. An empty text is no defence.

    Raises:
      ValueError: an unknown name, one that cannot be had from the installed package that has it, a missing or surplus
        strength, or one that the defence cannot take.
    """
    steps: list[Step] = []
    for part in re.split(r"(?<![0-9][eE])\+", text) if text.strip() else ():
        name, colon, number = part.strip().partition(":")
        if name == HYBRID:
            half = _strength(name, number) / math.sqrt(2.0)
            steps += [Step(ACTIVATIONS, half), Step(LAPLACE, half)]
            continue
        if name not in KINDS:
            hint = did_you_mean(name, (*KINDS, HYBRID))
            raise ValueError(f"defense: unknown {name!r}; {hint}choose from {', '.join((*KINDS, HYBRID))}")
        try:
            kind = KINDS[name]
        except ValueError as error:
            raise ValueError(f"defense: {error}") from error
        if kind.plain and colon:
            raise ValueError(f"defense: {name!r} has no strength; write {name}")
        steps.append(Step(kind) if kind.plain else Step(kind, _strength(name, number)))
    return Defense(tuple(steps))


def _strength(name: str, number: str) -> float:
    try:
        return float(number)
    except ValueError:
        raise ValueError(f"defense: {name!r} needs a strength, a number; write {name}:0.1, got {number!r}") from None
