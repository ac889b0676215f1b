"""Pooled rows from masks, where units may switch on or off during several local steps.

As in ``masks`` a graph's ``d_g`` is ``W s_g`` at units that its row lights and 0 at the others. Along local steps this
holds up to second order in the length of the path, but at a unit that switched the entry is a fraction of ``W s_g``.
Such units are few, so a vector of the row space is a graph's where nearly all units agree. Each of a few draws of
units, and each pattern of lit and dark ones among them, determines one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations, product
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int
from scipy import linalg

from jgleak.attacks.attack import Clock
from jgleak.attacks.census.batches.head import HeadGradient

DRAWS = 12
"""Draws of units whose patterns are tried: one of them has to be without units that switched."""

BITS = 12
"""Most units of a draw."""

NEAR = (0.1, 0.02)
"""Largest distance of an entry from 0 or ``W s``, relative to ``W s``, before a vector is fitted to all units, and
after,"""

FLOOR = 1e-3
"""plus this constant; the length of ``W s`` is about one."""

AGREED = 0.75
"""Share of units that agree with a graph's vector,"""

LIT = 0.05
"""and share of them that are lit at least: at a vector of zeros all units agree."""

ALIKE = 1.0 - 1e-4
"""Vectors of length one whose product is larger are one."""

BEYOND = 4
"""So many vectors more than there are graphs are compared, those that most units agree with."""

UNSURE = 1e-2
"""A unit whose input is this near to 0, relative to the largest, counts as undecided."""

CONTRARY = 0.1
"""Largest share of units at which a vector and its pooled row disagree on being lit."""


class Shown(NamedTuple):
    """A vector of the row space that may be a graph's.

    Attributes:
      vector: its coordinates, of length one ``(r,)``.
      lit: the units that it shows lit ``(U,)``.
      agree: share of units that agree with it.
    """

    vector: Float[np.ndarray, " r"]
    lit: Bool[np.ndarray, " U"]
    agree: float


def pooled_rows(head: HeadGradient, clock: Clock) -> Float[np.ndarray, "r P"] | None:
    """Every graph's pooled row at the middle of the path, in no order, up to second order in the path; None where no
    choice of vectors explains which units are lit."""
    rank, bits, units = head.rank, head.rank + head.directions.shape[1] - 1, head.units
    if not 0 < bits <= BITS or units.size < 3 * bits:
        return None
    shown = _distinct(_vectors(*head.at_units(units), clock))
    best, fewest = None, CONTRARY
    for chosen in combinations(shown[: rank + BEYOND], rank):
        rows, contrary = _rows(head, chosen, units)
        if contrary < fewest:
            best, fewest = rows, contrary
    return best


def _vectors(rows: Float[np.ndarray, "U r"], outgoing: Float[np.ndarray, "U c"], clock: Clock) -> Iterator[Shown]:
    """Vectors that most units agree with; each may occur many times."""
    rng, (units, rank), size = np.random.default_rng(0), rows.shape, outgoing.shape[1]
    patterns = np.array(list(product((0.0, 1.0), repeat=rank + size - 1)))
    for _ in range(DRAWS):
        some = rng.permutation(units)[: units // 2]
        order = linalg.qr(rows[some].T, mode="r", pivoting=True)[-1]
        drawn = some[np.r_[order[:rank], rng.permutation(order[rank:])[: size - 1]]]
        own = np.broadcast_to(rows[drawn], (len(patterns), *rows[drawn].shape))
        systems = np.concatenate([own, -patterns[:, :, None] * outgoing[drawn]], axis=2)
        for both in np.linalg.svd(systems)[2][:, -1]:
            if clock.left <= 0:
                return
            found = _fitted(rows, outgoing, both)
            if found is not None:
                yield found


def _fitted(
    rows: Float[np.ndarray, "U r"], outgoing: Float[np.ndarray, "U c"], both: Float[np.ndarray, " z"]
) -> Shown | None:
    """A vector, fitted to the units that agree; None where too few do.

    Args:
      rows: the row space at every unit.
      outgoing: ``W``, in units of its length.
      both: coordinates of the vector, and ``s``.
    """
    rank, lit, agree = rows.shape[1], np.zeros(len(rows), bool), np.zeros(len(rows), bool)
    for near in NEAR:
        length = float(np.linalg.norm(both[rank:]))
        if length < FLOOR * np.linalg.norm(both):
            return None
        entry, full = rows @ both[:rank] / length, outgoing @ both[rank:] / length
        lit = np.abs(entry - full) < np.abs(entry)
        agree = np.abs(entry - lit * full) <= near * np.abs(full) + FLOOR
        if agree.mean() < AGREED or lit.mean() < LIT:
            return None
        both = np.linalg.svd(np.c_[rows, lit[:, None] * -outgoing][agree], full_matrices=False)[2][-1]
    length = float(np.linalg.norm(both[:rank]))
    return Shown(both[:rank] / length, lit, float(agree.mean())) if length else None


def _distinct(vectors: Iterator[Shown]) -> list[Shown]:
    """One of each direction, those first that most units agree with."""
    found = list[Shown]()
    for one in vectors:
        if all(abs(one.vector @ other.vector) < ALIKE for other in found):
            found.append(one)
    return sorted(found, key=lambda one: -one.agree)


def _rows(
    head: HeadGradient, chosen: Sequence[Shown], units: Int[np.ndarray, " U"]
) -> tuple[Float[np.ndarray, "r P"] | None, float]:
    """The pooled rows if the ``d_g`` are these vectors, up to their lengths, and the largest share of units that one of
    them lights otherwise."""
    rows, model = head.implied(np.array([one.vector for one in chosen])), head.observation.model
    if rows is None:
        return None, np.inf
    first = model.readout.first(head.weights)
    kernel, bias = np.asarray(first["kernel"], np.float64)[:, units], np.asarray(first["bias"], np.float64)[units]
    entering, lit = rows @ kernel + bias, np.array([one.lit for one in chosen])
    sure = np.abs(entering) > UNSURE * np.abs(entering).max(axis=1, keepdims=True)
    return rows, float(np.mean((lit != (entering > 0)) & sure, axis=1).max())
