"""The device filter: all candidate blocks around given centres that pass span checks.

Candidates are index ranges. The device numbers neighbourhoods, sums table rows and rejects from a few coordinates; the
host receives the survivors' numbers, which are confirmed in all coordinates, first at the device's precision, then in
float64.
"""

from __future__ import annotations

import dataclasses
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from typing import NamedTuple

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from jaxtyping import Array, Float, Int

from jgleak.attacks.attack import Clock
from jgleak.attacks.span import tiles
from jgleak.attacks.span.check import ROUNDING, SpanCheck
from jgleak.attacks.span.combinations import LARGEST, Neighbourhoods, Places, Slot, neighbourhoods, total
from jgleak.attacks.span.sites import View
from jgleak.gnn import GNN, Params

TILE = (64, 1024)
REACH = 512
"""Prefixes and tail rows of a tile; most prefixes of a range."""

RANGE = 1 << 25
"""Candidates of a range: what one device does between two looks at the clock."""

TABLES = (512, 4096, 32768)
COLUMNS = (24, 36, 64, 96)
TAILS = (1 << 11, 1 << 15)
RANKS = (64, 256)
WIDTHS = (4, 8, 32)
PLACES = (8, 32)
SCREEN = 2048
CONFIRM = 256
"""Padded sizes: table rows, columns, tail rows, ranks, neighbours, prefix members; candidates embedded at once in
float32 and float64."""

SMALL = 512
"""Up to this many candidates around a centre go to confirmation at once; a tile would be mostly padding."""

PASSING = 1_000_000
"""A centre with more blocks than this that pass the cheap check is given up: its span rejects too little."""

AHEAD = 2
"""Ranges in flight before the host waits for the first."""

Request = tuple[int, Sequence[Slot]]
"""A centre (table row) and what its neighbours may be."""


@dataclasses.dataclass(frozen=True)
class Unsearched:
    """Candidates around one centre that a budget left out: a range of prefixes with a range of tail rows.

    Attributes:
      centre: table row of the centre.
      prefixes: first prefix number and the one after the last.
      tails: first tail row and the one after the last.
    """

    centre: int
    prefixes: tuple[int, int]
    tails: tuple[int, int]

    @property
    def size(self) -> int:
        """Number of pairs of a prefix and a tail row, in order or not."""
        return (self.prefixes[1] - self.prefixes[0]) * (self.tails[1] - self.tails[0])


