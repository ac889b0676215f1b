"""What follows where nothing could be counted: small graphs are enumerated, and then graphs are searched at random."""

from __future__ import annotations

import dataclasses
import time
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from jgleak.attacks.attack import Clock
from jgleak.attacks.census import census, without_counts
from jgleak.attacks.census.answer import Answer
from jgleak.attacks.census.assemble import AnonymitySet, ExplainingGraph
from jgleak.attacks.census.attempted import Attempted
from jgleak.attacks.census.candidates import Levels
from jgleak.attacks.census.problem import CensusProblem
from jgleak.attacks.census.settings import DEFAULTS
from jgleak.attacks.census.system import Equations, Rules, Solution
from jgleak.features import FeatureSpace, onehot
from jgleak.federated import Knowledge
from jgleak.graph import Graph

from .bare_candidates import NODES, START, bare, blocks

STATED = FeatureSpace((onehot("kind", range(3)), onehot("degree", range(4))), degree="degree")
ALIKE = FeatureSpace((onehot("kind", range(3)),))
LEVELS = Levels(NODES, (blocks(1),), ("levels as they are",), True)


def problem(space: FeatureSpace = STATED, **known: Any) -> CensusProblem:
    some = object.__new__(CensusProblem)
    fields: dict[str, Any] = {"max_n": 30, **known}
    some.__dict__.update(knowledge=Knowledge(space, **fields), settings=DEFAULTS)
    return some


def found(number: int, exhausted: bool = True) -> AnonymitySet:
    """So many graphs, and ten partial ones."""
    graph = Graph(np.zeros((1, 1), np.int32), np.zeros((0, 2), np.int64), 1)
    graphs = tuple(ExplainingGraph(graph, 1e-7, (b"", bytes([k]))) for k in range(number))
    return AnonymitySet(graphs, exhausted, 1, 10)


def unsolved(*levels: Levels, solved: bool = True) -> list[Attempted]:
    one, none = np.ones((1, 1)), np.zeros(1, np.int64)
    rules = Rules(none, *(np.zeros((0, 1), np.int64) for _ in range(3)))
    system = Equations(one, np.ones(1), none)
    solution = Solution(system, rules, False, 0.0, 1.0, none, one, np.ones(1), np.ones(1), one)
    return [Attempted(some, solution if solved else None, AnonymitySet(), 9) for some in levels]


class Enumerated:
    """The answer where each enumeration finds so many graphs: what is asked, and until when after a thousand seconds of
    which none has passed."""

    def __init__(
        self,
        monkeypatch: pytest.MonkeyPatch,
        results: list[AnonymitySet],
        starts: tuple[Any, ...] = (START,),
        last: list[Attempted] | None = None,
        some: CensusProblem | None = None,
        searchable: bool = False,
    ) -> None:
        self.asked, self.until = list[tuple[Any, Any]](), list[float]()
        candidates: Any = bare()
        candidates.start = starts[0]
        candidates.__dict__["enumerable"] = starts
        self.results = list(results)

        def enumerated(_: Any, nodes: Any, bounds: Any, clock: Clock) -> AnonymitySet:
            self.asked.append((nodes, bounds))
            self.until.append(round(clock.seconds, -1))
            return self.results.pop(0)

        monkeypatch.setattr(without_counts, "searchable", lambda _: searchable)
        monkeypatch.setattr(without_counts, "enumerated", enumerated)
        monkeypatch.setattr(without_counts, "may_be_small", lambda _, nodes: nodes.complete)
        monkeypatch.setattr(without_counts, "shares", lambda _, levels, __, clock: (levels, round(clock.seconds, -1)))
        clock = Clock(time.monotonic(), 1000.0)
        self.answer, self.facts = without_counts.small_graphs(some or problem(), candidates, clock, last or [])


def test_bounds_from_the_last_equations_are_tried_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """In half of the time; what these levels left out may be missing."""
    other = dataclasses.replace(LEVELS, conditions=("other levels",))
    some = Enumerated(monkeypatch, [found(2)], last=unsolved(other, LEVELS))
    assert some.asked == [(NODES, (LEVELS, 500.0))] and some.until == [500.0]
    assert some.answer.conditions == LEVELS.conditions and some.answer.found.exhausted
    assert some.answer.most == DEFAULTS.limits.enumerated_nodes and some.facts == {"enumerated": 10}
    for levels, there in ((dataclasses.replace(LEVELS, complete=False), True), (LEVELS, False)):
        cut = Enumerated(monkeypatch, [found(1, exhausted=there)], last=unsolved(levels))
        assert not cut.answer.found.exhausted and len(cut.answer.found.graphs) == 1
    few = Enumerated(monkeypatch, [found(1)], some=problem(max_n=3, max_degree=2), last=unsolved(LEVELS))
    assert few.answer.most == 3 and few.answer.conditions[1:] == ("no node has more than 2 neighbours, which is known",)


