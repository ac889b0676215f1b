"""The device filter: all candidate blocks around given centres that pass span checks.

Candidates are index ranges. The device numbers neighbourhoods, sums table rows and rejects from a few coordinates; the
host receives the survivors' numbers, which are confirmed in all coordinates, first at the device's precision, then in
float64.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from functools import cache
from typing import Literal

import jax
import numpy as np
from jax.sharding import Mesh
from jaxtyping import Float, Int

from jgleak.attacks.attack import Budget, Clock
from jgleak.attacks.span import kernels
from jgleak.attacks.span.check import SpanCheck
from jgleak.attacks.span.combinations import Neighbourhoods, Slot, neighbourhoods, total
from jgleak.attacks.span.leak_points import View
from jgleak.attacks.span.ranges import TABLES, CentreSearch, TableRows, Unsearched
from jgleak.attacks.span.settings import LIMITS, SpanLimits
from jgleak.gnn import Layer, Params

RANKS = (64, 256)
WIDTHS = (4, 8, 32)
SCREEN = 2048
CONFIRM = 256
"""Padded sizes: ranks, neighbours; candidates embedded at once in float32 and float64."""

SMALL = 512
"""Up to this many candidates around a centre go to confirmation at once; a tile would be mostly padding. It decides
speed alone."""

Request = tuple[int, Sequence[Slot]]
"""A centre (an entry) and what its neighbours may be."""


@dataclasses.dataclass(frozen=True)
class FoundBlocks:
    """Blocks that passed.

    Attributes:
      centres: entry of each block's centre ``(S,)``.
      neighbours: sorted table rows of each block's neighbours.
      states: embedding of the centre in each block, computed in float64 ``(S, D)``.
      distances: relative distance from the first check's span ``(S,)``; 0 without a check.
      checked: candidates looked at.
      unsearched: ranges that the budget left out.
    """

    centres: Int[np.ndarray, " S"]
    neighbours: tuple[tuple[int, ...], ...]
    states: Float[np.ndarray, "S D"]
    distances: Float[np.ndarray, " S"]
    checked: int
    unsearched: tuple[Unsearched, ...]

    @property
    def complete(self) -> bool:
        """True when every candidate was looked at."""
        return not self.unsearched


class BlockFilter:
    """One level's rows, one convolution, and the checks its output must pass.

    A neighbour is a row of the table: an entry of the level below seen along an edge of some class, entry ``t`` along
    class ``k`` of ``K`` as row ``K t + k``. Where edges are alike (``K = 1``) rows are entries.

    The first check whose rows can be computed column by column rejects candidates; the others must pass all checks.

    Args:
      layer: the layer that mixes the rows.
      weights: its parameters.
      rows: the level below, one row an entry, as that convolution's input ``(T, F)``.
      degrees: number of neighbours of each entry ``(T,)``.
      checks: spans the candidates must lie in, the most selective first; without one every candidate is kept.
      fixed: each entry's part of the checked row that does not depend on the neighbours ``(T, m)``, for checks that
        have one.
      classes: number ``K`` of edge classes.
      distinct: no entry occurs twice among a centre's neighbours.
      mesh: devices that share the ranges (axis ``devices``); all local devices by default.
    """

    def __init__(
        self,
        layer: Layer,
        weights: Params,
        rows: Float[np.ndarray, "T F"],
        degrees: Int[np.ndarray, " T"],
        checks: Sequence[SpanCheck] = (),
        *,
        fixed: Float[np.ndarray, "T m"] | None = None,
        classes: int = 1,
        distinct: bool = False,
        mesh: Mesh | None = None,
    ) -> None:
        self.layer, self.weights, self.checks, self.distinct = layer, weights, tuple(checks), distinct
        self.classes = classes
        self.fixed = np.zeros((len(rows), 0)) if fixed is None else np.asarray(fixed, np.float64)
        self.mesh = mesh or local_mesh()
        self.cheap = next((c for c in self.checks if layer.columnwise(c.view)), None)
        self.views: tuple[View, ...] = tuple(dict.fromkeys(["state", *(c.view for c in self.checks)]))
        size = kernels.padded(classes * len(rows), TABLES)
        padded = kernels.fill(np.repeat(np.asarray(rows, np.float64), classes, axis=0), size)
        along = (np.arange(size) % classes).astype(np.int32)
        with jax.enable_x64(True):
            self.weights64 = jax.device_put(jax.tree.map(lambda w: np.asarray(w, np.float64), self.weights))
            seen, projected = map(np.asarray, kernels.sent(layer, self.weights64, padded, along))
            degrees64 = kernels.fill(np.repeat(degrees, classes).astype(np.float64), size)
            self.rows64 = TableRows(seen, projected, degrees64)
            self.embedded64 = jax.device_put(self.rows64)
        self.rows32 = TableRows(*(part.astype(np.float32) for part in self.rows64))
        self.embedded32 = jax.device_put(self.rows32)

    def blocks(
        self, requests: Sequence[Request], *, clock: Clock, budget: Budget, limits: SpanLimits = LIMITS
    ) -> FoundBlocks:
        """Every way to fill each centre's slots whose rows pass the checks.

        Args:
          requests: centres and their slots, in the order in which the budget is to be spent.
          clock: at its limit the search stops and returns what was found.
          budget: most candidates checked around one centre, and most blocks kept. Centres that were not reached, or
            whose survivors could not all be confirmed, are listed as unsearched.
          limits: when one centre is given up.
        """
        checked, unsearched, small, number = 0, [], [], 0
        parts = [self.confirm([], [])]
        for centre, slots in requests:
            size = total(slots, distinct=self.distinct)
            plan = neighbourhoods(slots, distinct=self.distinct)
            if plan is None:
                continue
            everything = Unsearched(centre, (0, plan.prefix_count), (0, plan.tail.shape[0]), size)
            over = clock.left <= 0 or number > budget.blocks
            few = SMALL if self.checks else budget.blocks - number - len(small)
            if not over and size <= min(budget.candidates, few):
                small += [(centre, row) for row in plan.all().tolist()]
            elif over or self.cheap is None:
                unsearched.append(everything)
                continue
            else:
                search = self._around(centre, plan, self.cheap)
                kept, left = search.survivors(clock, budget.candidates, limits.passing_blocks)
                left = [dataclasses.replace(part, centre=centre) for part in left]
                screened = self._screen(centre, kept, budget.blocks - number)
                if screened is None:
                    unsearched.append(everything)
                    continue
                parts.append(self.confirm([centre] * len(screened), screened))
                number += parts[-1][0].size
                unsearched += left
                checked -= sum(part.size for part in left)
            checked += size
            if len(small) >= SCREEN:
                parts.append(self.confirm(*map(list, zip(*small, strict=True))))
                number += parts[-1][0].size
                small = []
        if small:
            parts.append(self.confirm(*map(list, zip(*small, strict=True))))
        centres, neighbours, states, distances = zip(*parts, strict=True)
        return FoundBlocks(
            np.concatenate(centres),
            tuple(tuple(sorted(row)) for part in neighbours for row in part),
            np.concatenate(states),
            np.concatenate(distances),
            checked,
            tuple(unsearched),
        )

    def _around(self, centre: int, plan: Neighbourhoods, check: SpanCheck) -> CentreSearch:
        common = self.layer, self.weights, self.mesh, self.rows32
        return CentreSearch(*common, self.fixed[centre], self.classes * centre, plan, check)

    def _screen(self, centre: int, survivors: Int[np.ndarray, "S k"], room: int) -> list[list[int]] | None:
        """Survivors that pass every check in all coordinates, at the device's precision; None once they are more than
        ``room`` with others left to check. A few go to confirmation as they are."""
        if survivors.shape[0] <= min(CONFIRM, room):
            return survivors.tolist()
        kept: list[list[int]] = []
        for start in range(0, survivors.shape[0], SCREEN):
            if len(kept) > room:
                return None
            part = survivors[start : start + SCREEN]
            passed = np.ones(part.shape[0], bool)
            rows = self._embed(np.full(part.shape[0], centre), part, SCREEN, self.weights, self.embedded32)
            for check in self.checks:
                fixed = np.broadcast_to(self.fixed[centre, : check.fixed], (part.shape[0], check.fixed))
                span, margin = check.subspace, check.subspace.margin
                size, allowed = kernels.padded(span.rank, RANKS), margin.tolerances
                passed &= np.asarray(
                    kernels.inside(
                        kernels.fill(np.c_[fixed, rows[check.view]].astype(np.float32), SCREEN),
                        span.scale.astype(np.float32),
                        kernels.fill(span.basis, size, axis=1).astype(np.float32),
                        kernels.fill(allowed.device_margin * margin.spread, size).astype(np.float32),
                        np.float32(allowed.device_margin * margin.share + allowed.device_rounding),
                    )
                )[: part.shape[0]]
            kept += part[passed].tolist()
        return kept

    def confirm(
        self, centres: list[int], neighbours: list[list[int]]
    ) -> tuple[Int[np.ndarray, " S"], list[list[int]], Float[np.ndarray, "S D"], Float[np.ndarray, " S"]]:
        """Embed in float64 and keep what lies within every tolerance."""
        number = len(centres)
        at = np.array(centres, np.int64)
        distances, passed = np.zeros(number), np.ones(number, bool)
        states = np.zeros((number, self.layer.features))
        for start in range(0, number, CONFIRM):
            part = slice(start, start + CONFIRM)
            with jax.enable_x64(True):
                rows = self._embed(at[part], _rows(neighbours[part]), CONFIRM, self.weights64, self.embedded64)
            states[part] = rows["state"]
            for i, check in enumerate(self.checks):
                found = check.distances(self.fixed[at[part], : check.fixed], rows[check.view])
                passed[part] &= found <= check.subspace.tolerance
                if i == 0:
                    distances[part] = found
        kept = [members for members, good in zip(neighbours, passed.tolist(), strict=True) if good]
        return at[passed], kept, states[passed], distances[passed]

    def entering(
        self, centres: Int[np.ndarray, " S"], neighbours: Sequence[Sequence[int]], which: Literal["own", "mixed"]
    ) -> Float[np.ndarray, "S F"]:
        """The candidates' own rows (of a convolution that sends them as they are), or their mixed ones, in float64."""
        if which == "own":
            return self.rows64.sent[self.classes * centres]
        rows = [self.rows64.sent[:0]]
        for start in range(0, centres.size, CONFIRM):
            part = slice(start, start + CONFIRM)
            with jax.enable_x64(True):
                near = centres[part], _rows(neighbours[part])
                found = self._embed(*near, CONFIRM, self.weights64, self.embedded64, ("aggregate",))
            rows.append(found["aggregate"])
        return np.concatenate(rows)

    def _embed(
        self,
        centres: Int[np.ndarray, " B"],
        neighbours: Int[np.ndarray, "B k"],
        size: int,
        weights: Params,
        table: TableRows,
        views: tuple[View, ...] | None = None,
    ) -> dict[View, Float[np.ndarray, "B _D"]]:
        """Every view's rows, or those of some views; ``size`` and a width from ``WIDTHS`` are the compiled shape."""
        width = kernels.padded(neighbours.shape[1], WIDTHS)
        around = kernels.fill(kernels.fill(neighbours, width, axis=1, value=-1), size).astype(np.int32)
        at = self.classes * kernels.fill(centres, size).astype(np.int32)
        views = self.views if views is None else views
        found = kernels.embed(self.layer, views, weights, *table, at, around)
        return {view: np.asarray(rows)[: centres.size] for view, rows in zip(views, found, strict=True)}


def _rows(neighbours: Sequence[Sequence[int]]) -> Int[np.ndarray, "B k"]:
    """A row a candidate, filled up with -1."""
    rows = np.full((len(neighbours), max(map(len, neighbours))), -1)
    for row, members in zip(rows, neighbours, strict=True):
        row[: len(members)] = members
    return rows


@cache
def local_mesh() -> Mesh:
    """All local devices in one row."""
    return Mesh(np.array(jax.local_devices()), ("devices",))
