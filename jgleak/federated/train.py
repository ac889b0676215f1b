"""Ordinary training of the shared model on public graphs: attacks can be tried on weights that are not random."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

import jax
import numpy as np
import optax

from jgleak.features import FeatureSpace
from jgleak.federated.loss import Loss, graph_loss
from jgleak.gnn import GNN, Params
from jgleak.graph import DenseGraph, Graph, GraphBatch

BATCH = 32
"""Graphs of a step."""

RATE = 1e-3
"""Adam's learning rate."""


class TrainedModel(NamedTuple):
    """The parameters, and the mean loss of every epoch."""

    params: Params
    losses: list[float]


def trainable(model: GNN, graphs: Sequence[Graph]) -> list[Graph]:
    """Those that the model can be trained on: graphs that its readout has slots for.

    Raises:
      ValueError: fewer than ``BATCH``.
    """
    slots = model.readout.slots
    graphs = [graph for graph in graphs if slots is None or graph.n <= slots]
    if len(graphs) < BATCH:
        fit = "" if slots is None else f" of at most {slots} nodes, which the readout has slots for,"
        raise ValueError(
            f"train: {len(graphs)} public graphs{fit} are too few, {BATCH} are needed; "
            f"take fewer clients, or leave training out"
        )
    return graphs


def train(
    model: GNN,
    params: Params,
    graphs: Sequence[Graph],
    space: FeatureSpace,
    *,
    loss: str | Loss,
    epochs: int,
    seed: int = 0,
) -> TrainedModel:
    """Adam on batches of the given graphs.

    Args:
      model: the shared model.
      params: where to start.
      graphs: labelled public graphs, at least ``BATCH``.
      space: their feature space.
      loss: a ``Loss``, or its text.
      epochs: passes over the graphs; what does not fill a batch is left out of a pass.
      seed: orders the graphs of every pass.

    Raises:
      ValueError: too few graphs; weights that stop being finite on the way.
    """
    graphs = trainable(model, graphs)
    everything = GraphBatch.from_graphs(graphs, space, slots=model.readout.slots)
    optimizer = optax.adam(RATE)
    state, rng, losses = optimizer.init(params), np.random.default_rng(seed), []
    for _ in range(epochs):
        order = rng.permutation(len(graphs))[: len(graphs) // BATCH * BATCH].reshape(-1, BATCH)
        values = []
        for rows in order:
            batch = jax.tree.map(lambda leaf, rows=rows: leaf[rows], everything)
            params, state, value = _step(model, optimizer, loss, params, state, batch)
            values.append(value)
        losses.append(float(np.mean(jax.device_get(values))))
    if not all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(jax.device_get(params))):
        raise ValueError(f"train: after {epochs} epochs the weights are not finite; take fewer, or look at the labels")
    return TrainedModel(params, losses)


@partial(jax.jit, static_argnames=("model", "optimizer", "loss"))
def _step(
    model: GNN,
    optimizer: optax.GradientTransformation,
    loss: str | Loss,
    params: Params,
    state: optax.OptState,
    batch: GraphBatch,
) -> tuple[Params, optax.OptState, jax.Array]:
    def mean_loss(params: Params) -> jax.Array:
        def one(graph: DenseGraph, label: jax.Array, weights: jax.Array | None) -> jax.Array:
            return graph_loss(model, params, graph, label, loss, weights)

        labels: Any = batch.labels
        return jax.vmap(one)(batch.dense, labels, Loss.of(loss).entry_weights(labels)).mean()

    value, gradient = jax.value_and_grad(mean_loss)(params)
    updates, state = optimizer.update(gradient, state, params)
    return optax.apply_updates(params, updates), state, value
