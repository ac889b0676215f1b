"""Few unknowns of either sign from fewer equations than unknowns."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from jgleak.attacks.attack import Budget
from jgleak.attacks.census.batches import sparse
from jgleak.attacks.census.batches.sparse import least_squares, support
from tests.clocks import HELD as FOREVER


@pytest.mark.parametrize("equations", [60, 200])
def test_groups_above_zero_are_found(equations: int) -> None:
    """Six of fifty pairs of unknowns, from fewer equations than unknowns and from more."""
    rng = np.random.default_rng(0)
    truth = np.zeros((50, 2))
    truth[rng.choice(50, 6, replace=False)] = rng.normal(size=(6, 2)) + 2.0 * rng.choice([-1, 1], (6, 2))
    system = rng.normal(size=(equations, 50, 2))
    found = support(system, np.einsum("mkr,kr->m", system, truth), FOREVER)
    assert found is not None
    np.testing.assert_array_equal(found.groups, np.flatnonzero(truth.any(axis=1)))
    assert bool(found.open.any()) is (equations < 100)


@pytest.mark.parametrize("mixed", [False, True])
def test_many_groups_of_many_more_unknowns_than_equations(mixed: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Thirty of 400 pairs, one a hundredth of the others: rounds without smoothing end with some of them missing.

    By all equations or by mixtures of them, of which the first number is too small.
    """
    rng = np.random.default_rng(4)
    chosen = rng.choice(400, 30, replace=False)
    truth = np.zeros((400, 2))
    truth[chosen] = rng.normal(size=(30, 2)) * rng.choice([0.01, 1.0], (30, 1))
    system = rng.normal(size=(240, 400, 2)) + 2.0 * rng.normal(size=(240, 1, 1))
    if mixed:
        monkeypatch.setattr(sparse, "DECOMPOSED", 0.0)
        monkeypatch.setattr(sparse, "MIXTURES", (70, 200))
    found = support(system, np.einsum("mkr,kr->m", system, truth), FOREVER)
    assert found is not None
    np.testing.assert_array_equal(found.groups, np.sort(chosen))
    assert found.open.all()


