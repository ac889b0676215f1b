"""What graphs of a first step may be: their sizes and counts in order, and where the search for more ends."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from jgleak.attacks.attack import Budget, Clock, Reconstruction
from jgleak.attacks.census.assemble import AnonymitySet, ExplainingGraph, Growing
from jgleak.attacks.census.batches import first_graph as module
from jgleak.attacks.census.batches.first_graph import STOOD_ALONE, FoundGraph, _GraphsOfShare, first_graphs
from jgleak.attacks.census.batches.separate import Share
from jgleak.attacks.census.candidates import Levels
from jgleak.attacks.census.problem import CensusProblem
from jgleak.attacks.certificate import Certificate
from jgleak.attacks.span.hops import Blocks, Nodes
from jgleak.federated import Knowledge
from tests.clocks import HELD as FOREVER

NO_TIME = Clock(0.0, 0.0)
COUNTS = np.array([1, 2, 0, 0])
"""A path of three: its middle, and its ends."""


@pytest.fixture(scope="module")
def problem(lab: Any) -> CensusProblem:
    return CensusProblem.of(lab.observe(lab.model(), lab.path([0, 1, 2])), Knowledge(lab.space))


def blocks(number: int = 4) -> Levels:
    """Of a middle, two sorts of ends that are alike, and another middle."""
    roots, zeros = np.array([0, 1, 1, 0] * number)[:number], np.zeros((number, 0))
    neighbours = (((1, 1), (0,), (0,), (1, 1)) * number)[:number]
    nodes = Nodes(np.zeros((2, 1), np.int64), np.zeros((2, 0)), np.array([2, 1]))
    top = Blocks(roots, roots, neighbours, zeros, zeros, np.zeros(number), 0)
    return Levels(nodes, (top,), ("said",), complete=True)


def shared(problem: CensusProblem, *, copies: int = 1, alike: tuple[int, ...] = (0, 1, 1, 3)) -> _GraphsOfShare:
    return _GraphsOfShare(problem, blocks(), Share(COUNTS, np.ones(2), 1, copies, True), np.array(alike))


def graph_of(lab: Any, nodes: int, name: int = 0) -> ExplainingGraph:
    return ExplainingGraph(lab.path([0] * nodes), 0.0, (bytes([name]), bytes([nodes])))


def sized(monkeypatch: pytest.MonkeyPatch, lab: Any, found: tuple[int, ...], sizes: range) -> list[int]:
    """Graphs of ``found`` times the counts are there; returns which are asked for."""
    asked = list[int]()

    def one(_: _GraphsOfShare, times: int, known: AnonymitySet, __: Clock) -> AnonymitySet:
        asked.append(times)
        return known.joined(AnonymitySet((graph_of(lab, 3 * times),) * (times in found), exhausted=False))

    monkeypatch.setattr(CensusProblem, "rounds", property(lambda _: [sizes, range(1, 99)]))
    monkeypatch.setattr(_GraphsOfShare, "_sized", one)
    return asked


@pytest.mark.parametrize(
    ("sizes", "times"),
    [
        (range(1, 10), [1, 2, 3]),
        (range(1, 9), [1, 2]),
        (range(4, 13), [2, 3, 4]),
        (range(6, 7), [2]),
        (range(4, 6), []),
        (range(1, 3), []),
    ],
)
def test_counts_are_multiplied_up_to_the_largest_number_of_nodes(
    sizes: range, times: list[int], problem: CensusProblem, lab: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = sized(monkeypatch, lab, (), sizes)
    assert not shared(problem).smallest(FOREVER).graphs and asked == times


def test_the_smallest_graphs_end_the_first_search_and_larger_ones_come_later(
    problem: CensusProblem, lab: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked, share = sized(monkeypatch, lab, (2, 4), range(1, 13)), shared(problem)
    found = share.smallest(FOREVER)
    assert asked == [1, 2] and [one.graph.n for one in found.graphs] == [6]

    def listed(_: _GraphsOfShare, some: AnonymitySet, __: Clock) -> Reconstruction:
        return Reconstruction(tuple(one.graph for one in some.graphs), 0.0, "match")

    monkeypatch.setattr(_GraphsOfShare, "listed", listed)
    asked.clear()
    assert [graph.n for graph in share.of_all_sizes(found, FOREVER).graphs] == [6, 12] and asked == [3, 4]
    asked.clear()
    assert [graph.n for graph in share.of_all_sizes(found, NO_TIME).graphs] == [6]
    assert share.smallest(NO_TIME) == AnonymitySet() and not asked


def test_a_list_says_what_it_rests_on(problem: CensusProblem, lab: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    given, claim = list[Any](), Certificate("unique", 1, 9, False, 0.0)
    graphs = (graph_of(lab, 6).graph, graph_of(lab, 3).graph)
    monkeypatch.setattr(module, "degrees_assumed", lambda *_: ("degrees",))
    made = SimpleNamespace(graphs=graphs, distance=1e-7, certificate=claim)
    monkeypatch.setattr(module, "certify", lambda *some: given.append(some) or made)
    found = AnonymitySet((graph_of(lab, 3), graph_of(lab, 6)))
    answer = shared(problem).listed(found, FOREVER)
    assert given == [(problem, ("said", "degrees", STOOD_ALONE), found, 6, FOREVER)]
    assert (answer.graphs, answer.gradient_distance, answer.stop) == (graphs, 1e-7, "match")
    assert answer.certificate is claim
    assert FoundGraph.only(answer).of_all_sizes(NO_TIME) is answer


def test_graphs_of_all_ways_are_joined_until_the_list_is_full(
    problem: CensusProblem, lab: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the label and the distance of the share; none is claimed to be all."""
    asked = list[Any]()

    def every(growing: Growing, found: AnonymitySet, counts: np.ndarray, steps: int) -> AnonymitySet:
        asked.append((counts.tolist(), steps, growing.told, len(found.graphs)))
        return AnonymitySet((graph_of(lab, 3, len(asked)),))

    monkeypatch.setattr(Growing, "every", every)
    monkeypatch.setattr(_GraphsOfShare, "_ways", lambda _, times, __: iter(times * np.eye(3, 4, dtype=int)))
    first = AnonymitySet((graph_of(lab, 3),))
    for full, ways in ((99, 3), (3, 2), (1, 0)):
        asked.clear()
        monkeypatch.setattr(Growing, "ended", lambda _, found, full=full: len(found.graphs) >= full)
        found = shared(problem)._sized(2, first, FOREVER)
        steps = problem.limits.partial_graphs
        wanted = [([2, 0, 0, 0], steps), ([0, 2, 0, 0], steps), ([0, 0, 2, 0], steps)][:ways]
        assert asked == [(*one, (0.0, 1), k + 1) for k, one in enumerate(wanted)]
        assert len(found.graphs) == 1 + ways and not found.exhausted


