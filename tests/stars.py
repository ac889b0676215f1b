"""Edges of several classes, and what layers make of a node and its neighbours along them."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array


def classes_of(module: Any) -> int:
    """Number of edge classes that a model, a layer or a convolution tells apart."""
    return getattr(getattr(module, "conv", module), "edge_classes", 0)


def by_class(adjacency: Array, classes: int) -> Array:
    """The adjacency taken apart by classes that nodes' places decide ``(N, N, K)``; as it is for none."""
    if not classes:
        return adjacency
    places = np.arange(len(adjacency))
    return adjacency[..., None] * jnp.asarray(
        np.eye(classes, dtype=adjacency.dtype)[np.add.outer(places, places) % classes]
    )


def stars(part: Any, weights: Any, rows: Array, adjacency: Array) -> tuple[Array, Array, Array, Array]:
    """What a layer or a convolution makes stars of: every row as seen along an edge of every class, the same projected,
    degrees, and who is whose neighbour along which class ``(N, N K)``; a node's own place is its first."""
    number = max(1, classes_of(part))
    along = jnp.tile(jnp.arange(number), len(rows))
    sent = part.apply({"params": weights}, jnp.repeat(rows, number, axis=0), along, method="sent")
    projected = part.apply({"params": weights}, sent, method="project")
    flat = adjacency.reshape(len(rows), -1)
    return sent, projected, jnp.repeat(flat.sum(axis=1), number), flat
