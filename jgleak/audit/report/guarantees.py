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
"""An epsilon above this protects nobody: odds may change by a factor of ``exp(10)``, 22,000."""


class Guarantee(NamedTuple):
    """One defence with noise, and what to say of it.

    Attributes:
      model: the model's name in the grid.
      defense: the defence's name in the grid.
      text: its epsilon in one round and over ``ROUNDS``, or why there is none.
    """

    model: str
    defense: str
    text: str


def guarantees(found: Sequence[Row]) -> list[Guarantee]:
    """The guarantees of all defences of an audit that add noise to updates, for each model, in the order of the
    rows."""
    groups: dict[tuple[str, str], list[Row]] = {}
    for row in found:
        if _noisy(row.units[0].specification["defense"]):
            groups.setdefault((row.model, row.defense), []).append(row)
    return [Guarantee(*key, _text(rows)) for key, rows in groups.items()]


def _noisy(defense: str) -> bool:
    """True where a defence adds noise to updates; one that this version does not know counts as none."""
    try:
        return any(step.kind.deviation is not None for step in parse(defense).steps)
    except ValueError:
        return False


def _text(rows: Sequence[Row]) -> str:
    spec = rows[0].units[0].specification
    defense, entries = spec["defense"], [unit.record.get("entries") for row in rows for unit in row.done]
    sizes = next((one for one in entries if one), None)
    if spec["norm"] == "batch" and spec["norm_mode"] == "train":
        return "no guarantee: running statistics of batch normalisation come back beside the update, without noise"
    if sizes is None:
        return "no client's update is stored, so that its size is unknown"
    one, many = (privacy(parse(defense), sizes, rounds=rounds, delta=DELTA) for rounds in (1, ROUNDS))
    if math.isinf(many.epsilon):
        return f"no guarantee: {many.reason}"
    clause = "protects nobody" if many.epsilon > LARGE else "bounds what can be learnt"
    return (
        f"epsilon {one.epsilon:.3g} in one round and {many.epsilon:.3g} over {ROUNDS} rounds, at delta {DELTA:g}; an "
        f"epsilon of this size {clause} ({many.reason})"
    )
