"""A span that lacks one dimension, completed by the direction that the rows outside it share.

A singular adjacency hides one combination of the rows that enter a convolution: the gradient then spans a space ``S``
of one dimension less than the true rows do. Every true row still lies in ``S + u`` for one unknown direction ``u``, so
the parts outside ``S`` of *all* true rows are parallel. Those of false candidates point anywhere: a direction that
several candidates share is ``u``.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence

import numpy as np
from jaxtyping import Float, Int
from scipy import linalg

from jgleak.attacks.attack import Clock
from jgleak.attacks.span import kernels
from jgleak.attacks.span.check import sparse_null
from jgleak.attacks.span.combinations import neighbourhoods, total
from jgleak.attacks.span.filter import BlockFilter, Request
from jgleak.attacks.span.settings import LIMITS, SpanLimits
from jgleak.attacks.span.subspace import Subspace

SEEN = 16
"""Null vectors in which directions are compared."""

CELL, AXES, ROUNDS = 0.01, 8, 4
"""Side of the cells into which directions are sorted, number of random coordinates, and number of rounds. This is a
hash: only the number of pairs that are compared depends on it."""

BATCHES = (1 << 10, 1 << 14)
"""Padded sizes: candidates embedded at once."""

LISTING = 0.5
"""Part of the time that listing candidates may take; their directions are compared in the rest."""

SLAB = 1 << 18
"""Rows between two readings of the clock."""


def completed(
    search: BlockFilter,
    requests: Sequence[Request],
    subspace: Subspace,
    clock: Clock,
    limits: SpanLimits = LIMITS,
) -> list[Subspace]:
    """The subspace with one more dimension, the direction that most rows share first.

    Nothing is found where a column of a state depends on all others (GIN, layer norm): there are too many candidates to
    compute whole states.

    Args:
      search: the filter that embeds candidates; its checks are not used.
      requests: centres and what their neighbours may be.
      subspace: the span of the embedded states.
      clock: ends the enumeration and the comparison.
      limits: what is compared, and how many directions are returned.
    """
    if not search.layer.columnwise("state"):
        return []
    allowed = subspace.margin.tolerances
    rng = np.random.default_rng(0)
    chosen, null, _ = sparse_null(subspace, fixed=0, extra=SEEN, vectors=SEEN)
    mixed = _factors(rng, null.shape[1])
    around, blocks, residuals, grid = _Embedding(search, chosen, 1.0 / subspace.scale[chosen], null), [], [], []
    listing = clock.part(LISTING)
    for centre, members in _listed(requests, limits.completion_candidates):
        if listing.left <= 0:
            break
        residual = around(centre, members)
        far = np.flatnonzero(np.linalg.norm(residual, axis=1) > allowed.outside_row)
        blocks.append((centre, members[far]))
        residuals.append(residual[far])
        grid.append(np.round(np.abs(residual[far]) / allowed.same_row).astype(np.int64) @ mixed)
    starts = np.cumsum([0, *(part.size for part in grid)])
    if not starts[-1] or clock.left <= 0:
        return []
    # equal rows count once: they share a direction, whatever it is
    kinds = np.unique(np.concatenate(grid), return_index=True)[1]
    directions = _unit(np.concatenate(residuals)[kinds])
    found = []
    for group in _shared(directions, rng, allowed.same_direction, limits, clock)[: limits.completions]:
        if clock.left <= 0:
            return []
        places = [(int(np.searchsorted(starts, i, side="right")) - 1, i) for i in kinds[group]]
        centres = [blocks[part][0] for part, _ in places]
        members = [blocks[part][1][i - starts[part]].tolist() for part, i in places]
        states = search.confirm(centres, members)[2] / subspace.scale
        outside = _unit(states - (states @ subspace.basis) @ subspace.basis.T)
        _, values, across = linalg.svd(outside, full_matrices=False)  # a group may have millions of rows
        if values[1] <= allowed.same_direction * values[0]:  # parallel as a whole, not on a few null vectors alone
            basis = linalg.qr(np.c_[subspace.basis, across[0]], mode="economic")[0]
            margin = subspace.margin.loosened(allowed.completed_margin)
            found.append(dataclasses.replace(subspace, basis=basis, margin=margin))
    return found


class _Embedding:
    """Residuals of candidates, relative to the length of their chosen columns."""

    def __init__(
        self,
        search: BlockFilter,
        columns: Int[np.ndarray, " C"],
        scale: Float[np.ndarray, " C"],
        null: Float[np.ndarray, "C s"],
    ) -> None:
        self.search = search
        self.columns = columns.astype(np.int32)
        self.scale, self.null = scale.astype(np.float32), null.astype(np.float32)

    def __call__(self, centre: int, members: Int[np.ndarray, "S k"]) -> Float[np.ndarray, "S s"]:
        layer, weights, rows = self.search.layer, self.search.weights, self.search.rows32
        centre *= self.search.classes
        own = rows.projected[centre], rows.degrees[centre]
        table = kernels.table(layer, "state", weights, *own, rows.projected, rows.degrees, self.columns)
        places = kernels.fill(members + 1, kernels.padded(members.shape[0], BATCHES)).T.astype(np.int32)
        residual, length = kernels.residuals(
            (layer, "state"), weights, table, self.columns, self.scale, self.null, places
        )
        length = np.maximum(length, np.finfo(np.float32).tiny)
        return (np.asarray(residual) / length[:, None])[: members.shape[0]]


def _listed(requests: Sequence[Request], most: int) -> Iterator[tuple[int, Int[np.ndarray, "S k"]]]:
    """Candidates, centre by centre, the centres with the fewest first; at most ``most``, in batches."""
    number = 0
    for centre, slots in sorted(requests, key=lambda request: total(request[1])):
        number += total(slots)
        if number > most:
            return
        plan = neighbourhoods(slots)
        if not slots or plan is None:
            continue
        for rows in plan.parts(BATCHES[-1]):
            for start in range(0, rows.shape[0], BATCHES[-1]):
                yield centre, rows[start : start + BATCHES[-1]]


def _factors(rng: np.random.Generator, width: int) -> Int[np.ndarray, " width"]:
    """What makes one number of the whole numbers of a cell: a hash."""
    return rng.integers(1, 1 << 40, width)


def _unit(rows: Float[np.ndarray, "S k"]) -> Float[np.ndarray, "S k"]:
    """Directions without a sign: of length 1, the largest entry positive."""
    largest = rows[np.arange(len(rows)), np.abs(rows).argmax(axis=1)]
    return rows / np.copysign(np.linalg.norm(rows, axis=1), largest)[:, None]


def _shared(
    directions: Float[np.ndarray, "S k"], rng: np.random.Generator, close: float, limits: SpanLimits, clock: Clock
) -> list[Int[np.ndarray, " _G"]]:
    """Groups of at least ``completion_rows`` directions that differ by at most ``close``, the largest first; those that
    were found in time."""
    least = limits.completion_rows
    groups: dict[bytes, Int[np.ndarray, " _G"]] = {}
    width = min(directions.shape[1], AXES)
    for _ in range(ROUNDS):
        # turned and shifted anew: equal directions on both sides of a cell's border meet in another round
        axes = linalg.qr(rng.normal(size=(directions.shape[1], AXES)), mode="economic")[0]
        moved, mixed, parts = rng.random(width), _factors(rng, width), list[Int[np.ndarray, " _n"]]()
        for start in range(0, directions.shape[0], SLAB):
            if clock.left <= 0:
                return _largest_first(groups)
            parts.append(np.floor(directions[start : start + SLAB] @ axes / CELL + moved).astype(np.int64) @ mixed)
        order = np.argsort(key := np.concatenate(parts), kind="stable")
        starts = np.flatnonzero(np.r_[True, np.diff(key[order]) != 0, True])
        sizes = np.diff(starts)
        for i in np.argsort(-sizes, kind="stable")[: limits.completion_cells][: np.sum(sizes >= least)]:
            if clock.left <= 0:
                break
            cell = order[starts[i] : starts[i + 1]][: limits.completion_cell]
            near = np.linalg.norm(directions[cell][:, None] - directions[cell][None], axis=2) <= close
            group = np.sort(cell[near[near.sum(axis=1).argmax()]])
            if group.size >= least:
                groups[group.tobytes()] = group
    return _largest_first(groups)


def _largest_first(groups: dict[bytes, Int[np.ndarray, " _G"]]) -> list[Int[np.ndarray, " _G"]]:
    return sorted(groups.values(), key=len, reverse=True)
