"""The order of nodes: against all permutations, against known rows, and against the habit of files."""

from __future__ import annotations

from itertools import combinations, permutations
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linear_sum_assignment

from jgleak.attacks import node_order
from jgleak.attacks.node_order import FORBIDDEN, KnownRows, OrderSettings, _Gains, likeliest, numbered
from jgleak.attacks.public.positions import position_frequencies
from jgleak.federated import Knowledge
from jgleak.graph import Graph


def value(adjacency: np.ndarray, edges: np.ndarray, nodes: np.ndarray, order: Any) -> float:
    """Sum over edges between places, and over nodes at their places."""
    order = np.array(order)
    inside = adjacency[np.ix_(order, order)]
    return float((inside * edges).sum() / 2 + nodes[order, np.arange(len(order))].sum())


def draw(seed: int, n: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """A random graph, and random gains of its edges and nodes at places."""
    rng = np.random.default_rng(seed)
    adjacency = np.triu(rng.random((n, n)) < 0.5, 1).astype(float)
    adjacency += adjacency.T
    edges = np.triu(rng.normal(size=(n, n)), 1)
    return adjacency, edges + edges.T, rng.normal(size=(n, n))


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(2, 6))
def test_no_exchange_betters_the_likeliest_order(seed: int, n: int) -> None:
    drawn = draw(seed, n)
    found = likeliest(*drawn)
    assert sorted(found.tolist()) == list(range(n))
    assert np.isclose(_Gains(*drawn).value(found), value(*drawn, found))
    for i, j in combinations(range(n), 2):
        other = found.copy()
        other[[i, j]] = other[[j, i]]
        assert value(*drawn, other) <= value(*drawn, found) + 1e-5


def test_the_likeliest_order_is_the_best_of_most_graphs() -> None:
    """A search that may end in a local optimum; all 720 orders say how often."""
    best = 0
    for seed in range(40):
        drawn = draw(seed, 6)
        highest = max(value(*drawn, order) for order in permutations(range(6)))
        best += value(*drawn, likeliest(*drawn)) >= highest - 1e-9
    assert best >= 32


def test_forbidden_places_stay_empty() -> None:
    rng = np.random.default_rng(0)
    nodes = np.full((6, 6), FORBIDDEN)
    nodes[:3, 3:] = nodes[3:, :3] = 0.0
    adjacency = np.ones((6, 6)) - np.eye(6)
    edges = rng.normal(size=(6, 6))
    order = likeliest(adjacency, np.triu(edges, 1) + np.triu(edges, 1).T, nodes)
    assert set(order[:3].tolist()) == {3, 4, 5} and set(order[3:].tolist()) == {0, 1, 2}


def test_without_edges_one_start_finds_the_best_places() -> None:
    """Every node gains by a place of its own and more by the next one; no exchange of two nodes helps."""
    nodes, none = np.eye(4) + 1.1 * np.roll(np.eye(4), 1, axis=1), np.zeros((4, 4))
    order = likeliest(none, none, nodes, OrderSettings(order_starts=1))
    assert order.tolist() == [3, 0, 1, 2]
    rested = _Gains(none, none, np.where(nodes > 1.0, 0.0, FORBIDDEN)).relaxed(np.eye(4), 0)
    assert rested.tolist() == [3, 0, 1, 2], "whatever the weights of places where none may stand"


