"""Bounds on the size of an update: of the whole, of every graph's part, of every entry, of every tensor."""

from __future__ import annotations

import math

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, PyTree

from jgleak.defenses.defense import Kind

SURELY = 10.0
"""Deviations beyond which noise is taken to be impossible (Laplace noise gets there with probability 4e-7)."""


def clip(bound: float, key: Array) -> optax.GradientTransformation:
    """Shrinks the update to an L2 norm of at most ``bound`` (DP-SGD, Abadi et al. 2016)."""
    return optax.clip_by_global_norm(bound)


def clip_entries(bound: float, key: Array) -> optax.GradientTransformation:
    """Cuts every entry to ``[-bound, bound]`` (FedGNN's delta)."""
    return optax.clip(bound)


def clip_tensors(bound: float, key: Array) -> optax.GradientTransformation:
    """Shrinks every tensor to an L2 norm of at most ``bound``."""

    def one(leaf: Array) -> Array:
        norm = jnp.linalg.norm(leaf.ravel())
        return leaf * jnp.minimum(1.0, bound / jnp.maximum(norm, jnp.finfo(norm.dtype).tiny))

    return optax.stateless_with_tree_map(lambda leaf, _: one(jnp.asarray(leaf)))


def _whole(bound: float, sizes: tuple[int, ...]) -> tuple[float, float]:
    return bound * math.sqrt(sum(sizes)), bound


def _entries(bound: float, sizes: tuple[int, ...]) -> tuple[float, float]:
    return bound * sum(sizes), bound * math.sqrt(sum(sizes))


def _tensors(bound: float, sizes: tuple[int, ...]) -> tuple[float, float]:
    return bound * sum(math.sqrt(size) for size in sizes), bound * math.sqrt(len(sizes))


def _no_entry_cut(bound: float, update: PyTree, deviation: float) -> bool:
    """No entry comes near the bound: one that was cut would lie further than ``SURELY`` deviations below it."""
    return all(
        float(jnp.max(jnp.abs(leaf), initial=0.0)) < bound - SURELY * deviation for leaf in jax.tree.leaves(update)
    )


def _no_tensor_shrunk(bound: float, update: PyTree, deviation: float) -> bool:
    """Likewise for norms: noise changes a squared norm of ``bound^2`` by ``2 bound N(0, deviation^2)`` and upwards."""
    most = bound**2 - 2.0 * SURELY * bound * deviation
    return all(float(jnp.sum(jnp.square(leaf))) < most for leaf in jax.tree.leaves(update))


CLIP = Kind("clip", clip, bounds=_whole, scales=True)
CLIP_GRAPH = Kind("clip-graph", graph=optax.clip_by_global_norm, bounds=_whole, scales=True)
CLIP_ENTRIES = Kind("clip-inf", clip_entries, bounds=_entries, idle=_no_entry_cut)
CLIP_TENSORS = Kind("clip-layer", clip_tensors, bounds=_tensors, idle=_no_tensor_shrunk)
