"""The device side of the filter: jitted, shape-stable functions over padded tables, ranges and tiles."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import cache, partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import Mesh, PartitionSpec
from jaxtyping import Array, Bool, Float, Int

from jgleak.attacks.span.combinations import Digits, unrank
from jgleak.attacks.span.leak_points import View
from jgleak.gnn import Layer, Params

GROUP = 64
"""Places of a tile that are handled together when survivors are gathered."""

TOGETHER = 1_200
"""Most products of a candidate in one pass of the scan; with more of them the compiler keeps the sums in memory, which
is much slower."""

STEP = 32
"""Columns of one pass where there are several."""

WIDE = {"xla_cpu_prefer_vector_width": 512, "xla_cpu_enable_fast_min_max": True}
"""Compiler options of the scan on a processor. Rows hold no NaN: weights and updates are checked to be finite."""


Which = tuple[Layer, View]
"""Which row is checked: the layer that computes it, and the view."""


class Probe(NamedTuple):
    """The cheap check of one centre.

    Attributes:
      columns: chosen columns of the row ``(C,)``; padding has scale 0.
      scale: to comparable sizes ``(C,)``.
      null: null vectors ``(C, s)``.
      bound: largest residual of an accepted row, relative to its length.
      residual: what the fixed part adds to the residual ``(s,)``.
      length: squared length of the fixed part.
    """

    columns: Int[Array, " C"]
    scale: Float[Array, " C"]
    null: Float[Array, "C s"]
    bound: Float[Array, ""]
    residual: Float[Array, " s"]
    length: Float[Array, ""]


class Tail(NamedTuple):
    """The tail of an enumeration: summed terms ``(A, C, Q)``, ordering keys ``(Q,)``, how many rows are real, and 1
    where neighbours of a slot are distinct."""

    terms: Float[Array, "A C Q"]
    first: Int[Array, " Q"]
    rows: Int[Array, ""]
    strict: Int[Array, ""]


@partial(jax.jit, static_argnames=("layer",))
def sent(
    layer: Layer, weights: Params, rows: Float[Array, "T F"], classes: Int[Array, " T"]
) -> tuple[Float[Array, "T S"], Float[Array, "T P"]]:
    """What neighbours along edges of the given classes see of each row, and what the layer computes of that alone."""
    seen = layer.by(weights, "sent", rows, classes)
    return seen, layer.by(weights, "project", seen)


@partial(jax.jit, static_argnames=("layer", "view"), inline=True)
def _row(
    layer: Layer, view: View, weights: Params, totals: Float[Array, "A ... C"], columns: Int[Array, " C"]
) -> Float[Array, "... D"]:
    """Summed terms to ``columns`` of the row that a view names."""
    return layer.by(weights, "row", view, totals, columns)


@partial(jax.jit, static_argnames=("layer", "view"))
def table(
    layer: Layer,
    view: View,
    weights: Params,
    centre: Float[Array, " P"],
    centre_degree: Float[Array, ""],
    rows: Float[Array, "T P"],
    degrees: Float[Array, " T"],
    columns: Int[Array, " C"],
) -> Float[Array, "A T+2 C"]:
    """Single terms, as far as ``columns`` need them: 0 the centre's own, then each possible neighbour's, last zeros."""
    own, others = layer.by(weights, "terms", view, centre, centre_degree, rows, degrees)
    everything = jnp.concatenate([own[None], others, jnp.zeros_like(own)[None]])
    return layer.by(weights, "select", view, everything, columns)


@jax.jit
def tail_sums(table: Float[Array, "A T C"], members: Int[Array, "k Q"], width: Int[Array, ""]) -> Float[Array, "A C Q"]:
    """Summed terms of every tail row, of which the first ``width`` members count; columns are contiguous."""
    blank = jnp.zeros((table.shape[0], members.shape[1], table.shape[2]), table.dtype)
    sums = lax.fori_loop(0, width, lambda k, sums: sums + table[:, members[k]], blank)
    return jnp.swapaxes(sums, 1, 2)


@partial(jax.jit, static_argnames=("which",))
def residuals(
    which: Which,
    weights: Params,
    table: Float[Array, "A T C"],
    columns: Int[Array, " C"],
    scale: Float[Array, " C"],
    null: Float[Array, "C s"],
    members: Int[Array, "k B"],
) -> tuple[Float[Array, "B s"], Float[Array, " B"]]:
    """Residuals of candidates' chosen columns on the null vectors, and the columns' length; ``members`` are rows of
    ``table``."""
    total = table[:, :1] + sum(table[:, rows] for rows in members)
    row = _row(*which, weights, total, columns) * scale
    return jnp.matmul(row, null, precision="highest"), jnp.linalg.norm(row, axis=1)


Scanned = tuple[Int[Array, "devices 3"], Int[Array, "devices 2 capacity"]]
"""For each device the number of survivors and the next tile (at the end of the range: the number of rows of tiles), and
the buffer: prefix number and tail row of each survivor."""


def scan(which: Which, mesh: Mesh, tile: tuple[int, int], reach: int, *arrays: Any) -> Scanned:
    """Run the cheap check over one range of candidates a device, and gather the survivors' numbers.

    Prefix numbers become neighbourhoods on the device; tile after tile of prefix x tail candidates is checked. A
    device stops before its buffer could overflow and says where, so that the host can send it the rest.

    Args:
      which: the row that is checked.
      mesh: the devices.
      tile: prefixes and tail rows of a tile.
      reach: most prefixes of one range.
      arrays: weights, probe, table, places, tail, shared by all devices, and the work ``(devices, 4)``: for
        each device the first prefix, their number, and the tile to begin with (row of tiles, tail tile).
    """
    return _compiled(mesh.devices.flat[0].platform)(which, mesh, tile, reach, *arrays)


@partial(jax.jit, static_argnames=("size",))
def begin(buffers: Int[Array, "devices 2 capacity"], size: int) -> Int[Array, "devices 2 _size"]:
    """The first places of each device's buffer: little else than survivors travels to the host."""
    return buffers[:, :, :size]


