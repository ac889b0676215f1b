"""Habits of files by their definition: shares counted place by place, with the overall shares as further graphs."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest

from jgleak.attacks.public.positions import HABITS, HabitSettings, position_frequencies
from jgleak.features import Feature, FeatureSpace
from jgleak.graph import Graph

SPACE = FeatureSpace((Feature("kind", ("a", "b", "c")), Feature("flag", (0, 1), "binary"), Feature("x", (), "real")))
SLOTS = 5


@pytest.fixture(scope="module")
def graphs() -> list[Graph]:
    """Random ones, smaller than the places and larger; one without edges."""
    rng, out = np.random.default_rng(0), []
    for n in (1, 2, 4, 5, 6, 8, 8):
        rows = np.c_[rng.integers(3, size=n), rng.integers(2, size=n), rng.normal(size=n)]
        pairs = [(i, j) for i in range(n) for j in range(i + 1, n) if rng.random() < 0.4]
        out.append(Graph(rows, np.array(pairs, np.int64).reshape(-1, 2)))
    return out


def raw(graph: Graph) -> np.ndarray:
    return np.c_[np.eye(3)[graph.x[:, 0].astype(int)], graph.x[:, 1:]]


def logits(share: np.ndarray, rarest: float) -> np.ndarray:
    """Of one row of features."""
    flag = np.clip(share[3], rarest, 1 - rarest)
    return np.r_[np.log(np.maximum(share[:3], rarest)), np.log(flag / (1 - flag)), share[4]]


@pytest.mark.parametrize("settings", [HABITS, HabitSettings(1.5, 0.2)], ids=["default", "few"])
def test_shares_of_features_are_counted_from_both_ends(graphs: list[Graph], settings: HabitSettings) -> None:
    found = position_frequencies(graphs, SPACE, SLOTS, settings).features
    rows, weight = [raw(graph) for graph in graphs], settings.habit_weight
    overall = np.concatenate(rows).mean(axis=0)
    np.testing.assert_allclose(found.overall, logits(overall, settings.habit_rarest), rtol=1e-5)
    for place in range(SLOTS):
        for table, at in ((found.first, place), (found.last, -1 - place)):
            here = [row[at] for row in rows if len(row) > place]
            share = (np.sum(here, axis=0) + weight * overall) / (len(here) + weight)
            np.testing.assert_allclose(table[place], logits(share, settings.habit_rarest), rtol=1e-5, atol=1e-6)


def test_shares_of_edges_are_counted_from_both_ends(graphs: list[Graph]) -> None:
    found = position_frequencies(graphs, SPACE, SLOTS).edges
    pairs = sum(graph.n * (graph.n - 1) for graph in graphs) / 2
    density, weight = sum(len(graph.edges) for graph in graphs) / pairs, HABITS.habit_weight
    assert found.overall == pytest.approx(np.log(density / (1 - density)), rel=1e-5)
    for i in range(SLOTS):
        for j in range(SLOTS):
            if i == j:
                continue
            for table, end in ((found.first, False), (found.last, True)):
                here = []
                for graph in (graph for graph in graphs if graph.n > max(i, j)):
                    edges = {frozenset(edge) for edge in graph.edges.tolist()}
                    ends = {graph.n - 1 - i, graph.n - 1 - j} if end else {i, j}
                    here.append(frozenset(ends) in edges)
                share = (sum(here) + weight * density) / (len(here) + weight)
                assert table[i, j] == pytest.approx(np.log(share / (1 - share)), rel=1e-4, abs=1e-5)


def test_what_a_place_is_worth_is_the_sum_of_both_ends_less_the_overall_shares(graphs: list[Graph]) -> None:
    """Places beyond the last that is counted are taken for it."""
    some: Any = position_frequencies(graphs, SPACE, SLOTS)
    for n in (1, 3, 5, 9):
        nodes, edges = (np.asarray(read(jnp.asarray(n), 12)) for read in (some.node_logits, some.edge_logits))
        assert nodes.shape == (12, 5) and edges.shape == (12, 12)
        first, last = (np.minimum(order, SLOTS - 1) for order in (np.arange(n), np.arange(n)[::-1]))
        wanted = some.features.first[first] + some.features.last[last] - some.features.overall
        np.testing.assert_allclose(nodes[:n], wanted, rtol=1e-5, atol=1e-6)
        assert not nodes[n:].any() and not edges[n:].any() and not edges[:, n:].any() and not np.diag(edges).any()
        for i in range(n):
            for j in set(range(n)) - {i}:
                both = some.edges.first[first[i], first[j]] + some.edges.last[last[i], last[j]] - some.edges.overall
                assert edges[i, j] == pytest.approx(both, rel=1e-4, abs=1e-5)
        chances = some.edges_of(n)
        assert chances.shape == (n, n)
        np.testing.assert_allclose(chances, (1 - np.eye(n)) / (1 + np.exp(-edges[:n, :n])), rtol=1e-5)


def test_features_are_encoded_as_the_space_says(graphs: list[Graph]) -> None:
    """With its mean and deviation, the shares of a value are a row of the normalised columns."""
    rows = np.concatenate([raw(graph) for graph in graphs])
    space = FeatureSpace(SPACE.features, mean=rows.mean(axis=0), std=rows.std(axis=0))
    found = position_frequencies(graphs, space, SLOTS).rows_of(4, space)
    plain = position_frequencies(graphs, SPACE, SLOTS).rows_of(4, SPACE)
    np.testing.assert_allclose(found * rows.std(axis=0) + rows.mean(axis=0), plain, rtol=1e-3, atol=1e-4)
