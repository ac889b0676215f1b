"""Gluing against brute force: every connected graph of up to five nodes, every assignment of kinds."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from itertools import permutations, product
from typing import Any

import networkx as nx
import numpy as np
import pytest

from jgleak.attacks.attack import Clock
from jgleak.attacks.grain.build import Builder, Gluing, PartialGluing
from jgleak.attacks.span.hops import Blocks
from jgleak.graph import Graph
from tests.clocks import HELD as FOREVER

ATLAS = [g for g in nx.graph_atlas_g() if 1 <= g.number_of_nodes() <= 5 and nx.is_connected(g)]


def blocks(pairs: set[tuple[int, tuple[int, ...]]]) -> Blocks:
    roots, neighbours = zip(*sorted(pairs), strict=True)
    zeros = np.zeros(len(roots))
    return Blocks(
        np.array(roots), np.array(roots), tuple(neighbours), zeros[:, None], np.zeros((len(roots), 0)), zeros, 0
    )


def cut(graphs: list[Graph]) -> tuple[Blocks, Blocks]:
    """All 1-hop and 2-hop blocks of some graphs."""
    types = {row: i for i, row in enumerate(sorted({tuple(r) for g in graphs for r in g.x.tolist()}))}
    ones, twos = set(), set()
    for g in graphs:
        type_ = [types[tuple(r)] for r in g.x.tolist()]
        ones |= {(type_[v], tuple(sorted(type_[u] for u in g.neighbours[v]))) for v in range(g.n)}
    kind = {block: k for k, block in enumerate(sorted(ones))}
    for g in graphs:
        type_ = [types[tuple(r)] for r in g.x.tolist()]
        kinds = [kind[(type_[v], tuple(sorted(type_[u] for u in g.neighbours[v])))] for v in range(g.n)]
        twos |= {(kinds[v], tuple(sorted(kinds[u] for u in g.neighbours[v]))) for v in range(g.n)}
    return blocks(ones), blocks(twos)


def canonical(kinds: tuple[int, ...], edges: Any) -> tuple[Any, ...]:
    best = None
    for order in permutations(range(len(kinds))):
        place = np.argsort(order)
        shape = sorted(tuple(sorted((int(place[u]), int(place[v])))) for u, v in edges)
        key = (tuple(kinds[v] for v in order), tuple(shape))
        best = key if best is None or key < best else best
    assert best is not None
    return best


def brute(twos: Blocks, root: int, most: int) -> set[tuple[Any, ...]]:
    """Every connected graph with a node of kind ``root`` whose nodes and neighbours are all blocks."""
    allowed = set(zip(twos.roots.tolist(), twos.neighbours, strict=True))
    degrees = {kind: len(around) for kind, around in allowed}
    out = set()
    for shape in ATLAS:
        if shape.number_of_nodes() > most:
            continue
        fitting = [[k for k, d in degrees.items() if d == shape.degree[v]] for v in shape]
        for kinds in product(*fitting):
            around = [tuple(sorted(kinds[u] for u in shape[v])) for v in shape]
            if root in kinds and all((kinds[v], around[v]) in allowed for v in shape):
                out.add(canonical(kinds, list(shape.edges)))
    return out


def builder(ones: Blocks, twos: Blocks, most: int, *, steps: int = 10**6, clock: Clock = FOREVER) -> Builder:
    gluing = Gluing(ones, twos, np.arange(twos.size, dtype=float), np.ones(twos.size, bool))
    return Builder(gluing, most=most, clock=clock, steps=steps)


WORLDS: dict[str, Callable[[Any], list[Graph]]] = {
    "ring of equals": lambda lab: [lab.ring([0] * 5)],
    "ring of two colours": lambda lab: [lab.ring([0, 1, 0, 1])],
    "path and star": lambda lab: [lab.path([0, 1, 0]), lab.graph([0, 1, 1, 1], [(0, 1), (0, 2), (0, 3)])],
    "tadpole": lambda lab: [lab.graph([0, 0, 0, 1, 1], [(0, 1), (1, 2), (0, 2), (2, 3), (3, 4)])],
    "square with a chord": lambda lab: [lab.graph([0, 1, 0, 1], [(0, 1), (1, 2), (2, 3), (0, 3), (0, 2)])],
    "clique": lambda lab: [lab.graph([0, 0, 1, 1], [(u, v) for u in range(4) for v in range(u)])],
    "random": lambda lab: [lab.random(5, seed, extra=2) for seed in range(3)],
    "one and two nodes": lambda lab: [lab.path([0]), lab.path([0, 1]), lab.path([1, 1])],
}


@pytest.mark.parametrize("world", WORLDS)
@pytest.mark.long
def test_closures_are_brute_force(world: str, lab: Any) -> None:
    graphs = WORLDS[world](lab)
    ones, twos = cut(graphs)
    for root in sorted(set(twos.roots.tolist())):
        search = builder(ones, twos, 5)
        found = list(search.closures(root))
        assert search.exhausted and all(p.closed for p in found)
        for partial in found:
            near: list[list[int]] = [[] for _ in partial.kinds]
            for u, v in partial.edges:
                near[u].append(partial.kinds[v])
                near[v].append(partial.kinds[u])
            for v, block in enumerate(partial.glued):
                assert int(twos.roots[block]) == partial.kinds[v]
                assert twos.neighbours[block] == tuple(sorted(near[v]))
        assert {canonical(p.kinds, p.edges) for p in found} == brute(twos, root, 5)


def test_the_truth_is_among_them(lab: Any) -> None:
    for seed in range(10):
        truth = lab.random(9, seed, extra=2)
        ones, twos = cut([truth])
        types = sorted({tuple(r) for r in truth.x.tolist()})
        search = builder(ones, twos, 9)

        def as_graph(partial: PartialGluing, types: list = types, ones: Blocks = ones) -> Graph:
            return Graph(np.array([types[ones.roots[k]] for k in partial.kinds]), np.array(partial.edges))

        assert any(len(p.kinds) == 9 and as_graph(p).isomorphic(truth) for p in search.closures(int(twos.roots[0])))


def test_small_sizes_come_first_when_asked(lab: Any) -> None:
    ones, twos = cut([lab.ring([0] * 5)])
    sizes = [sorted({len(p.kinds) for p in builder(ones, twos, most).closures(0)}) for most in range(2, 8)]
    assert sizes == [[], [3], [3, 4], [3, 4, 5], [3, 4, 5, 6], [3, 4, 5, 6, 7]]


def test_a_search_goes_on_while_there_is_any_time(lab: Any) -> None:
    """The clock, which stands at half a second, is asked after every 256 steps."""
    ones, twos = cut([lab.ring([0] * 5)])
    long = builder(ones, twos, 150)
    assert sorted(len(p.kinds) for p in long.closures(0)) == list(range(3, 151)) and long.exhausted
    assert 10**6 - long.steps > 256


def test_a_search_ends_at_its_steps_or_its_time(lab: Any) -> None:
    ones, twos = cut([lab.graph([0] * 12, [(i, j) for i in range(12) for j in range(i) if (i - j) in (1, 2, 10, 11)])])
    few = builder(ones, twos, 40, steps=300)
    assert not any(len(p.kinds) > 40 for p in few.closures(0)) and not few.exhausted
    late = builder(ones, twos, 40, steps=10**9, clock=Clock(0.0, 0.0))
    list(late.closures(0))
    assert not late.exhausted and late.largest is not None


@pytest.mark.parametrize("world", WORLDS)
def test_a_search_leaves_nothing_behind_and_prunes_nothing_that_closes(world: str, lab: Any) -> None:
    """At every finished graph nothing is missing any more, and the size that was said to be needed is its size."""
    ones, twos = cut(WORLDS[world](lab))
    for root in sorted(set(twos.roots.tolist())):
        search = builder(ones, twos, 5)
        for partial in search.closures(root):
            assert search._needed() == len(partial.kinds) and not any(search.demand.values())
            assert search.snapshot() == partial and partial.census == tuple(
                (block, partial.glued.count(block)) for block in sorted(set(partial.glued))
            )
        assert search.kinds == [root] and search.adjacent == [{}] and search.glued == [-1]
        wanted = {
            (search.gluing.roots[root], other): ones.neighbours[root].count(other) for other in ones.neighbours[root]
        }
        assert {key: number for key, number in search.demand.items() if number} == wanted


SIZES: dict[str, tuple[set[tuple[int, tuple[int, ...]]], list[int], int]] = {
    "a node alone": ({(0, ())}, [0], 1),
    "a pair": ({(0, (0,))}, [0], 2),
    "two of a ring of equals": ({(0, (0, 0))}, [0, 0], 2),
    "a star's centre": ({(0, (1, 1, 1)), (1, (0,))}, [0], 4),
    "its leaf": ({(0, (1, 1, 1)), (1, (0,))}, [1], 2),
    "a new node may have two of them": ({(0, (1, 1, 1)), (1, (0, 0)), (1, (0,))}, [0], 3),
    "one new node of each kind": ({(0, (1, 2)), (1, (0,)), (2, (0,))}, [0], 3),
    "one new node for both": ({(0, (2,)), (1, (2,)), (2, (0, 1))}, [0, 1], 3),
    "two for the larger demand": ({(0, (2, 2)), (1, (2,)), (2, (0, 1))}, [0, 1], 4),
    "what dangles meets it": ({(0, (1,)), (1, (0,))}, [0, 1], 2),
    "more dangle than are asked for": ({(0, (1,)), (1, (0,))}, [0, 1, 1], 4),
}
"""Blocks, the kinds of nodes without edges, and the smallest number of nodes with which nothing is missing."""


@pytest.mark.parametrize("case", SIZES)
def test_the_size_that_is_needed_counts_new_nodes(case: str) -> None:
    pairs, types, wanted = SIZES[case]
    ones = blocks(pairs)
    kind = {int(root): k for k, root in enumerate(ones.roots)}
    search = builder(ones, dataclasses.replace(ones, roots=np.arange(ones.size)), 9)
    for one in types:
        search._add(kind[one])
    assert search._needed() == wanted


def test_what_fits_holds_all_that_is_there_and_lacks_the_rest() -> None:
    """Against multisets, in the given order, of blocks that may be used."""
    ones = blocks({(0, (0, 0, 1)), (0, (1, 1, 1)), (1, (0,))})
    twos = blocks({(0, (1, 1, 2)), (0, (1, 2, 2)), (1, (0, 2, 2)), (0, (2, 2, 2))})
    order = np.array([2.0, 0.0, 1.0, 3.0])
    for alive in (np.ones(4, bool), np.array([True, False, True, True])):
        gluing = Gluing(ones, twos, order, alive)
        for kind in (0, 1, 2):
            for present in {tuple(sorted(some)) for size in range(4) for some in product(range(3), repeat=size)}:
                wanted = [
                    (block, tuple(sorted((Counter(twos.neighbours[block]) - Counter(present)).elements())))
                    for block in np.argsort(order).tolist()
                    if alive[block]
                    and twos.roots[block] == kind
                    and not Counter(present) - Counter(twos.neighbours[block])
                ]
                assert list(gluing.fits(kind, present)) == wanted == list(gluing.fits(kind, present))
        used = {int(twos.roots[block]) for block in range(4) if alive[block]}
        wanted = {
            (int(ones.roots[kind]), other): max(
                ones.neighbours[k].count(other) for k in used if ones.roots[k] == ones.roots[kind]
            )
            for kind in used
            for other in ones.neighbours[kind]
        }
        assert {key: number for key, number in gluing.capacity.items() if number} == wanted


def test_a_search_of_few_steps_finds_the_first_graphs_of_a_long_one(lab: Any) -> None:
    ones, twos = cut([lab.graph([0, 0, 0, 1, 1], [(0, 1), (1, 2), (0, 2), (2, 3), (3, 4)])])
    every = builder(ones, twos, 5)
    whole = list(every.closures(0))
    used, before = 10**6 - every.steps, 0
    assert used > 3 and len(whole) >= 1
    for steps in range(1, used + 3):
        few = builder(ones, twos, 5, steps=steps)
        found = list(few.closures(0))
        assert found == whole[: len(found)] and len(found) >= before and few.exhausted is (steps > used)
        before = len(found)
    assert before == len(whole)


Bonded = tuple[tuple[int, ...], dict[tuple[int, int], int]]
"""Types of nodes, and the class of every edge."""

BONDED: list[Bonded] = [
    ((0, 0, 0, 0), {(0, 1): 0, (1, 2): 1, (2, 3): 0, (0, 3): 1}),
    ((0, 1, 0), {(0, 1): 0, (1, 2): 1}),
    ((1, 1, 1), {(0, 1): 0, (1, 2): 0, (0, 2): 1}),
]


def around(labels: Sequence[int], bonds: Mapping[tuple[int, int], int]) -> list[tuple[int, ...]]:
    """The neighbours of each node, along classes of two."""
    near: list[list[int]] = [[] for _ in labels]
    for (u, v), along in bonds.items():
        near[u].append(2 * labels[v] + along)
        near[v].append(2 * labels[u] + along)
    return [tuple(sorted(one)) for one in near]


def test_closures_along_edges_of_two_classes_are_brute_force() -> None:
    """A neighbour is a kind along a class; every graph of up to four nodes, every assignment of kinds and classes."""
    stars = [list(zip(types, around(types, bonds), strict=True)) for types, bonds in BONDED]
    kinds_of = {star: k for k, star in enumerate(sorted({star for one in stars for star in one}))}
    kinds = [[kinds_of[star] for star in one] for one in stars]
    seen = {
        pair
        for one, (_, bonds) in zip(kinds, BONDED, strict=True)
        for pair in zip(one, around(one, bonds), strict=True)
    }
    ones, twos = (dataclasses.replace(blocks(pairs), classes=2) for pairs in (set(kinds_of), seen))
    degrees = [len(star[1]) for star in kinds_of]
    wanted: dict[int, set[Any]] = {root: set() for root in kinds_of.values()}
    for shape in (g for g in ATLAS if g.number_of_nodes() <= 4):
        fitting = [[k for k, d in enumerate(degrees) if d == shape.degree[v]] for v in shape]
        for labels, along in product(product(*fitting), product((0, 1), repeat=shape.number_of_edges())):
            bonds = dict(zip(shape.edges, along, strict=True))
            if seen.issuperset(zip(labels, around(labels, bonds), strict=True)):
                for root in labels:
                    wanted[root].add(bonded(labels, shape.edges, along))
    assert sum(map(len, wanted.values())) > len(BONDED)
    for root, graphs in wanted.items():
        search = builder(ones, twos, 4)
        assert {bonded(p.kinds, p.edges, p.along) for p in search.closures(root)} == graphs


def bonded(kinds: Any, edges: Any, along: Any) -> tuple[Any, ...]:
    """The same for graphs that differ in the order of nodes alone."""
    forms = []
    for order in permutations(range(len(kinds))):
        place = np.argsort(order).tolist()
        shape = sorted((*sorted((place[u], place[v])), one) for (u, v), one in zip(edges, along, strict=True))
        forms.append((tuple(kinds[v] for v in order), tuple(shape)))
    return min(forms)
