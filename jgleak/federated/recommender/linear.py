"""Small positive matrices, many side by side, without LAPACK.

In jaxlib 0.10 a batched LAPACK call waits for workers of the thread pool that it runs on itself. An epoch has a call
for every group of clients; where two of them meet on two cores, they wait for ever.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int


def root(gram: Float[Array, "w w"]) -> Float[Array, "w w"]:
    """A matrix ``R`` with ``R^T R = gram``, which is positive semidefinite: Cholesky's, passing pivots of zero."""
    least = 1e-6 * jnp.trace(gram)

    def step(j: Int[Array, ""], state: tuple[Array, Array]) -> tuple[Array, Array]:
        rest, out = state
        row = jnp.where(rest[j, j] > least, rest[j] * jax.lax.rsqrt(jnp.maximum(rest[j, j], least)), 0.0)
        return rest - jnp.outer(row, row), out.at[j].set(row)

    return jax.lax.fori_loop(0, gram.shape[0], step, (gram, jnp.zeros_like(gram)))[1]


def solve(gram: Float[Array, "d d"], right: Float[Array, " d"]) -> Float[Array, " d"]:
    """``x`` with ``gram x = right``, ``gram`` positive definite: Gauss and Jordan's elimination; it needs no pivots."""

    def step(j: Int[Array, ""], rows: Array) -> Array:
        pivot = rows[j] / rows[j, j]
        return (rows - jnp.outer(rows[:, j], pivot)).at[j].set(pivot)

    return jax.lax.fori_loop(0, gram.shape[0], step, jnp.concatenate([gram, right[:, None]], axis=1))[:, -1]
