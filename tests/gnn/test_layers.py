"""Every part around a convolution: dense against rooted, permutation, padding, and the rows that its maps show.

Convolutions, norms and residuals come from the registries, with their defaults; what a part has beside them takes a row
of ``LAYERS``. Encoders and jumping knowledge take a row of ``MODELS``.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from stars import by_class, classes_of, stars

from jgleak.gnn import (
    GNN,
    MLP,
    AddedRow,
    BatchNorm,
    GATConv,
    GCNConv,
    GINConv,
    GraphConv,
    GraphNorm,
    Layer,
    LayerNorm,
    LinearEncoder,
    LinearResidual,
    NodeMLP,
    Pooled,
    SAGEConv,
)
from jgleak.gnn.jump import JUMPS
from jgleak.gnn.layer import View
from jgleak.gnn.registry import CONVOLUTIONS, ENCODERS, NORMS, RESIDUALS

NODES, SLOTS, WIDTH = 6, 8, 3
SOME = np.array([3, 0, 2])

LAYERS: dict[str, Layer] = {
    **{kind: Layer(conv(4, bias=True), "tanh") for kind, conv in CONVOLUTIONS.items()},
    **{f"norm {kind}": Layer(GCNConv(4), norm=norm()) for kind, norm in NORMS.items() if norm().of_nodes == "one"},
    **{f"residual {kind}": Layer(GCNConv(WIDTH), residual=residual()) for kind, residual in RESIDUALS.items()},
    "gin, epsilon": Layer(GINConv(4, epsilon=0.3)),
    "gin, wide, linear residual": Layer(GINConv(4, inner="tanh", widths=(6,)), residual=LinearResidual()),
    "gin, narrow, ends active": Layer(GINConv(6, widths=(3,), ends_active=True), "identity", norm=BatchNorm()),
    "gin, three maps, norms": Layer(
        GINConv(WIDTH, bias=True, inner="tanh", widths=(5, 4), norm=BatchNorm()), residual=AddedRow()
    ),
    "gin, layer norm inside": Layer(GINConv(4, widths=(5,), norm=LayerNorm())),
    "sage, sums": Layer(SAGEConv(4, aggregation="sum")),
    "graph, means": Layer(GraphConv(4, aggregation="mean")),
    "gcn, no loops": Layer(GCNConv(4, self_loops=False), "tanh"),
    "gcn, sums": Layer(GCNConv(4, normalise=False), "tanh"),
    "gcn, batch norm": Layer(GCNConv(4, bias=True), norm=BatchNorm()),
    "gat, layer norm": Layer(GATConv(4, heads=2), "gelu", norm=LayerNorm()),
    "sage, added row": Layer(SAGEConv(WIDTH), residual=AddedRow()),
    "gin, batch norm, linear residual": Layer(GINConv(4), norm=BatchNorm(), residual=LinearResidual()),
    "gat, residual in and around": Layer(GATConv(4, heads=2, residual=True), residual=LinearResidual(bias=False)),
}

GRAPH_NORM = [[1.251959, 1.833658], [0.583551, 1.073868], [3.925591, 0.820605], [-1.421673, 0.482921]]
"""PyTorch Geometric's ``GraphNorm``, of the rows and weights in the test."""

OF_ALL_NODES: dict[str, Layer] = {
    "graph norm": Layer(GCNConv(4), "tanh", norm=GraphNorm()),
    "graph norm inside": Layer(GINConv(4, inner="tanh", norm=GraphNorm())),
    "batch norm in training mode": Layer(GCNConv(4), "tanh", norm=BatchNorm(training=True)),
    "batch norm in training mode, in and around": Layer(
        GINConv(4, inner="tanh", bias=True, norm=BatchNorm(training=True)), norm=BatchNorm(training=True)
    ),
}
"""Layers whose norms look at all nodes."""

MODELS: dict[str, GNN] = {
    "linear encoder": GNN(WIDTH, (Layer(GCNConv(6)), Layer(GCNConv(5))), Pooled(), encoder=LinearEncoder(4)),
    "embeddings, cat": GNN(
        WIDTH,
        (Layer(SAGEConv(5)), Layer(GINConv(4), norm=LayerNorm())),
        NodeMLP(MLP((7, 2))),
        encoder=LinearEncoder(4, bias=False),
        jump="cat",
    ),
    "max": GNN(WIDTH, (Layer(GCNConv(5)), Layer(SAGEConv(5))), Pooled(), jump="max"),
    "sum": GNN(WIDTH, (Layer(GCNConv(5)), Layer(GATConv(5, heads=1))), NodeMLP(MLP((7, 2))), jump="sum"),
}


