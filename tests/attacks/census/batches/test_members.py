"""The rounds of the search for one graph of a batch."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest

from jgleak.attacks.attack import Clock
from jgleak.attacks.census.assemble import AnonymitySet, ExplainingGraph
from jgleak.attacks.census.batches import members as module
from jgleak.attacks.census.batches.members import Member, _equations, _possible, taken
from jgleak.attacks.census.batches.parts import Part
from jgleak.attacks.census.candidates import Levels
from jgleak.attacks.census.problem import CensusProblem
from jgleak.attacks.census.system import Solution
from jgleak.attacks.span.hops import Blocks, Nodes
from jgleak.federated import Knowledge
from tests.clocks import HELD

ROOTS, AROUND = np.array([1, 1, 2]), ((1,), (2,), (1, 1))
"""An end of a pair, the ends of a path, and its middle."""

BLOCKS = Blocks(ROOTS, 0 * ROOTS, AROUND, np.zeros((3, 0)), np.zeros((3, 0)), np.zeros(3), 0)
LEVELS = Levels(Nodes(np.zeros((1, 1), int), np.zeros((1, 1)), np.zeros(1, int)), (BLOCKS, BLOCKS), (), complete=True)
ROUNDS = [range(2, 4), range(4, 7), range(7, 9)]


def search(
    lab: Any, patch: pytest.MonkeyPatch, states: list[float], solved: list[tuple[int, bool]], absolute: bool = False
) -> tuple[Member, list[tuple[int, ...]], list[range]]:
    """For the pooled row (1): the blocks and numbers of nodes of each round, of which it is said how many graphs were
    found, and whether the counts explain the row."""
    model = lab.model(readout="pooled", readout_widths=(64,), last_act=True)
    seen = lab.observe(model, lab.path([0, 1]))
    blocks, sizes = list[tuple[int, ...]](), list[range]()
    graph = lab.path([0, 1])

    def solve(_: Any, levels: Levels, *__: Any) -> Any:
        assert levels.hops[0] is BLOCKS and len(levels.hops) == 2, "only the last hop's blocks are left out"
        blocks.append(tuple(AROUND.index(around) for around in levels.top.neighbours))
        solution = object.__new__(Solution)
        explained = solved[len(blocks) - 1][1]
        solution.__dict__.update(residual=0.0 if explained else 1.0, limit=0.5)
        return solution

    def assemble(_: Any, __: Any, ___: Any, some: range, *____: Any) -> AnonymitySet:
        sizes.append(some)
        found = [ExplainingGraph(graph, 0.0, graph.canonical_form())] * solved[len(blocks) - 1][0]
        return AnonymitySet(tuple(found))

    patch.setattr(module, "solve", solve)
    patch.setattr(module, "assemble", assemble)
    patch.setattr(CensusProblem, "absolute", property(lambda _: absolute))
    patch.setattr(CensusProblem, "rounds", property(lambda _: ROUNDS))
    member = Member(CensusProblem.of(seen, Knowledge(lab.space)), Part(np.ones(1), (0,), seen))
    return taken(member, LEVELS, np.array(states)[:, None], HELD), blocks, sizes


def test_blocks_are_those_that_a_node_s_share_allows_and_rounds_end_with_graphs(
    lab: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A state of five is too much for a mean over three nodes, and not for one over six."""
    member, blocks, sizes = search(lab, monkeypatch, [2.5, 5.0, 1.0], [(0, True), (1, True)])
    assert (blocks, sizes) == ([(0,), (0, 1, 2)], ROUNDS[:2]), "the middle of a path needs its ends"
    assert member.answer is not None and member.answer.most == 6 and len(member.found.graphs) == 1
    assert member.found.exhausted


def test_a_round_without_blocks_is_passed_over(lab: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    _, blocks, sizes = search(lab, monkeypatch, [3.5, 5.0, 5.0], [(0, True), (0, True)])
    assert (blocks, sizes) == ([(0, 1, 2)] * 2, ROUNDS[1:])


def test_where_all_blocks_explain_nothing_larger_graphs_do_not(lab: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    member, _, sizes = search(lab, monkeypatch, [1.0, 1.0, 1.0], [(0, False)])
    assert sizes == ROUNDS[:1] and member.answer is not None and member.answer.most == 3
    _, _, sizes = search(lab, monkeypatch, [1.0, 1.0, 1.0], [(0, True)] * 3)
    assert sizes == ROUNDS


def test_a_sum_has_room_for_whole_states(lab: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    assert search(lab, monkeypatch, [1.0, 1.5, 1.0], [(0, True)] * 3, absolute=True)[1] == [(0,)] * 3


def test_without_time_or_with_some_blocks_left_out_nothing_is_claimed(lab: Any) -> None:
    model = lab.model(readout="pooled", readout_widths=(64,), last_act=True)
    graph = lab.path([0, 1])
    seen = lab.observe(model, graph)
    problem = CensusProblem.of(seen, Knowledge(lab.space))
    member = Member.of(problem, Part(np.ones(1), (0,), seen))
    assert not member.found.exhausted and not member.found.graphs
    assert taken(member, LEVELS, np.ones((3, 1)), Clock(0.0, 0.0)).answer is None
    few = dataclasses.replace(LEVELS, complete=False)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "solve", lambda *_: object.__new__(Solution))
        patch.setattr(
            module, "assemble", lambda *_: AnonymitySet((ExplainingGraph(graph, 0.0, graph.canonical_form()),))
        )
        for levels, exhausted in ((LEVELS, True), (few, False)):
            assert taken(member, levels, np.zeros((3, 1)), HELD).found.exhausted == exhausted
    moved = Member.of(problem, Part(np.ones(1), (0,), seen, moved=True))
    assert moved.problem.limits.programmes == 0 < problem.limits.programmes == member.problem.limits.programmes


def test_one_node_adds_no_more_than_the_whole_row_up_to_its_error() -> None:
    """Of three nodes with the mean row (2, 0), each entry off by a hundredth of the largest."""
    states = np.array([[6.11, 0.05], [0.0, 0.059], [6.13, 0.0], [0.0, 0.061]])
    assert _possible(states, np.array([2.0, 0.0]), 3, 0.01).tolist() == [True, True, False, False]
    assert _possible(-states, np.array([2.0, 0.0]), 3, 0.01).all(), "others may cancel it"
    assert _possible(states[:0], np.array([2.0, 0.0]), 3, 0.01).tolist() == []


def test_the_equations_of_a_row_are_in_units_of_its_typical_entry() -> None:
    states, counts = np.random.default_rng(0).normal(size=(4, 7)), np.array([2, 0, 1, 3])
    made = _equations(states, counts @ states)
    np.testing.assert_allclose(made.matrix @ counts, made.observed)
    np.testing.assert_allclose(np.sqrt(np.mean(made.observed**2)), 1.0)
    assert made.blocks.tolist() == [0, 1, 2, 3]
    dark = _equations(states, np.zeros(7))
    assert np.array_equal(dark.matrix, states.T) and not dark.observed.any()
