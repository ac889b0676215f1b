"""``exact`` is isomorphism with equal features."""

from __future__ import annotations

import time

import networkx as nx
import numpy as np
from hypothesis import given, settings

from jgleak.graph import Graph
from jgleak.metrics.anonymity import guess_rate, truth_in_set
from jgleak.metrics.exact import exact, isomorphism

from .graphs import path, permuted, plain


@given(permuted())
@settings(max_examples=20, deadline=None)
def test_order_gives_back_the_truth(pair: tuple[Graph, Graph]) -> None:
    truth, other = pair
    order = isomorphism(truth, other)
    assert order is not None
    back = other.permute(order)
    np.testing.assert_array_equal(back.x, truth.x)
    np.testing.assert_array_equal(back.edges, truth.edges)


def test_agrees_with_networkx_on_every_small_graph() -> None:
    """All pairs of the 53 unlabelled graphs with up to five nodes, the second one relabelled."""
    atlas = [plain(g) for g in nx.graph_atlas_g()[1:53]]
    for first in atlas:
        for second in atlas:
            other = second.permute(np.arange(second.n)[::-1])
            assert exact(first, other) == (first is second) == first.isomorphic(other)


def test_features_edges_and_size_count() -> None:
    assert not exact(path(0, 1), path(0, 2))
    assert not exact(path(0, 1, 0), path(0, 0, 1))
    assert not exact(path(0, 0), path(0, 0, 0))
    assert not exact(path(0, 0), Graph(path(0, 0).x, np.zeros((0, 2), int)))
    assert not exact(plain(nx.cycle_graph(6)), plain(nx.disjoint_union(nx.cycle_graph(3), nx.cycle_graph(3))))


def test_tolerance_is_for_real_features() -> None:
    x = np.array([[0.1, 2.0], [3.0, 1.0]])
    truth, near = Graph(x, np.array([[0, 1]])), Graph(x[::-1] + 1e-6, np.array([[0, 1]]))
    assert not exact(truth, near)
    assert exact(truth, near, tolerance=1e-5)


def test_integer_and_float_codes_are_equal() -> None:
    assert exact(path(0, 1), Graph(path(0, 1).x.astype(np.float32), path(0, 1).edges))


def test_large_symmetric_graphs_are_cheap() -> None:
    start = time.perf_counter()
    for graph in (nx.star_graph(150), nx.circulant_graph(120, [1, 5]), nx.hypercube_graph(7)):
        truth = plain(nx.convert_node_labels_to_integers(graph))
        assert exact(truth, truth.permute(np.random.default_rng(0).permutation(truth.n)))
    assert time.perf_counter() - start < 5.0


def test_a_guess_among_the_listed() -> None:
    truth, other = path(0, 1, 2), path(0, 2, 1)
    again = truth.permute(np.array([2, 0, 1]))
    assert guess_rate(truth, [other, again]) == 0.5
    assert guess_rate(truth, [other]) == guess_rate(truth, []) == 0.0


def test_a_tolerance_is_for_the_listed_too() -> None:
    truth = Graph(np.array([[0.1], [3.0]]), np.array([[0, 1]]))
    near, far = Graph(truth.x + 1e-6, truth.edges), Graph(truth.x + 1e-4, truth.edges)
    assert truth_in_set(truth, [far, near], tolerance=1e-5) and not truth_in_set(truth, [far, near])
    assert guess_rate(truth, [far, near], tolerance=1e-5) == 0.5 and guess_rate(truth, [far, near]) == 0.0


def test_graphs_of_other_features_are_others() -> None:
    """As many nodes and edges; the one has a feature more, as a graph of another space has."""
    assert not exact(path(0, 1), Graph(np.zeros((2, 3), int), path(0, 1).edges))