def test_blocks_that_are_alike_stand_in_for_each_other(problem: CensusProblem) -> None:
    """Of the two ends each may be of either sort; a block that only looks like one that does not occur stays away."""

    def ways(share: _GraphsOfShare, times: int = 1) -> list[list[int]]:
        return [one.tolist() for one in share._ways(times, FOREVER)]

    first, *others = ways(shared(problem))
    assert first == [1, 2, 0, 0] and sorted(others) == [[1, 0, 2, 0], [1, 1, 1, 0]]
    assert ways(shared(problem, alike=(0, 1, 2, 3))) == [[1, 2, 0, 0]]
    assert ways(shared(problem, alike=(0, 1, 2, 3)), 3) == [[3, 6, 0, 0]]
    assert ways(shared(problem), 2) == [[2, 4, 0, 0]], "two paths are not connected"
    middles = ways(shared(problem, alike=(0, 1, 2, 0)))
    assert sorted(middles) == [[0, 2, 0, 1], [1, 2, 0, 0]]


def attempted(
    monkeypatch: pytest.MonkeyPatch, lab: Any, problem: CensusProblem, attempts: list[tuple[int, list[Any]]], most: int
) -> list[list[int]]:
    """Numbers of nodes of the graphs that each answer has; an attempt has so many blocks, and shares (number of nodes,
    0 for none; copies)."""
    given = iter([shares for size, shares in attempts if size <= 6])

    def shares(here: CensusProblem, number: int, _: Levels, __: Clock) -> Iterator[_GraphsOfShare]:
        assert here.limits.blocks_counted == 6 and number == most
        for nodes, copies in next(given):
            yield shared(here, copies=copies)._replace(alike=np.array([nodes]))

    def smallest(share: _GraphsOfShare, _: Clock) -> AnonymitySet:
        nodes = int(share.alike[0])
        return AnonymitySet((graph_of(lab, nodes),) if nodes else ())

    def listed(_: _GraphsOfShare, found: AnonymitySet, __: Clock) -> Reconstruction:
        return Reconstruction((found.graphs[0].graph,), 0.0, "match")

    def of_all_sizes(_: _GraphsOfShare, found: AnonymitySet, __: Clock) -> Reconstruction:
        return Reconstruction((found.graphs[0].graph,) * 2, 0.0, "match")

    found = SimpleNamespace(attempts=lambda _: iter([blocks(size) for size, _ in attempts]))
    monkeypatch.setattr(module, "CensusCandidates", lambda *_: found)
    monkeypatch.setattr(module, "_first_shares", shares)
    for name, made in (("smallest", smallest), ("listed", listed), ("of_all_sizes", of_all_sizes)):
        monkeypatch.setattr(_GraphsOfShare, name, made)
    limits = dataclasses.replace(problem.limits, blocks_counted=6)
    here = dataclasses.replace(problem, settings=dataclasses.replace(problem.settings, limits=limits))
    answers = list(first_graphs(here, most, FOREVER, Budget(time_limit=1.0)))
    for one in (one for answer in answers for one in answer):
        assert len(one.answer.graphs) == 1 and len(one.of_all_sizes(FOREVER).graphs) == 2
    return [[one.answer.graphs[0].n for one in answer] for answer in answers]


