"""The order and the end of an enumeration of small graphs: which sizes, for how long, and how many."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Iterator, Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from jgleak.attacks.attack import Budget, Clock
from jgleak.attacks.census import enumerate as enumeration
from jgleak.attacks.census.assemble import ExplainingGraph
from jgleak.attacks.census.enumerate import Multiset, Stars, _batches, _Looked, _stars, enumerated, may_be_small
from jgleak.attacks.census.problem import CensusProblem
from jgleak.attacks.census.settings import DEFAULTS
from jgleak.attacks.distance import Fit
from jgleak.attacks.span.hops import Nodes
from jgleak.features import FeatureSpace, onehot
from jgleak.federated import Knowledge
from jgleak.graph import Graph
from tests.clocks import HELD, Held

ENDED = Budget(time_limit=0.0).start()
NODES = Nodes(np.arange(3, dtype=np.int32)[:, None], np.eye(3), np.ones(3, np.int64))


SPACE = FeatureSpace((onehot("kind", range(9)),))


def problem(max_n: int | None = 3, n: int | None = None, classes: int = 0, **limits: int) -> CensusProblem:
    """One of graphs with up to three nodes, if no more is known."""
    some = object.__new__(CensusProblem)
    bounded = dataclasses.replace(DEFAULTS.limits, **{"enumerated_nodes": 3, **limits})
    some.__dict__.update(
        knowledge=Knowledge(SPACE, n=n, max_n=max_n),
        settings=dataclasses.replace(DEFAULTS, limits=bounded),
        observation=SimpleNamespace(model=SimpleNamespace(edge_classes=classes)),
        fit=Fit(None, 10),
    )
    return some


def one(number: int) -> ExplainingGraph:
    graph = Graph(np.zeros((1, 1), np.int32), np.zeros((0, 2), np.int64), 0)
    return ExplainingGraph(graph, 1e-7, (b"", bytes([number])))


class Searched:
    """An enumeration whose graphs are named by numbers: those of each size, and those that have the gradient."""

    def __init__(
        self,
        monkeypatch: pytest.MonkeyPatch,
        batches: dict[tuple[int, int], list[list[int]]],
        true: Sequence[int],
        clock: Clock = HELD,
        nodes: Nodes = NODES,
        **more: Any,
    ) -> None:
        self.sizes, self.clocks = list[tuple[int, int]](), list[Clock]()
        self.slots = set[int]()

        def looked(seen: _Looked, _: Any, stars: Any, size: tuple[int, int], clock: Clock) -> Iterator[list[int]]:
            assert stars == (size[0], 2)
            self.sizes.append(size)
            self.clocks.append(clock)
            seen.multisets, seen.partials = seen.multisets + 1, seen.partials + 10
            yield from batches.get(size, [])

        def passing(_: Any, graphs: list[int], slots: int, _clock: Clock) -> list[ExplainingGraph]:
            self.slots.add(slots)
            return [one(number) for number in graphs if number in true]

        monkeypatch.setattr(enumeration, "_stars", lambda _, __, ___, size: size)
        monkeypatch.setattr(enumeration, "shown_rank", lambda *_: 2)
        monkeypatch.setattr(enumeration, "_batches", looked)
        monkeypatch.setattr(enumeration, "passing", passing)
        self.found = enumerated(problem(**more), nodes, None, clock)
        self.names = [form[1][0] for form in (graph.form for graph in self.found.graphs)]


SIZES = [(1, 0), (2, 0), (3, 0), (3, 1)]


def test_every_size_is_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    """All are exhausted where there are no larger graphs and no other vectors."""
    batches = {(2, 0): [[1, 2], [3]], (3, 1): [[4]]}
    whole = Searched(monkeypatch, batches, [2, 4])
    assert (whole.sizes, whole.slots, whole.names) == (SIZES, {3}, [2, 4])
    found = whole.found
    assert (found.exhausted, found.censuses, found.partials) == (True, 4, 40)
    assert all(clock is HELD for clock in whole.clocks)
    larger = Searched(monkeypatch, batches, [2, 4], max_n=4)
    assert larger.sizes == SIZES and not larger.found.exhausted
    cut = Searched(monkeypatch, batches, [2, 4], nodes=dataclasses.replace(NODES, complete=False))
    assert cut.names == [2, 4] and not cut.found.exhausted


def test_beyond_the_first_graph_larger_ones_cost_as_much_time_as_it_did(monkeypatch: pytest.MonkeyPatch) -> None:
    """Graphs of four nodes are possible: after a hundred of a thousand seconds another hundred are left."""
    batches = {(2, 0): [[1]], (3, 0): [[2]]}
    for gone, ends in ((100.0, 200.0), (700.0, 1000.0)):
        clock = Clock(time.monotonic() - gone, 1000.0)
        some = Searched(monkeypatch, batches, [1, 2], clock, max_n=4)
        assert some.clocks[:2] == [clock, clock] and some.clocks[2] is some.clocks[3]
        assert some.clocks[2].seconds == pytest.approx(ends, abs=5.0)
    none = Searched(monkeypatch, batches, [], clock, max_n=4)
    assert none.clocks == [clock] * 4


def test_a_full_list_ends_the_search(monkeypatch: pytest.MonkeyPatch) -> None:
    """It has no more than may be listed, and may lack others."""
    batches = {(2, 0): [[1, 2, 3], [4]], (3, 0): [[5]]}
    full = Searched(monkeypatch, batches, [1, 2, 3, 4, 5], listed=2)
    assert full.names == [1, 2] and full.sizes == SIZES[:2] and not full.found.exhausted
    just = Searched(monkeypatch, batches, [1, 5], listed=2)
    assert just.names == [1, 5] and just.sizes == SIZES[:3]


def test_the_client_s_graph_may_be_small() -> None:
    """Where three nodes may be enumerated: a larger graph may not be meant, nor one of more certain vectors."""
    three = dataclasses.replace(NODES, certain=True)
    four = Nodes(np.arange(4, dtype=np.int32)[:, None], np.eye(4), np.ones(4, np.int64))
    none = Nodes(np.zeros((0, 1), np.int32), np.zeros((0, 3)), np.zeros(0, np.int64))
    assert may_be_small(problem(), NODES) and may_be_small(problem(), three) and may_be_small(problem(), four)
    assert not may_be_small(problem(), dataclasses.replace(four, certain=True)) and not may_be_small(problem(), none)
    assert may_be_small(problem(None, n=3), NODES) and not may_be_small(problem(None, n=4), NODES)


class Grown:
    """An assembly of pairs of nodes, five at a time."""

    cut = False

    def __init__(self, blocks: Any, counts: np.ndarray, *, clock: Clock, most: int) -> None:
        self.counts, self.most, self.clock = counts, most, clock
        self.classes, self.steps, self.exhausted = blocks.classes, 10, not self.cut
        asked.append(self)

    def graphs(self) -> Iterator[Any]:
        yield from [((0, 1), ((0, 1),), (self.classes - 1,))] * 5


asked = list[Grown]()
STARS = Stars(
    np.array([[7], [8]]), np.eye(2), np.array([0, 1, 1]), ((0,), (0,), (0, 0)), np.zeros(2, int), np.full(2, 9), 1
)


@pytest.mark.parametrize("classes", [0, 2])
def test_graphs_of_a_multiset_come_in_batches(classes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A tree of ``n`` nodes has two ends of every of its ``n - 1`` edges, and a cycle two more."""
    ends, chosen = list[tuple[int, int]](), list[Multiset | None]([{0: 1, 2: 3}, {1: 2}])

    def multisets(_: Stars, n: int, number: int, clock: Clock) -> Iterator[Any]:
        ends.append((n, number))
        yield from chosen

    asked.clear()
    monkeypatch.setattr(enumeration, "TOGETHER", 4)
    monkeypatch.setattr(enumeration, "Assembly", Grown)
    monkeypatch.setattr(Stars, "multisets", multisets)
    some = problem(classes=classes, partial_graphs=77)

    def batched(clock: Clock = HELD) -> tuple[list[list[Graph]], _Looked]:
        looked = _Looked()
        return list(_batches(looked, some, STARS, (5, 3), clock)), looked

    made, looked = batched()
    assert [len(part) for part in made] == [4, 4, 2] and ends == [(5, 14)]
    assert [one.counts.tolist() for one in asked] == [[1, 0, 3], [0, 2, 0]]
    assert all((one.most, one.clock, one.classes) == (77, HELD, classes or 1) for one in asked)
    assert (looked.multisets, looked.partials, looked.cut) == (2, 20, False)
    graph = made[0][0]
    assert graph.x.tolist() == [[7], [8]] and graph.edges.tolist() == [[0, 1]]
    assert (None if graph.edge_class is None else graph.edge_class.tolist()) == ([1] if classes else None)
    made, looked = batched(ENDED)
    assert [len(part) for part in made] == [4, 1] and looked.cut and looked.multisets == 1
    made, looked = batched(Held(0.0, 0.9))
    assert [len(part) for part in made] == [4, 4, 2] and not looked.cut
    chosen.insert(1, None)  # the clock ended while multisets were chosen
    made, looked = batched()
    assert [len(part) for part in made] == [4, 1] and looked.cut and looked.multisets == 1
    chosen.remove(None)
    monkeypatch.setattr(Grown, "cut", True)
    made, looked = batched()
    assert [len(part) for part in made] == [4, 4, 2] and looked.cut


@pytest.mark.parametrize(("absolute", "unit"), [(True, 1.0), (False, 0.25)])
def test_bounds_are_numbers_or_shares_of_nodes_as_the_update_shows_them(
    absolute: bool, unit: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of four nodes, those of one vector two or three, and of the other at most one."""
    space = FeatureSpace((onehot("kind", range(2)), onehot("degree", range(4))), degree="degree")
    codes = np.array([[0, 1], [1, 2]], np.int32)
    some, nodes = problem(), Nodes(codes, space.encode(codes), codes[:, 1])
    some.__dict__.update(knowledge=Knowledge(space))
    monkeypatch.setattr(CensusProblem, "absolute", property(lambda _: absolute))
    stars = _stars(some, nodes, (unit * np.array([2.0, 0.0]), unit * np.array([3.0, 1.0])), (4, 1))
    assert stars.least.tolist() == [2, 0] and stars.most.tolist() == [3, 1]
