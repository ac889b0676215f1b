"""Whole counts that equations allow, against all vectors of so many nodes: which are found, their order, and limits."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from itertools import product

import numpy as np
import pytest
from scipy import linalg

from jgleak.attacks.attack import Clock
from jgleak.attacks.census.settings import DEFAULTS
from jgleak.attacks.census.sphere_decoder import _order, nearest_censuses, within_sphere
from jgleak.attacks.census.system import Census, Equations, Rules, Solution
from jgleak.attacks.census.whole_numbers import all_censuses, real_solution
from tests.clocks import HELD as FOREVER

ENDED = Clock(0.0, 0.0)
TOLERANCES, LIMITS = DEFAULTS.tolerances, DEFAULTS.limits

TWINS = np.array([[1.0, 1.0, 0.0, 2.0, 2.0], [0.0, 0.0, 1.0, 1.0, 1.0], [0.0, 1e-4, 0.0, 0.0, 3e-6]])
"""Two pairs of columns that rounding hardly tells apart, the second pair less than the first."""

EXCHANGES = np.array([[1.0, -1.0, 0.0, 0.0, 0.0], [0.0, 0.0, 0.0, 1.0, -1.0]]).T
"""What the twins leave free."""


def solution(
    matrix: np.ndarray,
    truth: Sequence[int],
    *,
    null: np.ndarray,
    absolute: bool = False,
    edges: int = 9,
    left: float = 0.0,
) -> Solution:
    """Equations that some counts fulfil, each node of any block with so many neighbours; another block has no column,
    and no rule but the number of edges holds. ``left`` is the residual of the best real ones."""
    counts, number = np.array(truth), matrix.shape[1]
    right = matrix @ counts / (1 if absolute else counts.sum())
    length, columns = float(np.linalg.norm(right)), np.arange(number)
    nothing = np.zeros((0, number + 1), np.int64)
    return Solution(
        Equations(np.c_[matrix, np.full(len(matrix), 7.0)], right, np.arange(number + 1)),
        Rules(np.full(number + 1, edges), nothing, nothing, nothing),
        absolute=absolute,
        residual=left,
        limit=1e-3,
        columns=columns,
        system=matrix / length,
        goal=right / length,
        mean=counts / (1 if absolute else counts.sum()),
        null=null,
    )


def residual(one: Solution, counts: Sequence[int]) -> float:
    right = one.equations.observed * (1 if one.absolute else sum(counts))
    return float(np.linalg.norm(one.equations.matrix[:, :-1] @ counts - right) / np.linalg.norm(right))


def same(found: Sequence[Census | None], wanted: Sequence[Census | None]) -> bool:
    return [one and one.counts.tolist() for one in found] == [one and one.counts.tolist() for one in wanted]


def told(found: Sequence[Census | None]) -> list[tuple[int, ...]]:
    """Counts of the columns; the block without a column never has a node."""
    assert all(census is None or census.counts[-1] == 0 for census in found)
    return [tuple(census.counts[:-1].tolist()) for census in found if census is not None]


@pytest.mark.parametrize("near", [True, False], ids=["the near ones first", "in any order"])
@pytest.mark.parametrize(("absolute", "left"), [(True, 0.0), (False, 0.0), (False, 0.5e-6)])
def test_every_census_of_each_number_is_found_once(absolute: bool, left: float, near: bool) -> None:
    """Near are those that leave ten times as much as the best real counts, and 1e-5."""
    one = solution(TWINS, (2, 0, 1, 1, 2), null=EXCHANGES, absolute=absolute, left=left)
    limits = LIMITS if near else dataclasses.replace(LIMITS, sphere_blocks=4)
    sizes = (6, 5) if absolute else (6, 12, 5)
    found = list(all_censuses(one, sizes, FOREVER, TOLERANCES, limits))
    assert all(census is not None for census in found)
    groups = [[census for census in found if census is not None and census.n == n] for n in sizes]
    assert same([census for group in groups for census in group], found), "numbers of nodes come as they are given"
    for n, group in zip(sizes, groups, strict=True):
        wanted = {x for x in product(range(7), repeat=5) if sum(x) == n and residual(one, x) <= 1e-3}
        assert len(wanted) == {5: 0, 6: 12, 12: 35}[n]
        assert set(told(group)) == wanted and len(group) == len(wanted)
        np.testing.assert_allclose([census.residual for census in group], [residual(one, x) for x in told(group)])
        close = [census.residual for census in group if census.residual <= 1e-5 + 10 * left]
        if near:
            assert [census.residual for census in group][: len(close)] == sorted(close)
            assert n != 6 or 1 < len(close) < len(group)


@pytest.mark.parametrize(
    ("third", "whole"), [(1.0, True), (0.91, True), (1.09, True), (0.89, False), (1.11, False), (-1.0, False)]
)
def test_fixed_counts_that_are_negative_or_no_whole_number_have_no_census(third: float, whole: bool) -> None:
    """The third block alone is fixed, to within a tenth; what it lacks of one node both pairs of twins share."""
    more, one = (1.0 - third) / 2, solution(TWINS, (2, 0, 1, 1, 2), null=EXCHANGES)
    mean = np.array([2.0 + more, 0.0, third, 1.0, 2.0 + more]) / 6
    moved = dataclasses.replace(one, mean=mean, goal=one.system @ mean)
    moved = dataclasses.replace(moved, equations=dataclasses.replace(one.equations, observed=TWINS @ mean))
    loose = dataclasses.replace(TOLERANCES, census_residual=0.5)
    found = list(all_censuses(moved, [6], FOREVER, loose, dataclasses.replace(LIMITS, sphere_blocks=0)))
    assert bool(found) == whole and all(counts[2] == 1 for counts in told(found))


def test_a_census_that_breaks_a_rule_is_none() -> None:
    """Six nodes with one neighbour each have three edges, too few to connect them; with two they have six."""
    for edges, wanted in ((1, 0), (2, 9)):
        one = solution(TWINS, (2, 0, 1, 1, 2), null=EXCHANGES, edges=edges)
        assert len(list(all_censuses(one, [6], FOREVER, TOLERANCES, LIMITS))) == (12 if wanted else 0)


def test_counting_ends_at_its_limits_and_says_so() -> None:
    one = solution(TWINS, (2, 0, 1, 1, 2), null=EXCHANGES)

    def found(**limits: int) -> list[Census | None]:
        return list(all_censuses(one, [6], FOREVER, TOLERANCES, dataclasses.replace(LIMITS, **limits)))

    whole = found()
    assert None not in whole and len(whole) == 12
    assert found(freedom=1) == [None] and same(found(freedom=2), whole)
    assert found(real_blocks=4) == [None] and same(found(real_blocks=5), whole)
    few = found(programmes=3)
    assert few[-1] is None and None not in few[:-1] and 1 < len(few) <= 12
    assert list(all_censuses(one, [6], ENDED, TOLERANCES, LIMITS))[-1] is None


@pytest.mark.parametrize("absolute", [True, False], ids=["numbers", "shares"])
def test_the_nearest_counts_of_each_number_come_in_order(absolute: bool) -> None:
    rng = np.random.default_rng(3)
    matrix = rng.normal(size=(4, 3))
    one = solution(matrix, (2, 1, 1), null=np.zeros((3, 0)), absolute=absolute)
    radius, sizes = 7.0 if absolute else 2.0, (4, 3)
    found = list(nearest_censuses(one, sizes, FOREVER, radius, LIMITS))
    start = 0
    for n in sizes:
        share = 1 if absolute else n
        wanted = [
            x
            for x in product(range(n + 1), repeat=3)
            if sum(x) == n and np.linalg.norm(matrix @ x / share - one.equations.observed) <= radius
        ]
        assert len(wanted) > 2
        group = found[start : start + len(wanted)]
        assert sorted(told(group)) == sorted(wanted)
        np.testing.assert_allclose([c.residual for c in group if c], sorted(residual(one, x) for x in wanted))
        start += len(wanted)
    assert start == len(found)


def test_a_search_by_distance_ends_at_its_limits_and_says_so() -> None:
    one = solution(np.eye(3), (2, 1, 1), null=np.zeros((3, 0)), absolute=True)

    def found(clock: Clock = FOREVER, **limits: int) -> list[Census | None]:
        return list(nearest_censuses(one, [4], clock, 1.5, dataclasses.replace(LIMITS, **limits)))

    whole = found()
    assert len(whole) == 7 and None not in whole, "the truth, and one node moved from a block to another"
    assert found(sphere_blocks=2) == [None] and same(found(sphere_blocks=3), whole)
    assert same(found(sphere_censuses=7), whole)
    assert found(sphere_censuses=2)[0] is None and len(found(sphere_censuses=2)) == 3
    assert found(sphere_steps=4)[0] is None
    assert found(ENDED, sphere_steps=257) == [None]


def test_a_clock_that_has_ended_stops_the_search_at_its_next_look() -> None:
    """It is asked every 256 partial vectors."""
    whole = list(within_sphere(np.eye(3), np.ones(3), n=30, radius=99.0, clock=FOREVER, steps=10_000))
    assert len(whole) == 496
    cut = list(within_sphere(np.eye(3), np.ones(3), n=30, radius=99.0, clock=ENDED, steps=10_000))
    assert cut[-1] is None and 0 < len(cut) - 1 < 256


@pytest.mark.parametrize("unit", [1e-7, 1e7])
def test_the_unit_of_the_equations_decides_nothing(unit: float) -> None:
    """Also where they are fewer than the counts, of which two have one column."""
    system, true = np.random.default_rng(4).normal(size=(2, 3))[:, [0, 1, 2, 2]], np.array([1, 0, 2, 1])
    right = system @ true + 0.1
    near, other = (
        within_sphere(one * system, one * right, n=4, radius=2.0 * one, clock=FOREVER, steps=10_000)
        for one in (1.0, unit)
    )
    wanted = {
        tuple(x) for x in product(range(5), repeat=4) if sum(x) == 4 and np.linalg.norm(system @ x - right) <= 2.0
    }
    assert len(wanted) > 3 and {tuple(x) for x in near if x is not None} == wanted
    assert {tuple(x) for x in other if x is not None} == wanted


def test_steps_are_partial_vectors_that_are_looked_at() -> None:
    """No entry settled, one of them 0 or 1: three looks, the whole vectors beside."""
    for steps, ends in ((3, False), (2, True)):
        found = list(within_sphere(np.eye(2), np.ones(2), n=1, radius=9.0, clock=FOREVER, steps=steps))
        assert (found[-1] is None) == ends and all(one is not None for one in found[:-1])
        assert [tuple(one.tolist()) for one in found if one is not None][: 2 - ends] in (
            [(0, 1), (1, 0)][: 2 - ends],
            [(1, 0), (0, 1)][: 2 - ends],
        )


def test_the_likeliest_value_of_the_best_known_entry_comes_first() -> None:
    """The last column is thrice as long: its values in the order of their distances from 1.2."""
    system = np.diag([1.0, 3.0])
    found = list(within_sphere(system, system @ [1.0, 1.2], n=4, radius=30.0, clock=FOREVER, steps=99))
    assert [tuple(one.tolist()) for one in found if one is not None] == [(3, 1), (2, 2), (4, 0), (1, 3), (0, 4)]


@pytest.mark.parametrize("seed", range(3))
def test_entries_are_settled_from_the_best_known_on_each_given_those_before(seed: int) -> None:
    """The variance of an entry, given others, is that in the system without their columns."""
    system = np.random.default_rng(seed).normal(size=(9, 6)) @ np.diag([1, 2, 1, 3, 1, 2])
    left = list(range(6))
    for settled in _order(system)[::-1]:
        variances = np.diag(np.linalg.inv(system[:, left].T @ system[:, left]))
        assert settled == left[int(np.argmin(variances))]
        left.remove(int(settled))
    assert not left


@pytest.mark.parametrize(("rows", "columns"), [(5, 3), (3, 3), (3, 5)], ids=["tall", "square", "wide"])
def test_the_smallest_solution_and_what_it_leaves_free(rows: int, columns: int) -> None:
    """Smallest in units of the columns' lengths; a column of zeros is free, and so are two equal columns."""
    rng = np.random.default_rng(0)
    system = rng.normal(size=(rows, columns)) * ([1.0, 10.0, 1.0, 5.0, 2.0][:columns])
    system = np.c_[system, system[:, 0], np.zeros(rows)]
    right = system @ rng.uniform(1.0, 2.0, columns + 2)
    found, free = real_solution(system, right, null=2e-5, blur=0.0)
    length = np.r_[np.linalg.norm(system[:, :-1], axis=0), 1.0]
    np.testing.assert_allclose(found * length, np.linalg.pinv(system / length) @ right, atol=1e-9)
    assert free.shape == (columns + 2, columns + 2 - np.linalg.matrix_rank(system))
    np.testing.assert_allclose(system @ free, 0.0, atol=1e-9)
    assert np.linalg.matrix_rank(free) == free.shape[1] and np.abs(free).max() == pytest.approx(1.0)


@pytest.mark.parametrize(("null", "blur", "number"), [(2e-3, 0.0, 1), (5e-4, 0.0, 0), (0.0, 2e-3, 1), (0.0, 5e-4, 0)])
def test_faint_directions_are_free_below_either_bound(null: float, blur: float, number: int) -> None:
    """Singular values in the ratio 1e-3, of columns of one length; and with a third column that is one of them."""
    turn = linalg.hadamard(2) / np.sqrt(2)
    system = (turn * np.sqrt([2 - 1e-6, 1e-6])) @ turn
    values = np.linalg.svd(system / np.linalg.norm(system, axis=0), compute_uv=False)
    assert values[1] / values[0] == pytest.approx(1e-3, rel=0.5)
    assert real_solution(system, np.ones(2), null=null, blur=blur)[1].shape == (2, number)
    wide = np.c_[system, system[:, 0]]
    assert real_solution(wide, np.ones(2), null=null, blur=blur)[1].shape == (3, number + 1)
