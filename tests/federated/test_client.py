"""Client gradients: batches, node order, padding, compilation, and the checks before them."""

from __future__ import annotations

from functools import partial
from inspect import unwrap
from typing import Any

import chex
import jax
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from models import some_params

from jgleak.defenses import parse
from jgleak.federated import LocalTraining, client, fedavg
from jgleak.federated.client import (
    check_client,
    client_keys,
    fedsgd,
    gradients,
    mask_key,
    node_gradients,
    target_gradient,
)
from jgleak.federated.loss import graph_loss
from jgleak.gnn import GNN, BatchNorm, Flattened, GCNConv, Layer, NodeScores, Pooled
from jgleak.graph import Graph, GraphBatch

INVARIANT: dict[str, dict[str, Any]] = {
    "gcn, node_mlp": {"conv": "gcn", "readout": "node_mlp"},
    "gat, mean": {"conv": "gat", "readout": "pooled", "act": "gelu"},
    "sage, sum": {"conv": "sage", "readout": "pooled", "pooling": "sum", "readout_widths": ()},
    "gin, max": {"conv": "gin", "readout": "pooled", "pooling": "max", "readout_widths": (), "act": "tanh"},
    "gat, per node": {"conv": "gat", "readout": "node_mlp", "per_node": True, "act": "sigmoid"},
    "gcn, node_scores": {"conv": "gcn", "readout": "node_scores", "bias": True},
}


def assert_trees_close(a: Any, b: Any, rtol: float = 1e-4) -> None:
    """Leaf by leaf, relative to the largest entry of the whole gradient."""
    scale = max(float(np.abs(leaf).max()) for leaf in jax.tree.leaves(b))
    jax.tree.map(lambda p, q: np.testing.assert_allclose(p, q, rtol=0, atol=rtol * scale + 1e-7), a, b)


@pytest.fixture(scope="module", params=INVARIANT)
def setting(request: pytest.FixtureRequest, world: Any) -> tuple[Any, Any, str, bool]:
    model = world.model(**INVARIANT[request.param])
    return model, world.params(model), "ce" if "scores" in request.param else "bce", model.node_level


@given(n=st.integers(1, 8), seed=st.integers(0, 2**16))
@settings(max_examples=15, deadline=None)
def test_node_order_leaves_gradients_unchanged(setting: Any, world: Any, n: int, seed: int) -> None:
    model, params, loss, node_labels = setting
    g = world.graph(n, seed, node_labels=node_labels)
    moved = g.permute(np.random.default_rng(seed).permutation(n))
    both = jax.tree.map(
        np.asarray, gradients(model, params, GraphBatch.from_graphs([g, moved], world.space), loss=loss)
    )
    assert_trees_close(jax.tree.map(lambda leaf: leaf[1], both), jax.tree.map(lambda leaf: leaf[0], both))


def test_fedsgd_sends_the_mean_gradient(setting: Any, world: Any) -> None:
    """Two graphs have the mean of what each alone would send; one graph twice sends what it sends alone."""
    model, params, loss, node_labels = setting
    graphs = [world.graph(n, 7, node_labels=node_labels) for n in (3, 8)]
    sent = fedsgd(model, params, graphs, world.space, loss=loss)
    assert sent.batch_size == 2 and sent.protocol == "fedsgd" and sent.loss == loss and sent.params is params
    alone = [fedsgd(model, params, [g], world.space, loss=loss).update for g in graphs]
    assert_trees_close(sent.update, jax.tree.map(lambda *leaves: np.mean(leaves, axis=0), *alone), rtol=1e-5)
    twice = fedsgd(model, params, [graphs[1], graphs[1]], world.space, loss=loss).update
    assert_trees_close(twice, alone[1], rtol=1e-5)


