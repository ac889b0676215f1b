"""Every convolution against jraph's sparse message passing, and against itself seen from one node."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import jraph
import numpy as np
import pytest
from jaxtyping import Array
from stars import stars

from jgleak.gnn import registry
from jgleak.gnn.activation import activation
from jgleak.gnn.attention import Attention
from jgleak.gnn.convolution import Convolution
from jgleak.gnn.gat import GATConv
from jgleak.gnn.gatv2 import GATv2Conv
from jgleak.gnn.gcn import GCNConv
from jgleak.gnn.gin import GINConv
from jgleak.gnn.gine import GINEConv
from jgleak.gnn.leconv import LEConv
from jgleak.gnn.norm import BatchNorm, LayerNorm
from jgleak.gnn.precise import precise
from jgleak.gnn.sage import GraphConv, SAGEConv

WIDTH, SLOTS, NODES = 3, 8, (5, 1, 8, 6)
SOME = np.array([3, 0, 2])
CONVOLUTIONS = {
    "gcn": GCNConv(4, bias=True),
    "sage": SAGEConv(4, bias=True),
    "gin": GINConv(4, bias=True, epsilon=0.3),
    "gin, no bias": GINConv(4, inner="gelu"),
    "gin, wide, ends active": GINConv(4, bias=True, inner="tanh", widths=(6,), ends_active=True),
    "gin, three maps, batch norm": GINConv(4, bias=True, inner="tanh", widths=(5, 3), norm=BatchNorm()),
    "gin, layer norm": GINConv(5, inner="tanh", widths=(4,), norm=LayerNorm()),
    "sage, sums": SAGEConv(4, bias=True, aggregation="sum"),
    "graph": GraphConv(4, bias=True),
    "graph, means": GraphConv(4, aggregation="mean"),
    "gcn, no loops": GCNConv(4, self_loops=False),
    "gcn, no loops, sums": GCNConv(4, self_loops=False, normalise=False),
    "gcn, sums": GCNConv(4, bias=True, normalise=False),
    "gine": GINEConv(4, bias=True, epsilon=0.3),
    "gine, no bias, two attributes": GINEConv(4, edge_rows=((1.0, 0.0, 0.5), (1.0, 1.0, 0.0))),
    "gine, embedded attributes": GINEConv(4, edge_rows=((1.0, 0.0, 0.5), (1.0, 1.0, 0.0)), edge_bias=False),
    "leconv": LEConv(4, bias=True),
    "leconv, no bias": LEConv(4),
    "gatv2, concatenated": GATv2Conv(6, bias=True, heads=3),
    "gatv2, averaged, residual": GATv2Conv(4, heads=2, concatenate=False, negative_slope=0.1, residual=True),
    "gat, concatenated": GATConv(6, bias=True, heads=3),
    "gat, averaged": GATConv(4, bias=True, heads=2, concatenate=False),
    "gat, averaged, residual": GATConv(4, heads=2, concatenate=False, negative_slope=0.1, residual=True),
    "gat, concatenated, residual": GATConv(4, bias=True, heads=2, residual=True),
}


@dataclasses.dataclass
class Case:
    """A convolution on a padded batch of graphs: the dense layer, its gradient, and each node from its star.

    Attributes:
      dense: the layer's pre-activations; ``upstream`` is the loss's derivative there.
      combined: ``star_combine`` of all columns; ``some_columns`` of ``SOME``; ``finished`` the pre-activation.
      hidden: the rows that enter the map inside.
      aggregate: the rows that enter a map after the mixing; ``inside`` is the loss's derivative at their product.
      gradient: of every weight, for each graph.
    """

    conv: Convolution
    params: Any
    rows: np.ndarray
    adjacency: np.ndarray
    mask: np.ndarray
    upstream: np.ndarray
    dense: np.ndarray
    combined: np.ndarray
    some_columns: np.ndarray
    finished: np.ndarray
    hidden: np.ndarray | None
    aggregate: np.ndarray | None
    inside: np.ndarray
    gradient: Any


@pytest.fixture(scope="module", params=CONVOLUTIONS)
def case(request: pytest.FixtureRequest, params_of: Any, graph_of: Any, quick_jit: Any) -> Case:
    conv = CONVOLUTIONS[request.param]
    params = params_of(conv, SLOTS, WIDTH, seed=1)
    drawn = (graph_of(n, SLOTS, WIDTH, n, of=conv) for n in NODES)
    graphs = tuple(np.stack(part) for part in zip(*drawn, strict=True))
    upstream = np.random.default_rng(7).normal(size=(len(NODES), SLOTS, conv.features)).astype(np.float32)
    inputs = *graphs, upstream * graphs[2][:, :, None]

    def dense(params: Any, x: Array, a: Array, m: Array) -> Array:
        return conv.apply({"params": params}, x, a, m)  # type: ignore[return-value]

    @precise
    def star(params: Any, x: Array, a: Array, u: Array) -> tuple[Any, ...]:
        layer, every = conv.bind({"params": params}), jnp.arange(conv.combined_features)
        sent, projected, degrees, around = stars(conv, params, x, a)
        centres = jnp.arange(SLOTS) * max(1, conv.edge_classes)

        def combined(centre: Array, degree: Array, neighbours: Array, columns: Array) -> Array:
            own, terms = layer.star_terms(centre, degree, projected, degrees)
            parts = layer.star_select(jnp.concatenate([own[None], terms]), columns)
            total = parts[:, 0] + jnp.einsum("t,atc->ac", neighbours, parts[:, 1:])
            return layer.star_combine(total, columns)

        def mixed(centre: Array, degree: Array, neighbours: Array) -> Array:
            own, terms = layer.aggregate_terms(centre, degree, sent, degrees)
            return own + neighbours @ terms

        whole, some = (
            jax.vmap(partial(combined, columns=c))(projected[centres], degrees[centres], around)
            for c in (every, jnp.asarray(SOME))
        )
        finished, back = jax.vjp(layer.star_finish, whole)
        hidden = layer.star_hidden(whole, every) if conv.kernel("hidden") else None
        aggregate = jax.vmap(mixed)(sent[centres], degrees[centres], around) if conv.kernel("mixed") else None
        return whole, some, finished, hidden, aggregate, back(u)[0]

    def everything(params: Any, x: Array, a: Array, m: Array, u: Array) -> tuple[Any, ...]:
        gradient = jax.grad(lambda p: (u * dense(p, x, a, m)).sum())(params)
        return dense(params, x, a, m), *star(params, x, a, u), gradient

    found = quick_jit(jax.vmap(everything, in_axes=(None, 0, 0, 0, 0)))(params, *inputs)
    parts: list[Any] = [*inputs, *jax.tree.map(np.asarray, found)]
    return Case(conv, params, *parts)


def sparse(case: Case) -> Any:
    """The batch as one padded ``GraphsTuple``."""
    members = []
    for n, x, a in zip(NODES, case.rows, case.adjacency, strict=True):
        senders, receivers = np.nonzero(a.sum(axis=2) if a.ndim == 3 else a)
        edges = a[senders, receivers] if a.ndim == 3 else None  # one-hot rows of the classes
        fields: Any = (x[:n], edges, receivers, senders, None, np.array([n]), np.array([senders.size]))
        members.append(jraph.GraphsTuple(*fields))
    joined = jraph.batch_np(members)
    return jraph.pad_with_graphs(joined, sum(NODES) + 3, int(joined.n_edge.sum()) + 5, len(NODES) + 1)  # type: ignore[union-attr]


def with_self_edges(graph: Any) -> Any:
    loops = np.arange(graph.nodes.shape[0])  # type: ignore[union-attr]
    return graph._replace(senders=np.r_[graph.senders, loops], receivers=np.r_[graph.receivers, loops])


def gcn_oracle(conv: GCNConv, p: Any, graph: Any) -> Any:
    layer = jraph.GraphConvolution(
        lambda nodes: nodes @ p["kernel"], add_self_edges=conv.self_loops, symmetric_normalization=conv.normalise
    )
    return layer(graph).nodes  # type: ignore[return-value]


def leconv_oracle(conv: LEConv, p: Any, graph: Any) -> Any:
    def compared(edges: Any, sent: Any, received: Any, context: Any) -> Any:
        return sent @ p["neighbour_kernel"] + p.get("neighbour_bias", 0.0) - received @ p["centre_kernel"]

    layer = jraph.GraphNetwork(compared, lambda x, sent, total, context: x @ p["self_kernel"] + total)
    return layer(graph).nodes  # type: ignore[return-value]


def gatv2_oracle(conv: GATv2Conv, p: Any, graph: Any) -> Any:
    outputs, halves = [], {}
    for end in ("source", "target"):
        whole = graph.nodes @ p[f"{end}_kernel"] + p.get(f"{end}_bias", 0.0)
        halves[end] = np.split(np.asarray(whole), conv.heads, axis=1)
    for head, (source, target) in enumerate(zip(halves["source"], halves["target"], strict=True)):
        both = np.c_[source, target]
        half = source.shape[1]

        def logit(sent: Any, received: Any, _: Any, head: int = head, half: int = half) -> Any:
            lit = jax.nn.leaky_relu(sent[:, :half] + received[:, half:], conv.negative_slope)
            return (lit @ p["attention"][head])[:, None]

        layer = jraph.GAT(lambda nodes, both=both: both, logit, lambda nodes, half=half: jnp.asarray(nodes)[:, :half])
        outputs.append(layer(with_self_edges(graph)).nodes)
    own = graph.nodes @ p["residual_kernel"] if conv.residual else 0.0
    return own + (jnp.concatenate(outputs, axis=1) if conv.concatenate else sum(outputs) / conv.heads)


def gat_oracle(conv: GATConv, p: Any, graph: Any) -> Any:
    outputs = []
    for head, kernel in enumerate(np.split(p["kernel"], conv.heads, axis=1)):

        def logit(sent: Any, received: Any, _: Any, head: int = head) -> Any:
            return jax.nn.leaky_relu(sent @ p["source"][head] + received @ p["target"][head], conv.negative_slope)[
                :, None
            ]

        layer = jraph.GAT(lambda nodes, kernel=kernel: nodes @ kernel, logit, lambda nodes: nodes)
        outputs.append(layer(with_self_edges(graph)).nodes)
    own = graph.nodes @ p["residual_kernel"] if conv.residual else 0.0
    return own + (jnp.concatenate(outputs, axis=1) if conv.concatenate else sum(outputs) / conv.heads)


def sage_oracle(conv: SAGEConv, p: Any, graph: Any) -> Any:
    of_edges: Any = {"mean": jraph.segment_mean, "sum": jraph.segment_sum}[conv.aggregation]
    layer = jraph.GraphNetwork(
        update_edge_fn=lambda edges, sent, received, context: sent,
        update_node_fn=lambda x, sent, mixed, context: x @ p["self_kernel"] + mixed @ p["neighbour_kernel"],
        aggregate_edges_for_nodes_fn=of_edges,
    )
    return layer(graph).nodes  # type: ignore[return-value]


def normalised(rows: Any, p: Any) -> Any:
    """Batch normalisation in evaluation mode, or layer normalisation, by which weights there are."""
    mean, variance = (
        (p["mean"], p["variance"]) if "mean" in p else (rows.mean(1, keepdims=True), rows.var(1, keepdims=True))
    )
    return (rows - mean) / np.sqrt(variance + 1e-5) * p["scale"] + p["bias"]


def gin_mlp(conv: GINConv, p: Any, hidden: Any) -> Any:
    for place, _ in enumerate(conv.inside):
        end = f"_{place}" if place else ""
        hidden = hidden @ p["inner_kernel" + end if place else "kernel"] + p.get("inner_bias" + end, 0.0)
        if conv.norm is not None:
            hidden = normalised(hidden, p[f"norms_{place}"])
        hidden = activation(conv.inner)(hidden)
    out = hidden @ p["out_kernel"] + p.get("bias", 0.0)
    return activation(conv.inner)(out) if conv.ends_active else out


def gin_oracle(conv: GINConv, p: Any, graph: Any) -> Any:
    def update(x: Any, sent: Any, total: Any, context: Any) -> Any:
        return gin_mlp(conv, p, (1 + conv.epsilon) * x + total)

    return jraph.GraphNetwork(lambda edges, sent, received, context: sent, update)(graph).nodes  # type: ignore[return-value]


def gine_oracle(conv: GINEConv, p: Any, graph: Any) -> Any:
    def message(edges: Any, sent: Any, received: Any, context: Any) -> Any:
        return jax.nn.relu(sent + edges @ np.asarray(conv.edge_rows) @ p["edge_kernel"] + p.get("edge_bias", 0.0))

    def update(x: Any, sent: Any, total: Any, context: Any) -> Any:
        return gin_mlp(conv, p, (1 + conv.epsilon) * x + total)

    return jraph.GraphNetwork(message, update)(graph).nodes  # type: ignore[return-value]


ORACLES: dict[type[Convolution], Callable[..., Any]] = {
    GCNConv: gcn_oracle,
    GATConv: gat_oracle,
    GATv2Conv: gatv2_oracle,
    LEConv: leconv_oracle,
    SAGEConv: sage_oracle,
    GraphConv: sage_oracle,
    GINConv: gin_oracle,
    GINEConv: gine_oracle,
}


def test_every_convolution_has_a_row_and_an_oracle() -> None:
    assert set(ORACLES) == {type(conv) for conv in CONVOLUTIONS.values()} == set(registry.CONVOLUTIONS.values())


def test_dense_layers_equal_jraph(case: Case) -> None:
    expected = np.asarray(precise(ORACLES[type(case.conv)])(case.conv, case.params, sparse(case)))
    if not isinstance(case.conv, GINConv):  # its own bias comes before an activation
        expected = expected + case.params.get("bias", 0.0)
    np.testing.assert_allclose(case.dense[case.mask], expected[: sum(NODES)], rtol=2e-5, atol=2e-5)


def test_padding_rows_come_out_zero(case: Case) -> None:
    assert case.dense.shape == (len(NODES), SLOTS, case.conv.features)
    assert not case.dense[~case.mask].any()


def test_a_node_from_its_star_equals_the_dense_row(case: Case) -> None:
    np.testing.assert_allclose(case.finished[case.mask], case.dense[case.mask], rtol=2e-5, atol=2e-5)


def test_columns_of_a_star_do_not_need_the_others(case: Case) -> None:
    """Of the pre-activation, or of GIN's hidden one."""
    np.testing.assert_allclose(case.some_columns, case.combined[..., SOME], rtol=2e-5, atol=2e-5)
    if case.conv.kernel("hidden") is None:
        np.testing.assert_array_equal(case.combined, case.finished)
    elif case.combined.shape == case.finished.shape:
        assert np.abs(case.combined - case.finished)[case.mask].max() > 0.1


