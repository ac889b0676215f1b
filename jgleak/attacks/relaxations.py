"""From free variables to a relaxed graph, differentiably."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from jgleak.features import FeatureSpace


class Group(NamedTuple):
    """The encoded columns of one feature."""

    start: int
    columns: int
    kind: str


def groups(space: FeatureSpace) -> tuple[Group, ...]:
    """The columns of every feature; relaxed, a column of listed numbers is a real one."""
    pairs = zip(space.features, space.offsets, strict=True)
    return tuple(Group(s, f.columns, "real" if f.kind == "number" else f.kind) for f, s in pairs)


def symmetric(values: Float[Array, "... N N"], mask: Bool[Array | np.ndarray, "... N"]) -> Float[Array, "... N N"]:
    """``(A + Aᵀ) / 2`` with zero diagonal, and zero where a node is padding (FedGIG, equation 3)."""
    average = (values + jnp.swapaxes(values, -1, -2)) / 2
    return jnp.where(pairs(mask), average, 0.0)


def pairs(mask: Bool[Array | np.ndarray, "... N"]) -> Bool[Array | np.ndarray, "... N N"]:
    """The pairs of two different real nodes."""
    different = ~jnp.eye(mask.shape[-1], dtype=bool)
    return mask[..., :, None] & mask[..., None, :] & different


def sigmoid_edges(values: Float[Array, "... N N"], mask: Bool[Array | np.ndarray, "... N"]) -> Float[Array, "... N N"]:
    """Edge probabilities ``sigmoid((A + Aᵀ) / 2)`` of the real pairs."""
    return jnp.where(pairs(mask), jax.nn.sigmoid(symmetric(values, mask)), 0.0)


def straight_through(hard: Float[Array, "..."], soft: Float[Array, "..."]) -> Float[Array, "..."]:
    """``hard`` going forward, the derivative of ``soft`` going backward."""
    return soft + jax.lax.stop_gradient(hard - soft)


def sparsest(edges: Float[Array, "... N N"], most: Float[Array, ""], threshold: float = 0.5) -> Float[Array, "... N N"]:
    """0/1 edges: of every row the ``most`` largest entries, as far as they reach ``threshold`` (FedGIG, eq. 4 to 6).

    An edge stays if either end keeps it. ``most`` may be a traced, fractional number; it is rounded to the nearest.
    The derivative is that of ``edges`` (straight-through).
    """
    rank = jnp.argsort(jnp.argsort(-edges))
    kept = (rank < jnp.round(most)) & (edges >= threshold)
    kept = kept | jnp.swapaxes(kept, -1, -2)
    return straight_through(kept.astype(edges.dtype), edges)


def softmax_features(values: Float[Array, "... m"], groups: tuple[Group, ...]) -> Float[Array, "... m"]:
    """Raw columns: a distribution over the values of every one-hot feature, a sigmoid for binaries, reals as they are.

    TabLeak's structured softmax: every relaxed row is a mixture of rows that exist. Neighbouring features of one kind
    and width are mapped together: networks have thousands, and XLA's time for a program grows faster than its length.
    """
    parts, start = [], 0
    for (kind, width), alike in itertools.groupby(groups, key=lambda group: (group.kind, group.columns)):
        count = len(list(alike))
        columns = values[..., start : start + count * width]
        map_: Callable[[Array], Array] = {"onehot": jax.nn.softmax, "binary": jax.nn.sigmoid}.get(kind, _same)
        parts.append(map_(columns.reshape(*columns.shape[:-1], count, width)).reshape(columns.shape))
        start += count * width
    return jnp.concatenate(parts, axis=-1)


def encode(
    raw: Float[Array, "... m"],
    mean: Float[Array | np.ndarray, " m"],
    scale: Float[Array | np.ndarray, " m"],
    mask: Bool[Array | np.ndarray, "..."],
) -> Float[Array, "... m"]:
    """Raw columns to the model's input; padding rows are zero."""
    return jnp.where(mask[..., None], (raw - mean) * scale, 0.0)


def clip_edges(values: Float[Array, "... N N"], mask: Bool[Array | np.ndarray, "... N"]) -> Float[Array, "... N N"]:
    """Projection onto symmetric matrices with entries in [0, 1] and zero diagonal (GLG, equation 15)."""
    return jnp.clip(symmetric(values, mask), 0.0, 1.0)


def _same(values: Array) -> Array:
    return values
