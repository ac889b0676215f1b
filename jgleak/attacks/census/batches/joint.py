"""The whole batch's gradient, recomputed from the graphs that were found, and what it says of each of them."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import jax
import numpy as np

from jgleak.attacks.distance import gradient_distances
from jgleak.features import FeatureSpace
from jgleak.federated.client import gradients
from jgleak.federated.observation import Observation
from jgleak.gnn import Params
from jgleak.graph import Graph, GraphBatch


def each_gradient(observation: Observation, space: FeatureSpace, graphs: Sequence[Graph]) -> list[Params]:
    """Of every graph of a batch its part of the mean gradient."""
    model = observation.model
    batch = GraphBatch.from_graphs(graphs, space, slots=model.readout.slots)
    each = gradients(model, observation.params, batch, loss=observation.loss)
    leaves, shape = jax.tree.flatten(each)
    shares = [np.asarray(leaf, np.float64) / len(graphs) for leaf in leaves]
    return [jax.tree.unflatten(shape, [leaf[k] for leaf in shares]) for k in range(len(graphs))]


def distance(observation: Observation, each: Sequence[Params]) -> float:
    """``|g - g*| / |g*|`` of the sum of the parts."""
    total: Any = jax.tree.map(lambda *leaves: sum(leaves), *each)
    off = jax.tree.map(lambda found, seen: found - np.asarray(seen, np.float64), total, observation.update)
    return _length(off) / max(_length(observation.update), 1e-300)


def remaining(observation: Observation, each: Sequence[Params], own: int) -> Observation:
    """The update of a client with one graph alone: what the others leave of the batch's."""
    others = [part for place, part in enumerate(each) if place != own]

    def left(seen: Any, *parts: Any) -> np.ndarray:
        return (len(each) * (np.asarray(seen, np.float64) - sum(parts))).astype(np.float32)

    update: Any = jax.tree.map(left, observation.update, *others)
    return dataclasses.replace(observation, update=update, batch_size=1)


def fitting(observation: Observation, space: FeatureSpace, graphs: Sequence[Graph]) -> list[float]:
    """The distances of the gradients of several graphs from what ``remaining`` left."""
    return [found for found, _ in gradient_distances(observation, space, graphs)]


def _length(tree: Params) -> float:
    return float(np.sqrt(sum(float(np.sum(np.square(leaf, dtype=np.float64))) for leaf in jax.tree.leaves(tree))))
