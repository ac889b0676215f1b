"""Gradients in factors, and local steps on them, are those that clients form."""

from __future__ import annotations

import dataclasses
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from models import some_params

from jgleak.federated import LocalTraining, fedavg
from jgleak.federated.factored_descent import factored_descent
from jgleak.federated.factors import Outer, factored_gradients
from jgleak.federated.loss import Loss, graph_loss
from jgleak.gnn import GNN, MLP, GCNConv, Layer, NodeScores, Pooled
from jgleak.graph import GraphBatch

NAN = np.nan


def of(found: Any, number: int) -> Any:
    """One gradient of every leaf, multiplied out."""
    return jax.tree.map(
        lambda leaf: leaf.rows.T @ leaf.slopes[number] if isinstance(leaf, Outer) else leaf[number],
        found,
        is_leaf=lambda leaf: isinstance(leaf, Outer),
    )


def assert_near(found: Any, wanted: Any) -> None:
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-4, atol=2e-6), found, wanted)


def model_of(world: Any, level: str) -> GNN:
    """With dropout, and no activation that hides its masks; labels are three tasks, or three classes of nodes."""
    layer = Layer(GCNConv(3, bias=True), "tanh", dropout=0.5)
    return GNN(world.space.width, (layer,), NodeScores(3) if level == "nodes" else Pooled("mean", MLP((4, 3))))


def batch_of(world: Any, level: str) -> GraphBatch:
    rows = np.array([[[1.0, NAN, 0.0]], [[NAN, NAN, 1.0]]])
    graphs = [world.graph(n, n, node_labels=level == "nodes", classes=3) for n in (3, 5)]
    if level == "tasks":
        graphs = [dataclasses.replace(graph, y=row) for graph, row in zip(graphs, rows, strict=True)]
    return GraphBatch.from_graphs(graphs, world.space)


@pytest.mark.parametrize("level", ["tasks", "nodes"])
def test_gradients_in_factors_are_those_of_every_loss(level: str, world: Any) -> None:
    """One loss of all graphs, or two weightings of their nodes; as the mean over two draws of masks."""
    model, batch, loss = model_of(world, level), batch_of(world, level), "ce" if level == "nodes" else "masked_bce"
    params, keys = some_params(model), jax.random.split(jax.random.key(1), 2)
    counts = np.random.default_rng(0).random((2 if level == "nodes" else 1, *batch.node_mask.shape)).astype(np.float32)
    shares = jnp.asarray(np.where(batch.node_mask, counts, 0.0))
    labels: Any = jnp.asarray(batch.labels)
    entries = Loss.of(loss).entry_weights(labels)
    own = jnp.stack([jax.random.split(key, 2) for key in keys])

    @partial(jax.vmap, in_axes=(None, 0, 0, 0, 0))
    def of_graphs(params: Any, graph: Any, label: Any, counted: Any, masks: Any) -> Any:
        return graph_loss(model, params, graph, label, loss, counted, masks=masks)

    def whole(params: Any, share: Any) -> Any:
        """Draw by draw: the sum over nodes of all graphs, or the mean over graphs."""
        counted = share if entries is None else entries
        each = jax.vmap(lambda masks: of_graphs(params, batch.dense, labels, counted, masks))(own)
        return each.mean(axis=0).sum() / (1 if level == "nodes" else 2)

    @jax.jit
    def both(params: Any) -> Any:
        found = factored_gradients(model, params, batch.dense, labels, loss, shares, keys)
        return found, jax.vmap(jax.grad(whole), in_axes=(None, 0))(params, shares)

    found, wanted = both(params)
    kernel, height = found["layers_0"]["conv"]["kernel"], 2 * batch.node_mask.size
    assert isinstance(kernel, Outer) and kernel.rows.shape == (height, world.space.width)
    assert kernel.slopes.shape == (len(shares), height, model.layers[0].features)
    for number in range(len(shares)):
        assert_near(of(found, number), jax.tree.map(lambda leaf, i=number: leaf[i], wanted))


def test_steps_in_factors_are_a_client_s(world: Any) -> None:
    """With momentum and decay, so that every step counts otherwise; what is frozen stays."""
    frozen = ("readout/mlp/linears_1",)
    model = GNN(world.space.width, (Layer(GCNConv(4, bias=True), "tanh"),), Pooled("mean", MLP((3, 2))), frozen=frozen)
    params, graphs = some_params(model), [world.graph(n, n) for n in (3, 5)]
    local = LocalTraining(0.3, 3, 0.9, 0.1)
    sent = fedavg(model, params, graphs, world.space, loss="ce", local=local).update
    batch = GraphBatch.from_graphs(graphs, world.space)
    shares = jnp.zeros((1, *batch.node_mask.shape))
    found = jax.jit(partial(factored_descent, model, loss="ce"))(
        params, batch.dense, batch.labels, shares=shares, how=local.descent
    )
    kernel = found["layers_0"]["conv"]["kernel"]
    assert isinstance(kernel, Outer) and kernel.rows.shape[0] == 3 * batch.node_mask.size
    assert kernel.slopes.shape == (1, 3 * batch.node_mask.size, 4)
    assert_near(model.trained(of(found, 0)), sent)
