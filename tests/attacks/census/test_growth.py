"""Partial graphs are merged exactly where they are isomorphic."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest

from jgleak.attacks.census.growth import PartialGraph, _Different


def partial_graph(rng: np.random.Generator, classes: int) -> PartialGraph:
    """A connected one of two blocks, of which many are alike."""
    n = int(rng.integers(2, 6))
    edges = {(int(rng.integers(v)), v) for v in range(1, n)}
    edges |= {(u, v) for v in range(n) for u in range(v) if rng.random() < 0.2}
    blocks, along = rng.integers(2, size=n).tolist(), rng.integers(classes, size=len(edges)).tolist()
    return PartialGraph(tuple(blocks), tuple(sorted(edges)), tuple(along), ((),) * n, ())


def renumbered(partial: PartialGraph, rng: np.random.Generator) -> PartialGraph:
    place, order = rng.permutation(len(partial.blocks)).tolist(), rng.permutation(len(partial.edges)).tolist()
    blocks = [0] * len(place)
    for old, new in enumerate(place):
        blocks[new] = partial.blocks[old]
    ends = [sorted((place[u], place[v])) for u, v in partial.edges]
    edges, along = tuple((ends[i][0], ends[i][1]) for i in order), tuple(partial.along[i] for i in order)
    return PartialGraph(tuple(blocks), edges, along, partial.needs, ())


def shown(partial: PartialGraph) -> nx.Graph:
    graph = nx.Graph()
    graph.add_nodes_from((v, {"block": block}) for v, block in enumerate(partial.blocks))
    graph.add_edges_from((u, v, {"along": along}) for (u, v), along in zip(partial.edges, partial.along, strict=True))
    return graph


@pytest.mark.parametrize("classes", [1, 2])
def test_of_isomorphic_partial_graphs_the_first_stays(classes: int) -> None:
    rng, matches = np.random.default_rng(classes), nx.algorithms.isomorphism
    nodes, edges = matches.categorical_node_match("block", None), matches.categorical_edge_match("along", None)
    given = [partial_graph(rng, classes) for _ in range(120)]
    given += [renumbered(partial, rng) for partial in given[:40]]
    different, expected = _Different(classes), list[PartialGraph]()
    for partial in given:
        different.add(partial)
        graph = shown(partial)
        if not any(nx.is_isomorphic(graph, shown(other), nodes, edges) for other in expected):
            expected.append(partial)
    assert 20 < len(expected) < 120
    assert different.graphs == expected
