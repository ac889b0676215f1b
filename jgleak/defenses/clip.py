"""Bounds on the size of an update: of the whole, of every entry, of every tensor."""

from __future__ import annotations

import math

import jax.numpy as jnp
import optax
from jaxtyping import Array

from jgleak.defenses.defense import Kind


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


CLIP = Kind("clip", "the update's L2 norm bounded; the bound (DP-SGD)", clip, bounds=_whole, scales=True)
CLIP_ENTRIES = Kind("clip-inf", "every entry bounded; the bound (FedGNN)", clip_entries, bounds=_entries)
CLIP_TENSORS = Kind("clip-layer", "every tensor's L2 norm bounded; the bound", clip_tensors, bounds=_tensors)
