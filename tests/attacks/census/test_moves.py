"""Random changes of a graph: every graph that a change may make, and no other."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import combinations, permutations, product

import networkx as nx
import numpy as np
import pytest

from jgleak.attacks.census import moves
from jgleak.attacks.census.moves import START_SIZE, Linked, Moves

Made = tuple[frozenset[tuple[int, int]], tuple[int, ...]]
"""Edges and kinds."""

PAN = ({(0, 1), (1, 2), (2, 3), (0, 3), (3, 4)}, (0, 1, 2, 1, 0))
"""A ring of four with a node beside it, of three kinds."""

PATH = ({(0, 1), (1, 2), (2, 3)}, (0, 1, 1, 2))
PAW = ({(0, 1), (1, 2), (0, 2), (2, 3)}, (1, 0, 1, 2))
"""A triangle with a node beside it: two of its nodes lie between others that are linked."""

TRIANGLE = ({(0, 1), (1, 2), (0, 2)}, (0, 0, 1))


def made(edges: Iterable[tuple[int, int]], kinds: Iterable[int]) -> Made:
    return frozenset((min(edge), max(edge)) for edge in edges), tuple(int(kind) for kind in kinds)


def linked(edges: Iterable[tuple[int, int]], kinds: tuple[int, ...]) -> Linked:
    adjacency = np.zeros((len(kinds), len(kinds)), bool)
    for u, v in edges:
        adjacency[u, v] = adjacency[v, u] = True
    return Linked(adjacency, np.array(kinds))


def read(graph: Linked) -> Made:
    assert not graph.adjacency.diagonal().any() and np.array_equal(graph.adjacency, graph.adjacency.T)
    return made(((int(u), int(v)) for u, v in np.argwhere(graph.adjacency)), graph.kinds)


def outcomes(change: Callable[[Linked, np.random.Generator], Linked | None], start: Made, draws: int) -> set[Made]:
    """What came of many draws."""
    found = (change(linked(*start), np.random.default_rng(seed)) for seed in range(draws))
    return {read(graph) for graph in found if graph is not None}


def moved_ends(edges: frozenset[tuple[int, int]], kinds: tuple[int, ...]) -> Iterator[Made]:
    for edge in edges:
        for (stays, _), other in product((edge, edge[::-1]), range(len(kinds))):
            new = (min(stays, other), max(stays, other))
            if other not in edge and new not in edges:
                yield made(edges - {edge} | {new}, kinds)


def crossed(edges: frozenset[tuple[int, int]], kinds: tuple[int, ...]) -> Iterator[Made]:
    for (a, b), (c, d) in permutations(edges, 2):
        for e, f in ((c, d), (d, c)):
            after = made(edges - {(a, b), (c, d)} | {(a, e), (b, f)}, kinds)
            if len({a, b, c, d}) == 4 and not {tuple(sorted((a, e))), tuple(sorted((b, f)))} & edges:
                yield after


def toggled(edges: frozenset[tuple[int, int]], kinds: tuple[int, ...]) -> Iterator[Made]:
    for pair in combinations(range(len(kinds)), 2):
        yield made(edges ^ {pair}, kinds)


def slid(edges: frozenset[tuple[int, int]], kinds: tuple[int, ...]) -> Iterator[Made]:
    graph = nx.Graph(edges)
    for node in graph:
        around = sorted(graph[node])
        if len(around) == 2 and not graph.has_edge(*around):
            without = {edge for edge in edges if node not in edge} | {(around[0], around[1])}
            for u, v in without:
                yield made(without - {(u, v)} | {(u, node), (v, node)}, kinds)


def exchanged(edges: frozenset[tuple[int, int]], kinds: tuple[int, ...]) -> Iterator[Made]:
    for u, v in combinations(range(len(kinds)), 2):
        if kinds[u] != kinds[v]:
            turned = list(kinds)
            turned[u], turned[v] = turned[v], turned[u]
            yield made(edges, turned)


def renamed(edges: frozenset[tuple[int, int]], kinds: tuple[int, ...]) -> Iterator[Made]:
    for node, kind in product(range(len(kinds)), range(3)):
        if kinds[node] != kind:
            yield made(edges, (*kinds[:node], kind, *kinds[node + 1 :]))


def grown(edges: frozenset[tuple[int, int]], kinds: tuple[int, ...]) -> Iterator[Made]:
    size = len(kinds)
    for kind in range(3):
        for node in range(size):
            yield made(edges | {(node, size)}, (*kinds, kind))
        for u, v in edges:
            yield made(edges - {(u, v)} | {(u, size), (v, size)}, (*kinds, kind))


def shrunk(edges: frozenset[tuple[int, int]], kinds: tuple[int, ...]) -> Iterator[Made]:
    """A leaf is taken away, or the middle of a path."""
    graph = nx.Graph(edges)
    for node in graph:
        around = sorted(graph[node])
        if len(around) == 1 or (len(around) == 2 and not graph.has_edge(*around)):
            rest = {edge for edge in edges if node not in edge} | ({(around[0], around[1])} if around[1:] else set())
            name = {old: new for new, old in enumerate(sorted(set(graph) - {node}))}
            yield made({(name[u], name[v]) for u, v in rest}, kinds[:node] + kinds[node + 1 :])


FREE = Moves(3, 4, range(2, 8))
CHANGES: dict[str, tuple[Callable[..., Linked | None], Callable[..., Iterator[Made]]]] = {
    "an end moves": (moves._moved_end, moved_ends),
    "two cross": (moves._crossed, crossed),
    "one more or less": (moves._toggled, toggled),
    "a node slides": (moves._slid, slid),
    "two kinds are exchanged": (moves._exchanged, exchanged),
    "a node is renamed": (FREE._renamed, renamed),
    "a node more": (FREE._grown, grown),
    "a node less": (FREE._shrunk, shrunk),
}


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("start", [PAN, PATH, PAW, TRIANGLE], ids=["pan", "path", "paw", "triangle"])
def test_a_change_makes_every_graph_that_it_may_and_no_other(start: Made, change: str) -> None:
    drawn, wanted = CHANGES[change]
    start = made(*start)
    assert outcomes(drawn, start, 500) == set(wanted(*start))


def test_sizes_stay_within_their_range() -> None:
    start = made(*PATH)
    assert not outcomes(Moves(3, 4, range(2, 5))._grown, start, 50), "four nodes are the most"
    assert not outcomes(Moves(3, 4, range(4, 8))._shrunk, start, 50), "and the fewest"
    alone = made([], [0])
    assert outcomes(Moves(1, 4, range(1, 3))._grown, alone, 20) == {made([(0, 1)], [0, 0])}
    for change in (moves._moved_end, moves._crossed, moves._toggled, moves._slid, moves._exchanged):
        assert not outcomes(change, alone, 20), "nothing can be changed of one node"


@pytest.mark.parametrize("fixed", [False, True])
@pytest.mark.parametrize("sizes", [range(5, 6), range(4, 7)])
def test_changes_are_those_that_stay_connected_within_the_degree(sizes: range, fixed: bool) -> None:
    """Of known kinds only edges and places change, of one size no node comes or goes."""
    start = made(*PAN)
    kinds = np.array(start[1]) if fixed else None
    allowed = Moves(3, 3, sizes, kinds)
    changes = [moved_ends, crossed, toggled, slid, exchanged]
    changes += [] if fixed else [renamed] if len(sizes) == 1 else [renamed, grown, shrunk]
    wanted = set[Made]()
    for edges, names in (one for change in changes for one in change(*start)):
        graph = nx.Graph(edges)
        graph.add_nodes_from(range(len(names)))
        if nx.is_connected(graph) and max(dict(graph.degree).values()) <= 3:
            wanted.add((edges, names))
    before = linked(*start)
    found = {read(graph) for seed in range(1500) if (graph := allowed.changed(before, np.random.default_rng(seed)))}
    assert found == wanted
    assert read(before) == start, "a change is that of a copy"


def test_a_graph_shrinks_to_one_node_where_that_is_allowed() -> None:
    pair, sizes = linked([(0, 1)], (0, 0)), range(1, 3)
    drawn = (Moves(1, 4, sizes).changed(pair, np.random.default_rng(seed)) for seed in range(40))
    assert {read(graph) for graph in drawn if graph is not None} == {made([], [0])}


def test_what_has_no_change_is_said() -> None:
    one = Moves(1, 1, range(2, 3))
    assert all(one.changed(linked([(0, 1)], (0, 0)), np.random.default_rng(seed)) is None for seed in range(20))


@pytest.mark.parametrize(
    ("most", "sizes", "drawn", "degree"),
    [(4, range(4, 7), {4, 5, 6}, 3), (2, range(5, 6), {5}, 2), (1, range(3, 4), {3}, 2)],
    ids=["three at most", "a path", "a tree needs two"],
)
def test_a_search_starts_at_a_tree(most: int, sizes: range, drawn: set[int], degree: int) -> None:
    starts = [Moves(2, most, sizes).start(np.random.default_rng(seed)) for seed in range(150)]
    graphs = [nx.from_numpy_array(start.adjacency) for start in starts]
    assert all(nx.is_tree(graph) for graph in graphs)
    assert {len(graph) for graph in graphs} == drawn
    assert max(count for graph in graphs for _, count in graph.degree) == degree
    assert {int(kind) for start in starts for kind in start.kinds} == {0, 1}


def test_a_start_is_small_where_that_is_allowed_and_has_the_kinds_that_are_known() -> None:
    many = Moves(2, 4, range(START_SIZE - 1, 60))
    drawn = {many.start(np.random.default_rng(seed)).kinds.size for seed in range(40)}
    assert drawn == {START_SIZE - 1, START_SIZE}
    assert Moves(2, 4, range(30, 60)).start(np.random.default_rng(0)).kinds.size == 30, "the fewest, where all are many"
    known = np.array([0, 0, 1, 2, 5])
    starts = [Moves(6, 4, range(5, 6), known).start(np.random.default_rng(seed)) for seed in range(20)]
    assert all(np.array_equal(np.sort(start.kinds), known) for start in starts)
    assert len({start.kinds.tobytes() for start in starts}) > 5, "in any order"
