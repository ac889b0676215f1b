"""The rounds of one attempt at a census: where it ends, and what it claims."""

from __future__ import annotations

import dataclasses
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from jgleak.attacks.attack import Clock
from jgleak.attacks.census import attempted as module
from jgleak.attacks.census.assemble import CUT, AnonymitySet, ExplainingGraph
from jgleak.attacks.census.attempted import Attempted, counted
from jgleak.attacks.census.candidates import Levels
from jgleak.attacks.census.problem import CensusProblem
from jgleak.attacks.census.system import Solution
from jgleak.attacks.span.hops import Blocks, Nodes
from tests.clocks import HELD

KINDS = np.array([0, 0])
BLOCKS = Blocks(KINDS, KINDS, ((0,), (0, 0)), np.zeros((2, 0)), np.zeros((2, 0)), np.zeros(2), 0)
LEVELS = Levels(Nodes(np.zeros((1, 1), int), np.zeros((1, 1)), np.zeros(1, int)), (BLOCKS,), (), complete=True)
ROUNDS = [range(1, 4), range(4, 7), range(7, 10)]


def solution_of(explained: bool) -> Solution:
    solution = object.__new__(Solution)
    solution.__dict__.update(residual=0.0 if explained else 1.0, limit=0.5, null=np.zeros((2, 3)))
    return solution


def attempt(
    lab: Any,
    patch: pytest.MonkeyPatch,
    rounds: list[tuple[int, bool]],
    levels: Levels = LEVELS,
    clock: Clock = HELD,
    excluded: bool | None = None,
) -> tuple[Attempted, list[range]]:
    """Of every round how many graphs are found and whether the counts explain the update; ``excluded`` of a client of
    several steps says whether its path belongs to one census."""
    graph, sizes = lab.path([0, 1]), list[range]()
    begun, there = object.__new__(CensusProblem), object.__new__(CensusProblem)

    def solve(problem: CensusProblem, _: Any, system: Any, some: range, __: Any) -> Solution:
        assert problem is there and system == "settled"
        return solution_of(rounds[len(sizes)][1])

    def assemble(_: Any, __: Any, ___: Any, some: range, ____: Any) -> AnonymitySet:
        found = [ExplainingGraph(graph, 0.0, graph.canonical_form())] * rounds[len(sizes)][0]
        sizes.append(some)
        return AnonymitySet(tuple(found))

    patch.setattr(module, "equations", lambda *_: "made")
    patch.setattr(module, "settled", lambda *given: (there, "settled") if given[2] == "made" else None)
    patch.setattr(module, "solve", solve)
    patch.setattr(module, "assemble", assemble)
    patch.setattr(module, "excludes_others", lambda *_: excluded if excluded is not None else pytest.fail("not asked"))
    patch.setattr(CensusProblem, "rounds", property(lambda _: ROUNDS))
    patch.setattr(CensusProblem, "several", property(lambda _: excluded is not None))
    return counted(begun, levels, clock), sizes


@pytest.mark.parametrize(
    ("rounds", "most"),
    [([(0, True), (1, True)], 6), ([(0, False)], 3), ([(0, True)] * 3, 9), ([(1, False)], 3)],
    ids=["found", "a block is missing", "nothing", "found at once"],
)
def test_larger_graphs_are_tried_while_candidates_explain_the_update_and_none_is_found(
    rounds: list[tuple[int, bool]], most: int, lab: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer, sizes = attempt(lab, monkeypatch, rounds)
    assert sizes == ROUNDS[: len(rounds)] and answer.most == most
    assert len(answer.found.graphs) == rounds[-1][0] and answer.found.exhausted
    assert answer.explained is rounds[-1][1]


def test_time_ends_it_after_a_round(lab: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    answer, sizes = attempt(lab, monkeypatch, [(0, True)], clock=Clock(0.0, 0.0))
    assert sizes == ROUNDS[:1] and answer.most == 3


@pytest.mark.parametrize(
    ("excluded", "complete", "all_of_them"), [(True, True, True), (False, True, False), (None, False, False)]
)
def test_a_set_is_whole_where_candidates_are_and_no_other_path_is_possible(
    excluded: bool | None, complete: bool, all_of_them: bool, lab: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    levels = dataclasses.replace(LEVELS, complete=complete)
    assert attempt(lab, monkeypatch, [(1, True)], levels, excluded=excluded)[0].found.exhausted is all_of_them


def test_without_time_for_equations_nothing_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "equations", lambda *_: None)
    answer = counted(object.__new__(CensusProblem), LEVELS, HELD)
    assert answer == Attempted(LEVELS, None, CUT) and not answer.explained and answer.most == 0
    bare = {"nodes": 1, "blocks": 2, "residual": None, "null": 0, "censuses": 0, "partials": 0}
    assert answer.facts == bare
    found = AnonymitySet(censuses=4, partials=5)
    solved = dataclasses.replace(answer, solution=solution_of(True), found=found)
    assert solved.facts == bare | {"residual": 0.0, "null": 3, "censuses": 4, "partials": 5}


@pytest.mark.parametrize(
    ("followed", "residual", "noise", "free", "only"),
    [
        (True, 1.0, None, 0, True),
        (False, 1.0, None, 0, False),
        (True, 1.1, None, 0, False),
        (True, 1.0, 1e-3, 0, False),
        (True, 1.0, None, 1, False),
    ],
)
def test_a_path_is_one_censuses_where_it_was_followed_and_no_other_shares_are_possible(
    followed: bool, residual: float, noise: float | None, free: int, only: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "followable", lambda _: followed)
    problem = object.__new__(CensusProblem)
    settings = SimpleNamespace(tolerances=SimpleNamespace(path_settled=1.0))
    problem.__dict__.update(knowledge=SimpleNamespace(noise=noise), settings=settings)
    monkeypatch.setattr(CensusProblem, "tolerances", property(lambda _: settings.tolerances))
    solution = object.__new__(Solution)
    solution.__dict__.update(residual=residual, null=np.zeros((2, free)))
    assert module.excludes_others(problem, solution) is only