@pytest.mark.parametrize("name", ["gcn, node_mlp", "gat, per node", "gin, max"])
def test_padding_leaves_gradients_unchanged(name: str, world: Any) -> None:
    model = world.model(**INVARIANT[name])
    params, pair = world.params(model), [world.graph(n, 5, node_labels=model.node_level) for n in (4, 7)]
    near, far = (
        gradients(model, params, GraphBatch.from_graphs(pair, world.space, slots=s), loss="bce") for s in (8, 16)
    )
    assert_trees_close(far, near)


@pytest.mark.parametrize("name", ["gcn, node_mlp", "gcn, node_scores"])
def test_a_batch_s_gradients_are_those_of_a_loop(name: str, world: Any) -> None:
    model, loss = world.model(**INVARIANT[name]), "ce" if "scores" in name else "bce"
    params, graphs = world.params(model), [world.graph(n, 7, node_labels=model.node_level) for n in (3, 8)]
    together = gradients(model, params, GraphBatch.from_graphs(graphs, world.space), loss=loss)
    alone = [gradients(model, params, GraphBatch.from_graphs([g], world.space), loss=loss) for g in graphs]
    assert_trees_close(together, jax.tree.map(lambda *leaves: np.concatenate(leaves), *alone), rtol=1e-5)


def test_graphs_of_one_bucket_share_a_compilation(world: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    # No other test has this width: what it compiled would not be traced again.
    fields = {"hidden": 17, "readout": "pooled", "readout_widths": ()}
    params = world.params(world.model(**fields))
    monkeypatch.setattr(client, "graph_loss", chex.assert_max_traces(client.graph_loss, n=1))
    for n in (1, 3, 8):
        fedsgd(world.model(**fields), params, [world.graph(n, 0)], world.space, loss="bce")
    on_device = jax.tree.map(jax.numpy.asarray, params)
    fedsgd(world.model(**fields), on_device, [world.graph(5, 1)], world.fitted(), loss="bce")
    with pytest.raises(AssertionError, match="traced"):
        fedsgd(world.model(**fields), params, [world.graph(9, 0)], world.space, loss="bce")


@pytest.mark.parametrize(
    ("fields", "label", "loss", "message"),
    [
        ({}, 0, "hinge", "loss: unknown 'hinge'; choose one of"),
        ({"in_features": 7}, 0, "bce", "model: takes 7 features a node, but the feature space has 13"),
        ({}, None, "bce", "graphs: aspirin has no label y"),
        ({}, np.zeros(4, int), "bce", "graphs: aspirin needs one graph label"),
        ({"readout": "node_scores"}, 1, "ce", r"graphs: aspirin needs node labels \(n,\)"),
        ({}, 2, "bce", r"graphs: a label of aspirin is not a class 0\.\.1"),
        ({}, -1, "ce", r"is not a class 0\.\.1"),
        ({}, 0.5, "ce", r"is not a class 0\.\.1"),
        ({"readout": "node_scores"}, np.array([0, 1, 2, 0]), "ce", r"is not a class 0\.\.1"),
        ({}, 0.5, "mse", "'mse' is the squared error of one output, this model has 2 outputs"),
        (
            {},
            np.array([[0.0, np.nan]]),
            "bce",
            r"needs one graph label .* and has a row of task labels \(1, T\); of sev",
        ),
        (
            {},
            1,
            "masked_bce",
            r"needs a row of task labels \(1, T\) for this model's readout and the loss 'masked_bce'",
        ),
        ({}, np.zeros(4, int), "masked_bce", r"needs a row of task labels .* and has node labels \(n,\)"),
        ({}, np.array([[0.0, 1.0, 1.0]]), "masked_bce", "has labels of 3 tasks, this model has 2 outputs"),
        ({}, np.array([[np.nan, np.nan]]), "masked_bce", "every label of aspirin is missing, so it has no gradient"),
        ({}, np.array([[0.5, np.nan]]), "masked_bce", r"a label of aspirin is not 0, 1 or NaN \(missing\)"),
        ({"readout": "node_scores"}, np.array([[0.0, 1.0]]), "masked_bce", "but this model labels nodes"),
        (
            {},
            np.array([[0.0, 1.0]]),
            "masked_bce+pos_weight:1,2,3",
            "3 entries of pos_weight, this model has 2 outputs",
        ),
        ({"readout": "dot"}, np.zeros(4, int), "ce", "the readout 'dot' predicts ratings; use 'mse'"),
        ({"readout": "dot"}, 1.0, "mse", r"aspirin needs node labels \(n,\) .* has one graph label$"),
    ],
)
def test_a_client_s_mistake_is_explained(world: Any, fields: Any, label: Any, loss: str, message: str) -> None:
    g = world.graph(4, 0)
    with pytest.raises(ValueError, match=message):
        fedsgd(world.model(**fields), {}, [Graph(g.x, g.edges, label, "aspirin")], world.space, loss=loss)


def test_a_client_needs_a_graph(world: Any) -> None:
    with pytest.raises(ValueError, match="graphs: expected a sequence of graphs, got one"):
        unwrap(check_client)(world.model(), world.graph(4, 0), world.space, "bce")
    with pytest.raises(ValueError, match="graphs: a client needs at least one graph"):
        fedsgd(world.model(), {}, [], world.space, loss="bce")


def test_a_diverged_client_is_noticed(world: Any) -> None:
    model = world.model(readout="pooled", readout_widths=(), hidden=3)
    params = jax.tree.map(lambda w: w + np.float32(np.inf), world.params(model))
    with pytest.raises(ValueError, match="holds NaN or infinite values; check the client's loss and parameters"):
        fedsgd(model, params, [world.graph(5, 1)], world.space, loss="bce")


def test_no_defence_touches_running_statistics(world: Any) -> None:
    """They are no part of a gradient: noise on them would be noise on nothing, and would move them in training."""
    model = GNN(world.space.width, (Layer(GCNConv(5), norm=BatchNorm()),), Pooled())
    params, graph = some_params(model), world.graph(5, seed=1)
    shared: dict[str, Any] = {"loss": "bce", "defense": parse("gaussian:0.1"), "key": jax.random.key(1)}
    local = LocalTraining(rate=0.1, steps=2)
    for seen in (
        fedsgd(model, params, [graph], world.space, **shared),
        fedavg(model, params, [graph], world.space, local=local, **shared),
    ):
        norm = seen.update["layers_0"]["norm"]
        assert not norm["mean"].any() and not norm["variance"].any() and norm["scale"].all() and norm["bias"].all()


def test_labels_of_a_regression_are_any_numbers(world: Any) -> None:
    g = world.graph(4, 0)
    one, ratings = world.model(classes=1), world.model(readout="dot")
    check_client(one, [Graph(g.x, g.edges, 0.5)], world.space, "mse")
    check_client(ratings, [Graph(g.x, g.edges, np.array([0.5, -3.0, 2.0, 7.0]))], world.space, "mse")
    check_client(world.model(), [Graph(g.x, g.edges, np.array([[0.5, np.nan]]))], world.space, "masked_mse")
    with pytest.raises(ValueError, match=r"a label of a graph is not a class 0\.\.1"):
        check_client(world.model(), [Graph(g.x, g.edges, 2)], world.space, "ce")


def test_statistics_of_two_nodes_are_enough(world: Any) -> None:
    model = GNN(world.space.width, (Layer(GCNConv(5), norm=BatchNorm(training=True)),), Pooled())
    check_client(model, [world.graph(2, seed=1)], world.space, "bce")


def test_what_is_drawn_needs_a_key(world: Any) -> None:
    """One inside the forward pass and one for what leaves, each where something draws from it."""
    plain, dropping = world.model(), GNN(world.space.width, (Layer(GCNConv(4), dropout=0.5),), Pooled())
    key, noise, states = jax.random.key(0), parse("gaussian:1"), parse("activations:1")
    for model, defense, drawn, words in (
        (plain, parse(""), (False, False), ""),
        (plain, noise, (False, True), "key: the defence gaussian:1.0 is applied under a key"),
        (plain, states, (True, True), "key: the defence activations:1.0 is applied under a key"),
        (dropping, parse(""), (True, False), "key: the masks of dropout are drawn under a key"),
        (dropping, noise, (True, True), "key: the defence gaussian:1.0 is applied under a key"),
    ):
        found = client_keys(model, defense, key)
        assert tuple(one is not None for one in found) == drawn
        if words:
            with pytest.raises(ValueError, match=words):
                client_keys(model, defense, None)
        else:
            assert client_keys(model, defense, None) == (None, None)
    first, second = client_keys(dropping, noise, key)
    assert first is not None and second is not None and first != second


def test_every_graph_has_masks_of_its_own(world: Any) -> None:
    """Those of the key's first half; without a key, none. The readout has slots for six nodes."""
    layer, free = (Layer(GCNConv(4), "tanh", dropout=rate) for rate in (0.5, 0.0))
    model, plain = (GNN(world.space.width, (one,), Flattened(6, 2)) for one in (layer, free))
    params, graphs, key = some_params(model), [world.graph(n, 0) for n in (4, 5)], jax.random.key(2)
    batch = GraphBatch.from_graphs(graphs, world.space, slots=6)
    keys = jax.vmap(mask_key)(jax.random.split(jax.random.split(key)[0], 2))

    @jax.jit
    def mean(params: Any) -> Any:
        def whole(params: Any) -> Any:
            each: Any = jax.vmap(partial(graph_loss, model, params, loss="bce"))
            return each(batch.dense, batch.labels, masks=keys).mean()

        return jax.grad(whole)(params)

    sent = fedsgd(model, params, graphs, world.space, loss="bce", key=key).update
    assert_trees_close(sent, mean(params), rtol=1e-5)
    still, bare = (gradients(one, params, batch, loss="bce") for one in (model, plain))
    assert_trees_close(still, bare, rtol=1e-6)


def test_gradients_of_single_nodes_have_the_mean_of_all(world: Any) -> None:
    model, graphs = world.model(**INVARIANT["gcn, node_scores"]), [world.graph(n, 7, node_labels=True) for n in (3, 8)]
    params = world.params(model)
    each = [node_gradients(model, params, graph, world.space, loss="ce") for graph in graphs]
    assert [one.gradients for one in each] == [3, 8] and {one.protocol for one in each} == {"node_losses"}
    whole = fedsgd(model, params, graphs, world.space, loss="ce").update
    means = [jax.tree.map(lambda leaf: leaf.mean(axis=0), one.update) for one in each]
    assert_trees_close(jax.tree.map(lambda a, b: (a + b) / 2, *means), whole, rtol=1e-5)
    target = target_gradient(model, params, graphs, world.space, loss="ce")
    assert (target.batch_size, target.protocol, target.loss) == (2, "target_node", "ce")
    wanted = jax.tree.map(lambda a, b: (a[0] + b[0]) / 2, *(one.update for one in each))
    assert_trees_close(target.update, wanted, rtol=1e-5)


def test_single_nodes_without_a_loss_of_their_own_are_refused(world: Any) -> None:
    dropping = GNN(world.space.width, (Layer(GCNConv(2), dropout=0.5),), NodeScores(2))
    for model, words in (
        (world.model(), "it labels graphs, so a node has no loss"),
        (dropping, "are taken without dropout"),
        (world.model(readout="node_scores"), "a graph has no label y"),
    ):
        graph = world.graph(4, 0, node_labels=model.node_level)
        graph = Graph(graph.x, graph.edges) if "no label" in words else graph
        with pytest.raises(ValueError, match=words):
            node_gradients(model, {}, graph, world.space, loss="ce")