def test_the_span_kernel_s_gradient_lies_in_the_span_of_the_rows(case: Case) -> None:
    """On the graph of one node the gradient's columns are multiples of its row (GRAIN, Theorem 5.1)."""
    if case.conv.kernel("own") is None:
        assert isinstance(case.conv, GINEConv), "its messages pass an activation before they are added"
        return
    x, gradient = case.rows[1, 0], case.gradient[case.conv.kernel("own")][1]
    if isinstance(case.conv, GCNConv) and not case.conv.self_loops:
        assert not gradient.any(), "a node alone takes nothing, not even from itself"
        return
    assert np.abs(gradient).max() > 1e-3
    np.testing.assert_allclose(gradient, np.outer(x, x @ gradient) / (x @ x), atol=1e-5)


def test_the_aggregate_kernel_s_gradient_is_made_of_the_mixed_rows(case: Case) -> None:
    """``dL/dW = aggregate^T dL/dZ``, with GIN's hidden pre-activation for ``Z``."""
    if case.aggregate is None:
        assert case.conv.kernel("mixed") is None and isinstance(case.conv, Attention)
        return
    gradient = case.gradient[case.conv.kernel("mixed")]
    assert np.abs(gradient).max() > 1e-3
    made = np.einsum("bnf,bnd->bfd", case.aggregate, case.inside)
    np.testing.assert_allclose(made, gradient, rtol=2e-5, atol=2e-5)


