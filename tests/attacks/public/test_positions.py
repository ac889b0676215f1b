"""The habit of files: exact where every public file has it, the overall shares where none says more."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jgleak.attacks.public.positions import HABITS, HabitSettings, position_frequencies
from jgleak.attacks.public.rows import padded
from jgleak.attacks.public.training import PublicTraining, drawn, small
from jgleak.features import Feature, FeatureSpace
from jgleak.graph import Graph

SPACE = FeatureSpace(
    (Feature("kind", ("a", "b", "c")), Feature("flag", (0, 1), kind="binary"), Feature("x", (), "real"))
)


def file(n: int, x: float = 0.0) -> Graph:
    """Begins with ``b``, ends with a flagged ``c``, is ``a`` between."""
    rows = np.zeros((n, 3))
    rows[0, 0], rows[-1, 0], rows[-1, 1], rows[:, 2] = 1, 2, 1, x
    return Graph(rows, np.array([(i, i + 1) for i in range(n - 1)]))


def named(graphs: list[Graph], n: int, slots: int = 8) -> Any:
    return np.asarray(position_frequencies(graphs, SPACE, slots).node_logits(jnp.asarray(n), slots))


def test_first_and_last_places_are_told_for_every_size() -> None:
    graphs = [file(n) for n in (3, 4, 5, 6) for _ in range(10)]
    for n in (4, 6, 7):
        found = named(graphs, n)
        np.testing.assert_array_equal(found[:n, :3].argmax(axis=1), [1, *[0] * (n - 2), 2])
        np.testing.assert_array_equal(found[:n, 3] > 0, [False] * (n - 1) + [True])
        assert not found[n:].any(), "padding says nothing"


def test_places_no_public_graph_has_get_the_overall_shares() -> None:
    graphs = [file(3, x=2.0)] * 5
    found = named(graphs, 20, slots=32)
    np.testing.assert_allclose(np.exp(found[8, :3]), [1 / 3] * 3, rtol=1e-5)
    np.testing.assert_allclose(found[8, 4], 2.0, rtol=1e-5)


def test_rows_that_are_encoded_already_are_taken_as_they_are() -> None:
    graphs = [Graph(SPACE.encode(g.x), g.edges) for g in [file(3), file(5)]]
    np.testing.assert_array_equal(named(graphs, 5), named([file(3), file(5)], 5))


def test_statistics_of_the_space_are_undone() -> None:
    plain = [file(4)] * 6
    raw = np.concatenate([SPACE.encode(g.x) for g in plain])
    space = FeatureSpace(SPACE.features, mean=raw.mean(axis=0), std=raw.std(axis=0))
    with_statistics = position_frequencies(plain, space, 8).node_logits(jnp.asarray(4), 8)
    np.testing.assert_allclose(with_statistics, named(plain, 4), atol=1e-4)


def test_edges_are_told_from_both_ends() -> None:
    """Paths whose first node is also bound to the third, and whose last one to the last but two."""
    graphs = []
    for n in (6, 7, 8, 9) * 10:
        edges = [*((i, i + 1) for i in range(n - 1)), (0, 2), (n - 3, n - 1)]
        graphs.append(Graph(np.zeros((n, 3)), np.array(edges)))
    for n in (6, 8, 11):
        found = np.asarray(position_frequencies(graphs, SPACE, 16).edge_logits(jnp.asarray(n), 16))
        np.testing.assert_array_equal(found, found.T)
        assert not found[n:].any() and not np.diag(found).any()
        wanted = [*((i, i + 1) for i in range(n - 1)), (0, 2), (n - 3, n - 1)]
        assert sorted(map(tuple, np.argwhere(np.triu(found > 0)).tolist())) == sorted(wanted)


def test_no_habit_of_edges_without_pairs() -> None:
    alone = Graph(np.zeros((1, 3)), np.zeros((0, 2), np.int64))
    assert np.isfinite(position_frequencies([alone], SPACE, 4).edge_logits(jnp.asarray(3), 4)).all()


@pytest.mark.parametrize("whole", [True, False])
def test_what_all_public_files_have_or_none_is_not_certain(whole: bool) -> None:
    """Complete graphs of flagged nodes, or nodes alone without a flag."""
    rows, pairs = np.c_[np.zeros(4), np.full(4, whole), np.zeros(4)], np.argwhere(np.triu(np.ones((4, 4)), 1))
    found = position_frequencies([Graph(rows, pairs if whole else pairs[:0])] * 3, SPACE, 4)
    most = np.log(1 / HABITS.habit_rarest - 1) * (1 if whole else -1)
    edges, apart = found.edge_logits(jnp.asarray(4), 4), ~np.eye(4, dtype=bool)
    np.testing.assert_allclose(np.asarray(edges)[apart], most, rtol=1e-5)
    np.testing.assert_allclose(found.node_logits(jnp.asarray(4), 4)[:, 3], most, rtol=1e-5)


def test_shares_and_probabilities_are_those_of_the_logits() -> None:
    graphs = [file(n) for n in (3, 4, 5, 6) for _ in range(10)]
    found = position_frequencies(graphs, SPACE, 8)
    for n in (4, 8, 11):
        logits = np.asarray(found.node_logits(jnp.asarray(n), 16))[:n]
        shares = np.exp(logits[:, :3]) / np.exp(logits[:, :3]).sum(axis=1, keepdims=True)
        rows = found.rows_of(n, SPACE)
        np.testing.assert_allclose(rows[:, :3], shares, rtol=1e-4)
        np.testing.assert_allclose(rows[:, 3], 1 / (1 + np.exp(-logits[:, 3])), rtol=1e-4)
        edges = found.edges_of(n)
        assert edges.shape == (n, n) and not np.diag(edges).any()
        np.testing.assert_array_equal(edges > 0.5, np.abs(np.subtract.outer(np.arange(n), np.arange(n))) == 1)


def slowly(graphs: list[Graph], n: int, weight: float, rarest: float, slots: int) -> tuple[np.ndarray, np.ndarray]:
    """Node and edge logits of places by loops: every share is a mean over the graphs that have the place, and so many
    graphs more that have the overall share."""
    raw = [SPACE.encode(graph.x).astype(np.float64) for graph in graphs]
    overall = np.concatenate(raw).mean(axis=0)
    pairs = sum(graph.n * (graph.n - 1) for graph in graphs)
    density = sum(2 * len(graph.edges) for graph in graphs) / pairs

    def node(place: int, last: bool) -> np.ndarray:
        place = min(place, slots - 1)
        rows = [one[::-1][place] if last else one[place] for one in raw if place < len(one)]
        share = (np.sum(rows, axis=0) + weight * overall) / (len(rows) + weight)
        return logits(share)

    def logits(share: np.ndarray) -> np.ndarray:
        flag = np.clip(share[3], rarest, 1 - rarest)
        return np.r_[np.log(np.maximum(share[:3], rarest)), np.log(flag / (1 - flag)), share[4]]

    def pair(u: int, v: int, last: bool) -> float:
        u, v = min(u, slots - 1), min(v, slots - 1)
        there = [graph for graph in graphs if max(u, v) < graph.n]
        places = [((graph.n - 1 - u, graph.n - 1 - v) if last else (u, v), graph) for graph in there]
        share = (sum(graph.adjacency[at] for at, graph in places) + weight * density) / (len(there) + weight)
        share = np.clip(share, rarest, 1 - rarest)
        return float(np.log(share / (1 - share)))

    base = np.log(density / (1 - density))
    nodes = [node(v, False) + node(n - 1 - v, True) - logits(overall) for v in range(n)]
    edges = [
        [0.0 if u == v else pair(u, v, False) + pair(n - 1 - u, n - 1 - v, True) - base for v in range(n)]
        for u in range(n)
    ]
    return np.array(nodes), np.array(edges)


@pytest.mark.parametrize(("weight", "rarest"), [(4.0, 1e-3), (1.5, 0.05)])
def test_habits_are_means_over_the_graphs_that_have_the_place(weight: float, rarest: float) -> None:
    """Of graphs smaller and larger than there are slots, for clients of either size."""
    rng, slots, graphs = np.random.default_rng(0), 4, list[Graph]()
    for n in (2, 3, 3, 6, 7):
        rows = np.stack([rng.integers(3, size=n), rng.integers(2, size=n), rng.normal(size=n)], axis=1)
        edges = np.array([(u, v) for u in range(n) for v in range(u + 1, n) if rng.random() < 0.6] or [(0, 1)])
        graphs.append(Graph(rows, edges))
    habit = position_frequencies(graphs, SPACE, slots, HabitSettings(weight, rarest))
    for n in (1, 3, 4, 6):
        nodes, edges = slowly(graphs, n, weight, rarest, slots)
        np.testing.assert_allclose(np.asarray(habit.node_logits(jnp.asarray(n), 8))[:n], nodes, atol=1e-4)
        np.testing.assert_allclose(np.asarray(habit.edge_logits(jnp.asarray(n), 8))[:n, :n], edges, atol=1e-4)
        wanted = 1 / (1 + np.exp(-edges)) * (1 - np.eye(n))
        np.testing.assert_allclose(habit.edges_of(n), wanted, atol=1e-5)
        shown = habit.rows_of(n, SPACE)
        shares = np.exp(nodes[:, :3]) / np.exp(nodes[:, :3]).sum(axis=1, keepdims=True)
        np.testing.assert_allclose(shown[:, :3], shares, atol=1e-5)
        np.testing.assert_allclose(shown[:, 3], 1 / (1 + np.exp(-nodes[:, 3])), atol=1e-5)
        np.testing.assert_allclose(shown[:, 4], nodes[:, 4], atol=1e-5)


def test_public_graphs_of_at_most_so_many_nodes_are_learnt_from_or_the_smallest_alone() -> None:
    graphs = [file(n) for n in (5, 3, 4, 3)]
    assert [g.n for g in small(graphs, 4)] == [3, 4, 3] and [g.n for g in small(graphs, 9)] == [5, 3, 4, 3]
    assert len(small(iter(graphs), 2)) == 1 and small(graphs, 2)[0] is graphs[1]


def test_batches_are_drawn_from_all_public_graphs() -> None:
    training = PublicTraining(training_steps=1, training_batch=64, training_rate=0.1, training_nodes=9)
    drawn_rows = drawn(jax.random.key(0), training, np.array([5, 7, 9]))
    assert drawn_rows.shape == (64,) and set(drawn_rows.tolist()) == {5, 7, 9}


def test_public_rows_lie_side_by_side_without_padding_mixed_in() -> None:
    shown = padded([file(3), file(5, x=2.0)], SPACE)
    assert shown.mask.sum(axis=1).tolist() == [3, 5]
    for k, graph in enumerate((file(3), file(5, x=2.0))):
        np.testing.assert_array_equal(shown.nodes[k, : graph.n], SPACE.encode(graph.x))
        np.testing.assert_array_equal(shown.adjacency[k, : graph.n, : graph.n], graph.adjacency)
        assert not shown.nodes[k, graph.n :].any() and not shown.adjacency[k, graph.n :].any()
