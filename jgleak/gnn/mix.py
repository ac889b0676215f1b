"""The mixing of nodes, ``A H``, whose derivatives run fast on a CPU too."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float


@jax.custom_jvp
def mix(adjacency: Float[Array, "M N"], states: Float[Array, "N D"]) -> Float[Array, "M D"]:
    """``adjacency @ states``, differentiable in both modes and any order.

    XLA's CPU backend multiplies a batch of small matrices about five times slower when the left one is to be
    transposed, as the adjacency is in the derivative by the states. Here that transpose is made first. In a deep
    leakage step of a two-layer GCN six of twelve such products were of that kind. The derivatives may be made outside
    of ``precise``, so precision is asked for here.
    """
    return jnp.matmul(adjacency, states, precision="highest")


@mix.defjvp
def _mix_jvp(primals: tuple[Array, Array], tangents: tuple[Array, Array]) -> tuple[Array, Array]:
    (adjacency, states), (moved, shifted) = primals, tangents
    return mix(adjacency, states), mix(moved, states) + _by_states(adjacency, shifted)


def _by_states(adjacency: Float[Array, "M N"], shifted: Float[Array, "N D"]) -> Float[Array, "M D"]:
    """``adjacency @ shifted``, written so that its transpose is one product with the adjacency turned beforehand.

    The barriers keep the compiler from folding the turns into the products again.
    """
    return _turned(jnp.matmul(_turned(shifted), _turned(adjacency), precision="highest"))


def _turned(matrix: Float[Array, "n k"]) -> Float[Array, "k n"]:
    return jax.lax.optimization_barrier(jnp.swapaxes(matrix, -1, -2))
