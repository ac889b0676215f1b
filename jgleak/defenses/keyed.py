"""Random transformations: every tensor of every update draws from a key of its own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import optax
from jaxtyping import Array


def keyed(one: Callable[[Array, Array], Array], key: Array) -> optax.GradientTransformation:
    """``one(tensor, key)`` on every tensor; the state is the key for the updates to come."""

    def init(params: Any) -> Any:
        return key

    def update(updates: Any, state: Any, params: Any = None) -> tuple[Any, Any]:
        now, later = jax.random.split(state)
        leaves, tree = jax.tree.flatten(updates)
        keys = jax.random.split(now, max(len(leaves), 1))
        changed = [one(jax.numpy.asarray(leaf), own) for leaf, own in zip(leaves, keys, strict=False)]
        return jax.tree.unflatten(tree, changed), later

    return optax.GradientTransformation(init, update)