def test_the_hidden_kernel_s_gradient_is_made_of_the_hidden_rows(case: Case) -> None:
    if case.hidden is None or not isinstance(case.conv, GINConv):
        assert case.conv.kernel("hidden") is None and not isinstance(case.conv, GINConv)
        return
    gradient = case.gradient[case.conv.kernel("hidden")]
    assert np.abs(gradient).max() > 1e-3
    if case.conv.kernel("hidden") != "out_kernel" or case.conv.ends_active:
        row = case.hidden[1, 0]  # on the graph of one node: multiples of its row
        np.testing.assert_allclose(gradient[1], np.outer(row, row @ gradient[1]) / (row @ row), atol=1e-5)
        return
    made = np.einsum("bnf,bnd->bfd", case.hidden, case.upstream)
    np.testing.assert_allclose(made, gradient, rtol=2e-5, atol=2e-5)


def test_large_attention_scores_stay_finite(graph_of: Any, params_of: Any, quick_jit: Any) -> None:
    conv = CONVOLUTIONS["gat, averaged"]
    params = jax.tree.map(lambda w: 30 * w, params_of(conv, SLOTS, WIDTH, seed=2))
    x, a, m = graph_of(6, SLOTS, WIDTH, seed=3)

    def loss(x: Array, a: Array) -> Array:
        return conv.apply({"params": params}, x, a, m).sum()  # type: ignore[union-attr]

    value, slopes = quick_jit(jax.value_and_grad(loss, argnums=(0, 1)))(x, a)
    assert np.isfinite(value) and all(np.isfinite(s).all() for s in slopes)


def test_heads_must_divide_a_concatenated_width(params_of: Any) -> None:
    with pytest.raises(ValueError, match="features: width 5 is not divisible by 2 heads"):
        GATConv(5, heads=2).check()


@pytest.mark.parametrize("name", CONVOLUTIONS)
def test_whether_a_neighbour_is_weighed_by_its_own_degree(name: str, params_of: Any, graph_of: Any) -> None:
    conv = CONVOLUTIONS[name]
    x, a, _ = graph_of(5, SLOTS, WIDTH, 1, of=conv)
    params = params_of(conv, SLOTS, WIDTH, seed=1)
    projected, degrees = map(jnp.asarray, stars(conv, params, x, a)[1:3])

    @precise
    def terms(degrees: Array) -> Array:
        return conv.bind({"params": params}).star_terms(projected[0], degrees[0], projected, degrees)[1]

    changed = degrees.at[1:].add(2.0)
    assert bool(np.any(np.abs(terms(degrees) - terms(changed))[1:] > 1e-3)) == conv.weighs_by_degree
