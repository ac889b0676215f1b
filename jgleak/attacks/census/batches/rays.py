"""Pooled rows as extreme rays: count vectors of single graphs, from the space of pooled rows and the balance of edges.

Pooled rows lie in the column space of the head's gradient, of dimension ``r``. So the counts ``n`` of every graph's
blocks obey ``P H n = 0`` (``H``: states of the blocks' roots, ``P``: projection beside that space) and the balance of
edges, and are not negative: they are in a cone. Blocks that no vector of the cone has are excluded, group by group.
Where a graph has a block of its own, its counts are the vector of the cone with the smallest sum that has one such
block: a linear programme. A graph without such a block is an extreme ray of the cone that remains when the others are
taken out. The depth of the head, the loss and the labels do not matter.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Bool, Float
from scipy import linalg
from scipy.optimize import linprog

from jgleak.attacks.attack import Clock
from jgleak.attacks.census.batches.head import HeadGradient
from jgleak.attacks.census.candidates import Levels
from jgleak.attacks.census.settings import CensusLimits
from jgleak.attacks.census.system import Rules
from jgleak.attacks.nonnegative import nonnegative

EXCLUDED = 1e-5
"""A group of blocks is excluded where the best vector of the cone in which it weighs 1 misses the equations by more."""

USED = 1e-6
"""Smallest count, relative to the largest, of a block that a vector has."""

WEIGHT = 5e-3
"""Smallest count, relative to the largest, of a block that a ray has: a whole number beside another."""

ABSENT = 1e-4
"""How far below zero a count may be, where one block counts 1."""

NULL = 1e-6
"""Singular values below this share of the largest are rounding of float32."""

FREE = 64
"""Most dimensions of the cone in which rays are looked for."""

BALANCE = 0.3
"""Weight of an edge's balance beside the largest state."""

OUTSIDE = 1e-4
"""How far ``d_g`` may be from the space that the gradient shows (``HeadGradient.of_row``)."""

ALIKE = 1e-4
"""Rows that differ by less, relative to their length, are one."""


def pooled_rows(
    head: HeadGradient, levels: Levels, states: Float[np.ndarray, "K D"], limits: CensusLimits, clock: Clock
) -> Float[np.ndarray, "k P"]:
    """Pooled rows of graphs of the batch, at most ``r``, each with a ``d_g`` in the space that the gradient shows.

    Args:
      head: the gradient of the first map.
      levels: candidate blocks.
      states: of their roots.
      limits: of the solver.
      clock: ends the search.
    """
    rows = np.zeros((0, head.columns.shape[0]))
    while len(rows) < head.rank and clock.left > 0:
        more = _of_one_cone(head.without(rows), levels, states, limits, clock)
        if not len(more):
            break
        rows = np.r_[rows, more][: head.rank]
    return rows


def _of_one_cone(
    head: HeadGradient, levels: Levels, states: Float[np.ndarray, "K D"], limits: CensusLimits, clock: Clock
) -> Float[np.ndarray, "k P"]:
    """Pooled rows of graphs whose counts are an extreme ray, of the cone or of what remains of it without those
    found."""
    rows = list[Float[np.ndarray, " P"]]()
    system = _system(head, levels, states)
    kept = _occurring(system, limits, clock)
    null = _null(system[:, kept])
    covered = np.zeros(len(null), bool) if 0 < null.shape[1] <= FREE else np.ones(len(null), bool)
    for block in range(len(null)):
        if covered[block]:
            continue
        if clock.left <= 0 or len(rows) >= head.rank:
            break
        ray = _shortest(null, block)
        for row in [] if ray is None else _rows_of(head, states[kept], ray):
            if head.of_row(row)[1] <= OUTSIDE and not any(_alike(row, other) for other in rows):
                rows.append(row)
        if ray is not None:
            covered |= ray > WEIGHT * ray.max()  # what is shared belongs to others too, which have blocks of their own
    return np.array(rows).reshape(-1, head.columns.shape[0])


def _system(head: HeadGradient, levels: Levels, states: Float[np.ndarray, "K D"]) -> Float[np.ndarray, "M K"]:
    """``P H`` and the balances."""
    width = states.shape[1]
    block = np.linalg.svd(head.kernel[:width])[0][:, head.rank :]  # of several poolings side by side, the first
    size = np.linalg.norm(states, axis=1).max(initial=0.0) or 1.0
    balance = Rules.of(levels.top, np.arange(levels.top.size)).balance
    return np.r_[block.T @ states.T / size, BALANCE * balance]


def _occurring(system: Float[np.ndarray, "M K"], limits: CensusLimits, clock: Clock) -> Bool[np.ndarray, " K"]:
    """The blocks that some vector of the cone has; more where time runs out."""
    seen = np.zeros(system.shape[1], bool)
    while not seen.all():
        weighed, right = np.r_[system, ~seen[None]], np.r_[np.zeros(len(system)), 1.0]
        found = nonnegative(weighed, right, limits.solver_rounds, clock)
        if found is None:
            return np.ones(seen.size, bool)
        vector, rest = found
        new = (vector > USED * vector.max()) & ~seen
        if rest > EXCLUDED or not new.any():
            break
        seen |= new
    return seen


def _null(system: Float[np.ndarray, "M k"]) -> Float[np.ndarray, "k q"]:
    """Orthonormal basis of the null space of the equations."""
    if not system.shape[1]:
        return np.zeros((0, 0))
    return linalg.null_space(system, rcond=NULL)


def _shortest(null: Float[np.ndarray, "k q"], block: int) -> Float[np.ndarray, " k"] | None:
    """The vector of the cone with the smallest sum that has one such block; None where there is none.

    Rounding of the basis makes the programme's solution inexact; so only its zeros are kept, and the vector is solved
    for. A vertex has a zero for each dimension but one.
    """
    at_least = np.full(len(null), ABSENT)
    found = linprog(
        null.sum(axis=0), A_ub=-null, b_ub=at_least, A_eq=null[block][None], b_eq=[1.0], bounds=(None, None)
    )
    if found.status != 0:
        return None
    zero = null @ found.x < WEIGHT * (null @ found.x).max()
    direction = np.linalg.svd(null[zero])[2][-1]
    ray = null @ direction / (null[block] @ direction)
    return np.maximum(ray, 0.0) if ray.min() > -WEIGHT * ray.max() else None


def _rows_of(
    head: HeadGradient, states: Float[np.ndarray, "k D"], ray: Float[np.ndarray, " k"]
) -> list[Float[np.ndarray, " P"]]:
    """The pooled rows of graphs with these counts, up to a factor; of a sum for several factors."""
    mean, readout = states.T @ ray / ray.sum(), head.observation.model.readout
    if not readout.counts_nodes:
        return [readout.row_of(mean, 1.0)]
    least = ray[ray > WEIGHT * ray.max()].min()
    return [readout.row_of(mean, k * ray.sum() / least) for k in range(1, COVERS + 1)]


COVERS = 6
"""Most nodes of a graph's rarest block, under a sum over nodes, where the length of a ray determines nothing."""


def _alike(row: Float[np.ndarray, " P"], other: Float[np.ndarray, " P"]) -> bool:
    return bool(np.linalg.norm(row - other) <= ALIKE * np.linalg.norm(row))
