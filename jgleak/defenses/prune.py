"""Gradient compression: only the largest entries leave."""

from __future__ import annotations

import math

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Float, PyTree

from jgleak.defenses.defense import Kind


def prune(share: float, key: Array) -> optax.GradientTransformation:
    """Sets the smallest ``share`` of every tensor's entries to zero; the largest entry always stays.

    Deep Gradient Compression (Lin et al. 2018; Zhu et al. 2019) without its local memory of what was left out, which
    would need a client that takes part in every round. Entries as large as the smallest kept one stay too.
    """

    def one(leaf: Array) -> Array:
        size = jnp.abs(leaf)
        return jnp.where(size >= largest(size.ravel(), max(size.size - _left_out(share, size.size), 1)), leaf, 0.0)

    return optax.stateless_with_tree_map(lambda leaf, _: one(jnp.asarray(leaf)))


def _left_out(share: float, size: int) -> int:
    """A share of ``size`` entries, rounded down, where 0.7 of 10 are 7 though the nearest double is a little less."""
    return math.floor(round(share * size, 6))


def seen_part(
    gradient: Float[Array | np.ndarray, "..."],
    sent: Float[Array | np.ndarray, "..."],
    least: Float[Array | np.ndarray, "..."],
) -> Float[Array, "..."]:
    """A gradient as far as a pruned update speaks of it: it equals ``sent`` where the update could be its own.

    Entries that were sent are what they are. One that was left out is no larger than the smallest that was sent: only
    what it exceeds that by speaks against the gradient.

    Args:
      gradient: of one tensor (or several, side by side).
      sent: the update, zero where an entry was left out.
      least: size of the smallest entry that was sent (``bounds``).
    """
    beyond = jnp.sign(gradient) * jnp.maximum(jnp.abs(gradient) - least, 0.0)
    return jnp.where(sent != 0, gradient, beyond)


def bounds(sent: PyTree, axis: int = 0) -> PyTree:
    """Size that no entry which was left out exceeds: of each tensor, the smallest that was sent of it.

    Of a tensor of which nothing was sent, the smallest of all: the client took the largest entries of the whole update
    then, not of every tensor.

    Args:
      sent: the update, or several side by side.
      axis: the first axis of a single update's tensors; the axes before are of several, each with bounds of its own.

    Returns:
      Arrays of the same axes, of length 1 from ``axis`` on; 0 where nothing was sent at all.
    """

    def smallest(leaf: Array | np.ndarray) -> Array:
        sizes = jnp.where(jnp.asarray(leaf) != 0, jnp.abs(jnp.asarray(leaf)), jnp.inf)
        return jnp.min(sizes, axis=tuple(range(axis, sizes.ndim)), keepdims=True, initial=jnp.inf)

    each = jax.tree.map(smallest, sent)
    flat = [leaf.reshape(leaf.shape[:axis]) for leaf in jax.tree.leaves(each)]
    whole = jnp.min(jnp.stack(flat), axis=0)
    whole = jnp.where(jnp.isfinite(whole), whole, 0.0)
    return jax.tree.map(lambda leaf: jnp.where(jnp.isfinite(leaf), leaf, _beside(whole, leaf)), each)


def _beside(whole: Array, leaf: Array) -> Array:
    return whole.reshape(whole.shape + (1,) * (leaf.ndim - whole.ndim))


def largest(sizes: Float[Array, " n"], rank: int) -> Float[Array, ""]:
    """The ``rank``-th largest of some numbers that are not negative, exactly.

    Such floats are ordered as their bits are, so the answer's bits are settled one after the other, the highest first,
    by counting: 31 passes for float32. A sort of 90,000 entries takes XLA on a CPU many times as long.
    """
    width = jnp.finfo(sizes.dtype).bits
    bits = jax.lax.bitcast_convert_type(sizes, jnp.dtype(f"uint{width}"))

    def settle(step: Array, found: Array) -> Array:
        tried = found | (jnp.ones((), bits.dtype) << (width - 2 - step).astype(bits.dtype))
        return jnp.where(jnp.sum(bits >= tried) >= rank, tried, found)

    found = jax.lax.fori_loop(0, width - 1, settle, jnp.zeros((), bits.dtype))
    return jax.lax.bitcast_convert_type(found, sizes.dtype)


PRUNE = Kind(
    "prune",
    prune,
    fault=lambda share: None if 0 < share < 1 else "must lie between 0 and 1",
    drops=True,
)
