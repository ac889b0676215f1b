"""Real counts: against linear programmes over all non-negative ones that obey the equations and the rules."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.optimize import linprog, nnls

from jgleak.attacks.attack import Clock
from jgleak.attacks.census import solve as module
from jgleak.attacks.census.arithmetic import Exact
from jgleak.attacks.census.candidates import Levels
from jgleak.attacks.census.problem import CensusProblem
from jgleak.attacks.census.solve import fitted, posed, solve
from jgleak.attacks.census.system import Equations, Rules
from jgleak.attacks.span.hops import Blocks, Nodes
from jgleak.federated import Knowledge
from tests.clocks import HELD

AROUND = ((1,), (2,), (3,), (1, 1), (1, 2), (2, 2), (1, 1, 1), (1, 1, 2), (1, 2, 2), (1, 3), (3, 3), (2, 3))
"""Degrees of the neighbours of each block."""

ROOTS = np.array([len(around) for around in AROUND])
BLOCKS = Blocks(ROOTS, 0 * ROOTS, AROUND, np.zeros((12, 0)), np.zeros((12, 0)), np.zeros(12), 0)
LEVELS = Levels(Nodes(np.zeros((1, 1), int), np.zeros((1, 1)), np.zeros(1, int)), (BLOCKS,), (), complete=True)
RULES = Rules.of(BLOCKS, np.arange(12))
PATH, STAR = np.array([0, 2, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0]), np.array([0, 0, 3, 0, 0, 0, 1, 0, 0, 0, 0, 0])
"""Four nodes each."""


@pytest.fixture(params=[True, False], ids=["numbers", "shares"])
def problem(lab: Any, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> CensusProblem:
    monkeypatch.setattr(CensusProblem, "absolute", property(lambda _: request.param))
    return CensusProblem.of(lab.observe(lab.model(), lab.path([0, 1, 1, 2])), Knowledge(lab.space))


def equations(problem: CensusProblem, rows: int, seed: int, counts: np.ndarray = PATH) -> Equations:
    matrix = 3.0 * np.abs(np.random.default_rng(seed).normal(size=(rows, 12)))
    return Equations(matrix, matrix @ counts / (1 if problem.absolute else counts.sum()), np.arange(12))


def test_blocks_that_stay_are_those_of_which_some_solution_has_a_node(problem: CensusProblem) -> None:
    """Of graphs of up to eight nodes: a share of an eighth, or one."""
    sizes, least, left = range(2, 9), 1.0 if problem.absolute else 1 / 8, list[int]()
    margin = problem.tolerances.whole_number
    for seed in range(12):
        given = equations(problem, 2 + seed % 3, seed, PATH + STAR)
        found = solve(problem, LEVELS, given, sizes, HELD)
        assert found.explained and found.residual < 1e-9 and found.limit == problem.tolerances.missing_residual
        rules = RULES.matrix(problem.absolute)
        right = np.zeros(len(rules)) if problem.absolute else np.r_[np.zeros(len(rules) - 1), 1.0]
        system, goal = np.r_[given.matrix, rules], np.r_[given.observed, right]
        largest = [-linprog(-one, A_eq=system, b_eq=goal, bounds=(0, None)).fun / least for one in np.eye(12)]
        for block, most in enumerate(largest):
            assert block in found.columns or most < 1.0, "a node of it is possible"
            assert block not in found.columns or most > 1.0 - 1.2 * margin, "none is"
        left.append(found.columns.size)
        true = np.array((PATH + STAR)[found.columns] / (1 if problem.absolute else 8), float)
        np.testing.assert_allclose(found.system @ found.mean, found.goal, atol=1e-6)
        np.testing.assert_allclose(found.system @ found.null, 0.0, atol=1e-6)
        free = found.null @ np.linalg.lstsq(found.null, true - found.mean)[0]
        np.testing.assert_allclose(free, true - found.mean, atol=1e-6, err_msg="what is not free is known")
    assert 4 <= min(left) < max(left)


@pytest.mark.parametrize("rows", [3, 40])
def test_what_is_solved_is_the_equations_and_the_rules(problem: CensusProblem, rows: int) -> None:
    """Whatever number of rows it has: the same distance for any counts, in units of the right-hand side."""
    rng, given = np.random.default_rng(0), equations(problem, rows, 1)
    length = np.linalg.norm(given.observed)
    for weight in (1.0, 30.0):
        rules, exact, (system, goal) = posed_with(problem, given, weight)
        assert np.array_equal(exact, RULES.matrix(problem.absolute)) and np.array_equal(rules.loops, RULES.loops)
        for x in rng.normal(size=(5, 12)):
            broken = exact @ x - np.r_[np.zeros(len(exact) - 1), 0.0 if problem.absolute else 1.0]
            wanted = np.hypot(
                np.linalg.norm(given.matrix @ x - given.observed) / length, weight * np.linalg.norm(broken)
            )
            np.testing.assert_allclose(np.linalg.norm(system @ x - goal), wanted)
        best, rest = fitted(problem, given, (system, goal), HELD)
        np.testing.assert_allclose(np.linalg.norm(system @ best - goal), rest, atol=1e-7)
        np.testing.assert_allclose(rest, nnls(system, goal)[1], atol=1e-7)


def posed_with(problem: CensusProblem, given: Equations, weight: float) -> Any:
    """The rules weighed so for graphs of up to six nodes."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Exact, "rules_weight", lambda _, __, most: weight if most == 6 else pytest.fail("six"))
        return posed(problem, LEVELS, given, range(2, 7))


def test_rounding_moves_a_node_by_its_share(problem: CensusProblem, monkeypatch: pytest.MonkeyPatch) -> None:
    """A node is a sixth of what is solved for, where that is shares: it is blurred six times as much."""
    blurs, unit = list[float](), 1 if problem.absolute else 6
    real = Exact.real
    monkeypatch.setattr(Exact, "real", lambda own, reduced, blur: blurs.append(blur) or real(own, reduced, blur))
    given = equations(problem, 30, 2)
    off = given.observed * (1 + 1e-5 * np.random.default_rng(0).normal(size=30))
    solve(problem, LEVELS, given, range(2, 7), HELD)
    found = solve(problem, LEVELS, Equations(given.matrix, off, given.blocks), range(2, 7), HELD)
    np.testing.assert_allclose(blurs, [unit * module.ROUNDING, unit * found.residual])
    assert found.residual > 2 * module.ROUNDING


def test_nothing_observed_no_time_and_what_no_blocks_give_is_not_explained(problem: CensusProblem) -> None:
    nothing = Equations(np.eye(12), np.zeros(12), np.arange(12))
    found = solve(problem, LEVELS, nothing, range(2, 7), HELD)
    assert (found.residual, found.limit, found.explained, found.columns.size) == (np.inf, 0.0, False, 12)
    late = solve(problem, LEVELS, equations(problem, 30, 0), range(2, 7), Clock(0.0, 0.0))
    assert (late.residual, late.limit, late.explained, late.columns.size) == (np.inf, 0.0, False, 12)
    other = solve(problem, LEVELS, Equations(np.eye(12), -np.ones(12), np.arange(12)), range(2, 7), HELD)
    assert other.residual > other.limit > 0.0 and not other.explained
    for one in (found, other):
        assert one.columns.tolist() == list(range(12)) and not one.mean.any() and one.null.shape == (12, 0)
