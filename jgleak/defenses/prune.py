"""Gradient compression: only the largest entries leave."""

from __future__ import annotations

import math

import jax.numpy as jnp
import optax
from jaxtyping import Array

from jgleak.defenses.defense import Kind


def prune(share: float, key: Array) -> optax.GradientTransformation:
    """Sets the smallest ``share`` of every tensor's entries to zero; the largest entry always stays.

    Deep Gradient Compression (Lin et al. 2018; Zhu et al. 2019) without its local memory of what was left out, which
    would need a client that takes part in every round. Entries as large as the smallest kept one stay too.
    """

    def one(leaf: Array) -> Array:
        size = jnp.abs(leaf)
        keep = max(math.ceil((1.0 - share) * size.size), 1)
        least = jnp.sort(size.ravel())[size.size - keep]
        return jnp.where(size >= least, leaf, 0.0)

    return optax.stateless_with_tree_map(lambda leaf, _: one(jnp.asarray(leaf)))


PRUNE = Kind(
    "prune",
    "the smallest entries of every tensor set to zero; their share (gradient compression)",
    prune,
    fault=lambda share: None if 0 < share < 1 else "must lie between 0 and 1",
)