def test_without_bounds_or_graphs_all_vectors_are_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    none = Enumerated(monkeypatch, [found(0), found(1)], last=unsolved(LEVELS))
    assert none.asked == [(NODES, (LEVELS, 500.0)), (NODES, None)] and none.until == [500.0, 1000.0]
    assert none.answer.conditions == START.conditions and none.facts == {"enumerated": 10}
    for last, some in (
        (unsolved(LEVELS, solved=False), problem()),
        (unsolved(LEVELS), problem(ALIKE)),
        ([], problem()),
    ):
        asked = Enumerated(monkeypatch, [found(1)], last=last, some=some).asked
        assert asked == [(NODES, None)]
    halved = Enumerated(monkeypatch, [found(1)], searchable=True)
    assert halved.until == [500.0], "the other half is for the random search"


def test_starts_share_the_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those whose graphs may be small, until one has graphs."""
    starts = tuple(dataclasses.replace(START, conditions=(name,)) for name in "abc")
    large = dataclasses.replace(START, nodes=dataclasses.replace(NODES, complete=False))
    some = Enumerated(monkeypatch, [found(0), found(1)], (*starts[:2], large, starts[2]), some=problem(max_degree=3))
    assert some.until == [330.0, 500.0] and some.facts == {"enumerated": 20}
    assert some.answer.conditions == ("b", "no node has more than 3 neighbours, which is known")
    none = Enumerated(monkeypatch, [found(0), found(0)], starts[:2])
    assert not none.answer.found.graphs and none.facts == {"enumerated": 20}
    empty = Enumerated(monkeypatch, [], (large,))
    assert not empty.answer.found.exhausted and empty.facts == {"enumerated": 0}


def test_a_random_search_begins_with_the_nodes_of_small_graphs(monkeypatch: pytest.MonkeyPatch) -> None:
    candidates: Any = bare()
    candidates.__dict__["enumerable"] = (START, None)
    asked = list[Any]()
    for levels, conditions in ((None, ()), (LEVELS, LEVELS.conditions)):
        result = levels, found(1), {"rounds": 3}
        monkeypatch.setattr(
            without_counts, "searched", lambda _, nodes, __, result=result: asked.append(nodes) or result
        )
        answer, facts = without_counts.random_search(problem(max_n=7), candidates, Clock(0.0, 1.0))
        assert answer.conditions == conditions and answer.most == 7 and facts == {"rounds": 3}
        assert len(answer.found.graphs) == 1
    assert all(nodes is NODES for nodes in asked)
    candidates.__dict__["enumerable"] = ()
    answer, facts = without_counts.random_search(problem(), candidates, Clock(0.0, 1.0))
    assert answer == Answer((), AnonymitySet(exhausted=False), 0) and facts == {} and len(asked) == 2


def test_who_needs_the_number_of_nodes_gets_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only batch normalisation in training mode does, where it is unknown; it has a share of the time."""
    asked = list[Clock]()
    made = dataclasses.make_dataclass("Made", [("n", Any), ("n_counted", bool, False)], frozen=True)
    monkeypatch.setattr(CensusProblem, "of", lambda _, knowledge, __: made(knowledge.n))
    monkeypatch.setattr(census, "number_of_nodes", lambda _, __, ___, clock, ____: asked.append(clock) or 9)
    plain = census._problem.__wrapped__  # type: ignore[attr-defined]
    for returns, n, wanted in ((False, None, (None, False)), (True, 5, (5, False)), (True, None, (9, True))):
        observation = SimpleNamespace(model=SimpleNamespace(returns_statistics=returns))
        some = plain(observation, Knowledge(ALIKE, n=n), DEFAULTS, Clock(time.monotonic(), 1000.0), None)
        assert (some.n, some.n_counted) == wanted
    assert len(asked) == 1 and asked[0].seconds == pytest.approx(1000.0 * DEFAULTS.limits.hop_share, abs=5.0)
