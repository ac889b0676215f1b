"""How far a candidate graph's gradient is from the observed one, over all labels it could have."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Num

from jgleak.features import FeatureSpace
from jgleak.federated.loss import graph_loss
from jgleak.federated.observation import Observation
from jgleak.gnn import GNN, Params
from jgleak.graph import Graph, GraphBatch

Label = int | float | np.ndarray | None


def gradient_distances(
    observation: Observation, space: FeatureSpace, graphs: Sequence[Graph]
) -> list[tuple[float, Label]]:
    """For each graph the smallest relative gradient distance over its possible labels, and that label.

    The distance is ``|g - g*| / |g*|`` in the Frobenius norm over all parameters (GRAIN, section 5.4). Graph
    classification tries every class; regression and node tasks solve for the label that the observed output gradient
    implies, and compare with that one.
    """
    return [_distance(observation, space, graph) for graph in graphs]


def _distance(observation: Observation, space: FeatureSpace, graph: Graph) -> tuple[float, Label]:
    model, loss = observation.model, observation.loss
    batch = GraphBatch.from_graphs([Graph(graph.x, graph.edges)], space)
    one = (batch.nodes[0], batch.adjacency[0], batch.node_mask[0])
    if model.node_level:
        labels = _node_labels(observation, *one)
        padded = np.zeros((1, batch.node_mask.shape[1]), np.int32)
        padded[0, : graph.n] = labels[: graph.n]
        values = _distances(model, observation.params, observation.update, *one, jnp.asarray(padded), loss)
        return float(values[0]), labels[: graph.n]
    if loss == "mse":
        target = float(_target(model, observation.params, observation.update, *one))
        values = _distances(model, observation.params, observation.update, *one, jnp.asarray([target]), loss)
        return float(values[0]), target
    classes = jnp.arange(model.classes)
    values = np.asarray(_distances(model, observation.params, observation.update, *one, classes, loss))
    best = int(values.argmin())
    return float(values[best]), best


@partial(jax.jit, static_argnames=("model", "loss"))
def _distances(
    model: GNN,
    params: Params,
    update: Params,
    nodes: Float[Array, "N m"],
    adjacency: Float[Array, "N N"],
    mask: Array,
    labels: Num[Array, "K ..."],
    loss: str,
) -> Float[Array, " K"]:
    def one(label: Array) -> Array:
        gradient = jax.grad(lambda p: graph_loss(model, p, nodes, adjacency, mask, label, loss))(params)
        gap = jax.tree.map(lambda g, seen: jnp.sum((g - seen) ** 2), gradient, update)
        size = jax.tree.map(lambda seen: jnp.sum(jnp.asarray(seen) ** 2), update)
        return jnp.sqrt(sum(jax.tree.leaves(gap)) / jnp.maximum(sum(jax.tree.leaves(size)), 1e-30))

    return jax.lax.map(one, labels)


@partial(jax.jit, static_argnames=("model",))
def _target(model: GNN, params: Params, update: Params, nodes: Array, adjacency: Array, mask: Array) -> Array:
    """Regression target: the gradient is ``2 (output - y)`` times the output's own gradient."""
    output, gradient = jax.value_and_grad(lambda p: model.apply({"params": p}, nodes, adjacency, mask)[0])(params)
    inner = sum(jax.tree.leaves(jax.tree.map(lambda g, seen: jnp.sum(g * seen), gradient, update)))
    square = sum(jax.tree.leaves(jax.tree.map(lambda g: jnp.sum(g * g), gradient)))
    return output - 0.5 * inner / jnp.maximum(square, 1e-30)


def _node_labels(observation: Observation, nodes: Array, adjacency: Array, mask: Array) -> np.ndarray:
    """Most plausible class of every node slot, from the last linear layer's gradient.

    That gradient is ``[a | 1]^T D`` with ``a`` the nodes' last hidden states and ``D`` their output gradients, so ``D``
    solves a small least-squares problem, and ``D = (probability - onehot) / (n C)`` shows the class. Nodes with equal
    hidden states can only share their labels' counts among them; rounding gives each count to someone.
    """
    model = observation.model
    hidden, probabilities = _last_hidden(model, observation.params, nodes, adjacency, mask, observation.loss)
    real = np.asarray(mask)
    hidden, probabilities = np.asarray(hidden, np.float64)[real], np.asarray(probabilities, np.float64)[real]
    scale = real.sum() * (model.classes if observation.loss == "bce" else 1)
    states, place, count = np.unique(hidden.round(6), axis=0, return_inverse=True, return_counts=True)
    last = observation.update["head"][f"linears_{len(model.readout_widths)}"]
    wanted = np.r_[np.asarray(last["kernel"], np.float64), np.asarray(last["bias"], np.float64)[None]] * scale
    design = np.c_[states, np.ones(states.shape[0])].T
    sums = np.linalg.lstsq(design, wanted, rcond=None)[0]
    probability = np.zeros_like(sums)
    np.add.at(probability, place, probabilities)
    votes = probability - sums
    labels = np.zeros(real.size, np.int32)
    for group in range(states.shape[0]):
        members = np.flatnonzero(place == group)
        labels[np.flatnonzero(real)[members]] = np.repeat(np.arange(model.classes), _share(votes[group], count[group]))
    return labels


def _share(votes: Float[np.ndarray, " C"], count: int) -> np.ndarray:
    """Whole numbers summing to ``count`` nearest to ``votes`` (largest remainders)."""
    floor = np.clip(np.floor(votes + 1e-6), 0, count).astype(int)
    while floor.sum() > count:
        floor[floor.argmax()] -= 1
    for place in np.argsort(floor - votes)[: count - floor.sum()]:
        floor[place] += 1
    floor[votes.argmax()] += count - floor.sum()
    return floor


@partial(jax.jit, static_argnames=("model", "loss"))
def _last_hidden(
    model: GNN, params: Params, nodes: Array, adjacency: Array, mask: Array, loss: str
) -> tuple[Float[Array, "N h"], Float[Array, "N C"]]:
    apply: Any = model.apply
    states = apply({"params": params}, nodes, adjacency, mask, method="states")[-1]
    hidden, logits = apply({"params": params}, nodes, states, method="node_hidden")
    return hidden, jax.nn.sigmoid(logits) if loss == "bce" else jax.nn.softmax(logits)
