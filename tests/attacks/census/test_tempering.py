"""Parallel tempering: which graphs are yielded, which replace others, and how temperatures exchange them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from jgleak.attacks.attack import Clock
from jgleak.attacks.census import tempering
from jgleak.attacks.census.moves import Linked, Moves
from jgleak.attacks.census.node_sums import NodeSums
from jgleak.attacks.census.tempering import TEMPERATURES, TRIES, _exchange, tempered
from tests.clocks import HELD


def named(kind: int) -> Linked:
    return Linked(np.zeros((1, 1), bool), np.array([kind]))


class Line(Moves):
    """Graphs of one node, told apart by its kind, which changes to one of the next ones named."""

    def __init__(self, *steps: int | None) -> None:
        super().__init__(4, 1, range(1, 2))
        object.__setattr__(self, "steps", steps)
        object.__setattr__(self, "asked", [])

    def start(self, rng: np.random.Generator) -> Linked:
        return named(0)

    def changed(self, graph: Linked, rng: np.random.Generator) -> Linked | None:
        steps, asked = vars(self)["steps"], vars(self)["asked"]
        step = steps[len(asked) % len(steps)]
        asked.append(int(graph.kinds[0]))
        return None if step is None else named(int(graph.kinds[0]) ^ step)


def run(
    monkeypatch: pytest.MonkeyPatch,
    moves: Moves,
    energy: dict[int, float],
    residual: dict[int, float],
    *,
    replicas: int,
    rounds: int,
    most: float = 0.5,
) -> list[Any]:
    """What is yielded in some rounds, None and kinds with residuals, where energies are given."""

    def energies(_: NodeSums, graphs: Sequence[Linked]) -> tuple[np.ndarray, np.ndarray]:
        kinds = [int(graph.kinds[0]) for graph in graphs]
        return np.array([energy[kind] for kind in kinds]), np.array([residual[kind] for kind in kinds])

    monkeypatch.setattr(tempering, "_energies", energies)
    found = list[Any]()
    for near in tempered(object.__new__(NodeSums), moves, replicas=replicas, most=most, clock=HELD):
        found.append(None if near is None else (int(near.graph.kinds[0]), near.residual))
        if found.count(None) == rounds:
            break
    return found


def test_every_graph_that_is_near_is_yielded_whether_or_not_it_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    """Changes to the kinds 1, 2 and 3 in turn, of which 2 is too far off; all have so much energy that none stays."""
    moves = Line(1, 2, 3, None)
    energy, residual = dict(enumerate((0.0, 1e6, 1e6, 1e6))), dict(enumerate((9.0, 0.5, 0.51, 0.0)))
    found = run(monkeypatch, moves, energy, residual, replicas=1, rounds=2)
    assert found == [(1, 0.5), (3, 0.0), None] * 2
    assert vars(moves)["asked"] == [0] * 2 * TRIES, "each graph is changed as often as it is said, and stays"


def test_of_several_changes_the_first_that_is_accepted_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    """From 0 to 1, since it was drawn before 2 and 3, then from 1 to 0, all of one energy."""
    moves = Line(1, 2, 3, 3)
    run(monkeypatch, moves, dict.fromkeys(range(4), 0.0), dict.fromkeys(range(4), 9.0), replicas=1, rounds=3)
    assert vars(moves)["asked"] == [0] * TRIES + [1] * TRIES + [0] * TRIES


def test_a_graph_of_more_energy_is_taken_at_the_rate_of_its_temperature(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two graphs, one change: the worse is left always, and taken with probability ``exp(-rise / temperature)``."""
    rounds, low = 4000, TEMPERATURES[0]
    moves = Line(1, None, None, None)
    rise = low * np.log(3.0)
    run(monkeypatch, moves, {0: 0.0, 1: rise}, {0: 9.0, 1: 9.0}, replicas=1, rounds=rounds)
    worse = np.mean(vars(moves)["asked"][::TRIES])
    rate = 1 / 3
    assert abs(worse - rate / (1 + rate)) < 4 * 0.5 / np.sqrt(rounds)


def test_nothing_is_searched_where_no_change_is_possible_or_no_time_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    assert run(monkeypatch, Line(None), {0: 0.0}, {0: 0.0}, replicas=3, rounds=1) == []
    moves = Line(0)
    assert list(tempered(object.__new__(NodeSums), moves, replicas=2, most=1.0, clock=Clock(0.0, -1.0))) == []
    assert not vars(moves)["asked"]


class Drawn(np.random.Generator):
    """The side that is begun at, and numbers for what is decided by chance."""

    def __init__(self, side: int, number: float) -> None:
        super().__init__(np.random.PCG64(0))
        self.side, self.number = side, number

    def integers(self, low: Any, *_: Any, **__: Any) -> Any:
        assert low == 2
        return self.side

    def random(self, *_: Any, **__: Any) -> Any:
        return self.number


def weight(energies: Sequence[float], temperatures: np.ndarray) -> float:
    """How likely graphs of these energies are at these temperatures, beside others."""
    return float(np.exp(-np.sum(np.array(energies) / temperatures)))


@pytest.mark.parametrize("side", [0, 1])
@pytest.mark.parametrize("number", [0.0, 0.2, 0.5, 0.8, 0.999])
def test_neighbouring_temperatures_exchange_graphs_as_often_as_keeps_their_weights(side: int, number: float) -> None:
    """Each of five graphs with at most one other: always where that is likelier, else as often as it is less likely."""
    rng, temperatures, exchanged = np.random.default_rng(side), np.array([0.5, 1.0, 2.0, 3.0, 5.0]), 0
    for _ in range(40):
        before = rng.normal(size=5).tolist()
        graphs, energies, wanted = [named(k) for k in range(5)], np.array(before), list(range(5))
        for low in range(side, 4, 2):
            here, pair = temperatures[low : low + 2], before[low : low + 2]
            if number < weight(pair[::-1], here) / weight(pair, here):
                wanted[low], wanted[low + 1] = wanted[low + 1], wanted[low]
                exchanged += 1
        _exchange(graphs, energies, temperatures, Drawn(side, number))
        found = [int(graph.kinds[0]) for graph in graphs]
        assert found == wanted and energies.tolist() == [before[k] for k in found]
    assert 20 < exchanged <= 80


def test_the_better_graph_comes_to_the_lower_temperature(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only the graph of the higher one changes, once to less energy."""
    moves = Line(*[None] * TRIES, 1, *[None] * (TRIES - 1))
    run(monkeypatch, moves, {0: 1e6, 1: 0.0}, {0: 9.0, 1: 9.0}, replicas=2, rounds=9)
    assert vars(moves)["asked"][-2 * TRIES :] == [1] * 2 * TRIES
