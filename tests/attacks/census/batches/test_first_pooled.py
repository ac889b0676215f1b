"""The rounds of the search for graphs of a first step behind pooling: what is told when, and who gets how much time."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from jgleak.attacks.attack import Budget, Clock, Reconstruction
from jgleak.attacks.census.assemble import AnonymitySet, ExplainingGraph
from jgleak.attacks.census.attempted import Attempted
from jgleak.attacks.census.batches import first_pooled as module
from jgleak.attacks.census.batches.first_pooled import first_pooled
from jgleak.attacks.census.batches.members import Member
from jgleak.attacks.census.batches.parts import Part
from jgleak.attacks.census.candidates import CensusCandidates, Levels
from jgleak.attacks.census.problem import CensusProblem
from jgleak.attacks.span.hops import Nodes
from jgleak.federated import Knowledge

NODES = Nodes(np.zeros((1, 1), int), np.zeros((1, 1)), np.zeros(1, int))
BUDGET = Budget()


class Search:
    """For three pooled rows, in ``rounds`` of candidates: in each one are found the graphs whose places it names."""

    def __init__(self, lab: Any, patch: pytest.MonkeyPatch, rounds: Sequence[Sequence[int]]) -> None:
        self.graphs = [lab.path(colours) for colours in ([0, 1], [1, 2], [2, 3])]
        seen = lab.observe(lab.model(readout="pooled", readout_widths=(64,), last_act=True), self.graphs[0])
        self.problem = CensusProblem.of(seen, Knowledge(lab.space))
        self.rounds, self.tried, self.now = rounds, 0, 0.0
        self.places, self.spent = list[int](), list[float]()
        rows = np.arange(3.0)[:, None]
        patch.setattr(module.dark, "pooled_rows", lambda *_: rows)
        patch.setattr(module, "_of_first_step", lambda *_: rows)
        patch.setattr(module, "parts_of", lambda *_: [Part(row, (1,), seen) for row in rows])
        patch.setattr(CensusCandidates, "attempts", self.attempts)
        patch.setattr(module, "root_states", lambda *_: np.zeros((0, 1)))
        patch.setattr(module, "taken", self.taken)
        patch.setattr(module, "certified", lambda _, member, __: [Reconstruction((self.of(member),), 0.0, "match")])
        patch.setattr("jgleak.attacks.attack.time", SimpleNamespace(monotonic=lambda: self.now))

    def attempts(self, *_: Any) -> Any:
        for number in range(len(self.rounds)):
            self.tried = number + 1
            yield Levels(NODES, (), (), complete=True)

    def of(self, member: Member) -> Any:
        return self.graphs[int(member.part.row[0])]

    def taken(self, member: Member, levels: Levels, _: Any, clock: Clock) -> Member:
        """Spends all the time that it gets."""
        place, graph = int(member.part.row[0]), self.of(member)
        self.places.append(place)
        self.spent.append(clock.left)
        self.now += clock.left
        here = place in self.rounds[self.tried - 1]
        found = AnonymitySet((ExplainingGraph(graph, 0.0, graph.canonical_form()),) * here)
        return dataclasses.replace(member, answer=Attempted(levels, None, found, 2))

    def told(self, most: int, clock: Clock) -> list[list[int]]:
        found = list[list[int]]()
        for answers in first_pooled(self.problem, most, clock, BUDGET):
            found.append([self.graphs.index(one.answer.graphs[0]) for one in answers])
        return found


@pytest.mark.parametrize(
    ("rounds", "most", "told", "tried"),
    [
        ([[1], [], [0, 2], [0]], 3, [[1], [0, 1, 2]], 3),
        ([[1], [], [0, 2], [0]], 2, [[1], [0, 1]], 3),
        ([[], [], [2]], 3, [[2]], 3),
        ([[], []], 3, [], 2),
        ([[0, 1, 2], [0]], 3, [[0, 1, 2]], 1),
    ],
)
def test_graphs_are_told_once_more_of_them_are_found(
    rounds: list[list[int]], most: int, told: list[list[int]], tried: int, lab: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the order of their rows, so many of them; when all are found no more candidates are tried."""
    search = Search(lab, monkeypatch, rounds)
    assert search.told(most, Clock(0.0, 1e9)) == told and search.tried == tried
    before = [place for number, some in enumerate(rounds[:tried]) for place in some for _ in rounds[number + 1 : tried]]
    assert len(search.places) == 3 * tried - len(before), "what is found is not searched again"


def test_each_graph_gets_as_much_time_as_any_other_and_as_much_is_left(
    lab: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    search = Search(lab, monkeypatch, [[]])
    search.told(3, Clock(0.0, 100.0))
    np.testing.assert_allclose(search.spent, [25.0, 25.0, 25.0])
