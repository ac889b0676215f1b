"""Pooled rows from the head's gradient alone: ReLU masks of single graphs, found in its row space.

Behind a first map with ReLU comes the last one, ``W (F, C)``: a graph's ``d_g`` is ``W s_g`` where its own row lights a
unit, and 0 elsewhere. All ``d_g`` lie in the row space of the gradient, of dimension ``r``. So for ``r`` units that fix
a vector of that space, and ``c - 1`` further ones that fix the direction of ``s_g`` (of ``c`` dimensions), try every
pattern of lit and dark ones: each names one vector, up to its length, and that of a graph is ``W s`` or 0 at all other
units too. That is ``2^(r + c - 1)`` patterns, and none is missed whose equations are independent. Of the vectors that
pass, ``r`` are the graphs': those whose pooled rows light the units that the vectors say. (SPEAR, Dimitrov et al. 2024,
draws dark units at random for batches of other data.)
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from itertools import combinations
from math import comb

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int
from scipy import linalg

from jgleak.attacks.attack import Clock
from jgleak.attacks.census.batches.head import HeadGradient

BITS = 22
"""Most units whose patterns are tried."""

DIRECTIONS = 4
"""Most dimensions of ``s``: each doubles the patterns, and rays show the rows of graphs with many tasks sooner."""

CHUNK = 1 << 14
"""Patterns tried at once; a compiled shape."""

CHECKED = 32
"""Units that decide whether a pattern passes; all others confirm it."""

OFF = 0.1
"""How far an entry may be from 0 or ``W s``, relative to that."""

FAINT = 0.05
"""Units whose weights are smaller than this share of the largest say too little."""

SUBSETS = 200_000
"""Most choices of ``r`` vectors among those that pass."""

SAME = 1.0 - 1e-6
"""Vectors of length one whose product is larger are one: several patterns may name it."""

WORST = 1e6
"""Largest condition number of vectors that are taken to be independent."""

SHORT = 1e-5
"""Smallest length of a ``d_g`` beside the largest."""

LIT, DARK = 1e-2, 1e-4
"""An entry of ``d_g`` above the first, beside its largest, is not 0; one below the second hardly ever not."""

UNSURE = 1e-3
"""A unit's input this near to 0, beside the largest, does not say whether it is lit."""

FLOOR = 1e-3
"""How far an entry may be off whatever ``W s``, whose length is about one."""

TRIES = 3
"""How often the further units are drawn: a unit that all graphs light does not tell the direction of ``s``."""

FITTED = 1e-3
"""How far an entry may be off after all units have been fitted, relative to the largest."""

CONSISTENT = 1e-3
"""What may be left of ``d_g`` (``HeadGradient.explained``)."""


def pooled_rows(head: HeadGradient, clock: Clock) -> Float[np.ndarray, "r P"] | None:
    """Every graph's pooled row, in no order; None where the head shows no masks, there are too many graphs, or not
    exactly one choice of rows explains the gradient."""
    readout, rank = head.observation.model.readout, head.rank
    if not readout.masks:
        return None
    outgoing = np.asarray(readout.last(head.weights)["kernel"], np.float64) @ head.directions
    bits = rank + outgoing.shape[1] - 1
    size, lit = np.linalg.norm(outgoing, axis=1), np.linalg.norm(head.rows, axis=1)
    units = np.flatnonzero((size > FAINT * size.max()) & (lit > 1e-4 * lit.max()))
    if not rank or outgoing.shape[1] > DIRECTIONS or not 0 < bits <= min(BITS, units.size - 1):
        return None
    vectors = _vectors(head.rows[units] / size[units, None], outgoing[units] / size[units, None], clock)
    if not rank <= len(vectors) or comb(len(vectors), rank) > SUBSETS:
        return None
    found: list[Float[np.ndarray, "r P"]] = []
    for chosen in combinations(range(len(vectors)), rank):
        if clock.left <= 0:
            return None
        rows = _rows(head, vectors[list(chosen)], units)
        if rows is not None:
            found.append(rows)
    return found[0] if len(found) == 1 else None


def _rows(
    head: HeadGradient, vectors: Float[np.ndarray, "r r"], units: Int[np.ndarray, " U"]
) -> Float[np.ndarray, "r P"] | None:
    """The pooled rows if the ``d_g`` have these coordinates, up to their lengths; None where they contradict that."""
    if np.linalg.cond(vectors) > WORST:
        return None
    inverse, model = np.linalg.inv(vectors), head.observation.model
    first = model.readout.first(head.weights)
    delta = np.asarray(model.readout.first(model.readout_of(head.observation.update))["bias"], np.float64)
    lengths = (delta @ head.rows) @ inverse
    if np.any(np.abs(lengths) < SHORT * np.abs(lengths).max()):
        return None
    rows = (head.columns * head.values @ inverse / lengths).T
    few = units[:CHECKED]
    kernel, bias = np.asarray(first["kernel"], np.float64)[:, few], np.asarray(first["bias"], np.float64)[few]
    entering, shown = rows @ kernel + bias, np.abs(vectors @ head.rows[few].T)
    shown /= shown.max(axis=1, keepdims=True)
    sure = np.abs(entering) > UNSURE * np.abs(entering).max()
    if np.any(sure & ((shown > LIT) & (entering < 0) | (shown < DARK) & (entering > 0))):
        return None
    return rows if head.explained(rows)[1].max() <= CONSISTENT else None


