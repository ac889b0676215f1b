"""In which order censuses become graphs, what is claimed of the list, and when the search for more ends."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from jgleak.attacks.attack import Clock
from jgleak.attacks.census import assemble as module
from jgleak.attacks.census.assemble import AnonymitySet, ExplainingGraph, Growing, assemble
from jgleak.attacks.census.candidates import Levels
from jgleak.attacks.census.growth import PartialGraph
from jgleak.attacks.census.problem import CensusProblem
from jgleak.attacks.census.system import Census, Equations, Rules, Solution
from jgleak.attacks.span.hops import Blocks, Nodes
from jgleak.federated import Knowledge
from tests.clocks import HELD as FOREVER

FEW, FEWER, LISTED, BEAM = 70, 7, 4, 3
"""Steps of a census, of those behind one that took too many, graphs that a list has, and parts that a beam has."""

ENDS = np.zeros((0, 3), np.int64)
SOLUTION = Solution(
    Equations(np.zeros((2, 3)), np.ones(2), np.array([0, 0, 2])),
    Rules(np.ones(3, np.int64), ENDS, ENDS, ENDS),
    True,
    0.0,
    1e-6,
    np.arange(3),
    np.zeros((2, 3)),
    np.zeros(2),
    np.zeros(3),
    np.zeros((3, 0)),
)


@pytest.fixture(scope="module")
def plain(lab: Any) -> CensusProblem:
    problem = CensusProblem.of(lab.observe(lab.model(), lab.path([0, 1, 2])), Knowledge(lab.space))
    limits = dataclasses.replace(
        problem.limits, partial_graphs=FEW, more_partial_graphs=FEWER, listed=LISTED, beam=BEAM
    )
    return dataclasses.replace(problem, settings=dataclasses.replace(problem.settings, limits=limits))


@pytest.fixture(scope="module")
def beside(plain: CensusProblem, lab: Any) -> CensusProblem:
    return dataclasses.replace(plain, knowledge=Knowledge(lab.space, auxiliary=(lab.path([0, 1, 2]),)))


@pytest.fixture(scope="module")
def levels(lab: Any) -> Levels:
    """Three blocks: the ends and the middle of a path of three."""
    nodes = Nodes(lab.nodes([0, 1, 2], [1, 2, 1]), np.zeros((3, 1)), np.array([1, 2, 1]))
    zeros = np.zeros((3, 0))
    blocks = Blocks(np.arange(3), np.arange(3), ((1,), (0, 2), (1,)), zeros, zeros, np.zeros(3), 0)
    return Levels(nodes, (blocks,), (), complete=True)


def named(lab: Any, number: int) -> ExplainingGraph:
    return ExplainingGraph(lab.path([0] * (number + 1)), 0.0, (b"", bytes([number])))


Script = dict[int, tuple[int, bool]]
"""Of every census how many graphs are found, and whether these are all."""


def assembled(
    problem: CensusProblem,
    levels: Levels,
    lab: Any,
    monkeypatch: pytest.MonkeyPatch,
    counts: Sequence[int | None],
    every: Script,
    some: Script | None = None,
    full: int = 99,
) -> tuple[AnonymitySet, list[tuple[str, int, int]]]:
    """What is found, and which census was asked for with how many steps."""
    asked = list[tuple[str, int, int]]()

    def found(script: Script, census: int) -> AnonymitySet:
        number, exhausted = script[census]
        graphs = tuple(named(lab, 10 * census + k) for k in range(number))
        return AnonymitySet(graphs, exhausted, partials=5)

    def grown(_: Growing, __: AnonymitySet, counts: np.ndarray, steps: int) -> AnonymitySet:
        asked.append(("every", int(counts[0]), steps))
        return found(every, int(counts[0]))

    def likely(_: Growing, __: AnonymitySet, counts: np.ndarray) -> AnonymitySet:
        asked.append(("some", int(counts[0]), 0))
        return found(some or {}, int(counts[0]))

    given = [None if number is None else np.array([number, 0, 0]) for number in counts]
    monkeypatch.setattr(module, "_counts", lambda *_: iter(given))
    monkeypatch.setattr(Growing, "every", grown)
    monkeypatch.setattr(Growing, "some", likely)
    monkeypatch.setattr(Growing, "ended", lambda _, found: len(found.graphs) >= full)
    return assemble(problem, levels, SOLUTION, range(1, 9), FOREVER), asked


def test_all_graphs_are_claimed_where_every_census_was_gone_through(
    plain: CensusProblem, levels: Levels, lab: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    every = {1: (1, True), 2: (0, True), 3: (2, True)}
    found, asked = assembled(plain, levels, lab, monkeypatch, [1, 2, 3], every)
    assert asked == [("every", 1, FEW), ("every", 2, FEW), ("every", 3, FEW)]
    assert (len(found.graphs), found.exhausted, found.censuses, found.partials) == (3, True, 3, 15)
    cut, asked = assembled(plain, levels, lab, monkeypatch, [1, None, 3], every)
    assert asked == [("every", 1, FEW), ("every", 3, FEW)] and not cut.exhausted and cut.censuses == 2
    part = dataclasses.replace(levels, complete=False)
    assert not assembled(plain, part, lab, monkeypatch, [1], every)[0].exhausted


def test_behind_a_census_of_too_many_parts_others_get_fewer_steps(
    plain: CensusProblem, levels: Levels, lab: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    every = {1: (1, True), 2: (1, False), 3: (1, True)}
    found, asked = assembled(plain, levels, lab, monkeypatch, [1, 2, 3], every)
    assert asked == [("every", 1, FEW), ("every", 2, FEW), ("every", 3, FEWER)], "none is asked for twice"
    assert (len(found.graphs), found.exhausted, found.censuses) == (3, False, 3)


def test_beside_public_graphs_likely_ones_come_first_and_then_all_of_the_others(
    beside: CensusProblem, levels: Levels, lab: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    some = {1: (1, True), 2: (1, False), 3: (0, False), 4: (1, False)}
    first = [("some", 1, 0), ("some", 2, 0), ("some", 3, 0), ("some", 4, 0)]
    counts = [1, 2, 3, 4]
    whole = {2: (2, True), 3: (1, True), 4: (2, True)}
    found, asked = assembled(beside, levels, lab, monkeypatch, counts, whole, some)
    assert asked == [*first, ("every", 2, FEW), ("every", 3, FEW), ("every", 4, FEW)]
    assert (len(found.graphs), found.exhausted, found.censuses) == (6, True, 4)
    for late, steps in ((2, FEWER), (3, FEW)):
        partly = whole | {late: (1, False)}
        found, asked = assembled(beside, levels, lab, monkeypatch, counts, partly, some)
        assert asked == [*first, ("every", 2, FEW), ("every", 3, steps), ("every", 4, FEWER)] and not found.exhausted


def test_nothing_is_searched_for_once_time_or_the_list_ends(
    plain: CensusProblem, beside: CensusProblem, levels: Levels, lab: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    every: Script = {1: (1, True), 2: (1, True), 3: (1, True)}
    found, asked = assembled(plain, levels, lab, monkeypatch, [1, 2, 3], every, full=2)
    assert asked == [("every", 1, FEW), ("every", 2, FEW)] and len(found.graphs) == 2 and not found.exhausted
    found, asked = assembled(plain, levels, lab, monkeypatch, [None, 1], every, full=0)
    assert not asked and not found.exhausted
    some = {1: (0, False), 2: (0, False), 3: (0, False)}
    found, asked = assembled(beside, levels, lab, monkeypatch, [1, 2, 3], every, some, full=1)
    assert asked == [("some", 1, 0), ("some", 2, 0), ("some", 3, 0), ("every", 1, FEW)] and not found.exhausted


def test_of_counts_that_explain_nothing_no_graph_is_made(plain: CensusProblem, levels: Levels) -> None:
    for complete in (True, False):
        blocks = dataclasses.replace(levels, complete=complete)
        unexplained = dataclasses.replace(SOLUTION, residual=1.0)
        assert assemble(plain, blocks, unexplained, range(3, 4), FOREVER) == AnonymitySet(exhausted=complete)


def test_counts_of_blocks_are_those_of_all_their_columns_once(
    plain: CensusProblem, levels: Levels, monkeypatch: pytest.MonkeyPatch
) -> None:
    censuses = [Census(np.array(one), 4, 0.0) for one in ([1, 2, 1], [2, 1, 1], [0, 3, 2])]
    arithmetic = type(plain.arithmetic)
    monkeypatch.setattr(arithmetic, "censuses", lambda *_: iter([censuses[0], None, *censuses[1:]]))
    for last, wanted in ((2, [[3, 0, 1], None, [3, 0, 2]]), (1, [[3, 1, 0], None, [3, 2, 0]])):
        system = dataclasses.replace(SOLUTION.equations, blocks=np.array([0, 0, last]))
        solution = dataclasses.replace(SOLUTION, equations=system)
        found = list(module._counts(plain, levels, solution, range(4, 6), FOREVER))
        assert [None if one is None else one.tolist() for one in found] == wanted


def test_a_search_ends_with_its_time_or_a_full_list(plain: CensusProblem, levels: Levels, lab: Any) -> None:
    growing, late = Growing(plain, levels, FOREVER), Growing(plain, levels, Clock(0.0, 0.0))
    lists = [AnonymitySet(tuple(named(lab, k) for k in range(number))) for number in (0, LISTED - 1, LISTED)]
    assert [growing.ended(one) for one in lists] == [False, False, True]
    assert [late.ended(one) for one in lists] == [True, True, True]


def test_a_beam_is_for_censuses_of_which_nothing_else_is_found(
    plain: CensusProblem, levels: Levels, lab: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked, answers = list[tuple[int, int | None]](), list[AnonymitySet]()

    def graphs(_: Growing, __: Any, ___: Any, steps: int, beam: int | None) -> AnonymitySet:
        asked.append((steps, beam))
        return answers[len(asked) - 1]

    monkeypatch.setattr(Growing, "_graphs", graphs)
    growing, none, one = Growing(plain, levels, FOREVER), AnonymitySet(partials=5), named(lab, 2)
    cut = dataclasses.replace(none, exhausted=False)
    for answer, times in ((none, 1), (dataclasses.replace(cut, graphs=(one,)), 1), (cut, 2)):
        asked.clear()
        answers[:] = [answer, dataclasses.replace(none, graphs=(one,))]
        found = growing.every(none, np.array([2, 1, 0]), 50)
        assert asked == [(50, None), (50, BEAM)][:times] and found.exhausted is (answer is none)
        assert found.partials == 5 * times and len(found.graphs) == (answer is not none)
    for size, steps in ((3, 50), (4, FEWER)):
        asked.clear()
        answers[:] = [none]
        growing.every(AnonymitySet((one,)), np.array([size, 0, 0]), 50)
        assert asked == [(steps, None)], "beside a smaller graph that was found a larger one is less likely"
    asked.clear()
    growing.some(none, np.array([2, 1, 0]))
    assert asked == [(FEW, BEAM)]


class Parts:
    """Stands in for what puts blocks together: three orders of one path, another path, and a path of the ends."""

    made: list[dict[str, Any]] = []
    steps, exhausted = 11, True

    def __init__(self, top: Blocks, counts: np.ndarray, **how: Any) -> None:
        self.made.append(how | {"counts": counts.tolist()})

    def graphs(self) -> Iterator[tuple[tuple[int, ...], list[tuple[int, int]], list[int]]]:
        for blocks in ((0, 1, 2), (2, 1, 0), (0, 1, 0), (2, 1, 2)):
            yield blocks, [(0, 1), (1, 2)], [0, 0]


@pytest.mark.parametrize("told", [None, (0.5, 1)])
@pytest.mark.parametrize("listed", [LISTED, 2])
def test_graphs_of_one_census_share_one_distance(
    told: tuple[float, int] | None,
    listed: int,
    plain: CensusProblem,
    levels: Levels,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It is computed once, or told; a graph that is known or has another gradient is left out, and a full list is said
    to be cut."""
    measured, distance = list[Any](), [1e-9]
    monkeypatch.setattr(module, "Assembly", Parts)
    monkeypatch.setattr(module, "gradient_distances", lambda *given: measured.append(given) or [(distance[0], 1)])
    limits = dataclasses.replace(plain.limits, listed=listed)
    problem = dataclasses.replace(plain, settings=dataclasses.replace(plain.settings, limits=limits))
    growing = Growing(problem, levels, FOREVER, told)
    Parts.made.clear()
    found = growing._graphs(AnonymitySet(), np.array([1, 1, 1]), 50, None)
    assert Parts.made == [{"clock": FOREVER, "most": 50, "beam": None, "guide": None, "counts": [1, 1, 1]}]
    assert len(found.graphs) == min(3, listed) and found.partials == 11 and found.exhausted is (listed > 3)
    assert len(measured) == (told is None) and all(one.graph.y == 1 for one in found.graphs)
    assert set(found.distances) == {0.5 if told else 1e-9}
    np.testing.assert_array_equal(found.graphs[0].graph.x, levels.nodes.codes)
    known = AnonymitySet(found.graphs[:1])
    more = growing._graphs(known, np.array([1, 1, 1]), 50, BEAM)
    assert not known.forms & more.forms and len(more.graphs) == min(2, listed - 1)
    distance[0] = 1.0
    assert len(growing._graphs(AnonymitySet(), np.array([1, 1, 1]), 50, None).graphs) == (
        0 if told is None else min(3, listed)
    )
    distance[0] = problem.fit.most
    assert len(growing._graphs(AnonymitySet(), np.array([1, 1, 1]), 50, None).graphs) == min(3, listed)
    late = dataclasses.replace(growing, clock=Clock(0.0, 0.0))
    assert not late._graphs(AnonymitySet(), np.array([1, 1, 1]), 50, None).exhausted
    monkeypatch.setattr(Parts, "exhausted", False)
    assert not growing._graphs(AnonymitySet(), np.array([1, 1, 1]), 50, None).exhausted


