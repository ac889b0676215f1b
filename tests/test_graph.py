"""Host graphs: validation, relabelling, isomorphism, bridges; device batches: padding and buckets."""

from __future__ import annotations

from itertools import permutations
from typing import Any

import jax
import jraph
import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jgleak.features import FeatureSpace, onehot, real
from jgleak.graph import BUCKETS, Graph, GraphBatch, bucket

SPACE = FeatureSpace((onehot("colour", ("red", "green", "blue")), onehot("degree", range(12))), degree="degree")


@st.composite
def graphs(draw: st.DrawFn, most: int = 9) -> Graph:
    n = draw(st.integers(1, most))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    upper = np.triu(rng.random((n, n)) < draw(st.sampled_from((0.0, 0.3, 0.7))), 1)
    edges = np.argwhere(upper)
    x = np.c_[rng.integers(3, size=n), np.bincount(edges.ravel(), minlength=n)]
    return Graph(x, edges, int(rng.integers(2)), "drawn")


def equal(a: Graph, b: Graph) -> bool:
    return bool(np.array_equal(a.x, b.x) and np.array_equal(a.edges, b.edges) and np.array_equal(a.y, b.y))  # type: ignore[arg-type]


def coloured(edges: Any, colours: list[int]) -> Graph:
    return Graph(np.array(colours)[:, None], np.array(edges).reshape(-1, 2).astype(int))


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"x": np.zeros((0, 2))}, r"x: expected \(n, G\) with n >= 1"),
        ({"x": np.zeros(4)}, r"x: expected \(n, G\)"),
        ({"x": np.array([["C"], ["N"]])}, "x: expected numbers"),
        ({"x": np.array([[1.0], [np.nan], [0.0]])}, "x: contains NaN"),
        ({"x": np.array([[1.0], [np.inf], [0.0]])}, "x: contains NaN or infinite"),
        ({"edges": np.array([[0, 3]])}, r"edges: node indices must lie in 0\.\.2"),
        ({"edges": np.array([[-1, 0]])}, r"edges: node indices must lie in 0\.\.2"),
        ({"edges": np.array([[1, 1]])}, "edges: self-loops are not allowed"),
        ({"edges": np.array([[0, 1], [1, 0]])}, "edges: an edge is listed twice"),
        ({"edges": np.array([[0, 1], [1, 2], [0, 1]])}, "edges: an edge is listed twice"),
        ({"edges": np.array([[0.0, 1.0]])}, "edges: expected integers"),
        ({"edges": np.array([[0, 1, 2]])}, r"edges: expected integers of shape \(e, 2\)"),
        ({"y": float("nan")}, "y: contains NaN"),
        ({"y": np.array([0, 1])}, r"y: node labels must have shape \(3,\), got \(2,\)"),
        ({"y": [0, 1]}, r"y: node labels must have shape \(3,\)"),
        ({"y": np.array([[0.0, 1.0], [1.0, 0.0]])}, r"several tasks are one row \(1, T\) with T >= 1, got \(2, 2\)"),
        ({"y": np.zeros((1, 0))}, r"several tasks are one row \(1, T\)"),
        ({"y": np.array([[0.0, np.inf]])}, "y: contains infinite entries; a missing label is NaN"),
        ({"y": np.array([0.0, np.nan, 1.0])}, r"may be missing \(NaN\) only in a row of several tasks \(1, T\)"),
        ({"y": "toxic"}, "y: expected a class, a number, node labels"),
    ],
)
@pytest.mark.usefixtures("unchecked")
def test_a_bad_graph_names_the_field(fields: dict[str, Any], message: str) -> None:
    good: dict[str, Any] = {"x": np.zeros((3, 2), int), "edges": np.array([[0, 1]]), "y": 1}
    with pytest.raises(ValueError, match=message):
        Graph(**(good | fields))


def test_edges_are_stored_sorted() -> None:
    g = Graph(np.zeros((4, 1)), np.array([[3, 1], [2, 0], [1, 0]]))
    np.testing.assert_array_equal(g.edges, [[0, 1], [0, 2], [1, 3]])
    assert g.neighbours == [[1, 2], [0, 3], [0], [1]]
    np.testing.assert_array_equal(g.degree, [2, 2, 1, 1])
    assert g.connected and not Graph(np.zeros((2, 1)), np.zeros((0, 2), int)).connected


@pytest.mark.usefixtures("unchecked")
def test_labels_are_plain_numbers_or_arrays() -> None:
    assert type(Graph(np.zeros((1, 1)), np.zeros((0, 2), int), np.int64(1)).y) is int  # type: ignore[arg-type]
    assert type(Graph(np.zeros((1, 1)), np.zeros((0, 2), int), np.float32(0.5)).y) is float  # type: ignore[arg-type]
    assert isinstance(Graph(np.zeros((2, 1)), np.zeros((0, 2), int), [0, 1]).y, np.ndarray)  # type: ignore[arg-type]