def weights_of(part: Any, params_of: Any, seed: int) -> Any:
    """Random weights."""
    return params_of(part, SLOTS, WIDTH, seed=seed)


@partial(jax.jit, static_argnums=0)
def dense_rows(layer: Layer, weights: Any, *graph: Any) -> Any:
    """The rows that a layer makes of a padded graph's."""
    return layer.apply({"params": weights}, *graph)


@partial(jax.jit, static_argnums=0)
def rooted_rows(layer: Layer, weights: Any, *star: Any) -> Any:
    """The rows of nodes that are seen from themselves."""
    return layer.by(weights, "rooted", *star)


@partial(jax.jit, static_argnums=0)
def columns_of_first(layer: Layer, weights: Any, rows: Any, adjacency: Any, columns: Any) -> Any:
    """Some columns of the first node's row, from its star; what they are made of where they need the others."""
    _, projected, degrees, around = stars(layer, weights, rows, adjacency)
    own, others = layer.by(weights, "terms", "state", projected[0], degrees[0], projected, degrees)
    picked = layer.by(weights, "select", "state", (own + around[0] @ others)[None], columns)[:, 0]
    return layer.by(weights, "row", "state", picked, columns) if layer.columnwise("state") else picked


@partial(jax.jit, static_argnums=(0, 1))
def rows_of_stars(layer: Layer, view: View, weights: Any, rows: Any, adjacency: Any, columns: Any) -> list[Any]:
    """Every node's row in a view, from its star."""
    sent, projected, degrees, around = stars(layer, weights, rows, adjacency)
    table, found = sent if view == "aggregate" else projected, []
    for c, near in zip(range(0, len(sent), len(sent) // len(around)), around, strict=True):
        own, others = layer.by(weights, "terms", view, table[c], degrees[c], table, degrees)
        total = layer.by(weights, "select", view, (own + near @ others)[None], columns)[:, 0]
        found.append(layer.by(weights, "row", view, total, columns))
    return found


@pytest.fixture(params=LAYERS, scope="module")
def layer(request: pytest.FixtureRequest) -> Layer:
    return LAYERS[request.param]


def test_the_tables_hold_every_part() -> None:
    shown = {type(model.encoder) for model in MODELS.values()}
    assert set(ENCODERS.values()) <= shown and set(JUMPS) <= {model.jump for model in MODELS.values()}


def test_rooted_evaluation_equals_the_dense_layer(layer: Layer, params_of: Any, graph_of: Any) -> None:
    weights = weights_of(layer, params_of, seed=1)
    rows, adjacency, mask = graph_of(NODES, SLOTS, WIDTH, seed=2, of=layer)
    dense = np.asarray(dense_rows(layer, weights, rows, adjacency, mask))
    by_class = adjacency.reshape(SLOTS, SLOTS, -1)
    plain, along, places = by_class.sum(axis=2), by_class.argmax(axis=2), np.arange(NODES)
    around = np.array([[v, *(u for u in places if plain[v, u]), *[-1] * NODES][: NODES + 1] for v in places])
    star = rows[around], plain.sum(axis=1)[around], jnp.asarray(around >= 0), along[places[:, None], around]
    np.testing.assert_allclose(rooted_rows(layer, weights, *star), dense[:NODES], rtol=3e-5, atol=3e-5)


def test_some_columns_of_a_star_need_no_others(layer: Layer, params_of: Any, graph_of: Any) -> None:
    weights = weights_of(layer, params_of, seed=1)
    rows, adjacency, mask = graph_of(NODES, SLOTS, WIDTH, seed=2, of=layer)
    dense = np.asarray(dense_rows(layer, weights, rows, adjacency, mask))
    some = SOME[SOME < layer.features]
    found = columns_of_first(layer, weights, rows, adjacency, some)
    if layer.columnwise("state"):
        np.testing.assert_allclose(found, dense[0, some], rtol=3e-5, atol=3e-5)
    else:
        assert layer.norm is not None or layer.conv.kernel("hidden")


def test_nodes_may_come_in_any_order_and_padding_changes_nothing(layer: Layer, params_of: Any, graph_of: Any) -> None:
    weights = weights_of(layer, params_of, seed=1)
    rows, adjacency, mask = graph_of(NODES, SLOTS, WIDTH, seed=2, of=layer)
    dense = np.asarray(dense_rows(layer, weights, rows, adjacency, mask))
    order = np.random.default_rng(0).permutation(SLOTS)
    turned = dense_rows(layer, weights, rows[order], adjacency[np.ix_(order, order)], mask[order])
    np.testing.assert_allclose(np.asarray(turned)[mask[order]], dense[order][mask[order]], rtol=2e-5, atol=2e-5)
    small = dense_rows(layer, weights, rows[:NODES], adjacency[:NODES, :NODES], mask[:NODES])
    np.testing.assert_allclose(np.asarray(small), dense[:NODES], rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize("name", [name for name, layer in LAYERS.items() if layer.conv.trims])
@pytest.mark.parametrize("first", [1, NODES - 1, SLOTS - 1])
def test_the_first_nodes_states_need_no_others(name: str, first: int, params_of: Any, graph_of: Any) -> None:
    layer = LAYERS[name]
    weights = weights_of(layer, params_of, seed=1)
    rows, adjacency, mask = graph_of(NODES, SLOTS, WIDTH, seed=2, of=layer)
    dense = np.asarray(dense_rows(layer, weights, rows, adjacency, mask))
    found = dense_rows(layer, weights, rows, adjacency[:first], mask[:first])
    assert found.shape == (first, layer.features)
    np.testing.assert_allclose(found, dense[:first], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", OF_ALL_NODES)
def test_norms_of_all_nodes_look_at_real_ones_in_any_order(name: str, params_of: Any, graph_of: Any) -> None:
    layer = OF_ALL_NODES[name]
    test_nodes_may_come_in_any_order_and_padding_changes_nothing(layer, params_of, graph_of)
    assert {norm.of_nodes for norm in layer.norms.values()} == {"all"}
    weights = params_of(layer, SLOTS, WIDTH, seed=1)
    rows, adjacency, _ = graph_of(2, 2, WIDTH, seed=2)
    with pytest.raises(TypeError, match="depends on all nodes"):
        star = rows[None], adjacency.sum(axis=1)[None], jnp.ones((1, 2), bool), jnp.zeros((1, 2), int)
        layer.by(weights, "rooted", *star)


def test_graph_norm_is_pytorch_geometric_s() -> None:
    rows = np.array([[1.0, -2.0], [0.5, 0.25], [3.0, 1.0], [-1.0, 2.0], [9.0, 9.0]], np.float32)
    weights = {
        "scale": np.array([2.0, -0.5], np.float32),
        "bias": np.array([0.5, 1.0], np.float32),
        "share": np.array([0.5, 1.5], np.float32),
    }
    out = GraphNorm().apply({"params": weights}, jnp.asarray(rows), jnp.arange(5) < 4)
    np.testing.assert_allclose(np.asarray(out)[:4], GRAPH_NORM, atol=2e-6)


def test_every_map_s_gradient_spans_the_rows_that_enter_it(layer: Layer, params_of: Any, graph_of: Any) -> None:
    """On a graph of two joined nodes whose rows and upstream gradients are independent: ``dL/dW`` has their span."""
    weights = weights_of(layer, params_of, seed=4)
    rows, _, mask = graph_of(2, 2, WIDTH, seed=2)
    adjacency = by_class(jnp.array([[0.0, 1.0], [1.0, 0.0]]), classes_of(layer))
    upstream = np.random.default_rng(5).normal(size=(2, layer.features)).astype(np.float32)

    def loss(weights: Any) -> Any:
        out: Any = layer.apply({"params": weights}, rows, adjacency, mask)
        return (upstream * out).sum()

    gradient = jax.jit(jax.grad(loss))(weights)
    for tap in layer.taps:
        seen = np.asarray(tap.of(gradient))
        assert np.abs(seen).max() > 1e-3
        if tap.rows == "own":
            entering = rows
        else:
            view = "aggregate" if tap.rows == "mixed" else "hidden"
            entering = np.asarray(rows_of_stars(layer, view, weights, rows, adjacency, np.arange(seen.shape[0])))
        basis = np.linalg.svd(np.asarray(entering, np.float64).T, full_matrices=False)[0]
        rest = seen - basis @ (basis.T @ seen)
        assert np.abs(rest).max() < 1e-4 * np.abs(seen).max()


def test_dropout_acts_in_training_mode_alone(params_of: Any, graph_of: Any) -> None:
    layer, graph = Layer(GCNConv(64), dropout=0.5), graph_of(NODES, SLOTS, WIDTH, seed=2)
    weights = weights_of(layer, params_of, seed=1)
    kept = np.asarray(layer.apply({"params": weights}, *graph))
    dropped = np.asarray(layer.apply({"params": weights}, *graph, rngs={"dropout": jax.random.key(0)}))
    away = (kept != 0) & (dropped == 0)
    assert 0.35 < away.sum() / (kept != 0).sum() < 0.65
    np.testing.assert_allclose(dropped[~away], 2.0 * kept[~away], rtol=1e-6)


def test_batch_norm_is_affine_in_its_running_statistics_and_shows_them_no_gradient(params_of: Any) -> None:
    rows = np.random.default_rng(0).normal(size=(5, 4)).astype(np.float32)
    weights = {
        name: np.full(4, value, np.float32)
        for name, value in {"mean": 0.5, "variance": 4.0, "scale": 3.0, "bias": -1.0}.items()
    }
    out = np.asarray(BatchNorm().apply({"params": weights}, jnp.asarray(rows), jnp.ones(5, bool)))
    np.testing.assert_allclose(out, 3.0 * (rows - 0.5) / np.sqrt(4.0 + 1e-5) - 1.0, rtol=1e-5, atol=1e-6)
    gradient = jax.grad(
        lambda w: jnp.square(jnp.asarray(BatchNorm().apply({"params": w}, jnp.asarray(rows), jnp.ones(5, bool)))).sum()
    )(weights)
    assert not gradient["mean"].any() and not gradient["variance"].any() and gradient["scale"].any()


def test_layer_norm_leaves_every_row_with_mean_0_and_variance_1() -> None:
    rows = np.random.default_rng(0).normal(3.0, 2.0, size=(5, 64)).astype(np.float32)
    weights = {"scale": np.ones(64, np.float32), "bias": np.zeros(64, np.float32)}
    out = np.asarray(LayerNorm().apply({"params": weights}, jnp.asarray(rows), jnp.ones(5, bool)))
    np.testing.assert_allclose(out.mean(axis=1), 0.0, atol=1e-5)
    np.testing.assert_allclose(out.var(axis=1), 1.0, atol=1e-3)


@pytest.mark.parametrize("name", MODELS)
def test_what_enters_the_readout_follows_from_the_states(name: str, params_of: Any, graph_of: Any) -> None:
    model = MODELS[name]
    params, graph = weights_of(model, params_of, seed=3), graph_of(NODES, SLOTS, WIDTH, seed=4)
    encoded, *states = jax.jit(lambda *graph: model.apply({"params": params}, *graph, method="states"))(*graph)
    alone = model.encoder.apply({"params": params.get("encoder", {})}, graph[0])
    np.testing.assert_allclose(encoded, np.asarray(alone), rtol=1e-5, atol=1e-5)
    first, last = map(np.asarray, states)
    wanted = {"last": last, "cat": np.c_[first, last]}
    if model.jump in ("max", "sum"):
        wanted |= {"max": np.maximum(first, last), "sum": first + last}
    np.testing.assert_array_equal(model.entering(first, last), wanted[model.jump])
    logits = np.asarray(jax.jit(lambda *graph: model.apply({"params": params}, *graph))(*graph))
    seen = model.readout.apply({"params": params["readout"]}, graph[0], jnp.asarray(wanted[model.jump]), graph[2])
    np.testing.assert_allclose(logits, np.asarray(seen), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("bias", [True, False])
def test_the_linear_encoder_is_one_linear_map(bias: bool) -> None:
    rng = np.random.default_rng(0)
    rows, kernel, offset = (rng.normal(size=shape).astype(np.float32) for shape in ((5, WIDTH), (WIDTH, 4), (4,)))
    weights = {"linear": {"kernel": kernel} | ({"bias": offset} if bias else {})}
    out = np.asarray(LinearEncoder(4, bias).apply({"params": weights}, jnp.asarray(rows)))
    np.testing.assert_allclose(out, rows @ kernel + (offset if bias else 0.0), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (GNN(WIDTH, (Layer(GCNConv(4)),), Pooled(), jump="lstm"), "jump: unknown 'lstm'; choose one of last, cat"),
        (GNN(WIDTH, (Layer(GCNConv(4)), Layer(GCNConv(5))), Pooled(), jump="max"), "needs layers of one width"),
        (GNN(WIDTH, (Layer(GCNConv(4), dropout=1.0),), Pooled()), "dropout: expected a share"),
        (GNN(WIDTH, (Layer(GCNConv(4)),), Pooled(), encoder=LinearEncoder(0)), "features: must be at least 1"),
        (GNN(WIDTH, (Layer(GCNConv(4), residual=AddedRow()),), Pooled()), "'add' needs a layer as wide as"),
    ],
)
def test_what_does_not_fit_is_said(model: GNN, message: str) -> None:
    with pytest.raises(ValueError, match="jump|dropout|features|residual") as error:
        model.initial(key=jax.random.key(0))
    assert message in str(error.value)
