"""What is added to the gradient distance because real graphs are smooth, sparse and decided."""

from __future__ import annotations

import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float

from jgleak.attacks.matching.product import product
from jgleak.attacks.relaxations import Group

TINY = 1e-6
"""Degrees and probabilities below this count as zero."""


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


def edge_entropy(adjacency: Float[Array, "... N N"]) -> Float[Array, ""]:
    """Sum over entries of the entropy of an edge that is there with probability ``A_ij``, in nats."""
    p = jnp.clip(adjacency, TINY, 1.0 - TINY)
    return -jnp.sum(jnp.where(adjacency > 0, p * jnp.log(p) + (1 - p) * jnp.log1p(-p), 0.0))


def feature_entropy(raw: Float[Array, "... N m"], groups: tuple[Group, ...]) -> Float[Array, "... N"]:
    """A node's entropy over the values of its discrete features, each relative to ``log`` of their number, averaged.

    0 is certain, 1 is no idea (TabLeak, section 4.3). Real-valued features have no part in it.
    """
    parts = []
    for group in groups:
        p = raw[..., group.start : group.start + group.columns]
        if group.kind == "binary":
            p = jnp.concatenate([p, 1 - p], axis=-1)
        if group.kind == "real" or p.shape[-1] < 2:
            continue
        p = jnp.clip(p, TINY, 1.0)
        parts.append(-jnp.sum(p * jnp.log(p), axis=-1) / jnp.log(p.shape[-1]))
    return jnp.mean(jnp.stack(parts), axis=0) if parts else jnp.zeros(raw.shape[:-1])