@given(g=graphs())
@settings(max_examples=40, deadline=None)
def test_adjacency_degree_and_neighbours_agree(g: Graph) -> None:
    a = g.adjacency
    np.testing.assert_array_equal(a, a.T)
    assert np.trace(a) == 0 and a.sum() == 2 * len(g.edges)
    np.testing.assert_array_equal(a.sum(0), g.degree)
    assert [sorted(np.flatnonzero(row).tolist()) for row in a] == [sorted(s) for s in g.neighbours]
    assert g.connected == (np.linalg.matrix_power(np.eye(g.n) + a, g.n) > 0).all()


@given(g=graphs(), seed=st.integers(0, 2**32 - 1))
@settings(max_examples=40, deadline=None)
def test_permute_moves_nodes_and_keeps_the_graph(g: Graph, seed: int) -> None:
    order = np.random.default_rng(seed).permutation(g.n)
    moved = Graph(g.x, g.edges, np.arange(g.n)).permute(order)
    np.testing.assert_array_equal(moved.adjacency, g.adjacency[np.ix_(order, order)])
    np.testing.assert_array_equal(moved.x, g.x[order])
    np.testing.assert_array_equal(moved.y, order)  # type: ignore[arg-type]
    assert moved.isomorphic(g) and g.isomorphic(moved)
    assert equal(g.permute(order).permute(np.argsort(order)), g)


@pytest.mark.parametrize("order", [[0, 1], [0, 1, 1], [1, 2, 3]])
def test_permute_wants_a_permutation(order: list[int]) -> None:
    with pytest.raises(ValueError, match=r"order: must be a permutation of 0\.\.2"):
        coloured([[0, 1]], [0, 0, 0]).permute(np.array(order))


def test_isomorphism_sees_structure_and_features() -> None:
    hexagon = coloured([[i, (i + 1) % 6] for i in range(6)], [0] * 6)
    triangles = coloured([[0, 1], [1, 2], [0, 2], [3, 4], [4, 5], [3, 5]], [0] * 6)
    assert not hexagon.isomorphic(triangles), "same degrees, other graph"
    assert not hexagon.isomorphic(coloured(hexagon.edges, [1] + [0] * 5))
    ortho, para = [1, 1, 0, 0, 0, 0], [1, 0, 0, 1, 0, 0]
    assert not coloured(hexagon.edges, ortho).isomorphic(coloured(hexagon.edges, para)), "same features, other places"
    assert not hexagon.isomorphic(coloured(hexagon.edges[:5], [0] * 6))
    assert not hexagon.isomorphic(coloured([[i, (i + 1) % 7] for i in range(7)], [0] * 7))
    assert hexagon.isomorphic(Graph(hexagon.x, hexagon.edges, 1, "another label")), "labels are ignored"


@given(a=graphs(4), b=graphs(4))
@settings(max_examples=60, deadline=None)
def test_isomorphism_is_what_trying_every_order_finds(a: Graph, b: Graph) -> None:
    orders = permutations(range(b.n)) if a.n == b.n else ()
    found = any(
        np.array_equal(a.x, b.x[list(o)]) and np.array_equal(a.adjacency, b.adjacency[np.ix_(o, o)]) for o in orders
    )
    assert a.isomorphic(b) == found


@given(g=graphs())
@settings(max_examples=30, deadline=None)
def test_networkx_round_trip(g: Graph) -> None:
    back = Graph.from_networkx(g.to_networkx())
    assert equal(back, g) and back.name == "drawn"


def test_networkx_directions_and_parallel_edges_are_dropped() -> None:
    for kind in (nx.DiGraph, nx.MultiGraph, nx.MultiDiGraph):
        g = kind([("a", "b"), ("b", "a"), ("b", "c")])
        nx.set_node_attributes(g, {v: (i,) for i, v in enumerate("abc")}, "x")
        np.testing.assert_array_equal(Graph.from_networkx(g).edges, [[0, 1], [1, 2]])


def test_networkx_without_features_is_refused() -> None:
    g = nx.path_graph(3)
    with pytest.raises(ValueError, match="networkx node 0 has no attribute 'x'"):
        Graph.from_networkx(g)
    nx.set_node_attributes(g, {0: (1, 2), 1: (1,), 2: (1, 2)}, "x")
    with pytest.raises(ValueError, match="x: networkx nodes have attributes 'x' of unequal length"):
        Graph.from_networkx(g)


@given(members=st.lists(graphs(), min_size=1, max_size=3))
@settings(max_examples=30, deadline=None)
def test_jraph_round_trip(members: list[Graph]) -> None:
    space = SPACE.fit([np.array([[c, d] for c in range(3) for d in range(12)])])
    batched = jraph.batch_np([g.to_jraph(space) for g in members])
    senders = batched.senders.copy()  # type: ignore[union-attr]
    back = Graph.from_jraph(batched, space)
    np.testing.assert_array_equal(batched.senders, senders, err_msg="the caller's arrays must stay as they are")
    assert len(back) == len(members)
    for got, want in zip(back, members, strict=True):
        np.testing.assert_array_equal(got.x, want.x)
        np.testing.assert_array_equal(got.edges, want.edges)


