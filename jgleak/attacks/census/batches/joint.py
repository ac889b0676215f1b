"""The whole batch's gradient, recomputed from the graphs that were found, and compared for each of them."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import numpy as np

from jgleak.attacks.census.batches.head import HeadGradient
from jgleak.attacks.distance import MATCH, gradient_distances
from jgleak.features import FeatureSpace
from jgleak.federated.client import gradients
from jgleak.federated.fedavg import fedavg
from jgleak.federated.loss import Loss
from jgleak.federated.observation import Observation
from jgleak.gnn import Params
from jgleak.graph import Graph, GraphBatch

TAKEN = 1e-2
"""Largest share of the smallest singular value that may remain after a graph of the batch is subtracted."""


def each_gradient(observation: Observation, space: FeatureSpace, graphs: Sequence[Graph]) -> list[Params]:
    """The part of each of these graphs of the batch in its mean gradient."""
    model = observation.model
    batch = GraphBatch.from_graphs(graphs, space, slots=model.readout.slots)
    each = gradients(model, observation.params, batch, loss=observation.loss)
    leaves, shape = jax.tree.flatten(each)
    shares = [np.asarray(leaf, np.float64) / observation.batch_size for leaf in leaves]
    return [jax.tree.unflatten(shape, [leaf[k] for leaf in shares]) for k in range(len(graphs))]


def distance(observation: Observation, each: Sequence[Params]) -> float:
    """``|g - g*| / |g*|`` of the sum of the parts."""
    off = jax.tree.map(lambda found, seen: found - np.asarray(seen, np.float64), summed(each), observation.update)
    return _length(off) / max(_length(observation.update), 1e-300)


def summed(each: Sequence[Params]) -> Params:
    """The mean gradient of some parts of it."""
    return jax.tree.map(lambda *leaves: sum(leaves), *each)


def retrained(observation: Observation, space: FeatureSpace, graphs: Sequence[Graph]) -> Params:
    """The update of a client that takes its local steps on these graphs, in this order.

    Raises:
      ValueError: its weights diverge.
    """
    local = observation.local
    assert local is not None
    how = dataclasses.replace(local, shuffled=False)
    return fedavg(observation.model, observation.params, graphs, space, loss=observation.loss, local=how).update


def replayed(observation: Observation, space: FeatureSpace, graphs: Sequence[Graph]) -> float:
    """``|u - u*| / |u*|`` of such a client; infinite where its weights diverge, which those of the observed client did
    not."""
    try:
        return distance(observation, [retrained(observation, space, graphs)])
    except ValueError:
        return np.inf


def remaining(observation: Observation, found: Sequence[Params]) -> Observation:
    """The gradient of the other graphs alone: the mean gradient without the parts of those found.

    Where labels may be missing, a label's weight depends on how many the batch has: then only the direction is the
    others'.
    """
    left = observation.batch_size - len(found)

    def one(seen: Any, *parts: Any) -> np.ndarray:
        return (observation.batch_size / left * (np.asarray(seen, np.float64) - sum(parts))).astype(np.float32)

    update: Any = jax.tree.map(one, observation.update, *found)
    scaled = observation.scaled or Loss.of(observation.loss).masked
    marks = {"protocol": "fedsgd", "local": None, "scaled": scaled}
    return dataclasses.replace(observation, update=update, batch_size=left, **marks)


def without(each: Sequence[Params], own: int) -> list[Params]:
    """All parts but one."""
    return [part for place, part in enumerate(each) if place != own]


def fitting(observation: Observation, space: FeatureSpace, graphs: Sequence[Graph]) -> list[float]:
    """The distances of the gradients of several graphs from what ``remaining`` left."""
    return [found for found, _ in gradient_distances(observation, space, graphs)]


class Together(NamedTuple):
    """Lists of graphs of a batch beside its update.

    Attributes:
      furthest: of every list the largest distance of one of its graphs; infinite where nothing can be compared.
      most: what rounding explains.
      text: what was compared, as a message.
    """

    furthest: list[float]
    most: float
    text: str


def together(observation: Observation, space: FeatureSpace, lists: Sequence[Sequence[Graph]]) -> Together:
    """The distances of listed graphs from a batch's update, each together with the first graph of every other list.

    Where graphs of the batch are missing, the distance is the part that remains of the dimension by which a true graph
    lowers the rank of the gradient of the first map behind pooling (``HeadGradient``).
    """
    if observation.local is not None and observation.local.steps > 1:
        return _in_steps(observation, space, lists)
    if len(lists) == observation.batch_size:
        each = each_gradient(observation, space, [graphs[0] for graphs in lists])
        far = distance(observation, each)
        rest = [
            fitting(remaining(observation, without(each, place)), space, graphs) for place, graphs in enumerate(lists)
        ]
        text = f"gradient distance of the batch: {far:.1e}"
        return Together([max(far, *own) for own in rest], MATCH * observation.batch_size, text)
    if observation.model.readout.additive != "pooled" or Loss.of(observation.loss).masked:
        text = "others are missing, and no graph can be checked by itself: nothing was recomputed"
        return Together([np.inf] * len(lists), TAKEN, text)
    head = HeadGradient.of(observation)
    rest = [[_left(head, observation, space, graph) for graph in graphs] for graphs in lists]
    return Together([max(own) for own in rest], TAKEN, "others are missing, so the whole gradient cannot be recomputed")


def _in_steps(observation: Observation, space: FeatureSpace, lists: Sequence[Sequence[Graph]]) -> Together:
    """The same for a client that took several local steps: they are made again, in the order of the lists."""
    if len(lists) != observation.batch_size:
        text = "others are missing, so the local steps cannot be repeated: nothing was recomputed"
        return Together([np.inf] * len(lists), MATCH, text)
    firsts = [graphs[0] for graphs in lists]
    rest = [
        [replayed(observation, space, [*firsts[:place], graph, *firsts[place + 1 :]]) for graph in graphs]
        for place, graphs in enumerate(lists)
    ]
    text = f"distance of the update after the local steps: {replayed(observation, space, firsts):.1e}"
    return Together([max(own) for own in rest], MATCH, text)


def _left(head: HeadGradient, observation: Observation, space: FeatureSpace, graph: Graph) -> float:
    """The smallest singular value of the head's gradient without a graph's part, relative to the one with it."""
    (own,) = each_gradient(observation, space, [graph])
    readout = observation.model.readout
    part = np.asarray(readout.first(observation.model.readout_of(own))["kernel"])
    return float(np.linalg.svd(head.kernel - part, compute_uv=False)[head.rank - 1] / head.values[-1])


def _length(tree: Params) -> float:
    return float(np.sqrt(sum(float(np.sum(np.square(leaf, dtype=np.float64))) for leaf in jax.tree.leaves(tree))))
