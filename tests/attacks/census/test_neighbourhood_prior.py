"""Neighbourhoods as a prior: what public graphs have is likelier, whatever the node order; parts see what they can."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest

from jgleak.attacks.census.neighbourhood_prior import RADIUS, UNSEEN, NeighbourhoodPrior, row_names
from jgleak.graph import Graph


def test_public_graphs_are_likelier(lab: Any) -> None:
    public = [lab.path([0, 1, 2, 1, 0]), lab.path([1, 2, 1, 0]), lab.ring([0, 1, 2, 0, 1, 2])]
    prior = NeighbourhoodPrior(public)
    known, strange = prior.of_graphs([lab.path([2, 1, 2, 1, 0]), lab.ring([0, 0, 2, 2, 1])])
    assert prior.of_graphs(public)[0] < known < strange


def test_of_all_public_nodes_it_is_zero(lab: Any) -> None:
    """It is counted beyond the public graphs' own mean."""
    public = [lab.random(7, seed) for seed in range(5)]
    assert sum(NeighbourhoodPrior(public).of_graphs(public)) == pytest.approx(0.0, abs=1e-9)


def test_node_order_changes_nothing(lab: Any) -> None:
    prior = NeighbourhoodPrior([lab.random(8, seed) for seed in range(4)])
    graph, rng = lab.random(9, 11), np.random.default_rng(0)
    values = prior.of_graphs([graph, *(graph.permute(rng.permutation(9)) for _ in range(3))])
    np.testing.assert_allclose(values, values[0], rtol=1e-12)


def test_an_open_node_is_only_itself(lab: Any) -> None:
    """A part whose nodes all lack neighbours shows their features; once closed it is the whole graph."""
    graph = lab.path([0, 1, 2])
    prior = NeighbourhoodPrior([graph])
    nodes, neighbours = row_names(graph.x), graph.neighbours
    whole = prior.negative_log_likelihood(nodes, neighbours, [True] * 3)
    assert whole == prior.of_graphs([graph])[0] == pytest.approx(0.0)
    unknown = NeighbourhoodPrior([lab.path([3, 3])])
    alone = unknown.negative_log_likelihood(nodes, neighbours, [False] * 3)
    assert alone == pytest.approx(3 * (-np.log(UNSEEN / 2)))


def unrolled(graph: Graph, node: int, hops: int) -> Any:
    """A rooted neighbourhood, a node that is reached twice twice."""
    if not hops:
        return row_names(graph.x)[node]
    around = sorted((unrolled(graph, other, hops - 1) for other in graph.neighbours[node]), key=repr)
    return unrolled(graph, node, hops - 1), tuple(around)


def test_it_is_the_sum_of_logarithms_of_shares_beyond_that_of_public_nodes(lab: Any) -> None:
    public, graph = [lab.random(6, seed) for seed in range(3)], lab.random(5, 7)
    nodes, wanted = sum(one.n for one in public), 0.0
    for hops in range(RADIUS + 1):
        counts = Counter(unrolled(one, node, hops) for one in public for node in range(one.n))
        usual = -sum(number * np.log(number / nodes) for number in counts.values()) / nodes
        own = [counts[unrolled(graph, node, hops)] for node in range(graph.n)]
        wanted += sum(-np.log((number or UNSEEN) / nodes) - usual for number in own)
    assert NeighbourhoodPrior(public).of_graphs([graph])[0] == pytest.approx(wanted)


def test_of_a_part_only_neighbourhoods_count_that_are_known(lab: Any) -> None:
    """Of a path whose last node lacks neighbours: those of so many hops that do not reach it."""
    graph = lab.path([0, 1, 2, 0, 1])
    prior = NeighbourhoodPrior([lab.path([3, 3])])
    found = prior.negative_log_likelihood(row_names(graph.x), graph.neighbours, [True] * 4 + [False])
    known = sum(max(graph.n - hops, 0) for hops in range(RADIUS + 1))
    assert found == pytest.approx(-known * np.log(UNSEEN / 2))