def test_public_graphs_guide_what_is_put_together(
    beside: CensusProblem, levels: Levels, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "Assembly", Parts)
    monkeypatch.setattr(module, "gradient_distances", lambda *_: [(1e-9, 1)])
    Parts.made.clear()
    growing = Growing(beside, levels, FOREVER)
    growing._graphs(AnonymitySet(), np.array([1, 1, 1]), 50, BEAM)
    assert Parts.made[0]["guide"] == growing._unlikely and Parts.made[0]["beam"] == BEAM


def test_joined_sets_have_each_graph_once(lab: Any) -> None:
    one, two, three = (named(lab, k) for k in range(3))
    for first in (True, False):
        for second in (True, False):
            found = AnonymitySet((one, two), first, 2, 30).joined(AnonymitySet((two, three), second, 1, 4))
            assert found == AnonymitySet((one, two, three), first and second, 3, 34)


def test_unlikely_graphs_are_left_out(plain: CensusProblem, lab: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    graphs = tuple(dataclasses.replace(named(lab, k), distance=float(k)) for k in range(4))
    monkeypatch.setattr(type(plain.fit), "likely", lambda _, distances: np.array(distances) % 2 == 1)
    found = AnonymitySet(graphs, False, 2, 3).likely(plain.fit)
    assert found == AnonymitySet((graphs[1], graphs[3]), False, 2, 3)


def test_a_partial_graph_is_likely_by_its_edges_and_by_nodes_that_lack_nothing(
    beside: CensusProblem, levels: Levels, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = list[Any]()
    prior = SimpleNamespace(negative_log_likelihood=lambda *given: asked.append(given) or 2.5)
    monkeypatch.setattr(Growing, "_public", property(lambda _: (prior, [b"zero", b"one", b"two"])))
    partial = PartialGraph((1, 0, 2), ((0, 1), (0, 2)), (0, 0), ((), (5,), ()), (), (0, 0, 0))
    assert Growing(beside, levels, FOREVER)._unlikely(partial) == 2.5
    assert asked == [([b"one", b"zero", b"two"], [[1, 2], [0], [0]], [True, False, True])]
