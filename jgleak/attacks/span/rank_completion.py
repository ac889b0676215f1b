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
"""Directions are sorted into cells of this side, in so many random coordinates, so many times: a hash, of which only
how many pairs are compared depends."""

BATCHES = (1 << 10, 1 << 14)
"""Padded sizes: candidates embedded at once."""


def completed(
    search: BlockFilter,
    requests: Sequence[Request],
    subspace: Subspace,
    clock: Clock,
    limits: SpanLimits = LIMITS,
) -> list[Subspace]:
    """The subspace with one more dimension, the direction that most rows share first.

    Nothing is found where a column of a state needs all others (GIN, layer norm): candidates are too many for that.

    Args:
      search: what embeds candidates; its checks are not used.
      requests: centres and what their neighbours may be.
      subspace: the span of the embedded states.
      clock: ends the enumeration.
      limits: what is compared, and how many directions are returned.
    """
    if not search.layer.columnwise("state"):
        return []
    allowed = subspace.margin.tolerances
    rng = np.random.default_rng(0)
    chosen, null, _ = sparse_null(subspace, fixed=0, extra=SEEN)
    around, blocks, residuals = _Embedding(search, chosen, 1.0 / subspace.scale[chosen], null), [], []
    for centre, members in _listed(requests, limits.completion_candidates):
        if clock.left <= 0:
            break
        residual = around(centre, members)
        far = np.flatnonzero(np.linalg.norm(residual, axis=1) > allowed.outside_row)
        blocks += [(centre, row) for row in members[far]]
        residuals.append(residual[far])
    if not blocks:
        return []
    residual = np.concatenate(residuals)
    grid = np.round(np.abs(residual) / allowed.same_row).astype(np.int64) @ rng.integers(1, 1 << 40, residual.shape[1])
    kinds = np.unique(grid, return_index=True)[1]
    found = []
    for group in _shared(_unit(residual[kinds]), rng, allowed.same_direction, limits)[: limits.completions]:
        centres, members = zip(*(blocks[i] for i in kinds[group]), strict=True)
        states = search.confirm(list(centres), [row.tolist() for row in members])[2] / subspace.scale
        outside = _unit(states - (states @ subspace.basis) @ subspace.basis.T)
        _, values, across = linalg.svd(outside, full_matrices=False)
        if values[1] <= allowed.same_direction * values[0]:
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
        parts = []
        for start in range(0, members.shape[0], BATCHES[-1]):
            part = members[start : start + BATCHES[-1]] + 1
            places = kernels.fill(part, kernels.padded(part.shape[0], BATCHES)).T.astype(np.int32)
            residual, length = kernels.residuals(
                (layer, "state"), weights, table, self.columns, self.scale, self.null, places
            )
            length = np.maximum(length, np.finfo(np.float32).tiny)
            parts.append((np.asarray(residual) / length[:, None])[: part.shape[0]])
        return np.concatenate(parts)


def _listed(requests: Sequence[Request], most: int) -> Iterator[tuple[int, Int[np.ndarray, "S k"]]]:
    """Candidates, centre by centre, the centres with the fewest first; at most so many."""
    number = 0
    for centre, slots in sorted(requests, key=lambda request: total(request[1])):
        number += total(slots)
        if number > most:
            return
        plan = neighbourhoods(slots)
        if slots and plan is not None:
            yield centre, plan.all()


def _unit(rows: Float[np.ndarray, "S k"]) -> Float[np.ndarray, "S k"]:
    """Directions without a sign: of length 1, the largest entry positive."""
    rows = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    largest = np.take_along_axis(rows, np.abs(rows).argmax(axis=1)[:, None], axis=1)
    return rows * np.sign(largest)


def _shared(
    directions: Float[np.ndarray, "S k"], rng: np.random.Generator, close: float, limits: SpanLimits
) -> list[Int[np.ndarray, " _G"]]:
    """Groups of at least ``completion_rows`` equal directions, the largest first; equal ones differ by ``close``."""
    least = limits.completion_rows
    groups: dict[bytes, Int[np.ndarray, " _G"]] = {}
    width = min(directions.shape[1], AXES)
    for _ in range(ROUNDS):
        axes = linalg.qr(rng.normal(size=(directions.shape[1], AXES)), mode="economic")[0]
        cells = np.floor(directions @ axes / CELL + rng.random(width)).astype(np.int64)
        key = cells @ rng.integers(1, 1 << 40, width)
        order = np.argsort(key, kind="stable")
        starts = np.flatnonzero(np.r_[True, np.diff(key[order]) != 0, True])
        sizes = np.diff(starts)
        for i in np.argsort(-sizes, kind="stable")[: limits.completion_cells][: np.sum(sizes >= least)]:
            cell = order[starts[i] : starts[i + 1]][: limits.completion_cell]
            near = np.linalg.norm(directions[cell][:, None] - directions[cell][None], axis=2) <= close
            group = np.sort(cell[near[near.sum(axis=1).argmax()]])
            if group.size >= least:
                groups[group.tobytes()] = group
    return sorted(groups.values(), key=len, reverse=True)
