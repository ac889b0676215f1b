"""Aggregates are those of a GCN, and the matching is the cheapest one."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings

from jgleak.graph import Graph
from jgleak.metrics.matching import HOPS, SEED, TILT, WIDTH, Aggregates, aggregates, distances, match

from .graphs import SPACE, graphs, path, permuted


def _hops(graph: Graph) -> Aggregates:
    return aggregates(SPACE.encode(graph.x), graph.adjacency)


def test_shapes_and_first_hop() -> None:
    graph = path(0, 1, 2)
    hops = _hops(graph)
    assert [h.shape for h in hops] == [(3, SPACE.width)] + [(3, WIDTH)] * HOPS
    np.testing.assert_array_equal(hops[0], SPACE.encode(graph.x))


def test_propagation_is_the_normalised_adjacency() -> None:
    """On one edge both nodes see the average of both features; an isolated node sees itself."""
    joined, apart = path(0, 1), Graph(path(0, 1).x, np.zeros((0, 2), int))
    together, alone = _hops(joined)[1], _hops(apart)[1]
    np.testing.assert_allclose(together[0], together[1], atol=1e-12)
    both = aggregates(SPACE.encode(joined.x).mean(axis=0, keepdims=True), np.zeros((1, 1)))[1]
    np.testing.assert_allclose(together[:1], both, atol=1e-12)
    assert not np.allclose(alone[0], alone[1])


def _xavier(rows: int) -> np.ndarray:
    """The first random weight for ``rows`` columns: part of the metric's definition."""
    bound = np.sqrt(6.0 / (rows + WIDTH))
    return np.random.default_rng(SEED).uniform(-bound, bound, (rows, WIDTH))


def test_edge_classes_add_a_row_each() -> None:
    """``F_1 = ReLU(Ã X W_1 + Σ_k Ã_k 1 u_k)``, with ``W_1`` and ``u_k`` Xavier-uniform by the seed."""
    graph = path(0, 1, 2)
    classes = np.zeros((3, 3, 2))
    classes[[0, 1], [1, 0], 0] = classes[[1, 2], [2, 1], 1] = 1.0
    looped = graph.adjacency + np.eye(3)
    mixing = looped / np.sqrt(np.outer(looped.sum(axis=1), looped.sum(axis=1)))
    added = sum(np.outer((mixing * classes[:, :, k]).sum(axis=1), _xavier(2)[k]) for k in range(2))
    own = mixing @ SPACE.encode(graph.x) @ _xavier(SPACE.width)
    found = aggregates(SPACE.encode(graph.x), graph.adjacency, by_class=classes)[1]
    np.testing.assert_allclose(found, np.maximum(own + added, 0.0), atol=1e-9)
    np.testing.assert_allclose(_hops(graph)[1], np.maximum(own, 0.0), atol=1e-9)


@given(permuted())
@settings(max_examples=20, deadline=None)
def test_aggregates_follow_the_node_order(pair: tuple[Graph, Graph]) -> None:
    """Whatever the relabelling, every node finds an equal one: the matched distance is zero."""
    a, b = _hops(pair[0]), _hops(pair[1])
    pairs = match(a, b)
    np.testing.assert_allclose(np.hstack(a)[pairs.truth], np.hstack(b)[pairs.graph], atol=1e-12)


def test_a_node_is_at_no_distance_from_itself() -> None:
    """Exactly: the weights that break ties are those of both graphs."""
    hops = _hops(path(0, 1, 2, 1))
    plain = sum(((hop[:, None] - hop[None]) ** 2).sum(axis=2) for hop in hops)
    found = distances(hops, hops)
    assert np.all(np.diag(found) == 0.0)
    assert np.all(plain <= found + 1e-12) and np.all(found <= (1 + TILT) * plain + 1e-12)
    assert np.any(found > plain + 1e-9)


@given(graphs(5), graphs(5))
@settings(max_examples=20, deadline=None)
def test_matching_is_the_cheapest_by_brute_force(first: Graph, second: Graph) -> None:
    a, b = _hops(first), _hops(second)
    pairs, cost = match(a, b), distances(a, b)
    assert len(set(pairs.truth)) == len(set(pairs.graph)) == min(first.n, second.n)
    if first.n > second.n:
        cost = cost.T
    least = min(
        sum(cost[i, j] for i, j in enumerate(p)) for p in itertools.permutations(range(cost.shape[1]), len(cost))
    )
    assert distances(a, b)[pairs.truth, pairs.graph].sum() == pytest.approx(least, abs=1e-9)
