"""Weights of the blocks of the first step's graphs, read off the gradient of the readout's first kernel.

In the gradient ``G`` a block of the first step stands as ``x (x) D' w``: ``x`` the row of its root, ``D`` what flows
back to it from each logit, and ``w = sum_g n_g f_g`` its weight (``weights``), with ``f_g`` the factor of each graph.
Both are known but for ``w``. Where ``x`` is no combination of other rows, ``D' w`` lies in the row space of ``G``,
which gives the direction of ``w``. Its length follows from Wedderburn (1934): to take it out of ``G`` lowers the rank
exactly if ``w D G+ x = 1``. This holds whatever the graphs of later steps are.

Behind a last convolution without an activation rows of blocks may be combinations of each other:
``x_q = sum_j C_jq x_j``. Then ``G`` has ``x_j (x) (D_j' w_j + sum_q C_jq D_q' w_q)``, of which each second factor lies
in the row space. So the weights of blocks that depend on each other are found together.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float, Int
from scipy import linalg, sparse
from scipy.sparse.csgraph import connected_components
from scipy.spatial import KDTree

from jgleak.attacks.attack import Clock
from jgleak.attacks.census.batches.first_kernel import WITHIN, Head, Roots
from jgleak.attacks.census.batches.upstream import Upstream
from jgleak.attacks.census.batches.weights import Weights

DEPENDENT = 1e-5
"""A row is a combination of others where less than this share of it is left beside them: some times what rounding
leaves."""

USED = 1e-3
"""A row has a part in a combination that counts at least so much."""

NEARLY = 0.1
"""What flows back to a block of the first step is off the row space by at most so much, where rows or slopes of others
are too near to be told from its own."""

TOGETHER = 100
"""Most blocks whose weights are found together."""

CLEAR = 30.0
"""So many times as far from the row space as is allowed are all other weights."""

BESIDE = 3.0
"""A weight is off by at most so many times as much as what flows back is off the row space, relative to it."""

CUTOFF = 1e-6
"""Weights that change the gradient by less than this share of the most that any do are not told from none."""

FITS = 1e-2
"""How far the gradient may be from losing the dimensions of blocks whose weights were found together, relative to
them."""


def kernel_weights(head: Head, roots: Roots, upstream: Upstream, clock: Clock) -> Weights | None:
    """The weights of top blocks ``(K, r)``; 0 where a block's row, or what flows back to it, is off the gradient's
    spaces, and unknown (an infinite error) where both are nearly within them, or where other weights explain as much.
    None where the gradient has no dimension to spare.

    Args:
      head: the gradient of the readout's first kernel, decomposed.
      roots: rows and slopes of the ``K`` top blocks.
      upstream: the ``r`` directions of what flows back.
      clock: weights that it does not reach are unknown.
    """
    rank, exactness = head.span.rank, head.exactness
    if rank >= head.values.size:
        return None
    across, mean = head.across[:rank], roots.rows.mean(axis=1)
    sizes = np.maximum(np.linalg.norm(mean, axis=1, keepdims=True), 1e-300)
    rows, slopes = mean / sizes, np.einsum("rc,kcf->krf", upstream.rows, roots.slopes.mean(axis=1)) * sizes[:, None]
    back = rows @ head.left[:, :rank] / head.values[:rank] @ across
    values, errors = np.zeros(slopes.shape[:2]), np.zeros(slopes.shape[:2])
    for block in np.flatnonzero(roots.off <= WITHIN):
        errors[block] = np.inf if _off(slopes[block], across) <= NEARLY else 0.0
    some = np.flatnonzero(roots.off <= exactness.rows)
    alike = _alike((rows, slopes.reshape(len(rows), -1)), some)
    for group in _groups(rows, np.unique(alike[some])):
        few = group.blocks.size <= TOGETHER and clock.left > 0
        found = _together(group, slopes, back[group.basis], across, exactness.slopes) if few else None
        if found is None and group.blocks.size > 1:
            errors[group.blocks] = np.inf
        elif found is not None:
            values[group.blocks], beside = found
            largest = np.linalg.norm(values[group.blocks], axis=1).max()
            errors[group.blocks] = (exactness.weights + BESIDE * beside) * largest
    still = np.zeros(len(rows), bool)
    return Weights(values[alike], errors[alike], 0.0, still, alike, upstream, roots.logits.mean(axis=1))


def _alike(parts: tuple[Float[np.ndarray, "K c"], ...], some: Int[np.ndarray, " k"]) -> Int[np.ndarray, " K"]:
    """Of every block the first of some with the same row and the same slopes, each up to rounding; the others stand
    alone."""
    names = np.arange(len(parts[0]))
    if not some.size:
        return names
    near = [set(_pairs(part[some])) for part in parts]
    for first, second in sorted(set.intersection(*near)):
        if names[some[second]] == some[second]:
            names[some[second]] = names[some[first]]
    return names


def _pairs(rows: Float[np.ndarray, "k c"]) -> Iterator[tuple[int, int]]:
    """Pairs of rows that are the same up to rounding."""
    sizes = np.maximum(np.linalg.norm(rows, axis=1), 1e-300)
    for first, second in KDTree(rows / sizes[:, None]).query_pairs(2.0 * DEPENDENT):
        if np.linalg.norm(rows[first] - rows[second]) <= DEPENDENT * max(sizes[first], sizes[second]):
            yield min(first, second), max(first, second)


def _off(slopes: Float[np.ndarray, "r F"], across: Float[np.ndarray, "k F"]) -> float:
    """How far what flows back to a block is off the row space, for the weights that bring it nearest."""
    each = np.linalg.qr(slopes.T)[0]
    return float(np.linalg.svd(each - across.T @ (across @ each), compute_uv=False)[-1])


class _Group(NamedTuple):
    """Blocks whose rows depend on each other: those of a basis first, and the rows of all as its combinations."""

    blocks: Int[np.ndarray, " m"]
    combined: Float[np.ndarray, "j m"]

    @property
    def basis(self) -> Int[np.ndarray, " j"]:
        """The blocks of the basis."""
        return self.blocks[: len(self.combined)]


def _groups(rows: Float[np.ndarray, "K P"], some: Int[np.ndarray, " k"]) -> Iterator[_Group]:
    """Of some blocks the smallest groups that no combination of rows connects."""
    if not some.size:
        return
    found: Any = linalg.qr(rows[some].T, mode="r", pivoting=True)
    triangle, order = found
    rank = int(np.sum(np.abs(np.diag(triangle)) > DEPENDENT))
    basis, others = some[order[:rank]], some[order[rank:]]
    ways = linalg.solve_triangular(triangle[:rank, :rank], triangle[:rank, rank:])
    ways[np.abs(ways) < USED] = 0.0
    _, names = connected_components(sparse.csr_matrix(np.abs(ways) @ np.abs(ways.T)), directed=False)
    for name in np.unique(names):
        own = np.flatnonzero(names == name)
        along = np.flatnonzero(ways[own].any(axis=0))
        combined = np.c_[np.eye(own.size), ways[np.ix_(own, along)]]
        yield _Group(np.r_[basis[own], others[along]], combined)


def _together(
    group: _Group,
    slopes: Float[np.ndarray, "K r F"],
    back: Float[np.ndarray, "j F"],
    across: Float[np.ndarray, "k F"],
    most: float,
) -> tuple[Float[np.ndarray, "m r"], float] | None:
    """The weights of a group, and how far what flows back is off the row space; None where these are not all that
    there is in the span of its rows.

    Args:
      group: the blocks.
      slopes: ``D`` of all blocks.
      back: ``G+ x`` of the basis.
      across: the row space.
      most: how far off is within.
    """
    each, sizes = zip(*(np.linalg.qr(slopes[block].T) for block in group.blocks), strict=True)
    if any(np.abs(np.diag(size)).min() <= 1e-6 * np.abs(size).max() for size in sizes):  # an output no unit leads to
        return None
    beside = [one - across.T @ (across @ one) for one in each]
    system = np.block([[c * one for c, one in zip(row, beside, strict=True)] for row in group.combined])
    _, off, ways = np.linalg.svd(system, full_matrices=False)
    within = off <= most
    if not within.any() or np.any(off[~within] < CLEAR * most):
        return None
    shares = ways[within].reshape(-1, len(each), len(slopes[0]))
    flows = np.einsum("jm,mfr,qmr->qjf", group.combined, np.stack(each), shares, optimize=True)
    taken = np.einsum("qif,jf->qij", flows, back).reshape(len(flows), -1)
    goal = np.eye(len(back)).ravel()
    times, _, rank, _ = np.linalg.lstsq(taken.T, goal, rcond=CUTOFF)
    if rank < len(taken) or np.abs(times @ taken - goal).max() > FITS:
        return None
    found = np.einsum("q,qmr->mr", times, shares)
    values = [linalg.solve_triangular(size, one) for size, one in zip(sizes, found, strict=True)]
    return np.stack(values), float(off[within].max())
