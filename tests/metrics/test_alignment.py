"""Alignment undoes a relabelling, of symmetric, soft and incomplete graphs alike."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings

from jgleak.graph import Graph
from jgleak.metrics import pinning
from jgleak.metrics.alignment import align, symmetric

from .graphs import REAL, SPACE, graphs, path, permuted, plain


@given(permuted())
@settings(max_examples=20, deadline=None)
def test_undoes_a_permutation(pair: tuple[Graph, Graph]) -> None:
    truth, other = pair
    order = align(truth, SPACE, adjacency=other.adjacency, nodes=SPACE.encode(other.x))
    np.testing.assert_array_equal(other.adjacency[np.ix_(order, order)], truth.adjacency)
    np.testing.assert_array_equal(other.x[order], truth.x)


def test_structure_alone_undoes_a_permutation_of_regular_graphs() -> None:
    """Colour refinement is blind here (a triangle beside a hexagon); the isomorphism is not."""
    truth = plain(nx.disjoint_union(nx.cycle_graph(3), nx.cycle_graph(6)))
    other = truth.permute(np.random.default_rng(0).permutation(9))
    order = align(truth, SPACE, adjacency=other.adjacency)
    np.testing.assert_array_equal(other.adjacency[np.ix_(order, order)], truth.adjacency)


def test_an_entry_at_the_threshold_is_an_edge() -> None:
    """As the metrics count it: the same two cycles with every entry at the threshold; none would be left above it."""
    truth = plain(nx.disjoint_union(nx.cycle_graph(3), nx.cycle_graph(6)))
    for seed in range(5):
        other = truth.permute(np.random.default_rng(seed).permutation(9))
        order = align(truth, SPACE, adjacency=0.5 * other.adjacency, threshold=0.5)
        np.testing.assert_array_equal(other.adjacency[np.ix_(order, order)], truth.adjacency)


def test_symmetric_branches_are_not_mixed_up() -> None:
    """Weak edges (never above the threshold) of a binary tree, whose matching alone would scramble the branches."""
    truth = plain(nx.balanced_tree(2, 3))
    for seed in range(5):
        other = truth.permute(np.random.default_rng(seed).permutation(truth.n))
        order = align(truth, SPACE, adjacency=0.4 * other.adjacency, nodes=SPACE.encode(other.x))
        np.testing.assert_array_equal(other.adjacency[np.ix_(order, order)], truth.adjacency)


def test_symmetric_branches_of_large_features_are_not_mixed_up_either() -> None:
    """Nodes are alike up to a share of the largest entry: of minus a million, beside which 1e-5 is nothing."""
    tree, rng = plain(nx.balanced_tree(2, 3)), np.random.default_rng(0)
    truth, nodes = (np.c_[np.full(tree.n, -1e6), 1e-5 * rng.standard_normal(tree.n)] for _ in range(2))
    other = tree.permute(rng.permutation(tree.n))
    order = align(Graph(truth, tree.edges), REAL, adjacency=0.4 * other.adjacency, nodes=nodes)
    np.testing.assert_array_equal(other.adjacency[np.ix_(order, order)], tree.adjacency)


@pytest.mark.parametrize(("graph", "faint"), [(nx.balanced_tree(2, 3), 0.1), (nx.path_graph(7), 0.2)])
def test_a_faint_edge_breaks_no_symmetry_wrongly(graph: nx.Graph, faint: float) -> None:
    """Of the nodes that are alike the pair that fits best is pinned first; one beside the faint edge misleads."""
    truth = plain(graph)
    for seed in range(5):
        rng = np.random.default_rng(seed)
        other = truth.permute(rng.permutation(truth.n))
        soft, (u, v) = 0.45 * other.adjacency, other.edges[rng.integers(len(other.edges))]
        soft[u, v] = soft[v, u] = faint
        order = align(truth, SPACE, adjacency=soft, nodes=SPACE.encode(other.x))
        np.testing.assert_array_equal(other.adjacency[np.ix_(order, order)], truth.adjacency)


def test_noise_is_tolerated() -> None:
    truth = path(0, 1, 2, 2, 1, 1)
    rng = np.random.default_rng(3)
    other = truth.permute(rng.permutation(6))
    soft = other.adjacency * 0.45 + rng.uniform(0, 0.05, (6, 6))
    order = align(truth, SPACE, adjacency=soft, nodes=SPACE.encode(other.x))
    np.testing.assert_array_equal(other.adjacency[np.ix_(order, order)], truth.adjacency)


@given(graphs(7), graphs(7))
@settings(max_examples=20, deadline=None)
def test_is_a_permutation_of_the_larger_size(truth: Graph, other: Graph) -> None:
    for nodes in (None, SPACE.encode(other.x)):
        order = align(truth, SPACE, adjacency=other.adjacency, nodes=nodes)
        assert sorted(order.tolist()) == list(range(max(truth.n, other.n)))


def test_features_alone() -> None:
    truth = path(0, 1, 2)
    order = align(truth, SPACE, nodes=SPACE.encode(truth.x[[2, 0, 1]]))
    np.testing.assert_array_equal(order, [1, 2, 0])


def test_missing_nodes_come_last() -> None:
    truth = path(0, 1, 2)
    order = align(truth, SPACE, nodes=SPACE.encode(truth.x[[2, 0]]))
    np.testing.assert_array_equal(order, [1, 2, 0])


@pytest.mark.parametrize(
    ("adjacency", "nodes", "message"),
    [
        (None, None, "at least one"),
        (np.zeros((2, 3)), None, "square"),
        (np.full((2, 2), np.nan), None, "diverged"),
        (None, np.zeros((2, 9)), "encoded features"),
        (None, np.full((2, 4), np.inf), "diverged"),
        (np.zeros((2, 2)), np.zeros((3, 4)), "one graph"),
    ],
)
@pytest.mark.usefixtures("unchecked")
def test_mistakes_are_named(adjacency: np.ndarray | None, nodes: np.ndarray | None, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        align(path(0, 1), SPACE, adjacency=adjacency, nodes=nodes)


def test_where_no_nodes_are_alike_one_matching_is_the_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    truth, own, asked = path(0, 1, 2), pinning.linear_sum_assignment, list[int]()
    monkeypatch.setattr(pinning, "linear_sum_assignment", lambda *given: asked.append(1) or own(*given))
    order = align(truth, SPACE, adjacency=0.4 * truth.adjacency, nodes=SPACE.encode(truth.x))
    np.testing.assert_array_equal(order, [0, 1, 2])
    assert len(asked) == 1


@pytest.mark.parametrize("size", [1e-12, 1e12])
def test_a_mark_is_as_large_as_the_features(size: float) -> None:
    """A binary tree of nodes that are the same: whatever their unit, branches are told apart."""
    tree, rng = plain(nx.balanced_tree(2, 3)), np.random.default_rng(0)
    rows = np.full((tree.n, 2), size)
    other = tree.permute(rng.permutation(tree.n))
    order = align(Graph(rows, tree.edges), REAL, adjacency=0.4 * other.adjacency, nodes=rows)
    np.testing.assert_array_equal(other.adjacency[np.ix_(order, order)], tree.adjacency)


def test_where_every_pair_is_an_edge_nodes_are_not_joined_to_themselves() -> None:
    truth = plain(nx.complete_graph(4))
    assert sorted(align(truth, SPACE, adjacency=np.zeros((4, 4)), threshold=0.0).tolist()) == [0, 1, 2, 3]


def test_a_matrix_and_its_transpose_are_averaged_without_the_diagonal() -> None:
    found = symmetric(np.array([[5.0, 1.0], [0.5, -3.0]]))
    np.testing.assert_array_equal(found, [[0.0, 0.75], [0.75, 0.0]])