def _vectors(
    rows: Float[np.ndarray, "U r"], outgoing: Float[np.ndarray, "U c"], clock: Clock
) -> Float[np.ndarray, "k r"]:
    """Coordinates of the vectors of the row space that are 0 or ``W s`` at every unit, for some ``s``; one of each
    direction.

    Args:
      rows: the row space at every unit,
      outgoing: and ``W``, both in units of the latter's length.
      clock: ends the search.
    """
    rank, size = rows.shape[1], outgoing.shape[1]
    first = linalg.qr(rows.T, mode="r", pivoting=True)[-1][:rank]
    others, turn = np.setdiff1d(np.arange(len(rows)), first), np.linalg.inv(rows[first])
    rng, found = np.random.default_rng(0), list[Float[np.ndarray, " r"]]()
    for _ in range(TRIES if size > 1 else 1):
        order = np.r_[first, rng.permutation(others)]
        for pattern in _patterns(rows[order] @ turn, outgoing[order], clock):
            own = _fitted(rows[order] @ turn, outgoing[order], pattern)
            if own is None:
                continue
            vector = turn @ own
            vector /= np.linalg.norm(vector)
            if all(abs(vector @ other) < SAME for other in found):
                found.append(vector)
    return np.array(found).reshape(-1, rank)


def _patterns(
    lifted: Float[np.ndarray, "U r"], outgoing: Float[np.ndarray, "U c"], clock: Clock
) -> Iterator[Int[np.ndarray, " b"]]:
    """Which of the first units are lit, for all patterns that may name a vector."""
    rank, bits = lifted.shape[1], lifted.shape[1] + outgoing.shape[1] - 1
    checked = min(len(lifted), bits + CHECKED)
    given = jnp.asarray(lifted[:checked], jnp.float32), jnp.asarray(outgoing[:checked], jnp.float32)
    for start in range(0, 1 << bits, CHUNK):
        if clock.left <= 0:
            return
        codes = np.arange(start, start + CHUNK, dtype=np.int32)
        passing = codes[np.asarray(_passing(*given, codes, rank))]
        yield from ((code >> np.arange(bits)) & 1 for code in passing if 0 < code < 1 << bits)


@partial(jax.jit, static_argnames="rank")
def _passing(
    lifted: Float[Array, "U r"], outgoing: Float[Array, "U c"], codes: Int[Array, " K"], rank: int
) -> Bool[Array, " K"]:
    """Which patterns of lit units name a vector that is 0 or ``W s`` at all these units, in single precision."""
    size = outgoing.shape[1]

    def one(code: Array) -> Array:
        lit = (code >> jnp.arange(rank + size - 1)) & 1
        from_s = jnp.matmul(lifted, lit[:rank, None] * outgoing[:rank], precision="highest")  # (U, c)
        further = slice(rank, rank + size - 1)
        s = _null(from_s[further] - lit[rank:, None] * outgoing[further])
        entry, full = from_s @ s, outgoing @ s
        return jnp.all(jnp.minimum(jnp.abs(entry), jnp.abs(entry - full)) <= OFF * jnp.abs(full) + FLOOR)

    return jax.vmap(one)(codes)


def _null(matrix: Float[Array, "k c"]) -> Float[Array, " c"]:
    """A vector of length one that ``c - 1`` equations send to zero."""
    if matrix.shape[1] == 1:
        return jnp.ones(1)
    if matrix.shape[1] == 2:
        turned = jnp.stack([-matrix[0, 1], matrix[0, 0]])
        return turned / jnp.maximum(jnp.linalg.norm(turned), 1e-30)
    return jnp.linalg.qr(matrix.T, mode="complete")[0][:, -1]


def _fitted(
    lifted: Float[np.ndarray, "U r"], outgoing: Float[np.ndarray, "U c"], lit: Int[np.ndarray, " b"]
) -> Float[np.ndarray, " r"] | None:
    """The entries at the first ``r`` units of the vector that a pattern names, fitted to all units; None where it is
    not 0 or ``W s`` at each."""
    rank = lifted.shape[1]
    from_s = lifted @ (lit[:rank, None] * outgoing[:rank])
    further = slice(rank, lit.size)
    s = np.linalg.svd(from_s[further] - lit[rank:, None] * outgoing[further])[2][-1]
    entry, full = from_s @ s, outgoing @ s
    nearest = np.abs(entry) > np.abs(entry - full)
    both = np.linalg.svd(np.c_[lifted, nearest[:, None] * -outgoing], full_matrices=False)[2][-1]
    entry, full = lifted @ both[:rank], nearest * (outgoing @ both[rank:])
    size = np.abs(full).max()
    return both[:rank] if size > FLOOR and np.abs(entry - full).max() <= FITTED * size else None