def test_each_attempt_answers_with_as_many_graphs_as_a_step_has_at_most(
    problem: CensusProblem, lab: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those of too many blocks are left out, and so are shares without graphs and answers that are known."""

    def answers(attempts: list[tuple[int, list[Any]]], most: int = 3) -> list[list[int]]:
        return attempted(monkeypatch, lab, problem, attempts, most)

    assert answers([(6, [(3, 1), (4, 1)]), (7, [(5, 1)])]) == [[3, 4]]
    assert answers([(4, [(3, 2), (0, 1), (4, 1)])]) == [[3, 3, 4]]
    assert answers([(4, [(3, 2), (4, 2)])]) == [[3, 3, 4]] and answers([(4, [(3, 2), (4, 2)])], 1) == [[3]]
    assert answers([(4, [(0, 1)]), (4, [(3, 1)]), (5, [(3, 1)]), (5, [(3, 2)])]) == [[3], [3, 3]]
    assert answers([(4, [(3, 1), (4, 1)]), (4, [(4, 1), (3, 1)])]) == [[3, 4]], "in whichever order"


def test_shares_are_those_whose_gradient_the_head_lacks(
    problem: CensusProblem, monkeypatch: pytest.MonkeyPatch
) -> None:
    shares = [Share(COUNTS * k, np.ones(2), k, k, True) for k in (1, 2, 3)]
    asked = list[Any]()
    rows: list[Any] = [np.ones(2)]
    weights: list[Any] = [SimpleNamespace(alike=np.arange(4))]

    def lacks(_: CensusProblem, roots: Any, counts: np.ndarray, label: int, copies: int) -> bool:
        asked.append((roots is rows[0], counts.tolist(), label, copies))
        return label != 2

    head = SimpleNamespace(roots=lambda *_: rows[0], lacks=lacks)
    monkeypatch.setattr(module.Head, "of", lambda _, most: asked.append(most) or head)
    monkeypatch.setattr(module, "kernel_weights", lambda *_: weights[0])
    monkeypatch.setattr(module, "separated", lambda *_: shares)
    found = list(module._first_shares(problem, 5, blocks(), FOREVER))
    assert [one.share.label for one in found] == [1, 3] and all(one.alike is weights[0].alike for one in found)
    assert asked == [5, *((True, (COUNTS * k).tolist(), k, k) for k in (1, 2, 3))]
    for missing in (weights, rows):
        missing[0] = None
        assert not list(module._first_shares(problem, 5, blocks(), FOREVER))
