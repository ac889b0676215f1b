"""What is added to the gradient distance because real graphs are smooth and sparse."""

from __future__ import annotations

import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float

from jgleak.attacks.matching.product import product

TINY = 1e-6
"""Degrees below this count as zero."""


def smoothness(nodes: Float[Array, "... N m"], adjacency: Float[Array, "... N N"]) -> Float[Array, ""]:
    """``sum_{i<j} A_ij |x_i / sqrt(d_i) - x_j / sqrt(d_j)|²`` (GLG, equation 13, whose print lacks the square).

    It equals ``tr(Xᵀ L X)`` with the normalised Laplacian ``L = I - D^-1/2 A D^-1/2`` restricted to nodes with edges.
    """
    degree = adjacency.sum(axis=-1)
    live = degree > TINY
    scale = jnp.where(live, lax.rsqrt(jnp.where(live, degree, 1.0)), 0.0)
    scaled = nodes * scale[..., None]
    square = jnp.sum(scaled**2, axis=-1)
    mixed = jnp.sum(scaled * product(adjacency, scaled))
    return jnp.sum(degree * square) - mixed


def frobenius(adjacency: Float[Array, "... N N"]) -> Float[Array, ""]:
    """``||A||_F²`` (GLG, equation 14)."""
    return jnp.sum(adjacency**2)


def edge_count(adjacency: Float[Array, "... N N"]) -> Float[Array, ""]:
    """``sum_ij A_ij`` (FedGIG, equation 7); every edge counts twice."""
    return jnp.sum(adjacency)
