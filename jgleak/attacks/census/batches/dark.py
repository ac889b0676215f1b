"""Pooled rows from the units that single graphs leave dark, where every graph was in one step of several.

The gradient of the map behind pooling is ``G = sum_g p_g (x) d_g``, each graph's part at the weights of its own step.
Behind ReLU ``d_g`` is 0 at every unit that its row leaves dark, whatever those weights were. So of the row space, of
dimension ``r``, a vector that is 0 at many more than ``r - 1`` units may be a graph's ``d_g``, up to its length. Units
that one graph leaves dark determine it: ``r - 1`` at a time are drawn, as SPEAR does for other data (Dimitrov et al.
2024). The difference of two ``d_g`` of parallel ``s`` may be 0 at as many, those that both graphs light or neither.
Its other entries have both signs beside ``W s``, while those of a graph's own are near it: ``W`` has moved from step
to step, so that they are asked to fit up to ``NEAR`` alone. From all ``d_g`` follow all rows. Where the units that one
graph leaves dark are among those of another, a difference may take a graph's place, and nothing is found.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from jaxtyping import Bool, Float

from jgleak.attacks.attack import Clock
from jgleak.attacks.census.batches import quadrics
from jgleak.attacks.census.batches.head import HeadGradient

DRAWS, DRAWN = 1 << 19, 1 << 10
"""Most choices of units that are tried, and most at once,"""

WORK = 1 << 22
"""of which the cubes of their sizes add up to no more than this, between two readings of the clock."""

DARK = 1e-5
"""An entry below this share of the largest is 0: what rounding leaves of one."""

MORE = 8
"""Units that a vector leaves dark beside those that determine it, at least."""

ONLY = 1e-3
"""Units that a vector leaves dark determine it: every other one beside it, of length one, has entries of this length
there, at least, beside the longest."""

ALIKE = 0.05
"""Units that all graphs light are told by ``W s`` up to this."""

NEAR = 0.3
"""How far its other entries may be from ``W s``, relative to them."""

SAME = 1.0 - 1e-9
"""Vectors of length one whose product is larger are one."""


def needed(graphs: int) -> str:
    """What the units of the map behind pooling must be for this search, as a sentence without its full stop."""
    return (
        "The census tells graphs of several steps apart by units of the map behind pooling, of which each must leave "
        f"{graphs - 1 + MORE} or more dark that others light"
    )


def pooled_rows(head: HeadGradient, clock: Clock) -> Float[np.ndarray, "r P"] | None:
    """Every graph's pooled row at the weights of its step, in no order, up to rounding; None where not all graphs
    have units of their own that stay dark."""
    found = list[Float[np.ndarray, " r"]]()
    if head.rank > head.observation.batch_size:  # rounding, or another protocol
        return None
    for vector in _vectors(*head.at_units(head.units), clock):
        if all(abs(vector @ other) < SAME for other in found):
            found.append(vector)
        if len(found) == head.rank:
            return head.implied(np.array(found))
    return None


def _vectors(
    rows: Float[np.ndarray, "U r"], outgoing: Float[np.ndarray, "U c"], clock: Clock
) -> Iterator[Float[np.ndarray, " r"]]:
    """Coordinates, of length one, of vectors that may be graphs'; each may occur several times.

    Args:
      rows: the row space at every unit.
      outgoing: ``W``, in units of its length.
      clock: ends the search.
    """
    rng, rank, seen = np.random.default_rng(0), rows.shape[1], set[bytes]()
    if rank == 1:
        yield np.ones(1)
    if rank == 1 or len(rows) < rank + MORE:
        return
    some, together = rows[~_lit_by_all(rows, outgoing)], max(1, min(DRAWN, WORK // rank**3))
    if len(some) < rank + MORE:
        return
    for _ in range(DRAWS // together):
        if clock.left <= 0:
            return
        drawn = rng.random((together, len(some))).argpartition(rank - 1, axis=1)[:, : rank - 1]
        entries = np.linalg.svd(some[drawn])[2][:, -1] @ rows.T
        dark = np.abs(entries) <= DARK * np.abs(entries).max(axis=1, keepdims=True)
        for own in dark[dark.sum(axis=1) >= rank - 1 + MORE]:
            vector = None if own.tobytes() in seen else _determined(rows, outgoing, own)
            seen.add(own.tobytes())
            if vector is not None:
                yield vector


def _determined(
    rows: Float[np.ndarray, "U r"], outgoing: Float[np.ndarray, "U c"], dark: Bool[np.ndarray, " U"]
) -> Float[np.ndarray, " r"] | None:
    """The vector that is 0 at these units; None where there are several, or it is not near ``W s`` at the others."""
    _, values, ways = np.linalg.svd(rows[dark], full_matrices=False)
    if values[-2] <= ONLY * values[0] or dark.all():
        return None
    entries, lit = rows[~dark] @ ways[-1], outgoing[~dark]
    off = entries - lit @ np.linalg.lstsq(lit, entries, rcond=None)[0]
    return ways[-1] if np.linalg.norm(off) <= NEAR * np.linalg.norm(entries) else None


def _lit_by_all(rows: Float[np.ndarray, "U r"], outgoing: Float[np.ndarray, "U c"]) -> Bool[np.ndarray, " U"]:
    """Units that determine no graph's vector since none leaves them dark, as far as they are found."""
    common = quadrics.lit_by_all(rows, outgoing, ALIKE)
    if common is None:
        return np.zeros(len(rows), bool)
    return np.linalg.norm(rows - outgoing @ common, axis=1) <= ALIKE * np.linalg.norm(rows, axis=1)
