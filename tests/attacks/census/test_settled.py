"""Turns between shares and the path of the weights: which turn is kept, when they end, and which whole census helps."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest

from jgleak.attacks.attack import Clock
from jgleak.attacks.census import settled as module
from jgleak.attacks.census.candidates import Levels
from jgleak.attacks.census.followed import followable
from jgleak.attacks.census.problem import CensusProblem
from jgleak.attacks.census.settled import Turn, settled
from jgleak.attacks.census.system import Equations, Rules
from jgleak.attacks.span.hops import Nodes
from jgleak.federated import Knowledge, Observation
from tests.clocks import HELD as FOREVER

POOLED = {"readout": "pooled", "readout_widths": (64,), "last_act": True}
SYSTEM = Equations(np.eye(4), np.ones(4), np.arange(4))
LEVELS = Levels(Nodes(np.zeros((0, 1), np.int64), np.zeros((0, 1)), np.zeros(0, np.int64)), (), (), complete=True)


@pytest.fixture(scope="module")
def problem(lab: Any) -> CensusProblem:
    return CensusProblem.of(lab.observe(lab.model(), lab.path([0, 1, 1, 2, 0])), Knowledge(lab.space, n=4))


def limited(problem: CensusProblem, **limits: Any) -> CensusProblem:
    settings = dataclasses.replace(problem.settings, limits=dataclasses.replace(problem.limits, **limits))
    return dataclasses.replace(problem, settings=settings)


@pytest.mark.parametrize(
    ("residuals", "whole", "kept", "turns"),
    [
        ([1e-6], [], 0, 0),
        ([1e-2, 5e-3, 1e-7], [], 2, 2),
        ([1e-2, 8e-3], [None], 1, 1),
        ([1.0, 0.7, 0.6], [None], 2, 2),
        ([1e-2, 2e-2], [None], 0, 1),
        ([1e-2, 8e-3, 1e-3, 1e-7], [np.ones(4)], 3, 3),
        ([1e-2, 8e-3, 9e-3], [np.ones(4)], 1, 2),
        ([1e-2, 5e-3, 2e-3, 1e-3], [], 3, 3),
    ],
    ids=["at once", "falling", "resting", "just enough", "worse", "a whole census", "which does not help", "the limit"],
)
def test_turns_go_on_while_the_residual_falls_enough(
    residuals: list[float],
    whole: list[np.ndarray | None],
    kept: int,
    turns: int,
    problem: CensusProblem,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """By a factor of 0.7 in each; where it does not, a whole census is tried, and the smallest residual is kept."""
    problem = limited(problem, path_turns=3)
    made = [Turn(dataclasses.replace(problem), dataclasses.replace(SYSTEM), np.full(4, 0.25), far) for far in residuals]
    asked = list[np.ndarray]()

    def along(turn: Turn, _: Any, shares: np.ndarray, __: Any) -> Turn:
        asked.append(shares)
        return made[len(asked)]

    monkeypatch.setattr(module, "followable", lambda _: True)
    monkeypatch.setattr(module, "_turn", lambda *_: made[0])
    monkeypatch.setattr(module, "_along", along)
    monkeypatch.setattr(module, "_nearest", lambda *_: whole.pop(0))
    assert problem.tolerances.path_gain == 0.7 and problem.tolerances.path_residual == 1e-6
    found, system = settled(problem, LEVELS, SYSTEM, FOREVER)
    assert found is made[kept].problem and system is made[kept].system
    assert len(asked) == turns and not whole
    asked.clear()
    assert settled(limited(problem, path_turns=0), LEVELS, SYSTEM, FOREVER)[0] is made[0].problem
    assert settled(problem, LEVELS, SYSTEM, Clock(0.0, 0.0))[0] is made[0].problem and not asked
    monkeypatch.setattr(module, "followable", lambda _: False)
    assert settled(problem, LEVELS, SYSTEM, FOREVER) == (problem, SYSTEM)


def test_a_turn_is_the_best_solution_of_its_equations_and_rules(problem: CensusProblem, monkeypatch: Any) -> None:
    """For the numbers of nodes that are tried first."""
    asked, goal = list[range](), np.array([0.5, 0.0, 0.3, -0.2])
    monkeypatch.setattr(CensusProblem, "rounds", property(lambda _: [range(1, 5), range(5, 9)]))
    reduced = np.eye(4), goal
    monkeypatch.setattr(module, "posed", lambda *given: asked.append(given[-1]) or (RULES, np.eye(4)[:1], reduced))
    turn = module._turn(problem, LEVELS, SYSTEM, FOREVER)
    assert turn.problem is problem and turn.system is SYSTEM and asked == [range(1, 5)]
    np.testing.assert_allclose(turn.shares, np.maximum(goal, 0.0), atol=1e-9)
    assert turn.residual == pytest.approx(0.2)


GOAL = np.array([0.5, 0.3, 0.2])
RULES = Rules(np.full(4, 9), *(np.zeros((0, 4), np.int64) for _ in range(3)))


def nearest(problem: CensusProblem, far: dict[tuple[int, ...], float], monkeypatch: Any, residual: float = 0.05) -> Any:
    """The census of four nodes beside shares of three of four blocks; and those whose training was asked for."""
    turn = Turn(problem, SYSTEM, np.insert(GOAL, 1, 0.0), residual)
    asked = list[list[int]]()

    def returned(_: Any, __: Any, blocks: np.ndarray, shares: np.ndarray) -> np.ndarray:
        assert blocks.tolist() == [0, 2, 3]
        asked.extend(np.round(4 * shares).astype(int).tolist())
        return np.array([far.get(tuple(one), np.inf) for one in np.round(4 * shares).astype(int).tolist()])

    monkeypatch.setattr(module, "posed", lambda *_: (RULES, None, (np.eye(4)[[0, 2, 3]], GOAL)))
    monkeypatch.setattr(module, "returned_distances", returned)
    found = module._nearest(turn, LEVELS, FOREVER)
    return None if found is None else (4 * found).tolist(), [tuple(one) for one in asked]


def around(radius: float) -> list[tuple[int, ...]]:
    """Whole counts of four nodes by their distance from the shares."""
    every = [(a, b, 4 - a - b) for a in range(5) for b in range(5 - a)]
    far: dict[tuple[int, ...], float] = {one: float(np.linalg.norm(np.array(one) / 4 - GOAL)) for one in every}
    return sorted((one for one in every if far[one] <= radius), key=lambda one: far[one])


def test_the_whole_census_is_the_one_whose_training_gives_the_update(problem: CensusProblem, monkeypatch: Any) -> None:
    """Among those near the shares, the nearest first; one whose training diverges is none."""
    some = around(0.4)
    assert len(some) > 4 and len(around(0.2)) < len(some)
    assert nearest(problem, {some[0]: 0.3, some[1]: 0.1}, monkeypatch, 0.2) == (
        [some[1][0], 0.0, some[1][1], some[1][2]],
        some,
    )
    assert nearest(problem, {some[2]: 0.1}, monkeypatch, 0.2)[0] == [some[2][0], 0.0, some[2][1], some[2][2]]
    assert nearest(problem, {}, monkeypatch, 0.2)[0] is None, "all diverge"
    few = nearest(limited(problem, whole_replayed=2), {some[0]: 0.3, some[2]: 0.1}, monkeypatch, 0.2)
    assert few == ([some[0][0], 0.0, some[0][1], some[0][2]], some[:2])


def test_of_censuses_equally_near_the_shares_all_are_trained(problem: CensusProblem, monkeypatch: Any) -> None:
    """Two nodes of one block and one of another, or the other way round, half-way between."""
    monkeypatch.setitem(globals(), "GOAL", np.array([0.375, 0.375, 0.25]))
    assert {one[:2] for one in around(0.2)} == {(2, 1), (1, 2)}
    found, asked = nearest(problem, {(2, 1, 1): 0.2, (1, 2, 1): 0.1}, monkeypatch, 0.1)
    assert found == [1, 0, 2, 1] and sorted(asked) == [(1, 2, 1), (2, 1, 1)]


def test_whole_censuses_are_sought_further_out_until_there_is_one(problem: CensusProblem, monkeypatch: Any) -> None:
    """Within 2, 4 and 8 residuals."""
    least = float(np.linalg.norm(np.array(around(1.0)[0]) / 4 - GOAL))
    for reach in (2.0, 4.0, 8.0):
        assert nearest(problem, {}, monkeypatch, 1.01 * least / reach)[1] == around(1.01 * least)
    assert nearest(problem, {}, monkeypatch, 0.99 * least / 8) == (None, [])


def test_behind_a_sum_shares_are_numbers(problem: CensusProblem, monkeypatch: Any) -> None:
    """The same whole censuses, four times as far off, as the counts that they are."""
    monkeypatch.setattr(CensusProblem, "absolute", property(lambda _: True))
    monkeypatch.setattr(module, "posed", lambda *_: (RULES, None, (np.eye(4)[[0, 2, 3]], 4 * GOAL)))
    asked = list[tuple[int, ...]]()

    def returned(_: Any, __: Any, ___: Any, shares: np.ndarray) -> np.ndarray:
        asked.extend(tuple(one) for one in shares.tolist())
        return np.arange(len(shares), 0.0, -1.0)

    monkeypatch.setattr(module, "returned_distances", returned)
    found = module._nearest(Turn(problem, SYSTEM, np.insert(4 * GOAL, 1, 0.0), 4 * 0.2), LEVELS, FOREVER)
    assert asked == around(0.4) and found is not None and tuple(found[[0, 2, 3]]) == asked[-1]


def test_too_many_blocks_are_not_searched_and_a_search_that_is_cut_is_none(
    problem: CensusProblem, monkeypatch: Any
) -> None:
    some = {one: 0.1 for one in around(0.4)}
    assert nearest(limited(problem, sphere_blocks=3), some, monkeypatch, 0.2)[0] is not None
    assert nearest(limited(problem, sphere_blocks=2), some, monkeypatch, 0.2) == (None, [])
    assert nearest(limited(problem, whole_steps=1), some, monkeypatch, 0.2) == (None, [])


def test_counts_that_break_a_rule_are_not_trained(problem: CensusProblem, monkeypatch: Any) -> None:
    """Four nodes with one neighbour each are no connected graph; blocks of two have edges enough."""
    degrees = np.array([1, 1, 1, 9])
    monkeypatch.setitem(globals(), "RULES", dataclasses.replace(RULES, degrees=degrees))
    asked = nearest(problem, {}, monkeypatch, 0.2)[1]
    assert asked == [one for one in around(0.4) if one[2] > 0]


def test_a_path_that_has_nothing_to_follow_is_the_same_turn(problem: CensusProblem, monkeypatch: Any) -> None:
    """No shares, no time, training that diverges, or equations that came too late."""
    turn = Turn(problem, SYSTEM, GOAL, 0.1)
    shares, other = np.array([0.5, 0.0, 0.5, 0.0]), Turn(problem, SYSTEM, GOAL, 0.05)
    asked = list[list[Any]]()

    def followed(_: Any, __: Any, blocks: np.ndarray, some: np.ndarray) -> Any:
        asked.append([blocks.tolist(), some.tolist()])
        return problem.path

    monkeypatch.setattr(module, "followed", followed)
    monkeypatch.setattr(module, "equations", lambda *_: SYSTEM)
    monkeypatch.setattr(module, "_turn", lambda *_: other)
    assert module._along(turn, LEVELS, shares, FOREVER) is other and asked == [[[0, 2], [0.5, 0.5]]]
    assert module._along(turn, LEVELS, 0.0 * shares, FOREVER) is turn
    assert module._along(turn, LEVELS, shares, Clock(0.0, 0.0)) is turn and len(asked) == 1
    monkeypatch.setattr(module, "equations", lambda *_: None)
    assert module._along(turn, LEVELS, shares, FOREVER) is turn
    monkeypatch.setattr(module, "equations", lambda *_: pytest.fail("its training diverged"))
    (point,) = problem.path
    wild = point._replace(params={"kernel": np.array([np.nan])})
    monkeypatch.setattr(module, "followed", lambda *_: (point, wild))
    assert module._along(turn, LEVELS, shares, FOREVER) is turn


@pytest.mark.parametrize(
    ("fields", "clone", "loss", "steps", "can"),
    [
        ({}, {}, "bce", 2, True),
        ({}, {}, "bce", 1, False),
        ({}, {}, "masked_bce", 2, True),
        (POOLED, {}, "ce", 2, True),
        ({**POOLED, "pooling": "mean,sum"}, {}, "ce", 2, False),
        ({"classes": 1}, {}, "mse", 2, True),
        ({"classes": 1}, {}, "masked_mse", 2, False),
        ({}, {}, "bce+smoothing:0.1", 2, False),
        ({"per_node": True}, {}, "ce", 2, False),
        ({}, {"dropout": 0.1}, "bce", 2, False),
        ({}, {"frozen": ("readout",)}, "bce", 2, False),
    ],
    ids=[
        *("nodes", "one step", "masked", "pooled", "two poolings"),
        *("mse", "targets", "smoothing", "labels", "dropout", "frozen"),
    ],
)
def test_the_training_of_a_mixture_can_be_run_where_its_label_and_its_row_are_known(
    fields: dict[str, Any], clone: dict[str, Any], loss: str, steps: int, can: bool, problem: CensusProblem, lab: Any
) -> None:
    model = lab.model(**fields)
    params = lab.params(model)
    model = model.clone(**clone)
    update = {name: part for name, part in params.items() if name not in clone.get("frozen", ())}
    seen = Observation(model, params, update, loss)
    assert followable(dataclasses.replace(problem, seen=seen, path=problem.path * steps)) is can
