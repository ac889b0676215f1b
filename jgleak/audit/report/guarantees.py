"""What the noise of each defence guarantees, by an accountant."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from jgleak.audit.report.rows import Row
from jgleak.defenses import parse
from jgleak.defenses.privacy import privacy

ROUNDS = 100
"""Rounds that one client takes part in."""

DELTA = 1e-5

LARGE = 10.0
"""An epsilon above this says nothing that protects anybody: odds may change by a factor of ``exp(10)``, 22,000."""


class Guarantee(NamedTuple):
    """One defence with noise, and what to say of it.

    Attributes:
      defense: as the grid has it.
      text: its epsilon in one round and over ``ROUNDS``, or why there is none.
    """

    defense: str
    text: str


def guarantees(found: Sequence[Row]) -> list[Guarantee]:
    """Those of all defences of an audit that add noise to updates, in the order of the rows."""
    texts: dict[str, str] = {}
    for row in found:
        defense = row.units[0].specification["defense"]
        sizes = next((unit.record.get("entries") for unit in row.done if unit.record.get("entries")), None)
        if row.defense in texts or not _noisy(defense):
            continue
        texts[row.defense] = _text(defense, sizes)
    return [Guarantee(name, text) for name, text in texts.items()]


def _noisy(defense: str) -> bool:
    """Whether it adds noise to updates; one that this version does not know says nothing here."""
    try:
        return any(step.kind.deviation is not None for step in parse(defense).steps)
    except ValueError:
        return False


def _text(defense: str, sizes: Sequence[int] | None) -> str:
    if sizes is None:
        return "no client's update is stored, so that its size is unknown"
    one, many = (privacy(parse(defense), sizes, rounds=rounds, delta=DELTA) for rounds in (1, ROUNDS))
    if math.isinf(many.epsilon):
        return f"no guarantee: {many.reason}"
    verdict = "says nothing that protects anybody" if many.epsilon > LARGE else "bounds what can be learnt"
    return (
        f"epsilon {one.epsilon:.3g} in one round and {many.epsilon:.3g} over {ROUNDS} rounds, at delta {DELTA:g}; an "
        f"epsilon of this size {verdict} ({many.reason})"
    )
