"""The vectors of single graphs, pattern by pattern: every choice of lit and dark units determines one.

A vector of the row space is determined by its entries at ``r`` units; a graph's are ``W s`` or 0, one bit per unit.
Each of ``c - 1`` further units gives an equation for the direction of ``s``. That makes ``2^(r + c - 1)`` patterns, and
none is missed whose equations are independent. Random vectors fail at the remaining units.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from jgleak.attacks.attack import Clock

BITS = 22
"""Most units whose patterns are tried."""

DIRECTIONS = 4
"""Most dimensions of ``s``: each doubles the patterns."""

CHUNK = 1 << 14
"""Patterns tried at once; a compiled shape."""

CHECKED = 32
"""Units that decide whether a pattern passes."""

OFF = 0.1
"""Largest distance of an entry from 0 or ``W s``, relative to ``W s``,"""

FLOOR = 1e-3
"""plus this constant; the length of ``W s`` is about one."""

TRIES = 3
"""How often the further units are drawn: a unit that is lit for all graphs does not determine the direction of
``s``."""


def vectors(
    rows: Float[np.ndarray, "U r"], outgoing: Float[np.ndarray, "U c"], clock: Clock
) -> Iterator[Float[np.ndarray, " r"]]:
    """Vectors that may be graphs', as their entries at the first ``r`` units; each may occur many times.

    Args:
      rows: the row space at every unit, in coordinates that are the entries at the first ``r``.
      outgoing: ``W``, in units of its length.
      clock: ends the search.
    """
    (units, rank), size = rows.shape, outgoing.shape[1]
    bits = rank + size - 1
    if size > DIRECTIONS or not bits <= min(BITS, units - 1):
        return
    rng, checked = np.random.default_rng(0), min(units, bits + CHECKED)
    for _ in range(TRIES if size > 1 else 1):
        order = np.r_[np.arange(rank), rng.permutation(np.arange(rank, units))][:checked]
        given = jnp.asarray(rows[order], jnp.float32), jnp.asarray(outgoing[order], jnp.float32)
        for start in range(0, 1 << bits, CHUNK):
            if clock.left <= 0:
                return
            codes = np.arange(start, start + CHUNK, dtype=np.int32)
            passed, found = map(np.asarray, _passing(*given, codes, rank))
            yield from (
                vector for code, vector in zip(codes[passed], found[passed], strict=True) if 0 < code < 1 << bits
            )


@partial(jax.jit, static_argnames="rank")
def _passing(
    rows: Float[Array, "U r"], outgoing: Float[Array, "U c"], codes: Int[Array, " K"], rank: int
) -> tuple[Bool[Array, " K"], Float[Array, "K r"]]:
    """Which patterns of lit units give a vector that is 0 or ``W s`` at all these units, and the vectors, in single
    precision."""
    size = outgoing.shape[1]

    def one(code: Array) -> tuple[Array, Array]:
        lit = (code >> jnp.arange(rank + size - 1)) & 1
        from_s = jnp.matmul(rows, lit[:rank, None] * outgoing[:rank], precision="highest")  # (U, c)
        further = slice(rank, rank + size - 1)
        s = _null(from_s[further] - lit[rank:, None] * outgoing[further])
        entry, full = (jnp.matmul(many, s, precision="highest") for many in (from_s, outgoing))
        off = jnp.minimum(jnp.abs(entry), jnp.abs(entry - full))
        return jnp.all(off <= OFF * jnp.abs(full) + FLOOR), entry[:rank]

    return jax.vmap(one)(codes)


def _null(matrix: Float[Array, "k c"]) -> Float[Array, " c"]:
    """A unit vector in the null space of ``c - 1`` equations."""
    if matrix.shape[1] == 1:
        return jnp.ones(1)
    if matrix.shape[1] == 2:
        turned = jnp.stack([-matrix[0, 1], matrix[0, 0]])
        return turned / jnp.maximum(jnp.linalg.norm(turned), 1e-30)
    return jnp.linalg.qr(matrix.T, mode="complete")[0][:, -1]
