"""Graphs grow from blocks: all of a census and each once; of too many parts the best are kept; equal parts merge."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from functools import cache
from itertools import product
from typing import Any

import networkx as nx
import numpy as np
import pytest

from jgleak.attacks.census.growth import Assembled, Assembly, Edges, PartialGraph, _Different, _seen
from jgleak.attacks.span.hops import Blocks
from tests.clocks import HELD as FOREVER

SMALL, LARGE = 9, 13
"""Nodes of trees: of 47 no two have the same 1-hop blocks, and of 1301 up to five have."""

Census = tuple[tuple[tuple[int, tuple[int, ...]], int], ...]
"""How many nodes have so many neighbours, with so many of their own."""


def census_of(graph: nx.Graph, classes: int = 1) -> Census:
    degree = dict(graph.degree)
    beside = {v: [(u, edge.get("along", 0)) for u, edge in graph[v].items()] for v in graph}
    around = Counter((degree[v], tuple(sorted(classes * degree[u] + k for u, k in beside[v]))) for v in graph)
    return tuple(sorted(around.items()))


@cache
def trees(nodes: int) -> dict[Census, list[nx.Graph]]:
    """All trees by their census. No other connected graph has it, since its edges are one fewer than its nodes."""
    found = defaultdict[Census, list[nx.Graph]](list)
    for tree in map(nx.Graph, nx.nonisomorphic_trees(nodes)):
        found[census_of(tree)].append(tree)
    return dict(found)


def most_alike() -> tuple[Census, list[nx.Graph]]:
    return max(trees(LARGE).items(), key=lambda item: len(item[1]))


def assembly(
    census: Census,
    beam: int | None = None,
    guide: Callable[[PartialGraph], float] | None = None,
    most: int = 10**6,
    classes: int = 1,
) -> Assembly:
    roots = np.array([degree for (degree, _), _ in census])
    nothing = np.zeros((roots.size, 0))
    neighbours = tuple(around for (_, around), _ in census)
    blocks = Blocks(roots, roots, neighbours, nothing, nothing, np.zeros(roots.size), 0, classes=classes)
    counts = np.array([count for _, count in census])
    return Assembly(blocks, counts, clock=FOREVER, most=most, beam=beam, guide=guide)


def made(one: Assembled) -> nx.Graph:
    graph = nx.Graph()
    graph.add_edges_from((*edge, {"along": k}) for edge, k in zip(one.edges, one.along, strict=True))
    assert sorted(graph) == list(range(len(one.blocks)))
    return graph


def only_one(wanted: nx.Graph, graphs: list[nx.Graph]) -> bool:
    return sum(nx.is_isomorphic(wanted, graph) for graph in graphs) == 1


def test_every_tree_of_a_census_grows_once() -> None:
    alike = {census: wanted for census, wanted in trees(LARGE).items() if len(wanted) > 2}
    assert len(trees(SMALL)) == 47 and len(alike) == 22 and len(most_alike()[1]) == 5
    for census, wanted in (trees(SMALL) | alike).items():
        growing = assembly(census)
        grown = [made(one) for one in growing.graphs()]
        assert growing.exhausted and len(grown) == len(wanted)
        assert all(only_one(tree, grown) for tree in wanted)


def connected(most: int) -> list[nx.Graph]:
    """All of two to so many nodes, most with rings."""
    return [graph for graph in nx.graph_atlas_g() if 1 < len(graph) <= most and nx.is_connected(graph)]


def test_every_graph_of_a_census_grows_once() -> None:
    alike = defaultdict[Census, list[nx.Graph]](list)
    for graph in connected(6):
        alike[census_of(graph)].append(graph)
    assert sum(map(len, alike.values())) == 142
    for census, wanted in alike.items():
        grown = [made(one) for one in assembly(census).graphs()]
        assert len(grown) == len(wanted) and all(only_one(graph, grown) for graph in wanted)


def classed(plain: nx.Graph) -> Iterator[nx.Graph]:
    """The graph with each of its edges in one of two classes."""
    for classes in product(range(2), repeat=plain.size()):
        graph = nx.Graph(plain)
        nx.set_edge_attributes(graph, dict(zip(graph.edges, classes, strict=True)), "along")
        yield graph


def test_every_graph_grows_once_with_each_way_to_class_its_edges() -> None:
    """Of six nodes those with three edges each, one of the second class: which one it is no node sees."""
    same, alike = (
        nx.algorithms.isomorphism.categorical_edge_match("along", None),
        defaultdict[Any, list[nx.Graph]](list),
    )
    cubic = [graph for graph in connected(6) if len(graph) == 6 and set(dict(graph.degree).values()) == {3}]
    matched = [one for graph in cubic for one in classed(graph) if {k for _, k in one.degree(weight="along")} == {1}]
    for graph in (*(one for plain in connected(4) for one in classed(plain)), *matched):
        others = alike[census_of(graph, classes=2)]
        if not any(nx.is_isomorphic(graph, other, edge_match=same) for other in others):
            others.append(graph)
    assert [len(wanted) for census, wanted in alike.items() if sum(number for _, number in census) == 6] == [3]
    for census, wanted in alike.items():
        grown = [made(one) for one in assembly(census, classes=2).graphs()]
        assert len(grown) == len(wanted)
        assert all(any(nx.is_isomorphic(graph, one, edge_match=same) for one in grown) for graph in wanted)


def test_a_beam_keeps_some_parts_and_says_so() -> None:
    """What it leaves are trees of the census, each once; a wide one leaves all."""
    census, wanted = most_alike()
    wide = assembly(census, beam=1000)
    assert len(list(wide.graphs())) == len(wanted) and wide.exhausted
    narrow = assembly(census, beam=1)
    grown = [made(one) for one in narrow.graphs()]
    assert not narrow.exhausted and len(grown) < len(wanted)
    assert all(any(nx.is_isomorphic(graph, tree) for tree in wanted) for graph in grown)
    parts = [partial_of((k,), (), ()) for k in range(9)]
    kept = assembly(census, beam=7)._kept(parts)
    assert len({part.blocks for part in kept}) == len(kept) == 7 and set(kept) < set(parts)
    again = assembly(census, beam=1)
    assert [one.edges for one in again.graphs()] == [one.edges for one in assembly(census, beam=1).graphs()]


def test_a_guide_keeps_the_parts_that_it_finds_likeliest() -> None:
    """If it knows the parts of one tree, a beam of one part leads to that tree, whichever it is."""
    census, wanted = most_alike()
    names = [block for block, _ in census]
    for tree in wanted:
        degree = dict(tree.degree)
        own = {v: (degree[v], tuple(sorted(degree[u] for u in tree[v]))) for v in tree}
        nx.set_node_attributes(tree, own, "block")

        def strange(partial: PartialGraph, tree: nx.Graph = tree) -> float:
            assert partial.around == surroundings(partial.blocks, partial.edges, partial.along)
            part = nx.Graph(partial.edges)
            part.add_nodes_from((v, {"block": names[block]}) for v, block in enumerate(partial.blocks))
            same = nx.algorithms.isomorphism.categorical_node_match("block", None)
            matcher = nx.algorithms.isomorphism.GraphMatcher(tree, part, same)
            return 0.0 if matcher.subgraph_is_monomorphic() else 1.0

        growing = assembly(census, beam=1, guide=strange)
        grown = [made(one) for one in growing.graphs()]
        assert only_one(tree, grown), "among what grows from its parts is the tree itself"


@pytest.mark.parametrize("most", [1, 5, 20])
def test_growing_ends_at_the_limit_of_parts(most: int) -> None:
    census, wanted = most_alike()
    growing = assembly(census, most=most)
    grown = list(growing.graphs())
    assert not growing.exhausted and growing.steps == most + 1 and len(grown) < len(wanted)


def test_a_single_node_grows_into_itself() -> None:
    growing = assembly((((0, ()), 1),))
    assert [one.blocks for one in growing.graphs()] == [(0,)] and growing.exhausted
    for census in ((((0, ()), 2),), (((0, ()), 1), ((1, (1,)), 2))):
        assert not list(assembly(census).graphs()), "nothing connects it to others"


def test_every_partial_graph_is_one_step() -> None:
    """A pair grows from one node, a path of three from its middle, to which the first end is added."""
    pair, path = (((1, (1,)), 2),), (((1, (2,)), 2), ((2, (1, 1)), 1))
    for census, steps in ((pair, 1), (path, 2)):
        growing = assembly(census, most=steps, beam=1)  # which leaves nothing out
        assert len(list(growing.graphs())) == 1 and growing.exhausted and growing.steps == steps
        fewer = assembly(census, most=steps - 1)
        assert not list(fewer.graphs()) and not fewer.exhausted


def partial_of(blocks: tuple[int, ...], edges: Edges, along: tuple[int, ...]) -> PartialGraph:
    """One that lacks nothing."""
    return PartialGraph(blocks, edges, along, ((),) * len(blocks), (), surroundings(blocks, edges, along))


def surroundings(blocks: tuple[int, ...], edges: Edges, along: tuple[int, ...]) -> tuple[int, ...]:
    ends = [(*edge, k) for edge, k in zip(edges, along, strict=True)]
    return tuple(sum(_seen(blocks[u + w - v], k) for u, w, k in ends if v in (u, w)) for v in range(len(blocks)))


def partial_graph(rng: np.random.Generator, classes: int) -> PartialGraph:
    """A connected one of two blocks, of which many are alike."""
    n = int(rng.integers(2, 6))
    edges = {(int(rng.integers(v)), v) for v in range(1, n)}
    edges |= {(u, v) for v in range(n) for u in range(v) if rng.random() < 0.2}
    blocks, along = rng.integers(2, size=n).tolist(), rng.integers(classes, size=len(edges)).tolist()
    return partial_of(tuple(blocks), tuple(sorted(edges)), tuple(along))


def renumbered(partial: PartialGraph, rng: np.random.Generator) -> PartialGraph:
    place, order = rng.permutation(len(partial.blocks)).tolist(), rng.permutation(len(partial.edges)).tolist()
    blocks = [0] * len(place)
    for old, new in enumerate(place):
        blocks[new] = partial.blocks[old]
    ends = [sorted((place[u], place[v])) for u, v in partial.edges]
    edges, along = tuple((ends[i][0], ends[i][1]) for i in order), tuple(partial.along[i] for i in order)
    return partial_of(tuple(blocks), edges, along)


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
