"""One centre's candidates through the cheap check: ranges go to the devices, survivors' numbers come back."""

from __future__ import annotations

import dataclasses
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from jaxtyping import Array, Float, Int

from jgleak.attacks.attack import Clock
from jgleak.attacks.span import kernels
from jgleak.attacks.span.check import SpanCheck
from jgleak.attacks.span.combinations import LARGEST, Digits, Neighbourhoods
from jgleak.gnn import Layer, Params

TILE = (64, 1024)
REACH = 2048
"""Prefixes and tail rows of a tile on a processor; most prefixes of a range."""

CELLS, WIDE, LONG_REACH = 1 << 23, (1 << 10, 1 << 12, 1 << 14, 1 << 16), 1 << 14
"""The same on an accelerator, which takes far longer to begin a tile than to check 65,536 candidates: candidates of a
tile, tail rows by how many there are, and most prefixes of a range."""

FINE, FINE_REACH, FINE_TAIL = (32, 256), 256, 1 << 13
"""The same where there are at most so many prefixes and tail rows: a larger tile would be mostly padding."""

RANGE, LONG_RANGE = 1 << 26, 1 << 28
"""Candidates of a range on a processor and on an accelerator: what one device checks between two readings of the
clock."""

TABLES = (256, 1024, 4096, 32768)
COLUMNS = (28, 40, *range(64, 4097, kernels.STEP))
TAILS = (1 << 10, 1 << 13, 1 << 17)
PLACES = (8, 32)
VECTORS = (4, 8)
"""Padded sizes: table rows, columns, tail rows, prefix members, null vectors."""

FEW = 1 << 24
"""Up to this many candidates null vectors are padded with zeros: compiling another program would take longer."""

AHEAD = 2
"""Ranges in flight before the host waits for the first."""

FOUND = (1 << 12, 1 << 16)
"""Padded numbers of survivors that travel to the host; more of them travel in whole buffers."""


@dataclasses.dataclass(frozen=True)
class Unsearched:
    """Candidates around one centre that a budget left out: a range of prefixes with a range of tail rows.

    Attributes:
      centre: the centre, an entry (in a ``CentreSearch`` its table row).
      prefixes: first prefix number and the one after the last.
      tails: first tail row and the one after the last.
      size: number of candidates in it.
    """

    centre: int
    prefixes: tuple[int, int]
    tails: tuple[int, int]
    size: int


class TableRows(NamedTuple):
    """One level's rows as neighbours see them (``Layer.sent``), projected, and their degrees; on the host."""

    sent: Float[np.ndarray, "T S"]
    projected: Float[np.ndarray, "T P"]
    degrees: Float[np.ndarray, " T"]