@dataclasses.dataclass(frozen=True)
class Found:
    """Blocks that passed.

    Attributes:
      centres: table row of each block's centre ``(S,)``.
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

    The first check whose rows can be computed column by column rejects; all of them confirm.

    Args:
      model: the attacked model.
      params: its parameters.
      layer: index of the convolution that mixes the rows.
      rows: the level below, one row an entry, as that convolution's input ``(T, F)``.
      degrees: number of neighbours of each entry ``(T,)``.
      checks: spans the candidates must lie in, the most selective first; without one every candidate is kept.
      fixed: each entry's part of the checked row that does not depend on the neighbours ``(T, m)``, for checks that
        have one.
      distinct: no entry occurs twice among a centre's neighbours.
      mesh: devices to share the ranges (axis ``devices``); all local devices when left out.
    """

    def __init__(
        self,
        model: GNN,
        params: Params,
        layer: int,
        rows: Float[np.ndarray, "T F"],
        degrees: Int[np.ndarray, " T"],
        checks: Sequence[SpanCheck] = (),
        *,
        fixed: Float[np.ndarray, "T m"] | None = None,
        distinct: bool = False,
        mesh: Mesh | None = None,
    ) -> None:
        self.model, self.layer, self.checks, self.distinct = model, layer, tuple(checks), distinct
        self.fixed = np.zeros((rows.shape[0], 0)) if fixed is None else np.asarray(fixed, np.float64)
        self.mesh = mesh or local_mesh()
        whole = model.convolution(layer).hidden_kernel is not None  # the state needs every column at once
        self.cheap = next((c for c in self.checks if not (whole and c.view == "state")), None)
        self.views: tuple[View, ...] = tuple(dict.fromkeys(["state", *(c.view for c in self.checks)]))
        self.weights = params[f"conv_{layer}"]
        size = tiles.padded(rows.shape[0], TABLES)
        padded = tiles.fill(np.asarray(rows, np.float64), size)
        padded_degrees = tiles.fill(degrees.astype(np.float64), size)
        with jax.enable_x64(True):
            self.weights64 = jax.tree.map(lambda w: np.asarray(w, np.float64), self.weights)
            projected = np.asarray(tiles.project(model, layer, self.weights64, padded))
        self.tables64 = (padded, projected, padded_degrees)
        self.tables32 = (padded.astype(np.float32), projected.astype(np.float32), padded_degrees.astype(np.float32))

    def blocks(self, requests: Sequence[Request], *, clock: Clock, candidates: int) -> Found:
        """Every way to fill each centre's slots whose rows pass the checks.

        Args:
          requests: centres and their slots, in the order in which the budget is to be spent.
          clock: stops at its limit and returns what was found until then.
          candidates: most candidates looked at around one centre.
        """
        checked, unsearched, small = 0, [], []
        parts = [self._confirm([], [])]
        for centre, slots in requests:
            size = total(slots, distinct=self.distinct)
            plan = neighbourhoods(slots, distinct=self.distinct)
            if plan is None:
                continue
            enumerable = size <= min(candidates, SMALL)
            if clock.left > 0 and enumerable:
                small += [(centre, row) for row in plan.all().tolist()]
                checked += size
            elif clock.left <= 0 or self.cheap is None:
                unsearched.append(Unsearched(centre, (0, plan.prefix_count), (0, plan.tail.shape[0])))
            else:
                kept, left = self._survivors(centre, plan, self.cheap, clock, candidates)
                parts.append(self._confirm(*self._screen(centre, kept)))
                unsearched += left
                checked += round(size * (1.0 - sum(p.size for p in left) / plan.numbers))
            if len(small) >= SCREEN:
                parts.append(self._confirm(*map(list, zip(*small, strict=True))))
                small = []
        if small:
            parts.append(self._confirm(*map(list, zip(*small, strict=True))))
        centres, neighbours, states, distances = zip(*parts, strict=True)
        return Found(
            np.concatenate(centres),
            tuple(tuple(sorted(row)) for part in neighbours for row in part),
            np.concatenate(states),
            np.concatenate(distances),
            checked,
            tuple(unsearched),
        )

    def _survivors(
        self, centre: int, plan: Neighbourhoods, check: SpanCheck, clock: Clock, candidates: int
    ) -> tuple[Int[np.ndarray, "S k"], list[Unsearched]]:
        """Neighbourhoods that pass the cheap check, and the ranges left out."""
        rows = plan.tail.shape[0]
        stop = min(plan.prefix_count, max(candidates // rows, 1), LARGEST)
        left = [Unsearched(centre, (stop, plan.prefix_count), (0, rows))] if stop < plan.prefix_count else []
        members = plan.members
        pairs, number = [np.zeros((0, 2), np.int64)], 0
        for start in range(0, rows, TAILS[-1]):
            tails = (start, min(start + TAILS[-1], rows))
            call = self._scanner(centre, plan, members, check, slice(*tails))
            waiting = deque(_ranges(stop, tails[1] - start, self.mesh.size))
            flying: deque[tuple[list[_Work], tuple[Array, Array]]] = deque()
            while (waiting or flying) and clock.left > 0 and number <= PASSING:
                while waiting and len(flying) < AHEAD:
                    lanes = [waiting.popleft() for _ in range(min(len(waiting), self.mesh.size))]
                    flying.append((lanes, call(lanes)))
                lanes, (ends, buffers) = flying.popleft()
                for lane, work in enumerate(lanes):
                    found, row, column = np.asarray(ends)[lane].tolist()
                    if found:
                        pairs.append(np.asarray(buffers)[lane, :, :found].T + np.array([0, start]))
                        number += found
                    if row * TILE[0] < work.size:
                        waiting.appendleft(work._replace(row=row, column=column))
            rest = [*waiting, *(work for lanes, _ in flying for work in lanes)]
            left += [Unsearched(centre, (work.first, work.first + work.size), tails) for work in rest]
        prefix, tail = np.concatenate(pairs).T
        return np.c_[plan.prefix(prefix)[0], plan.tail[tail]], left

    def _scanner(
        self, centre: int, plan: Neighbourhoods, members: Int[np.ndarray, " U"], check: SpanCheck, tails: slice
    ) -> Callable[[list[_Work]], tuple[Array, Array]]:
        """``tiles.scan`` with everything but the ranges; tables travel to the devices once."""
        size = tiles.padded(members.size, TABLES)
        blank = size + 1
        columns = tiles.padded(check.columns.size, COLUMNS)
        scaled = self.fixed[centre] * check.fixed_scale if check.fixed else np.zeros(0)
        residual = scaled @ check.fixed_null if check.fixed else np.zeros(check.row_null.shape[1])
        probe = (
            tiles.fill(check.columns, columns).astype(np.int32),
            tiles.fill(check.row_scale, columns).astype(np.float32),
            tiles.fill(check.row_null, columns).astype(np.float32),
            np.float32(check.bound),
            residual.astype(np.float32),
            np.float32(scaled @ scaled),
        )
        part = plan.tail[tails]
        length = tiles.padded(part.shape[0], TAILS)
        tail_rows = np.full((length, tiles.padded(part.shape[1], PLACES)), blank, np.int32)
        tail_rows[: part.shape[0], : part.shape[1]] = np.searchsorted(members, part) + 1
        first = tiles.fill(plan.tail_first[tails], length, value=LARGEST).astype(np.int32)
        source = self.tables32[0 if check.view == "aggregate" else 1]
        chosen = tiles.fill(members, size)
        around = source[centre], self.tables32[2][centre], source[chosen], self.tables32[2][chosen]
        wanted = probe[0], tail_rows, np.int32(part.shape[1])
        table, sums = tiles.tables(self.model, self.layer, check.view, self.weights, *around, *wanted)
        numbers = probe, table, _padded(plan.places, members), (sums, first, np.int32(part.shape[0]))
        everywhere = NamedSharding(self.mesh, PartitionSpec())
        probe, table, places, tail = jax.device_put(numbers, everywhere)
        state = tiles.Probe(*probe), table, places, tiles.Tail(*tail), np.int32(self.distinct)

        def call(lanes: list[_Work]) -> tuple[Array, Array]:
            work = tiles.fill(np.array(lanes, np.int32), self.mesh.size)
            return tiles.scan(self.model, self.layer, check.view, self.mesh, TILE, REACH, self.weights, *state, work)

        return call

    def _screen(self, centre: int, survivors: Int[np.ndarray, "S k"]) -> tuple[list[int], list[list[int]]]:
        """Survivors that pass every check in all coordinates, at the device's precision."""
        kept: list[list[int]] = []
        for start in range(0, survivors.shape[0], SCREEN):
            part = survivors[start : start + SCREEN]
            passed = np.ones(part.shape[0], bool)
            rows = self._embed(np.full(part.shape[0], centre), part, SCREEN, self.weights, self.tables32)
            for check in self.checks:
                fixed = np.broadcast_to(self.fixed[centre, : check.fixed], (part.shape[0], check.fixed))
                basis = check.subspace.basis
                passed &= np.asarray(
                    tiles.inside(
                        tiles.fill(np.c_[fixed, rows[check.view]].astype(np.float32), SCREEN),
                        check.subspace.scale.astype(np.float32),
                        tiles.fill(basis, tiles.padded(basis.shape[1], RANKS), axis=1).astype(np.float32),
                        np.float32(1.05 * check.subspace.tolerance + ROUNDING),
                    )
                )[: part.shape[0]]
            kept += part[passed].tolist()
        return [centre] * len(kept), kept

    def _confirm(
        self, centres: list[int], neighbours: list[list[int]]
    ) -> tuple[Int[np.ndarray, " S"], list[list[int]], Float[np.ndarray, "S D"], Float[np.ndarray, " S"]]:
        """Embed in float64 and keep what lies within every tolerance."""
        number = len(centres)
        at = np.array(centres, np.int64)
        distances, passed = np.zeros(number), np.ones(number, bool)
        states = np.zeros((number, self.model.width(self.layer + 1)))
        for start in range(0, number, CONFIRM):
            part = slice(start, start + CONFIRM)
            around = np.full((len(neighbours[part]), max(map(len, neighbours[part]))), -1)
            for row, members in zip(around, neighbours[part], strict=True):
                row[: len(members)] = members
            with jax.enable_x64(True):
                rows = self._embed(at[part], around, CONFIRM, self.weights64, self.tables64)
            states[part] = rows["state"]
            for i, check in enumerate(self.checks):
                found = check.distances(self.fixed[at[part], : check.fixed], rows[check.view])
                passed[part] &= found <= check.subspace.tolerance
                if i == 0:
                    distances[part] = found
        kept = [members for members, good in zip(neighbours, passed.tolist(), strict=True) if good]
        return at[passed], kept, states[passed], distances[passed]

    def _embed(
        self,
        centres: Int[np.ndarray, " B"],
        neighbours: Int[np.ndarray, "B k"],
        size: int,
        weights: Params,
        tables: tuple[np.ndarray, np.ndarray, np.ndarray],
    ) -> dict[View, Float[np.ndarray, "B D"]]:
        """Every view's rows; ``size`` and a width from ``WIDTHS`` are the compiled shape."""
        width = tiles.padded(neighbours.shape[1], WIDTHS)
        around = tiles.fill(tiles.fill(neighbours, width, axis=1, value=-1), size, value=-1).astype(np.int32)
        at = tiles.fill(centres, size).astype(np.int32)
        found = tiles.embed(self.model, self.layer, self.views, weights, *tables, at, around)
        return {view: np.asarray(rows)[: centres.size] for view, rows in zip(self.views, found, strict=True)}


class _Work(NamedTuple):
    """A range of prefixes, and the tile to begin with."""

    first: int
    size: int
    row: int = 0
    column: int = 0


def _ranges(stop: int, tail_rows: int, devices: int) -> Iterator[_Work]:
    """Prefixes 0 to ``stop`` in ranges of bounded work that keep all devices busy."""
    size = min(max(RANGE // tail_rows, 1), max(stop // devices, 1), REACH)
    size = -(-size // TILE[0]) * TILE[0]
    for first in range(0, stop, size):
        yield _Work(first, min(size, stop - first))


def _padded(places: Places, members: Int[np.ndarray, " U"]) -> Places:
    """In 32 bits, with options as places in the table of terms, and with shapes from the short lists."""
    width = tiles.padded(places.order.size, PLACES)
    entries = [tiles.fill(part, width, value=int(i < 2)) for i, part in enumerate(places[:6])]
    options = tiles.fill(np.searchsorted(members, places.options) + 1, tiles.padded(places.options.size, TABLES))
    table = tiles.fill(places.binomials, width + 1)
    table = tiles.fill(table, tiles.padded(table.shape[1], TABLES) + max(PLACES), axis=1, value=LARGEST)
    return Places(*(np.asarray(part, np.int32) for part in (*entries, options, table)))


@cache
def local_mesh() -> Mesh:
    """All local devices in one row."""
    return Mesh(np.array(jax.local_devices()), ("devices",))
