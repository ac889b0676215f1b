"""Factors from weights that are whole combinations of them."""

from __future__ import annotations

import numpy as np
import pytest

from jgleak.attacks.census.batches import factors as module
from jgleak.attacks.census.batches.factors import Combinations, Factor, _refined, factors

ERROR = 1e-7


def matched(found: list[Factor], truth: np.ndarray) -> bool:
    """Each true factor once, and nothing else."""
    values = np.array([factor.value for factor in found])
    near = np.abs(values[:, None] - truth).max(axis=2) < 10 * ERROR
    return values.shape == truth.shape and bool(near.any(axis=0).all() and near.any(axis=1).all())


@pytest.mark.parametrize("width", [1, 2])
def test_factors_of_either_sign_are_found(width: int) -> None:
    """Three graphs with blocks of their own, blocks of two and blocks of all three."""
    rng = np.random.default_rng(width)
    truth = np.array([[0.0731, 0.02], [-0.0417, 0.05], [0.0523, -0.031]])[:, :width]
    own = np.repeat(np.eye(3, dtype=int), 5, axis=0) * rng.integers(1, 4, (15, 1))
    own[::5] = np.eye(3, dtype=int)
    counts = np.r_[own, [[1, 1, 0], [1, 1, 0], [1, 1, 0], [2, 0, 1], [1, 3, 2]]]
    values = counts @ truth + rng.uniform(-ERROR, ERROR, (len(counts), width)) / 2
    assert matched(factors(values, np.full(values.shape, ERROR)), truth)


def test_a_factor_is_not_taken_for_a_part_of_it() -> None:
    """A chance multiple of a fifth of a factor does not count more than being five times less likely by chance."""
    values = np.array([[1.0], [2.0], [1.0], [3.0], [1.0], [1.4]])
    assert matched(factors(values, np.full(values.shape, 1e-2)), np.array([[1.0]]))


def test_a_block_that_decides_occurs_at_most_so_often() -> None:
    """12 and 13 times a factor show it, since twelfths are looked at; 13 and 14 times have no common part otherwise."""
    shown, hidden = 0.0731 * np.array([[12.0], [13.0]]), 0.0731 * np.array([[13.0], [14.0]])
    assert matched(factors(shown, np.full((2, 1), ERROR)), np.array([[0.0731]]))
    assert not factors(hidden, np.full((2, 1), ERROR))


def test_combinations_are_those_of_brute_force() -> None:
    """All whole vectors of small entries whose sum is near a weight."""
    known = [Factor(np.array([value]), np.array([1e-6])) for value in (0.31, -0.17, 0.05)]
    ways, misfits = Combinations(known).of(np.array([0.31 + 0.1]), np.array([1e-5]))
    grid = np.array([(a, b, c) for a in range(7) for b in range(7) for c in range(7)])
    near = grid[np.abs(grid @ [0.31, -0.17, 0.05] - 0.41) < 1e-9]
    small = {tuple(way) for way in ways.tolist() if max(way) < 7}
    assert small == {tuple(way) for way in near.tolist()}
    assert np.all(misfits <= 1.0)


def test_many_multiples_of_one_factor_are_not_two_factors() -> None:
    """2, 4, 3 and 9 times a factor: one that explains all four is less likely by chance than two that explain two."""
    values = 0.0731 * np.array([[2.0], [4.0], [3.0], [9.0]])
    assert matched(factors(values, np.full(values.shape, ERROR)), np.array([[0.0731]]))


def test_a_block_occurs_the_less_often_the_more_graphs_share_it() -> None:
    """``OFTEN``: sixty times in one graph, sixteen in each of two, eight in each of three; no way is listed twice."""
    roots = np.sqrt([1.0, 2.0, 3.0])
    known = Combinations([Factor(np.array([root]), np.array([1e-9])) for root in roots])
    assert len(known.table) == 3 * 60 + 3 * 16**2 + 8**3 == len(np.unique(known.table, axis=0))
    for way, there in (
        ((60, 0, 0), True),
        ((0, 61, 0), False),
        ((16, 16, 0), True),
        ((17, 0, 1), False),
        ((8, 8, 8), True),
        ((9, 1, 1), False),
    ):
        ways, _ = known.of(np.array([roots @ way]), np.array([1e-9]))
        assert (list(way) in ways.tolist()) is there


