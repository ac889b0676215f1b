"""Only entries above a percentile of the whole update leave (NVFlare's ``PercentilePrivacy``)."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import optax
from jax.flatten_util import ravel_pytree

from jgleak.defenses.defense import Kind
from jgleak.defenses.prune import largest


def percentile(percent: float, key: jax.Array) -> optax.GradientTransformation:
    """Sets entries to zero that are smaller than a percentile of the sizes of all entries, of all tensors together.

    As in NVFlare (after Shokri and Shmatikov 2015): the percentile lies between two sizes in proportion, entries
    of just that size stay, and so does a tensor that is a single number without an axis. Its other number, ``gamma``,
    is a bound on every entry: ``percentile:10+clip-inf:0.01``.
    """

    def one(cutoff: jax.Array, leaf: Any) -> Any:
        return leaf if jnp.ndim(leaf) == 0 else jnp.where(jnp.abs(leaf) < cutoff, 0.0, leaf)

    def update(updates: Any, state: Any, params: Any = None) -> tuple[Any, Any]:
        cutoff = _percentile(jnp.abs(ravel_pytree(updates)[0]), percent)
        return jax.tree.map(lambda leaf: one(cutoff, jnp.asarray(leaf)), updates), state

    return optax.GradientTransformation(lambda params: optax.EmptyState(), update)


def _percentile(sizes: jax.Array, percent: float) -> jax.Array:
    place = percent / 100.0 * (sizes.size - 1)
    below = int(place)
    under, over = (largest(sizes, sizes.size - min(rank, sizes.size - 1)) for rank in (below, below + 1))
    return under + (over - under) * (place - below)


PERCENTILE = Kind(
    "percentile",
    percentile,
    fault=lambda percent: None if 0 < percent < 100 else "must lie between 0 and 100",
    drops=True,
)
