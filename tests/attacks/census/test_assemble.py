"""All graphs of a census are listed, also where parts are too many to keep all of them at a time."""

from __future__ import annotations

from functools import cache
from typing import Any

import jax
import networkx as nx
import pytest

from jgleak import Budget, Knowledge
from jgleak.attacks.attack import Reconstruction
from jgleak.attacks.census.census import CENSUS
from jgleak.graph import Graph


@cache
def cubic() -> tuple[nx.Graph, ...]:
    """The five connected graphs of 8 nodes with 3 neighbours each: where all features are equal, no update of two
    layers tells them apart."""
    found: list[nx.Graph] = []
    for seed in range(200):
        graph = nx.random_regular_graph(3, 8, seed)
        if nx.is_connected(graph) and not any(nx.is_isomorphic(graph, other) for other in found):
            found.append(graph)
    assert len(found) == 5  # OEIS A002851
    return tuple(found)


def client(lab: Any, number: int) -> Graph:
    return lab.graph([0] * 8, sorted(map(sorted, cubic()[number].edges)), 1)


def answered(lab: Any, truth: Graph, auxiliary: tuple[Graph, ...] = (), **options: str) -> Reconstruction:
    model = lab.model()
    attack = CENSUS.with_options(options) if options else CENSUS
    knowledge = Knowledge(lab.space, n=8, auxiliary=auxiliary)
    return attack(lab.observe(model, truth), knowledge, key=jax.random.key(0), budget=Budget(time_limit=100))


def listed(answer: Reconstruction, lab: Any) -> list[int]:
    return [k for graph in answer.graphs for k in range(5) if graph.isomorphic(client(lab, k))]


def test_all_graphs_of_one_census_are_listed(lab: Any) -> None:
    answer = answered(lab, client(lab, 0))
    assert sorted(listed(answer, lab)) == list(range(5)) == list(range(len(answer.graphs)))
    assert answer.certificate is not None and answer.certificate.status == "k_graphs"


@pytest.mark.parametrize("public", range(5))
def test_beside_public_graphs_what_is_likely_comes_first_and_the_rest_after_it(lab: Any, public: int) -> None:
    """A beam of one part meets at most some of them; then all others are assembled."""
    answer = answered(lab, client(lab, 0), (client(lab, public),), beam="1")
    assert sorted(listed(answer, lab)) == list(range(5))
    assert answer.certificate is not None and answer.certificate.status == "k_graphs"


def test_of_too_many_parts_some_graphs_are_listed_and_none_is_claimed_to_be_all(lab: Any) -> None:
    answer = answered(lab, client(lab, 0), partial_graphs="75", beam="8")
    assert 0 < len(listed(answer, lab)) < 5
    assert answer.certificate is not None and answer.certificate.status == "at_least_k"
