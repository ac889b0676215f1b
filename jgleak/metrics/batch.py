"""Batches: which reconstruction stands for which of the client's graphs, and how far each is; on the device."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Float, Int

from jgleak.features import FeatureSpace
from jgleak.graph import Graph
from jgleak.metrics.gsm import gsm


class BatchMatch(NamedTuple):
    """The one-to-one matching with the least sum of errors.

    Attributes:
      order: ``order[i]`` is the reconstruction that stands for the truth's item ``i``.
      errors: RNMSE of each such pair (GLG, equation 21).
    """

    order: Int[Array, " B"]
    errors: Float[Array, " B"]


@jax.jit
def match_batch(truth: Float[Array, "B n m"], found: Float[Array, "B n m"]) -> BatchMatch:
    """Match the items of a batch by the RNMSE of their features (GLG, section 5.4).

    An item is a graph's feature matrix, rows in the nodes' order, or one target node's row (``n = 1``). The error of a
    pair is ``||x_v - x̂_v|| / ||x_v||`` averaged over the truth's nodes with ``x_v ≠ 0`` (padding rows are zero).
    """

    def error(x: Array, y: Array) -> Float[Array, ""]:
        norms = jnp.linalg.norm(x, axis=1)
        live = norms > 0
        gaps = jnp.linalg.norm(x - y, axis=1) / jnp.where(live, norms, 1.0)
        return jnp.where(live, gaps, 0.0).sum() / jnp.maximum(live.sum(), 1)

    pairs = jax.lax.map(lambda x: jax.vmap(error, (None, 0))(x, found), truth)
    order = assign(pairs[None])[0]
    return BatchMatch(order, jnp.take_along_axis(pairs, order[:, None], axis=1)[:, 0])


def match_graphs(truths: Sequence[Graph], found: Sequence[Graph], space: FeatureSpace) -> Int[np.ndarray, " B"]:
    """Which reconstruction stands for each of a client's graphs, whatever the order of their nodes.

    As many as possible meet one of their own size, since sizes are often side information; then the sum of GSM-1
    decides. Where fewer were found than there are, some graphs get a number from ``len(found)`` on: nothing stands
    for them.
    """
    size = max(len(truths), len(found))
    gains = np.zeros((size, size), np.float32)
    for i, truth in enumerate(truths):
        gains[i, : len(found)] = [gsm(truth, graph, space).gsm1 + size * (graph.n == truth.n) for graph in found]
    return np.asarray(assign(-gains[None])[0])[: len(truths)]


@jax.jit
def assign(costs: Float[Array, "B N N"]) -> Int[Array, "B N"]:
    """For many square cost matrices the column of every row in the assignment of least total cost."""

    def one(matrix: Float[Array, "N N"]) -> Int[Array, " N"]:
        rows, columns = optax.assignment.hungarian_algorithm(matrix)
        return jnp.zeros(matrix.shape[0], columns.dtype).at[rows].set(columns)

    return jax.vmap(one)(costs)