def test_jraph_edges_run_both_ways() -> None:
    g = Graph(np.array([[0, 1], [1, 2], [2, 1]]), np.array([[0, 1], [1, 2]])).to_jraph(SPACE)
    assert sorted(zip(g.senders.tolist(), g.receivers.tolist(), strict=True)) == [(0, 1), (1, 0), (1, 2), (2, 1)]  # type: ignore[union-attr]


@given(members=st.lists(graphs(), min_size=1, max_size=3), spare=st.integers(0, 3))
@settings(max_examples=30, deadline=None)
def test_a_batch_is_its_graphs_and_blank_padding(members: list[Graph], spare: int) -> None:
    slots = max(g.n for g in members) + spare
    batch = jax.tree.map(np.asarray, GraphBatch.from_graphs(members, SPACE, slots=slots))
    assert batch.size == len(members) and batch.nodes.shape == (len(members), slots, SPACE.width)
    for i, g in enumerate(members):
        np.testing.assert_array_equal(batch.nodes[i, : g.n], SPACE.encode(g.x))
        np.testing.assert_array_equal(batch.adjacency[i, : g.n, : g.n], g.adjacency)
        np.testing.assert_array_equal(batch.node_mask[i], np.arange(slots) < g.n)
        assert not batch.nodes[i, g.n :].any()
        assert not batch.adjacency[i, g.n :].any() and not batch.adjacency[i, :, g.n :].any()
    np.testing.assert_array_equal(batch.labels, [g.y for g in members])  # type: ignore[arg-type]


def test_labels_of_a_batch_keep_their_kind() -> None:
    def batch(*ys: Any) -> Any:
        blank = [Graph(np.zeros((2, 2), int), np.array([[0, 1]]), y) for y in ys]
        return GraphBatch.from_graphs(blank, SPACE, slots=3).labels

    assert batch(0, 1).dtype == np.int32
    assert batch(0, 0.5).dtype == np.float32
    nodes = batch(np.array([1, 2]), np.array([0, 1]))
    assert nodes.dtype == np.int32
    np.testing.assert_array_equal(nodes, [[1, 2, 0], [0, 1, 0]])
    np.testing.assert_array_equal(batch(np.array([3.5, 0.5])), [[3.5, 0.5, 0.0]])
    assert batch(0, None) is None
    with pytest.raises(ValueError, match="the graphs of the batch have labels of different kinds"):
        batch(np.array([1, 2]), 0)


def test_labels_of_several_tasks_are_told_by_their_axes() -> None:
    """A row of as many labels as there are nodes is one of tasks: nobody looks at its length."""
    missing = np.array([[1.0, np.nan]])
    graphs = [Graph(np.zeros((2, 2), int), np.array([[0, 1]]), y) for y in (missing, np.array([[0, 1]]))]
    labels: Any = GraphBatch.from_graphs(graphs, SPACE).labels
    assert labels.dtype == np.float32
    np.testing.assert_array_equal(labels, [[1.0, np.nan], [0.0, 1.0]])
    np.testing.assert_array_equal(graphs[0].permute(np.array([1, 0])).y, missing)  # type: ignore[arg-type]
    again = Graph.from_networkx(graphs[0].to_networkx())
    np.testing.assert_array_equal(again.y, missing)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"different numbers of tasks, \[2, 3\]"):
        GraphBatch.from_graphs([graphs[0], Graph(np.zeros((2, 2), int), graphs[0].edges, np.ones((1, 3)))], SPACE)
    with pytest.raises(ValueError, match="labels of different kinds"):
        GraphBatch.from_graphs([graphs[0], Graph(np.zeros((2, 2), int), graphs[0].edges, 1)], SPACE)


def test_a_batch_needs_graphs_that_fit() -> None:
    g = Graph(np.zeros((4, 2), int), np.zeros((0, 2), int))
    with pytest.raises(ValueError, match="at least one graph"):
        GraphBatch.from_graphs([], SPACE)
    with pytest.raises(ValueError, match="slots: 3 node slots cannot hold a graph of 4 nodes"):
        GraphBatch.from_graphs([g], SPACE, slots=3)
    with pytest.raises(ValueError, match=r"expected shape \(n, 1\)"):
        GraphBatch.from_graphs([g], FeatureSpace((real("length"),)))


@given(n=st.integers(1, 2000))
def test_buckets_hold_their_graphs_and_are_few(n: int) -> None:
    size = bucket(n)
    assert size >= n and bucket(size) == size
    assert size in BUCKETS or size % 128 == 0 and size - n < 128