class Cut(NamedTuple):
    """How candidates are cut: prefixes and tail rows of a tile, most prefixes of a range, most candidates of one."""

    high: int
    wide: int
    reach: int
    most: int

    @staticmethod
    def of(tail_rows: int, *, fine: bool, accelerator: bool) -> Cut:
        """That of so many tail rows; ``fine`` where there are few candidates."""
        if not accelerator:
            return Cut(*FINE, FINE_REACH, RANGE) if fine else Cut(*TILE, REACH, RANGE)
        wide = min(kernels.padded(tail_rows, WIDE), kernels.padded(tail_rows, TAILS), WIDE[-1])
        reach = FINE_REACH if fine else LONG_REACH
        return Cut(min(CELLS // wide, reach), wide, reach, LONG_RANGE)


class _Work(NamedTuple):
    """A range of prefixes, and the tile to begin with."""

    first: int
    size: int
    row: int = 0
    column: int = 0


@dataclasses.dataclass(frozen=True)
class CentreSearch:
    """The enumeration around one centre, and the check that rejects.

    Attributes:
      layer: the layer that mixes the rows.
      weights: its parameters.
      mesh: devices to share the ranges.
      rows: the level below, float32.
      fixed: the centre's part of the checked row.
      centre: its table row.
      plan: every neighbourhood.
      check: the cheap check.
    """

    layer: Layer
    weights: Params
    mesh: Mesh
    rows: TableRows
    fixed: Float[np.ndarray, " m"]
    centre: int
    plan: Neighbourhoods
    check: SpanCheck

    @property
    def fine(self) -> bool:
        """Few candidates: tiles are small, and columns are padded to fewer sizes, so that fewer programs are
        compiled."""
        return self.plan.prefix_count <= FINE_REACH and self.plan.tail.shape[0] <= FINE_TAIL

    def survivors(self, clock: Clock, candidates: int, most: int) -> tuple[Int[np.ndarray, "S k"], list[Unsearched]]:
        """Neighbourhoods that pass the cheap check, in the order of their numbers, and the ranges left out: at most
        ``candidates`` are looked at, and no more once above ``most`` passed."""
        rows = self.plan.tail.shape[0]
        stop, width = self.plan.within(candidates)
        left = [self._unsearched((stop, self.plan.prefix_count), (0, rows)), self._unsearched((0, stop), (width, rows))]
        pairs, number = [np.zeros((0, 2), np.int64)], 0
        run = self._scanner() if clock.left > 0 else None
        for start in range(0, width, TAILS[-1]):
            tails = (start, min(start + TAILS[-1], width))
            if run is None or clock.left <= 0 or number > most:
                left.append(self._unsearched((0, stop), tails))
                continue
            cut = Cut.of(tails[1] - start, fine=self.fine, accelerator=accelerated(self.mesh))
            call, waiting = run(slice(*tails), cut), deque(_ranges(stop, tails[1] - start, self.mesh.size, cut))
            flying: deque[tuple[list[_Work], tuple[Array, Array]]] = deque()
            while (waiting or flying) and clock.left > 0 and number <= most:
                while waiting and len(flying) < AHEAD:
                    lanes = [waiting.popleft() for _ in range(min(len(waiting), self.mesh.size))]
                    flying.append((lanes, call(lanes)))
                lanes, (ends, buffers) = flying.popleft()
                for lane, work in enumerate(lanes):
                    found, row, column = np.asarray(ends)[lane].tolist()
                    if found:
                        part = kernels.begin(buffers, kernels.padded(found, (*FOUND, buffers.shape[2])))
                        pairs.append(np.asarray(part)[lane, :, :found].T + np.array([0, start]))
                        number += found
                    if row * cut.high < work.size:
                        waiting.appendleft(work._replace(row=row, column=column))
            rest = [*waiting, *(work for lanes, _ in flying for work in lanes)]
            for work in rest:
                begun, later = work.first + work.row * cut.high, work.first + (work.row + 1) * cut.high
                end, ahead = work.first + work.size, start + work.column * cut.wide
                left.append(self._unsearched((begun, min(later, end)), (ahead, tails[1])))
                left.append(self._unsearched((later, end), tails))
        prefix, tail = np.concatenate(pairs).T
        order = np.lexsort((tail, prefix))
        prefix, tail = prefix[order], tail[order]
        return np.c_[self.plan.prefix(prefix)[0], self.plan.tail[tail]], [part for part in left if part.size]

    def _unsearched(self, prefixes: tuple[int, int], tails: tuple[int, int]) -> Unsearched:
        return Unsearched(self.centre, prefixes, tails, self.plan.ordered(prefixes, tails))

    def _scanner(self) -> Callable[[slice, Cut], Callable[[list[_Work]], tuple[Array, Array]]]:
        """``kernels.scan`` with everything but the tail rows, how they are cut and, then, the ranges; tables travel
        once."""
        check, plan, members = self.check, self.plan, self.plan.members
        size = kernels.padded(members.size, TABLES)
        columns = kernels.padded(check.columns.size, COLUMNS[self.fine :])
        scaled = self.fixed[: check.fixed] * check.fixed_scale
        residual = scaled @ check.fixed_null
        vectors = residual.size
        if plan.prefix_count * plan.tail.shape[0] <= FEW:
            vectors = kernels.padded(vectors, VECTORS)
        probe: tuple[Any, ...] = (
            kernels.fill(check.columns, columns).astype(np.int32),
            kernels.fill(check.row_scale, columns).astype(np.float32),
            kernels.fill(kernels.fill(check.row_null, columns), vectors, axis=1).astype(np.float32),
            np.float32(check.bound),
            kernels.fill(residual, vectors).astype(np.float32),
            np.float32(scaled @ scaled),
        )
        source = self.rows.sent if check.view == "aggregate" else self.rows.projected
        chosen = kernels.fill(members, size)
        around = source[self.centre], self.rows.degrees[self.centre], source[chosen], self.rows.degrees[chosen]
        table = kernels.table(self.layer, check.view, self.weights, *around, probe[0])
        shared = self._placed((self.weights, kernels.Probe(*probe), table, _padded(plan.places, members)))

        def tail_of(tails: slice, cut: Cut) -> Callable[[list[_Work]], tuple[Array, Array]]:
            part = plan.tail[tails]
            length = kernels.padded(part.shape[0], TAILS)
            rows = np.zeros((kernels.padded(part.shape[1], PLACES), length), np.int32)
            rows[: part.shape[1], : part.shape[0]] = np.searchsorted(members, part.T) + 1
            first = kernels.fill(plan.tail_first[tails], length, value=LARGEST).astype(np.int32)
            sums = kernels.tail_sums(shared[2], rows, np.int32(part.shape[1]))
            parts = sums, first, np.int32(part.shape[0]), np.int32(plan.strict)
            tail = kernels.Tail(*self._placed(parts))

            def call(lanes: list[_Work]) -> tuple[Array, Array]:
                work = kernels.fill(np.array(lanes, np.int32), self.mesh.size)
                tile = cut.high, cut.wide
                return kernels.scan((self.layer, check.view), self.mesh, tile, cut.reach, *shared, tail, work)

            return call

        return tail_of

    def _placed(self, arrays: Any) -> Any:
        """Copies on every device. A single processor gets the arrays at each call instead: they are small, and this is
        faster."""
        if self.mesh.size == 1 and not accelerated(self.mesh):
            return arrays
        return jax.device_put(arrays, NamedSharding(self.mesh, PartitionSpec()))


def accelerated(mesh: Mesh) -> bool:
    """Whether the devices are not processors."""
    return mesh.devices.flat[0].platform != "cpu"


def _ranges(stop: int, tail_rows: int, devices: int, cut: Cut) -> Iterator[_Work]:
    """Prefixes 0 to ``stop`` in ranges of bounded work, of whole tiles, that keep all devices busy."""
    size = min(cut.most // tail_rows, stop // devices, cut.reach)
    size = max(-(-size // cut.high), 1) * cut.high
    for first in range(0, stop, size):
        yield _Work(first, min(size, stop - first))


def _padded(places: Digits, members: Int[np.ndarray, " U"]) -> Digits:
    """In 32 bits, with options as places in the table of terms, and with shapes from the short lists."""
    width = kernels.padded(places.order.size, PLACES)
    entries = [kernels.fill(part, width, value=int(i < 2)) for i, part in enumerate(places[:6])]
    options = kernels.fill(np.searchsorted(members, places.options) + 1, kernels.padded(places.options.size, TABLES))
    table = kernels.fill(places.binomials, width + 1)
    table = kernels.fill(table, kernels.padded(table.shape[1], TABLES), axis=1, value=LARGEST)
    return Digits(*(np.asarray(part, np.int32) for part in (*entries, options, table)))
