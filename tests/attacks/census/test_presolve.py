"""Blocks that no solution has: nothing possible is excluded, and in general position all the rest is."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog, nnls

from jgleak.attacks.attack import Budget
from jgleak.attacks.census import presolve
from jgleak.attacks.census.presolve import possible
from jgleak.attacks.census.settings import DEFAULTS
from tests.clocks import HELD as FOREVER


def mask_of(system: np.ndarray, right: np.ndarray, least: float) -> np.ndarray:
    solution, residual = nnls(system, right)
    limit = 1e-5 + 10.0 * float(residual)
    return possible(system, right, solution=solution, least=least, limit=limit, settings=DEFAULTS, clock=FOREVER)


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10**6), st.integers(2, 6), st.integers(1, 6), st.integers(1, 4))
def test_equals_one_linear_programme_a_column(seed: int, rows: int, more: int, nodes: int) -> None:
    """Against the definition: the largest value of each entry over all non-negative solutions."""
    rng = np.random.default_rng(seed)
    system = rng.integers(0, 3, (rows, rows + more)).astype(float)
    counts = np.bincount(rng.integers(rows + more, size=nodes), minlength=rows + more)
    if not np.any(system @ counts):
        return
    system = np.r_[system, np.ones((1, rows + more))] / (2.0 * nodes)
    right, least = system @ counts, 0.9
    mask = mask_of(system, right, least)
    for column in range(rows + more):
        cost = np.zeros(rows + more)
        cost[column] = -1.0
        largest = -linprog(cost, A_eq=system, b_eq=right, bounds=(0, None)).fun
        assert mask[column] or largest < least + 1e-6, "a possible block is excluded"
        assert not mask[column] or largest > least - 0.05, "an impossible block is left"


def test_a_sparse_truth_among_hundreds_stands_alone() -> None:
    """With four times more blocks than equations the truth is still the only non-negative solution."""
    rng = np.random.default_rng(0)
    system = np.abs(rng.normal(size=(60, 240)))
    system /= np.linalg.norm(system, axis=0)
    for trial in range(5):
        true = rng.choice(240, 8, replace=False)
        shares = np.bincount(true, rng.integers(1, 4, 8), minlength=240) / 24.0
        right = system @ shares + 1e-7 * rng.normal(size=60)
        mask = mask_of(system, right, 0.9 / 40)
        assert np.array_equal(np.flatnonzero(mask), np.sort(true)), trial


def test_mixtures_of_two_solutions_lose_neither() -> None:
    """Equal columns: the least-squares solution may spread over them so thin that no entry is a whole node."""
    base = np.eye(4)[:, list(itertools.chain.from_iterable([i] * 12 for i in range(4)))]
    right = np.array([0.25, 0.25, 0.5, 0.0])
    mask = mask_of(base, right, 0.225)
    assert np.array_equal(mask, np.repeat([True, True, True, False], 12))


def test_a_group_that_is_excluded_is_not_split(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of eight columns the one that is used is not tested, and one test excludes the seven others."""
    asked, solver = list[int](), presolve.nonnegative

    def counted(*given: Any) -> Any:
        asked.append(1)
        return solver(*given)

    monkeypatch.setattr(presolve, "nonnegative", counted)
    assert mask_of(np.eye(8), np.eye(8)[2], 0.5).tolist() == [k == 2 for k in range(8)]
    assert len(asked) == 1


@pytest.mark.parametrize("lost", [(), (1,), (1, 2)])
def test_a_group_that_passes_is_split_without_what_its_solution_uses(
    monkeypatch: pytest.MonkeyPatch, lost: tuple[int, ...]
) -> None:
    """The first column is the solution; the second and the fourth together are another, in which the second is larger:
    the test of the last two shows it too. A test that finds no solution counts as passed."""
    system, asked, solver = (
        np.array([[1.0, 0.0, 0, 1, 0], [1, 0.25, 0, 0, 0], [0, 0, 1, 0, 1]]),
        [0],
        presolve.nonnegative,
    )

    def counted(*given: Any) -> Any:
        asked[0] += 1
        return None if asked[0] in lost else solver(*given)

    monkeypatch.setattr(presolve, "nonnegative", counted)
    given = {"solution": np.eye(5)[0], "least": 0.5, "limit": 1e-5, "settings": DEFAULTS, "clock": FOREVER}
    assert possible(system, np.array([1.0, 1, 0]), **given).tolist() == [True, True, False, True, False]
    assert asked[0] <= 5


def test_without_time_everything_is_possible() -> None:
    ended = Budget(time_limit=1e-9).start()
    system = np.eye(3)
    more = {"least": 0.5, "limit": 1e-5, "settings": DEFAULTS}
    assert possible(system, system[0], solution=system[0], clock=ended, **more).all()