@cache
def _compiled(platform: str) -> Callable[..., Scanned]:
    """One function for each platform: on a CPU the compiler uses its widest vectors, and minima and maxima that ignore
    NaN."""

    def run(which: Which, mesh: Mesh, tile: tuple[int, int], reach: int, *arrays: Any) -> Scanned:
        split, whole = PartitionSpec("devices"), PartitionSpec()
        return jax.shard_map(
            partial(_scan, which, (*tile, reach)),
            mesh=mesh,
            in_specs=(*[whole] * 5, split),
            out_specs=(split, split),
            check_vma=False,
        )(*arrays)

    run.__name__ = "scan"
    return jax.jit(run, static_argnums=(0, 1, 2, 3), compiler_options=WIDE if platform == "cpu" else None)


def _scan(
    which: Which,
    sizes: tuple[int, int, int],
    weights: Params,
    probe: Probe,
    table: Float[Array, "A T C"],
    places: Digits,
    tail: Tail,
    work: Int[Array, "1 4"],
) -> tuple[Int[Array, "1 3"], Int[Array, "1 2 capacity"]]:
    (high, wide, reach), strict = sizes, tail.strict
    first, number, row, column = work[0]
    members, key = unrank(jnp, first + jnp.arange(reach, dtype=jnp.int32), places, strict, table.shape[1] - 1)
    prefix = table[:, :1] + table[:, members].sum(axis=2)
    real = jnp.arange(reach) < number
    lowest = jnp.where(real, key, jnp.iinfo(jnp.int32).max).reshape(-1, high).min(axis=1)
    last_tile = (tail.rows - 1) // wide
    begin = jnp.searchsorted(tail.first, lowest + strict * (lowest >= 0)).astype(jnp.int32) // wide
    rows = (number + high - 1) // high
    # the next row of tiles, from each one on, that has a pair in order
    numbers = jnp.arange(begin.shape[0], dtype=jnp.int32)
    following = lax.cummin(jnp.where((begin <= last_tile) & (numbers < rows), numbers, rows), reverse=True)
    following = jnp.append(following, rows)
    begin = jnp.append(begin, 0)
    cells = high * wide

    def going(state: tuple[Array, ...]) -> Array:
        return (state[0] < rows) & (state[2] <= cells)

    def step(state: tuple[Array, ...]) -> tuple[Array, ...]:
        row, column, found, buffer = state
        across, down = row * high, column * wide
        passed = _passing(
            which,
            weights,
            probe,
            lax.dynamic_slice_in_dim(prefix, across, high, axis=1),
            lax.dynamic_slice_in_dim(tail.terms, down, wide, axis=2),
        )
        lasts = lax.dynamic_slice_in_dim(key, across, high)[:, None]
        ordered = lasts + strict * (lasts >= 0) <= lax.dynamic_slice_in_dim(tail.first, down, wide)[None, :]
        here = lax.dynamic_slice_in_dim(real, across, high)[:, None] & (down + jnp.arange(wide) < tail.rows)[None, :]
        mask = passed & ordered & here
        corner = jnp.stack([first + across, down])

        def keep(found: Array, buffer: Array) -> tuple[Array, Array]:
            def write(cell: Array) -> Array:
                pairs = corner[:, None] + jnp.stack([cell // wide, cell % wide])
                return lax.dynamic_update_slice(buffer, pairs, (jnp.zeros_like(found), found))

            number, buffer = _compact(mask.ravel(), write)
            return found + number, buffer

        found, buffer = lax.cond(mask.any(), keep, lambda found, buffer: (found, buffer), found, buffer)
        ends, after = column >= last_tile, following[row + 1]
        return jnp.where(ends, after, row), jnp.where(ends, begin[after], column + 1), found, buffer

    row, asked = following[row], row
    column = jnp.where(row == asked, jnp.maximum(column, begin[row]), begin[row])
    empty = jnp.int32(0), jnp.zeros((2, 2 * cells), jnp.int32)
    row, column, found, buffer = lax.while_loop(going, step, (row, column, *empty))
    return jnp.stack([found, row, column])[None], buffer[None]


def _compact(mask: Bool[Array, " n"], use: Callable[[Array], Array]) -> tuple[Int[Array, ""], Array]:
    """The number of set places, and what ``use`` makes of the places, set ones first.

    Few places are set as a rule, and a prefix sum over all of them would cost more than the check itself. So groups
    with a set place are found first, and only these are searched. ``use`` gets few places then.
    """
    size = mask.shape[0]
    each = math.gcd(size, GROUP)
    groups = mask.reshape(-1, each)
    hit = groups.any(axis=1)
    most = min(GROUP, groups.shape[0])

    def few() -> Array:
        which = _set(hit, most)  # behind the last of them the first group again: its places come behind all others
        place = _set(groups[which].ravel(), most * each)
        return use(which[place // each] * each + place % each)

    def many() -> Array:
        return use(_set(mask, size))

    return mask.sum(dtype=jnp.int32), lax.cond(hit.sum() <= most, few, many)


def _set(mask: Bool[Array, " n"], most: int) -> Int[Array, " _most"]:
    """The first ``most`` set places, then zeros: ``jnp.nonzero`` with one sum in place of two, compiled in half the
    time."""
    there = jnp.where(mask, jnp.cumsum(mask, dtype=jnp.int32) - 1, most)
    return jnp.zeros(most, jnp.int32).at[there].set(jnp.arange(mask.shape[0], dtype=jnp.int32), mode="drop")


def _passing(
    which: Which,
    weights: Params,
    probe: Probe,
    prefix: Float[Array, "A P C"],
    tail: Float[Array, "A C Q"],
) -> Bool[Array, "P Q"]:
    """The cheap span check on one tile.

    Written column by column so that it compiles to one pass that keeps a candidate's few running sums in registers;
    as a matrix product the rows would go through memory. Columns of the tail are contiguous for the same reason. Wide
    checks take several passes over the sums (``TOGETHER``).
    """
    shape, parts = (prefix.shape[1], tail.shape[2]), (probe.columns, probe.scale, probe.null, prefix, tail)
    sums = [jnp.full(shape, probe.length), *(jnp.full(shape, r) for r in probe.residual)]

    def added(parts: Sequence[Array], sums: list[Array]) -> list[Array]:
        for c in range(parts[0].shape[0]):
            sums = _with_column(which, weights, parts, np.int32(c), sums)
        return sums

    def step(k: Array, sums: list[Array]) -> list[Array]:
        axes = (0, 0, 0, 2, 1)
        return added([lax.dynamic_slice_in_dim(a, k * STEP, STEP, i) for a, i in zip(parts, axes, strict=True)], sums)

    if probe.null.size <= TOGETHER or probe.columns.size % STEP:
        sums = added(parts, sums)
    else:
        sums = lax.fori_loop(0, probe.columns.size // STEP, step, sums)
    length, *residual = sums
    return (sum(r * r for r in residual) <= probe.bound**2 * length) & (length > 0)


@partial(jax.jit, static_argnames=("which",))
def _with_column(
    which: Which, weights: Params, parts: Sequence[Array], c: Int[Array, ""], sums: list[Float[Array, "P Q"]]
) -> list[Float[Array, "P Q"]]:
    """The sums with column ``c`` added. Traced once for all columns."""
    columns, scale, null, prefix, tail = parts
    place, factor, weighing = (lax.dynamic_slice_in_dim(part, c, 1) for part in (columns, scale, null))
    total = lax.dynamic_slice_in_dim(prefix, c, 1, axis=2) + lax.dynamic_slice_in_dim(tail, c, 1, axis=1)
    row = _row(*which, weights, total[..., None], place)[..., 0] * factor
    return [s + row * weight for s, weight in zip(sums, [row, *weighing[0]], strict=True)]


@partial(jax.jit, static_argnames=("layer", "views"))
def embed(
    layer: Layer,
    views: tuple[View, ...],
    weights: Params,
    sent: Float[Array, "T S"],
    projected: Float[Array, "T P"],
    degrees: Float[Array, " T"],
    centres: Int[Array, " B"],
    neighbours: Int[Array, "B W"],
) -> tuple[Float[Array, "B _D"], ...]:
    """Whole rows of candidates, in the precision of the tables; neighbours below 0 are padding."""

    def one(centre: Array, around: Array) -> tuple[Array, ...]:
        present, around = (around >= 0)[:, None], jnp.maximum(around, 0)

        out = []
        for view in views:
            table = sent if view == "aggregate" else projected
            star = table[centre], degrees[centre], table[around], degrees[around]
            own, others = layer.by(weights, "terms", view, *star)
            total = own + jnp.where(present, others, 0.0).sum(axis=0)
            columns = jnp.arange(total.shape[0]) if view == "aggregate" else layer.columns(view)
            out.append(
                _row(layer, view, weights, layer.by(weights, "select", view, total[None], columns)[:, 0], columns)
            )
        return tuple(out)

    return jax.vmap(one)(centres, neighbours)


@jax.jit
def inside(
    rows: Float[Array, "B d"],
    scale: Float[Array, " d"],
    basis: Float[Array, "d r"],
    spread: Float[Array, " r"],
    tolerance: Float[Array, ""],
) -> Bool[Array, " B"]:
    """The check in all coordinates, at the tables' precision. The distance allowed is a share of the row's length, and
    ``spread`` times its coordinates."""
    scaled = rows / scale
    along = jnp.matmul(scaled, basis, precision="highest")
    rest = scaled - jnp.matmul(along, basis.T, precision="highest")
    noisy = jnp.sum((along * spread) ** 2, axis=1)
    return jnp.sum(rest * rest, axis=1) <= tolerance**2 * jnp.sum(scaled * scaled, axis=1) + noisy


def fill(array: np.ndarray, size: int, axis: int = 0, value: float = 0) -> np.ndarray:
    """Pad the end of an axis with one value, up to ``size``."""
    if array.shape[axis] >= size:
        return array
    rest = (slice(None),) * axis
    filled = np.full((*array.shape[:axis], size, *array.shape[axis + 1 :]), value, array.dtype)
    filled[(*rest, slice(array.shape[axis]))] = array
    return filled


def padded(size: int, sizes: tuple[int, ...]) -> int:
    """The next padded size (the size itself beyond the last)."""
    return next((s for s in sizes if s >= size), size)
