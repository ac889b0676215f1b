"""Products of many small matrices whose derivatives run fast on a CPU too.

XLA's CPU backend multiplies a batch of small matrices five to ten times slower when the left one is to be transposed,
and every product has such a one among its derivatives. Here the transpose is made first. Reverse mode only. On GPUs
the factors keep all their bits (``gnn.precise``).
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float


@jax.custom_vjp
def product(a: Float[Array, "... n k"], b: Float[Array, "... k d"]) -> Float[Array, "... n d"]:
    """``a @ b``."""
    return jnp.matmul(a, b, precision="highest")


@jax.custom_vjp
def product_right(a: Float[Array, "... n k"], b: Float[Array, "... d k"]) -> Float[Array, "... n d"]:
    """``a @ b^T``."""
    return jnp.matmul(a, jnp.swapaxes(b, -1, -2), precision="highest")


@jax.custom_vjp
def product_left(a: Float[Array, "... k n"], b: Float[Array, "... k d"]) -> Float[Array, "... n d"]:
    """``a^T @ b``; the barrier keeps the compiler from folding the transpose into the product again."""
    return jnp.matmul(jax.lax.optimization_barrier(jnp.swapaxes(a, -1, -2)), b, precision="highest")


product.defvjp(
    lambda a, b: (product(a, b), (a, b)),
    lambda kept, slope: (product_right(slope, kept[1]), product_left(kept[0], slope)),
)
product_right.defvjp(
    lambda a, b: (product_right(a, b), (a, b)),
    lambda kept, slope: (product(slope, kept[1]), product_left(slope, kept[0])),
)
product_left.defvjp(
    lambda a, b: (product_left(a, b), (a, b)),
    lambda kept, slope: (product_right(kept[1], slope), product(kept[0], slope)),
)
