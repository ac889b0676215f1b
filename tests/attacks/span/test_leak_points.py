"""Leak points follow from the parts: their gradients are made of the rows of true blocks."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest
from models import some_params

from jgleak.attacks.attack import Budget
from jgleak.attacks.census.problem import still
from jgleak.attacks.span.hops import Blocks, Nodes, next_hop
from jgleak.attacks.span.leak_points import leak_points
from jgleak.attacks.span.mean_rows import mean_rows
from jgleak.attacks.span.onehop import one_hop
from jgleak.datasets import load
from jgleak.federated import Observation, fedsgd
from jgleak.gnn import (
    GNN,
    MLP,
    AddedRow,
    BatchNorm,
    GATConv,
    GCNConv,
    GINConv,
    Layer,
    LayerNorm,
    LinearEncoder,
    LinearResidual,
    NodeMLP,
    Pooled,
    SAGEConv,
)
from jgleak.gnn.tree import at
from jgleak.graph import Graph

WIDE, FOREVER = 40, Budget(time_limit=1e6).start()
HEAD = NodeMLP(MLP((60, 32, 2)))
SPACE = load("embedded").space


def layers(*convs: Any, **parts: Any) -> tuple[Layer, ...]:
    return tuple(Layer(conv, **parts) for conv in convs)


MODELS: dict[str, tuple[tuple[Layer, ...], dict[str, Any]]] = {
    "plain": (layers(GCNConv(WIDE), GCNConv(WIDE)), {}),
    "layer norm, linear residual": (
        layers(GCNConv(WIDE), SAGEConv(WIDE), norm=LayerNorm(), residual=LinearResidual()),
        {},
    ),
    "batch norm": (layers(GINConv(WIDE), GATConv(WIDE), norm=BatchNorm()), {}),
    "batch norm in training mode": (layers(GINConv(WIDE), GCNConv(WIDE), norm=BatchNorm(training=True)), {}),
    "batch norm in training mode, inside": (layers(*[GINConv(256, norm=BatchNorm(training=True))] * 2), {}),
    "batch norm in training mode, own maps": (
        (Layer(SAGEConv(500), norm=BatchNorm(training=True)), Layer(SAGEConv(WIDE))),
        {},
    ),
    "encoder, added rows, cat": (
        layers(SAGEConv(WIDE), GCNConv(WIDE), residual=AddedRow()),
        {"encoder": LinearEncoder(WIDE), "jump": "cat"},
    ),
}


def blocks_of(graph: Graph) -> tuple[Nodes, list[tuple[int, tuple[int, ...]]]]:
    """The graph's own nodes, each a kind of its own, and every node's neighbourhood."""
    nodes = Nodes(graph.x, SPACE.encode(graph.x), graph.degree)
    around = [(v, tuple(sorted(graph.neighbours[v]))) for v in range(graph.n)]
    return Nodes(nodes.codes, nodes.rows, nodes.degrees, listed=tuple(around)), around


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.long
def test_every_gradient_is_made_of_the_rows_of_true_blocks(name: str) -> None:
    stack, more = MODELS[name]
    model = GNN(SPACE.width, stack, HEAD, **more)
    params = some_params(model)
    graph = next(g for g in load("embedded").graphs if g.name.startswith("caffeine"))
    observation = fedsgd(model, params, [graph], SPACE, loss="bce")
    frozen = still(observation, graph.n)
    model, params = frozen.model, frozen.params
    nodes, around = blocks_of(graph)
    budget = Budget(time_limit=1e6)
    ones = one_hop(model, params, nodes, [], clock=FOREVER, budget=budget)
    assert sorted(zip(ones.roots.tolist(), ones.neighbours, strict=True)) == sorted(around)
    twos = next_hop(model, params, nodes, [ones], [], clock=FOREVER, budget=budget)
    true = _true(ones, twos, around)
    dense = _states(observation, graph)
    np.testing.assert_allclose(twos.states[true], dense[2][ones.roots[twos.roots[true]]], rtol=1e-3, atol=1e-4)
    rows = {0: SPACE.encode(graph.x), 1: ones.states, 2: twos.states[true]}
    fixed = {0: rows[0], 2: rows[0][ones.roots[twos.roots[true]]]}
    if model.jump == "cat":
        fixed[2] = np.c_[fixed[2], twos.below[true]]
    names = set()
    for hop in range(3):
        for point in leak_points(observation, hop):
            if point.view == "state":
                entering = np.c_[fixed[hop][:, : point.fixed], rows[hop]] if point.fixed else rows[hop]
                names.add((point.name, hop))
                rounding = 1e-4 if observation.statistics else 1e-5
                assert _outside(entering, point.gradient) < rounding, (point.name, hop)
    assert names >= {("readout", 0), ("node", 0), ("node", 1), ("readout", 2)}


READOUT = "readout/mlp/linears_0/kernel"
GCN, NARROW = layers(GCNConv(4), GCNConv(4)), NodeMLP(MLP((4, 3, 2)))
POINTS: dict[str, tuple[GNN, dict[int, list[tuple[str, str, int, str]]]]] = {
    "gcn": (
        GNN(5, GCN, NARROW),
        {
            0: [("readout", READOUT, 0, "readout's"), ("node", "layers_0/conv/kernel", 0, "enter convolution 0")],
            1: [
                ("node", "layers_1/conv/kernel", 0, "enter convolution 1"),
                ("aggregate", "layers_0/conv/kernel", 0, "output of convolution 0"),
            ],
            2: [
                ("readout", READOUT, 5, "readout's"),
                ("aggregate", "layers_1/conv/kernel", 0, "output of convolution 1"),
            ],
        },
    ),
    "gin": (
        GNN(5, layers(GINConv(4), GINConv(4)), NARROW),
        {
            1: [
                ("hidden", "layers_0/conv/out_kernel", 0, "output of convolution 0"),
                ("node", "layers_1/conv/kernel", 0, "enter convolution 1"),
                ("aggregate", "layers_0/conv/kernel", 0, "output of convolution 0"),
            ],
            2: [
                ("hidden", "layers_1/conv/out_kernel", 0, "output of convolution 1"),
                ("readout", READOUT, 5, "readout's"),
                ("aggregate", "layers_1/conv/kernel", 0, "output of convolution 1"),
            ],
        },
    ),
    "layers of two kinds": (
        GNN(5, layers(GINConv(4), GCNConv(4)), NARROW),
        {
            1: [
                ("hidden", "layers_0/conv/out_kernel", 0, "output of convolution 0"),
                ("node", "layers_1/conv/kernel", 0, "enter convolution 1"),
                ("aggregate", "layers_0/conv/kernel", 0, "output of convolution 0"),
            ],
            2: [
                ("readout", READOUT, 5, "readout's"),
                ("aggregate", "layers_1/conv/kernel", 0, "output of convolution 1"),
            ],
        },
    ),
    "rows that are added up": (
        GNN(5, GCN, Pooled("sum", MLP((4, 2)))),
        {
            0: [("node", "layers_0/conv/kernel", 0, "enter convolution 0")],
            2: [("aggregate", "layers_1/conv/kernel", 0, "output of convolution 1")],
        },
    ),
    "a readout of states alone": (
        GNN(5, GCN, NodeMLP(MLP((4, 2)), see_input=False)),
        {
            0: [("node", "layers_0/conv/kernel", 0, "enter convolution 0")],
            2: [
                ("readout", READOUT, 0, "readout's"),
                ("aggregate", "layers_1/conv/kernel", 0, "output of convolution 1"),
            ],
        },
    ),
    "a readout of all states": (
        GNN(5, layers(GCNConv(4), GCNConv(3)), NARROW, jump="cat"),
        {
            2: [
                ("readout", READOUT, 9, "readout's"),
                ("aggregate", "layers_1/conv/kernel", 0, "output of convolution 1"),
            ]
        },
    ),
    "largest states": (
        GNN(5, GCN, NARROW, jump="max"),
        {2: [("aggregate", "layers_1/conv/kernel", 0, "output of convolution 1")]},
    ),
    "an encoder": (
        GNN(5, GCN, NARROW, encoder=LinearEncoder(3)),
        {
            0: [("readout", READOUT, 0, "readout's"), ("node", "encoder/linear/kernel", 0, "at the encoded rows")],
            1: [
                ("node", "layers_1/conv/kernel", 0, "enter convolution 1"),
                ("aggregate", "layers_0/conv/kernel", 0, "output of convolution 0"),
            ],
        },
    ),
    "a frozen encoder and readout": (
        GNN(5, GCN, NARROW, encoder=LinearEncoder(3), frozen=("encoder", "readout")),
        {0: [], 2: [("aggregate", "layers_1/conv/kernel", 0, "output of convolution 1")]},
    ),
    "a frozen layer": (
        GNN(5, GCN, NARROW, frozen=("layers_0",)),
        {
            0: [("readout", READOUT, 0, "readout's")],
            1: [("node", "layers_1/conv/kernel", 0, "enter convolution 1")],
        },
    ),
}
"""Of models and hops the checks in their order: the name, whose gradient it is, what is fixed, and the condition."""


@pytest.mark.parametrize("name", POINTS)
def test_every_map_that_rows_enter_is_a_check_the_strongest_first(name: str) -> None:
    model, points = POINTS[name]
    update = some_params(model, 2)
    observation = Observation(model, some_params(model), model.evidence(update), "bce")
    for hop, wanted in points.items():
        found = leak_points(observation, hop)
        assert [(point.name, point.fixed) for point in found] == [(kind, fixed) for kind, _, fixed, _ in wanted]
        for point, (kind, path, _, condition) in zip(found, wanted, strict=True):
            kernel = at(update, tuple(path.split("/")))
            np.testing.assert_array_equal(point.gradient, kernel[:5] if kind == "readout" and not hop else kernel)
            assert (point.hop, point.view) == (hop, kind if kind in ("hidden", "aggregate") else "state")
            assert condition in point.condition


@pytest.mark.parametrize(
    ("layer", "columns", "singular"),
    [
        (Layer(GCNConv(WIDE)), WIDE, True),
        (Layer(GCNConv(WIDE), residual=LinearResidual()), 2 * WIDE, False),
        (Layer(SAGEConv(WIDE)), WIDE, False),
        (Layer(GATConv(WIDE, residual=True)), 2 * WIDE, False),
    ],
)
def test_all_maps_of_nodes_own_rows_are_one_check(layer: Layer, columns: int, singular: bool) -> None:
    """A singular adjacency spoils the check only where every such map comes before the mixing."""
    model = GNN(SPACE.width, (Layer(GCNConv(WIDE)), layer), HEAD)
    params = some_params(model)
    graph = next(g for g in load("embedded").graphs if g.name.startswith("glycine"))
    points = leak_points(fedsgd(model, params, [graph], SPACE, loss="bce"), 1)
    [node] = [point for point in points if point.name == "node"]
    assert node.gradient.shape == (WIDE, columns)
    assert ("singular" in node.condition) is singular


@pytest.mark.long
def test_returned_statistics_show_the_mean_of_the_rows_before_a_norm() -> None:
    """The gradient hides it: what comes in and what leaves a map before the norm adds up to zero."""
    norm = BatchNorm(training=True)
    model = GNN(SPACE.width, (Layer(GINConv(WIDE), norm=norm), Layer(GCNConv(64), norm=norm)), HEAD)
    params = some_params(model)
    graph = next(g for g in load("embedded").graphs if g.name.startswith("caffeine"))
    observation = fedsgd(model, params, [graph], SPACE, loss="bce")
    states, adjacency = _states(observation, graph), np.zeros((graph.n, graph.n))
    adjacency[tuple(graph.edges.T)] = 1.0
    adjacency += adjacency.T
    first = params["layers_0"]["conv"]
    hidden = np.maximum((states[0] + adjacency @ states[0]) @ first["kernel"], 0)
    mixed = GCNConv(1).mixing(adjacency, np.ones(graph.n, bool)) @ states[1]
    for layer, kernel, rows in ((0, "out_kernel", hidden), (1, "kernel", mixed)):
        known = mean_rows(observation, layer)
        assert list(known) == [("conv", kernel)]
        row = known["conv", kernel]
        assert row is not None and np.linalg.norm(row - rows.mean(axis=0)) < 1e-3 * np.linalg.norm(row)
        gradient = observation.update[f"layers_{layer}"]["conv"][kernel]
        if layer == 0:
            assert np.linalg.matrix_rank(gradient, 1e-4 * np.abs(gradient).max()) < np.linalg.matrix_rank(rows, 1e-3)
        [point] = [p for p in leak_points(observation, layer + 1) if p.name == ("hidden", "aggregate")[layer]]
        assert point.gradient.shape[1] == gradient.shape[1] + 1
        added = np.linalg.norm(point.gradient[:, -1]), np.linalg.norm(np.asarray(gradient, np.float64), 2)
        assert added[0] == pytest.approx(added[1]), (
            "as long as the gradient, so that neither is rounding beside the other"
        )
    narrow = GNN(SPACE.width, (Layer(GCNConv(WIDE), norm=norm), Layer(GCNConv(64))), HEAD)
    blind = fedsgd(narrow, some_params(narrow), [graph], SPACE, loss="bce")
    assert mean_rows(blind, 0) == {("conv", "kernel"): None}
    assert [p.name for p in leak_points(blind, 0)] == ["readout"]
    assert [p.name for p in leak_points(blind, 1)] == ["node"]


def _true(ones: Blocks, twos: Blocks, around: list[tuple[int, tuple[int, ...]]]) -> np.ndarray:
    """The 2-hop blocks of the graph itself: every node has its own 1-hop block."""
    at = {int(root): k for k, root in enumerate(ones.roots)}
    wanted = {(at[v], tuple(sorted(at[u] for u in near))) for v, near in around}
    pairs = list(zip(twos.roots.tolist(), twos.neighbours, strict=True))
    found = np.array([k for k, pair in enumerate(pairs) if pair in wanted])
    assert found.size == len(wanted)
    return found


def _states(observation: Any, graph: Graph) -> list[np.ndarray]:
    adjacency = np.zeros((graph.n, graph.n), np.float32)
    adjacency[tuple(graph.edges.T)] = 1.0
    parts = SPACE.encode(graph.x).astype(np.float32), adjacency + adjacency.T, np.ones(graph.n, bool)
    whole = [jnp.asarray(part) for part in parts]
    return [np.asarray(s) for s in observation.model.apply({"params": observation.params}, *whole, method="states")]


def _outside(rows: np.ndarray, gradient: np.ndarray) -> float:
    """The part of a gradient, relative to itself, whose columns are no combinations of the rows; whatever its rank."""
    left, values, _ = np.linalg.svd(rows.T, full_matrices=False)
    basis = left[:, values > 1e-5 * values[0]]
    rest = gradient - basis @ (basis.T @ gradient)
    return float(np.linalg.norm(rest) / np.linalg.norm(gradient))