def test_starts_are_doubly_stochastic(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first is in the middle of all orders; the others are half way to the best places, or some of equal ones."""
    starts, relaxed = list[np.ndarray](), _Gains.relaxed
    monkeypatch.setattr(_Gains, "relaxed", lambda own, *given: starts.append(given[0]) or relaxed(own, *given))
    adjacency, edges, nodes = draw(0, 5)
    middle, best = np.full((5, 5), 0.2), np.zeros((5, 5))
    best[linear_sum_assignment(nodes, maximize=True)] = 1.0
    for gains in (nodes, np.zeros((5, 5))):
        starts.clear()
        likeliest(adjacency, edges, gains)
        assert len(starts) == OrderSettings().order_starts
        np.testing.assert_array_equal(starts[0], middle)
        for start in starts:
            np.testing.assert_allclose((start.sum(axis=0), start.sum(axis=1)), 1.0)
            assert start.min() > 0.0
        if gains is nodes:
            np.testing.assert_allclose(starts[1], (middle + best) / 2)
    assert len({start.tobytes() for start in starts}) > 2


@pytest.mark.parametrize("public", [False, True])
def test_known_rows_are_the_rows(public: bool, lab: Any) -> None:
    truth, rng = lab.random(9, 4), np.random.default_rng(0)
    known = Knowledge(lab.space, features=truth.x, auxiliary=(lab.random(8, 5), lab.path([0, 1])) if public else ())
    found = numbered(truth.permute(rng.permutation(9)), known)
    np.testing.assert_array_equal(found.x, truth.x)
    assert found.isomorphic(truth)


def test_a_graph_of_other_rows_stays_as_it_is(lab: Any) -> None:
    graph = lab.path([0, 1, 2])
    for known in (lab.path([0, 1, 1]).x, lab.path([0, 1, 2, 2]).x):
        assert numbered(graph, Knowledge(lab.space, features=known)) is graph
    assert numbered(graph, Knowledge(lab.space)) is graph


def test_public_files_give_their_habit(lab: Any) -> None:
    """Paths that are written from end to end: a shuffled path is put back, one way round or the other."""
    public = tuple(lab.path([0] * n) for n in range(4, 12))
    truth, rng = lab.path([0] * 9), np.random.default_rng(0)
    shuffled = truth.permute(rng.permutation(9))
    assert not np.array_equal(shuffled.adjacency, truth.adjacency)
    found = numbered(shuffled, Knowledge(lab.space, auxiliary=public))
    np.testing.assert_array_equal(found.adjacency, truth.adjacency)


def test_the_order_is_the_likeliest_by_the_shares_of_public_files(lab: Any) -> None:
    """Of all 120 orders, where kinds of nodes and edges each ask for others."""
    best = []
    for seed in range(5):
        public = tuple(lab.random(5, 100 * seed + i) for i in range(3))
        graph, habit = lab.random(5, seed), position_frequencies(public, lab.space, 16)
        edges = np.asarray(habit.edge_logits(jnp.asarray(5), 16))[:5, :5]
        nodes = lab.space.encode(graph.x) @ np.asarray(habit.node_logits(jnp.asarray(5), 16))[:5].T

        def worth(order: Any, graph: Graph = graph, edges: Any = edges, nodes: Any = nodes) -> float:
            placed = graph.permute(np.array(order))
            between = sum((edges[u, v] + edges[v, u]) / 2 for u, v in placed.edges.tolist())
            return between + sum(nodes[node, place] for place, node in enumerate(order))

        values = {graph.permute(np.array(order)): worth(order) for order in permutations(range(5))}
        found = numbered(graph, Knowledge(lab.space, auxiliary=public, max_n=5))
        mine = [worth for one, worth in values.items() if _same(one, found)]
        best.append(max(mine) >= max(values.values()) - 1e-3)
    assert sum(best) >= 4


def _same(one: Graph, other: Graph) -> bool:
    return np.array_equal(one.x, other.x) and np.array_equal(one.adjacency, other.adjacency)


def test_rows_count_and_compare(lab: Any) -> None:
    x = lab.path([0, 1, 0]).x
    rows = KnownRows.of(Knowledge(lab.space, features=x))
    assert rows is not None and rows.counts.sum() == 3
    np.testing.assert_array_equal(rows.codes[rows.order], x)
    assert rows.agree(x[::-1]) and not rows.agree(x[:2]) and not rows.agree(lab.path([0, 2, 0]).x)
    assert KnownRows.of(Knowledge(lab.space)) is None


def test_known_rows_tell_the_size(lab: Any) -> None:
    assert Knowledge(lab.space, features=lab.path([0, 1, 2]).x).n == 3
    assert Knowledge(lab.space, adjacency=np.zeros((4, 4))).n == 4
    assert Knowledge(lab.space).n is None


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda x: x[:, :2], r"features: .* expected shape \(n, 3\)"),
        (lambda x: x * np.nan, "features: .* NaN"),
        (lambda x: x + 50, "features: .* outside 0.."),
    ],
)
def test_rows_that_do_not_fit_the_schema_are_refused(spoil: Any, message: str, lab: Any) -> None:
    with pytest.raises(ValueError, match=message):
        Knowledge(lab.space, features=spoil(lab.path([0, 1, 2]).x))


def test_a_step_goes_to_the_best_point_of_its_line() -> None:
    """From one order towards another: the first one is left where the largest value between the two is nearer to the
    other, which values along the line tell."""
    shares, far = np.linspace(0.0, 1.0, 2001), []
    for seed in range(60):
        adjacency, edges, nodes = draw(seed, 6)
        start = np.eye(6)
        at, to = linear_sum_assignment(adjacency @ start @ edges + nodes, maximize=True)
        other = np.zeros((6, 6))
        other[at, to] = 1.0
        line = (1 - shares)[:, None, None] * start + shares[:, None, None] * other
        best = shares[np.sum((adjacency @ line @ edges / 2 + nodes) * line, axis=(1, 2)).argmax()]
        order = _Gains(adjacency, edges, nodes).relaxed(start, 1)
        if abs(best - 0.5) > 1e-3 and not np.array_equal(start, other):
            far.append(best)
            np.testing.assert_array_equal(np.eye(6)[order].T, other if best > 0.5 else start)
    assert min(far) < 0.5 < max(far)


def test_known_rows_of_several_graphs_are_taken_together(lab: Any) -> None:
    one, two = lab.path([0, 1, 0]).x, lab.path([2, 1, 0]).x
    rows = KnownRows.of(Knowledge(lab.space, features=np.stack([one, two])))
    assert rows is not None and rows.counts.sum() == 6 and rows.order.shape == (6,)
    np.testing.assert_array_equal(rows.codes[rows.order], np.concatenate([one, two]))
    assert rows.agree(np.concatenate([two, one])) and not rows.agree(np.concatenate([one, one]))
    unknown = lab.path([3, 3]).x
    assert rows.index(np.concatenate([unknown, one])).tolist() == [-1, -1, *rows.order[:3]]


def test_what_an_order_gains_is_weighed_as_habits_say(lab: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of an edge the mean of both directions; of a node what its values gain at a place, where it may stand there."""
    public, graph = tuple(lab.random(5, seed) for seed in range(3)), lab.random(5, 7)
    asked = list[tuple[np.ndarray, ...]]()
    monkeypatch.setattr(node_order, "likeliest", lambda *gains: asked.append(gains[:3]) or np.arange(5))
    slots = 8
    habit = position_frequencies(public, lab.space, slots)
    edges = np.asarray(habit.edge_logits(jnp.asarray(5), slots))[:5, :5]
    bare = lab.bare.encode(graph.x)
    nodes = bare @ np.asarray(habit.node_logits(jnp.asarray(5), slots))[:5].T
    numbered(graph, Knowledge(lab.space, auxiliary=public, max_n=slots))
    numbered(graph, Knowledge(lab.space, auxiliary=public, max_n=slots, features=graph.x))
    for gains, free in zip(asked, (True, False), strict=True):
        np.testing.assert_array_equal(gains[0], graph.adjacency)
        np.testing.assert_allclose(gains[1], (edges + edges.T) / 2, atol=1e-6)
        same = (graph.x[:, None] == graph.x).all(axis=-1)
        np.testing.assert_allclose(gains[2], np.where(free | same, nodes, FORBIDDEN), rtol=1e-5)