def test_blocks_that_two_graphs_share_show_no_third_factor() -> None:
    """Their weights are multiples of the sum of both factors, which is no graph's own."""
    truth = np.array([[0.0731], [0.0417]])
    times = np.arange(1, 4)[:, None]
    values = np.concatenate([times * row for row in (truth[0], truth[1], truth.sum(axis=0))])
    assert matched(factors(values, np.full(values.shape, ERROR)), truth)


def test_twice_a_factor_may_be_another_graphs() -> None:
    """Where weights are known so badly that to be a multiple of the smaller one says little."""
    values, errors = np.array([[2.0]] * 10 + [[1.0]] * 2), np.full((12, 1), 0.05)
    np.testing.assert_allclose([one.value for one in factors(values, errors)], [[2.0], [1.0]])


@pytest.mark.parametrize(("most", "listed"), [(119, 60), (120, 120), (120 + 256, 120 + 256), (10**6, 120 + 256)])
def test_no_more_combinations_are_listed_than_a_limit(most: int, listed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of two factors sixty each and 256 of both: those of fewer graphs first, all of the same graphs or none."""
    monkeypatch.setattr(module, "SUMS", most)
    known = [Factor(np.array([value]), np.array([1e-9])) for value in (1.0, np.sqrt(2.0))]
    found = Combinations(known)
    assert len(found.table) == listed and found.complete is (most >= 120 + 256)


def test_combinations_in_several_directions_are_those_of_brute_force() -> None:
    """Every direction is asked, with its own errors, whichever the list is sorted by."""
    rng = np.random.default_rng(0)
    values, errors = rng.normal(size=(3, 2)), np.array([[1e-2, 1e-4], [2e-2, 1e-4], [1e-2, 3e-4]])
    known = Combinations([Factor(*pair) for pair in zip(values, errors, strict=True)])
    grid = np.array([(a, b, c) for a in range(9) for b in range(9) for c in range(9)])[1:]
    for error in (np.array([0.02, 1e-4]), np.array([2e-4, 0.3])):
        ways, misfits = known.of(values.sum(axis=0) + 0.4 * error, error)
        off = np.abs(grid @ values - values.sum(axis=0) - 0.4 * error) / (error + grid @ errors)
        wanted = {tuple(row): far for row, far in zip(grid.tolist(), off.max(axis=1).tolist(), strict=True) if far <= 1}
        found = {tuple(way): far for way, far in zip(ways.tolist(), misfits.tolist(), strict=True) if max(way) < 9}
        assert (1, 1, 1) in wanted and found == pytest.approx(wanted)


def test_a_part_of_a_weight_is_known_so_much_better() -> None:
    """A twelfth of 12 is 1 up to a twelfth of its error: 7 times that is 7 up to that and its own error."""
    for beside, shown in ((1.5, True), (3.0, False)):
        values = np.array([[12.0], [7.0 + beside * ERROR]])
        assert bool(factors(values, np.full((2, 1), ERROR))) is shown


def test_a_weight_that_may_well_be_nothing_is_no_multiple() -> None:
    """Its error is larger than the other weight and every part of it."""
    assert not factors(np.array([[1.0], [0.01]]), np.array([[1e-3], [1.0]]))


def test_a_factor_is_the_mean_of_its_multiples_by_their_errors() -> None:
    """Least squares of those that are multiples at all; known as well as the best of them alone."""
    rng = np.random.default_rng(0)
    times, errors = np.array([2, 0, 1, 5]), rng.uniform(0.01, 0.1, (4, 2))
    values = times[:, None] * [0.7, -0.3] + rng.uniform(-1.0, 1.0, (4, 2)) * errors
    made, some = _refined(times, values, errors), times > 0
    for way in range(2):
        scaled = times[some, None] / errors[some, way, None], values[some, way] / errors[some, way]
        assert made.value[way] == pytest.approx(np.linalg.lstsq(*scaled)[0][0])
        assert made.error[way] == min(errors[some, way] / times[some])