def test_mixtures_of_equations_without_a_sparse_solution_have_none(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every right-hand side has solutions where unknowns are more than equations; groups that fill them say nothing."""
    rng = np.random.default_rng(5)
    monkeypatch.setattr(sparse, "DECOMPOSED", 0.0)
    monkeypatch.setattr(sparse, "MIXTURES", (40,))
    assert support(rng.normal(size=(60, 90, 1)), rng.normal(size=60), FOREVER) is None


def test_groups_that_stand_out_and_explain_nothing_are_not_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    """In the first round a wrong one does: the rounds go on."""
    rng, standing, asked = np.random.default_rng(0), sparse._standing_out, list[int]()
    truth = np.zeros((50, 2))
    truth[[3, 20, 31]] = rng.normal(size=(3, 2)) + 2.0
    system = rng.normal(size=(60, 50, 2))

    def out(lengths: np.ndarray, most: int) -> np.ndarray:
        asked.append(most)
        return np.array([7]) if len(asked) == 1 else standing(lengths, most)

    monkeypatch.setattr(sparse, "_standing_out", out)
    found = support(system, np.einsum("mkr,kr->m", system, truth), FOREVER)
    assert found is not None and found.groups.tolist() == [3, 20, 31] and len(asked) > 1
    assert set(asked) == {10}, "pairs of unknowns, a third of the equations"


@pytest.mark.parametrize(
    ("lengths", "most", "out"),
    [
        ([1.0, 2e-2, 3.0, 2.9e-2], 3, [0, 2]),
        ([1.0, 1.0 / sparse.GAP, 1e-4], 2, [0, 1]),
        ([1.0, 1.01 / sparse.GAP, 1e-2], 2, []),
        ([1.0, 0.5, 1e-5, 1e-9], 1, []),
        ([1.0, 0.5, 1e-5, 1e-9], 2, [0, 1]),
        ([1.0, 0.0, 0.0], 2, [0]),
        ([1.0], 3, []),
    ],
)
def test_groups_stand_out_before_the_largest_gap(lengths: list[float], most: int, out: list[int]) -> None:
    """One of thirty at least, and no more groups than may be."""
    assert sparse._standing_out(np.array(lengths), most).tolist() == out


def test_a_gram_matrix_that_rounding_makes_indefinite_is_factored() -> None:
    """The smallest ridge is below the rounding of a matrix of rank one."""
    length = 1e4 * np.ones(400)
    gram = np.outer(length, length) - 1e-3 * np.eye(400)
    factor, lower = sparse._factor(gram.copy())
    under = np.tril(factor)
    assert lower
    np.testing.assert_allclose(under @ under.T, gram, rtol=1e-8)


def test_equations_that_say_nothing_have_no_solution(monkeypatch: pytest.MonkeyPatch) -> None:
    """Their Gram matrix is zero, with any ridge."""
    monkeypatch.setattr(sparse, "DECOMPOSED", 0.0)
    assert support(np.zeros((30, 90, 1)), np.ones(30), FOREVER) is None


def test_equal_columns_are_open_and_no_others() -> None:
    """What two unknowns share between them no equation tells."""
    rng = np.random.default_rng(1)
    system = rng.normal(size=(40, 10, 1))
    system[:, 3] = system[:, 7]
    found = support(system, system[:, :, 0] @ rng.normal(size=10), FOREVER)
    assert found is not None
    assert np.flatnonzero(found.open).tolist() == [3, 7]


@pytest.mark.parametrize(("equations", "unknowns"), [(80, 5), (6, 5), (80, 1)])
def test_least_squares_in_closed_form(equations: int, unknowns: int) -> None:
    """The normal equations hold; deviations are the residual's times the root of the inverse Gram matrix's diagonal."""
    rng = np.random.default_rng(2)
    system, right = rng.normal(size=(equations, unknowns, 1)), rng.normal(size=equations)
    found = least_squares(system, right)
    gram = system[:, :, 0].T @ system[:, :, 0]
    rest = right - system[:, :, 0] @ found.values[:, 0]
    np.testing.assert_allclose(system[:, :, 0].T @ rest, 0.0, atol=1e-9)
    np.testing.assert_allclose(
        found.deviations[:, 0], np.sqrt(rest @ rest / (equations - unknowns) * np.diag(np.linalg.inv(gram)))
    )
    assert np.isclose(found.residual, np.linalg.norm(rest) / np.linalg.norm(right))


def test_equations_without_unknowns_explain_nothing() -> None:
    found = least_squares(np.zeros((6, 2, 1)), np.ones(6))
    assert not found.values.any() and not found.deviations.any() and found.residual == 1.0
    values, reduced, goal, free = sparse._shortest(np.zeros((6, 2)), np.ones(6))
    assert not values.any() and reduced.shape == (0, 2) and goal.size == 0 and free.all()


@pytest.mark.parametrize("size", [1e-6, 1e6])
def test_units_of_the_equations_do_not_matter(size: float) -> None:
    """Nor does a direction below their rounding: of two columns that are one up to it the shortest solution is half."""
    rng = np.random.default_rng(6)
    system, right = rng.normal(size=(40, 3, 2)), rng.normal(size=40)
    system[:, 2, 1] = system[:, 0, 0] * (1 + 1e-9 * rng.normal(size=40))
    one, other = least_squares(system, right), least_squares(size * system, size * right)
    np.testing.assert_allclose(other.values, one.values, rtol=1e-6)
    np.testing.assert_allclose(other.deviations, one.deviations, rtol=1e-6)
    assert other.residual == pytest.approx(one.residual) and one.values[2, 1] == pytest.approx(one.values[0, 0])


@pytest.mark.parametrize("size", [1e-6, 1.0, 1e6])
def test_the_shortest_solution_leaves_open_what_rounding_tells_apart(size: float) -> None:
    """In any units: the first and the last column are one up to rounding, and have the same unknowns."""
    rng = np.random.default_rng(8)
    system = rng.normal(size=(6, 4))
    system[:, 3] = system[:, 0] * (1 + 1e-9 * rng.normal(size=6))
    right = system @ [1.0, 2.0, -1.0, 0.5]
    values, reduced, goal, free = sparse._shortest(size * system, size * right)
    np.testing.assert_allclose(values, [0.75, 2.0, -1.0, 0.75], rtol=1e-6)
    assert free.tolist() == [True, False, False, True] and reduced.shape == (3, 4)
    np.testing.assert_allclose(reduced @ values, goal)
    assert np.linalg.norm(goal) == pytest.approx(size * np.linalg.norm(right))
    assert sparse._shortest(size * system[:, :1], size * right)[0] == pytest.approx(
        system[:, 0] @ right / (system[:, 0] @ system[:, 0])
    )


@pytest.mark.parametrize("equations", [6, 30])
def test_many_equations_become_as_many_as_unknowns_and_one(equations: int) -> None:
    rng = np.random.default_rng(7)
    system, right = rng.normal(size=(equations, 4)), rng.normal(size=equations)
    some, goal = sparse._triangle(system, right)
    assert some.shape == (5, 4)
    for shift in rng.normal(size=(3, 4)):
        assert np.linalg.norm(some @ shift - goal) == pytest.approx(np.linalg.norm(system @ shift - right))
    np.testing.assert_array_equal(sparse._triangle(system[:5], right[:5])[0], system[:5])


@pytest.mark.parametrize(
    ("lengths", "most", "wanted"),
    [
        ([1.0, 100.0, 3.0, 90.0], 3, [1, 3]),
        ([1.0, 100.0, 3.0, 90.0], 1, []),
        ([4.0, 100.0, 3.5, 90.0], 3, []),
        ([0.0, 0.0, 5.0], 2, [2]),
        ([5.0], 1, []),
    ],
    ids=["before the largest gap", "at most so many", "no gap of thirty", "beside zeros", "alone"],
)
def test_groups_stand_out_before_a_gap(lengths: list[float], most: int, wanted: list[int]) -> None:
    assert sparse._standing_out(np.array(lengths), most).tolist() == wanted


def test_without_time_there_is_none() -> None:
    """Nothing begins that cannot end in time."""
    assert support(np.ones((3, 2, 1)), np.ones(3), Budget(time_limit=0.0).start()) is None
    assert support(np.ones((300, 3000, 1)), np.ones(300), Budget(time_limit=0.01).start()) is None


def test_without_a_solution_there_is_none() -> None:
    """Far more equations than unknowns, which random right-hand sides do not obey."""
    rng = np.random.default_rng(3)
    system = rng.normal(size=(80, 5, 1))
    assert support(system, rng.normal(size=80), FOREVER) is None
    assert support(system, system.sum(axis=(1, 2)) + 1e-3 * rng.normal(size=80), FOREVER) is not None


@pytest.mark.parametrize(
    ("groups", "off", "there"),
    [
        ([0, 1], 0.0, True),
        ([0], 0.0, False),
        ([0, 1], 0.9 * sparse.EXACT, True),
        ([0, 1], 1.1 * sparse.EXACT, False),
        ([0, 1, 2], 0.0, True),
        ([0, 1, 2, 3], 0.0, False),
    ],
    ids=["both", "one is missing", "rounding", "more than rounding", "as many as may be", "too many"],
)
def test_few_groups_explain_equations_up_to_rounding(groups: list[int], off: float, there: bool) -> None:
    """Of pairs of unknowns in 18 equations three at most: more would fit anything."""
    matrix = np.random.default_rng(9).normal(size=(18, 12))
    right = matrix[:, :4] @ [1.0, -2.0, 0.5, 3.0]
    beside = np.linalg.svd(matrix)[0][:, -1]
    moved = right + off * np.linalg.norm(right) * beside
    assert sparse._Equations(matrix, moved, 2).explained(np.array(groups)) is there


def test_the_columns_of_groups_are_theirs_in_order() -> None:
    equations = sparse._Equations(np.arange(12.0).reshape(2, 6), np.zeros(2), 2)
    assert equations.only(np.array([2, 0])).tolist() == [[4.0, 5.0, 0.0, 1.0], [10.0, 11.0, 6.0, 7.0]]


def test_every_equation_is_in_four_mixtures_with_either_sign() -> None:
    mixed = sparse._mixed(sparse._Equations(np.eye(300), np.arange(300.0), 1), 100, np.random.default_rng(0))
    assert mixed.matrix.shape == (100, 300) and mixed.width == 1
    size = np.abs(mixed.matrix).sum(axis=0)
    assert set(size.tolist()) <= {0.0, 2.0, 4.0} and np.mean(size == 4.0) > 0.9
    assert 0.4 < np.mean(mixed.matrix[mixed.matrix != 0] > 0) < 0.6
    np.testing.assert_allclose(mixed.right, mixed.matrix @ np.arange(300.0))
    more = sparse._mixed(sparse._Equations(np.eye(3), np.ones(3), 1), 100, np.random.default_rng(0))
    assert more.matrix.shape == (100, 3), "those without an equation too"


@pytest.mark.parametrize(("equations", "unknowns"), [(9, 4), (6, 6), (5, 8)])
def test_the_best_solution_is_the_shortest(equations: int, unknowns: int) -> None:
    rng = np.random.default_rng(10)
    matrix, right = rng.normal(size=(equations, unknowns)), rng.normal(size=equations)
    np.testing.assert_allclose(sparse._least(matrix, right), np.linalg.pinv(matrix) @ right, rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize(("equations", "unknowns"), [(9, 4), (6, 6)])
def test_the_best_solution_does_not_tell_apart_what_rounding_does(equations: int, unknowns: int) -> None:
    """Of two columns that are one up to it both get the same, whatever the right-hand side is."""
    rng = np.random.default_rng(13)
    matrix, right = rng.normal(size=(equations, unknowns)), rng.normal(size=equations)
    matrix[:, -1] = matrix[:, 0] * (1 + 1e-9 * rng.normal(size=equations))
    found = sparse._least(matrix, right)
    np.testing.assert_allclose(found, np.linalg.pinv(matrix, rcond=1e-7) @ right, rtol=1e-6)


def test_the_shortest_solution_is_as_good_where_its_gram_matrix_has_few_digits() -> None:
    """Singular values fall to a hundred-thousandth, their squares near the ridge: a second pass mends it."""
    rng = np.random.default_rng(14)
    left, across = np.linalg.qr(rng.normal(size=(5, 5)))[0], np.linalg.qr(rng.normal(size=(8, 5)))[0].T
    values = np.geomspace(1.0, 1e-5, 5)
    found = sparse._least((left * values) @ across, left @ values)
    np.testing.assert_allclose(found, across.sum(axis=0), atol=1e-4)


@pytest.mark.parametrize("size", [1e-6, 1.0, 1e6])
@pytest.mark.parametrize("equations", [10, 30])
def test_rounds_end_where_nothing_changes(size: float, equations: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of as many equations as unknowns, or more, the second solution is the first one, in any units."""
    rng, least, rounds = np.random.default_rng(15), sparse._least, list[int]()
    matrix, values = rng.normal(size=(equations, 10)), 1.0 + rng.random(10)
    equations_ = sparse._Equations(matrix, size * matrix @ values, 1)
    monkeypatch.setattr(sparse, "_least", lambda *given: rounds.append(1) or least(*given))
    found = sparse._fewest(equations_, equations_, size * values, FOREVER)
    assert found is not None and found.tolist() == list(range(10)) and len(rounds) == 1


@pytest.mark.parametrize("size", [1e-8, 1.0, 1e8])
def test_some_equations_have_many_solutions_and_the_sparsest_is_taken(size: float) -> None:
    """All of them have one: what the first round finds among fewer is not it. In any units."""
    rng = np.random.default_rng(16)
    matrix = rng.normal(size=(40, 30))
    right = size * matrix[:, [2, 5, 11]] @ [1.0, -2.0, 0.05]
    whole = sparse._Equations(matrix, right, 1)
    few = sparse._Equations(matrix[:16], right[:16], 1)
    found = sparse._fewest(few, whole, None, FOREVER)
    assert found is not None and found.tolist() == [2, 5, 11]


@pytest.mark.parametrize(("equations", "there"), [(4, True), (3, False)])
@pytest.mark.parametrize("settles", [True, False])
def test_what_is_left_counts_where_it_is_no_more_than_equations(
    equations: int, there: bool, settles: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two of three pairs of unknowns, which stay or change places for ever; the third is dropped."""
    asked = list[int]()

    def least(scale: np.ndarray, _: Any) -> np.ndarray:
        asked.append(1)
        one = np.array([1.0, 1.0, 2.0, 2.0, 1e-10, 1e-10])
        return (one if settles or len(asked) % 2 else one[[2, 3, 0, 1, 4, 5]])[: scale.shape[1]] / scale[scale > 0]

    monkeypatch.setattr(sparse, "_least", least)
    few, whole = sparse._Equations(np.eye(6), np.ones(6), 2), sparse._Equations(np.eye(6), np.ones(equations), 2)
    found = sparse._fewest(few, whole, None, FOREVER)
    assert (found is None) is not there and (found is None or found.tolist() == [0, 1])
    if settles and there:
        assert len(asked) == 2


def test_mixtures_are_ever_more_until_all_equations_are_taken_as_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    """The groups of a mixture count where they explain all equations, those of all equations in any case."""
    rng, asked = np.random.default_rng(12), list[int]()
    matrix = rng.normal(size=(40, 10))
    right, groups = matrix[:, [2, 5]] @ [1.0, -1.0], [np.array([2, 4]), None, np.array([1])]

    def fewest(few: Any, whole: Any, *_: Any) -> Any:
        asked.append(few.right.size)
        assert whole.right is right and (few is whole) == (few.right.size == 40)
        return groups[len(asked) - 1]

    monkeypatch.setattr(sparse, "MIXTURES", (20, 30))
    monkeypatch.setattr(sparse, "_fewest", fewest)
    found = sparse._of_mixtures(matrix, right, 1, FOREVER)
    assert asked == [20, 30, 40] and found is groups[2]
    groups[1] = np.array([2, 5])
    asked.clear()
    assert sparse._of_mixtures(matrix, right, 1, FOREVER) is groups[1] and asked == [20, 30]


def test_what_would_take_too_long_or_explains_nothing_is_not_solved(monkeypatch: pytest.MonkeyPatch) -> None:
    """A decomposition cannot be interrupted: there has to be time for all of it, or for a round of mixtures."""
    rng = np.random.default_rng(11)
    system = rng.normal(size=(40, 5, 2))
    right = system[:, [1, 3]].sum(axis=1) @ [1.0, -1.0]
    products = 12 * 10 * 10**2 + 2 * 40 * 10**2
    for pace, there in ((1.01, True), (0.99, False)):
        monkeypatch.setattr(sparse, "PACE", pace * products / FOREVER.left)
        assert (support(system, right, FOREVER) is not None) is there
    monkeypatch.undo()
    for limit, decided in ((products, True), (products - 1, False)):
        monkeypatch.setattr(sparse, "DECOMPOSED", float(limit))
        found = support(system, right, FOREVER)
        assert found is not None and found.groups.tolist() == [1, 3] and bool(found.open.all()) is not decided
    for pace, there in ((1.01, True), (0.99, False)):
        monkeypatch.setattr(sparse, "PACE", pace * 2 * 40**2 * 10 / FOREVER.left)
        assert (support(system, right, FOREVER) is not None) is there
    monkeypatch.undo()
    off = right + 0.02 * np.linalg.norm(right) * np.linalg.svd(system.reshape(40, 10))[0][:, -1]
    assert support(system, off, FOREVER) is None, "no solution is within a hundredth"
