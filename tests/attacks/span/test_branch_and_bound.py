"""Branch and bound for vectors of zeros and ones, against all of them."""

from __future__ import annotations

from itertools import product
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from jgleak.attacks.attack import Budget
from jgleak.attacks.span import branch_and_bound
from jgleak.attacks.span.branch_and_bound import Face, null, zero_one
from jgleak.attacks.span.corners import MOST, corners
from jgleak.attacks.span.settings import LIMITS, TOLERANCES, SpanLimits
from tests.clocks import HELD

SLACK = 1e-4


@pytest.fixture(autouse=True)
def no_corners(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that small spaces are searched in this way too."""
    monkeypatch.setattr(branch_and_bound, "corners", lambda *_: None)


def as_set(rows: np.ndarray) -> set[tuple[int, ...]]:
    return {tuple(row) for row in np.round(rows).astype(int).tolist()}


def searched(
    patterns: np.ndarray, one: np.ndarray, slack: float = SLACK, most: int = 10_000
) -> tuple[np.ndarray, bool]:
    return zero_one(patterns, [Face.whole(one)], slack, TOLERANCES, clock=HELD, limits=SpanLimits(word_faces=most))


def spanned(rows: np.ndarray, seed: int, unit: float = 1.0) -> tuple[np.ndarray, np.ndarray]:
    """The values of vectors of some coordinates that give these rows, and what is 1 on all of them."""
    basis = np.linalg.svd(rows, full_matrices=False)[2][: np.linalg.matrix_rank(rows)]
    turn = np.linalg.qr(np.random.default_rng(seed).normal(size=(len(basis), len(basis))))[0]
    values = unit * basis.T @ turn
    one = np.linalg.lstsq((np.linalg.pinv(values) @ rows.T).T, np.ones(len(rows)), rcond=None)[0]
    return values, one


def with_total(rows: np.ndarray) -> np.ndarray:
    """The rows with one column in which every row has a one."""
    return np.c_[rows, np.ones(len(rows))]


@pytest.mark.parametrize(
    ("rows", "width", "share", "unit"),
    [(3, 8, 0.5, 1.0), (5, 9, 0.3, 1e-4), (5, 9, 0.3, 1e2), (6, 7, 0.5, 1.0), (8, 8, 0.2, 1.0)],
)
def test_all_vectors_are_found_and_no_other(rows: int, width: int, share: float, unit: float) -> None:
    for seed in range(3):
        rng = np.random.default_rng(seed)
        made = with_total(rng.random((rows, width)) < share)
        values, one = spanned(made, seed, unit)
        every = np.array([(*bits, 1) for bits in product((0, 1), repeat=width)], float)
        inside = every[np.linalg.norm(every @ np.linalg.pinv(values).T @ values.T - every, axis=1) < 1e-8]
        found, complete = searched(values, one)
        assert complete and as_set(found @ values.T) == as_set(inside) >= as_set(made) and len(found) == len(inside)


def test_vertices_of_fractions_are_split_as_well() -> None:
    """A plane cuts a cube in corners, or in halves of edges alone."""
    cube = np.array(list(product((0, 1), repeat=4)), float)
    even = cube[cube.sum(axis=1) == 2]
    patterns = np.eye(4)
    found, complete = searched(patterns, np.full(4, 0.5))
    assert complete and as_set(found) == as_set(even)
    odd, complete = searched(patterns, np.full(4, 0.4))
    assert complete and odd.shape == (0, 4), "two and a half ones"


def test_patterns_may_be_off_by_the_slack_and_no_more() -> None:
    """A pattern is 1.05 on both rows."""
    patterns, one = np.array([[1.0, 0.0], [0.0, 1.0], [1.05, 1.05]]), np.ones(2)
    found, complete = searched(patterns, one, slack=0.04)
    assert complete and not len(found)
    found, complete = searched(patterns, one, slack=0.06)
    assert complete and as_set(found) == {(1, 0), (0, 1)}


@pytest.mark.parametrize("share", [1e-1, 1e-2, 1e-3])
def test_functionals_may_have_lengths_of_any_order(share: float) -> None:
    """As the words that only a node of a small gradient has."""
    unit = np.diag([1.0, 1.0, share, share])
    made = np.array([(1, 0, 0, 0), (1, 1, 0, 0), (1, 0, 1, 0), (1, 0, 1, 1)], float)
    found, complete = searched(unit, np.eye(4)[0])
    assert complete and as_set(found @ unit) == {(1, *bits) for bits in product((0, 1), repeat=3)} >= as_set(made)


def test_what_no_pattern_shows_is_left_out() -> None:
    patterns = np.array([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]])
    found, complete = searched(patterns, np.array([1.0, 1.0, 0.0]))
    assert complete and as_set(found) == {(1, 0, 0), (0, 1, 0)} and not np.any(found[:, 2])


def test_without_patterns_there_is_one_vector() -> None:
    found, complete = searched(np.zeros((0, 3)), np.array([3.0, 4.0, 0.0]))
    assert complete
    np.testing.assert_allclose(found, [[0.12, 0.16, 0.0]], atol=1e-12)


@pytest.mark.parametrize("known", [0, 1])
def test_ties_do_not_outweigh_a_difference_however_many_patterns_there_are(known: int) -> None:
    """Of two vectors one has all words and the other has one."""
    patterns = np.array([[1.0, 1.0]] + [[1.0, 0.0]] * 50)
    face = Face.whole(np.ones(2))._replace(inside=np.eye(2)[known : known + 1])
    found, complete = zero_one(patterns, [face], SLACK, TOLERANCES, clock=HELD, limits=LIMITS)
    assert complete and as_set(found) == as_set(np.eye(2))


def test_number_and_time_end_the_search() -> None:
    patterns, one = np.eye(6), np.ones(6)
    found, complete = searched(patterns, one, most=1)
    assert not complete and len(as_set(found)) == 2 and as_set(found) <= as_set(np.eye(6)), "with what is known"
    cut = zero_one(patterns, [Face.whole(one)], SLACK, TOLERANCES, clock=HELD, limits=SpanLimits(partial_rows=0))
    assert not cut[1] and len(cut[0]), "one more than the limit"
    whole = [Face.whole(one)]
    ended = zero_one(patterns, whole, SLACK, TOLERANCES, clock=Budget(time_limit=0.0).start(), limits=LIMITS)
    assert ended[0].shape == (0, 6) and not ended[1]
    found, complete = zero_one(patterns, whole, SLACK, TOLERANCES, clock=None, limits=LIMITS)
    assert complete and as_set(found) == as_set(np.eye(6))


def test_the_solver_has_the_time_that_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    solved, limits = branch_and_bound.milp, list[float]()

    def timed(*args: Any, **kwargs: Any) -> Any:
        limits.append(kwargs["options"]["time_limit"])
        return solved(*args, **kwargs)

    monkeypatch.setattr(branch_and_bound, "milp", timed)
    clock = Budget(time_limit=50.0).start()
    zero_one(np.eye(3), [Face.whole(np.ones(3))], SLACK, TOLERANCES, clock=clock, limits=LIMITS)
    assert limits and clock.left <= min(limits) <= max(limits) <= 50.0


def test_where_the_solver_cannot_tell_the_face_is_split(monkeypatch: pytest.MonkeyPatch) -> None:
    solved, calls = branch_and_bound.milp, list[int]()

    def uncertain(*args: Any, **kwargs: Any) -> Any:
        result = solved(*args, **kwargs)
        ((even, *_),) = kwargs["constraints"]
        calls.append(even.shape[1])
        if even.shape[1] > 2:
            result.status = 4
        return result

    monkeypatch.setattr(branch_and_bound, "milp", uncertain)
    constant = np.zeros((2, 5)) + [[0.0], [1.0]]  # to split by what is 0 or 1 everywhere leads nowhere
    found, complete = searched(np.r_[constant, np.eye(5)], np.ones(5))
    assert complete and as_set(found) == as_set(np.eye(5)) and max(calls) == 5


@pytest.mark.parametrize("number", [0, 1])
def test_an_empty_face_is_one_without_known_vectors(number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Beside a known vector such an answer is a contradiction, and the face is split."""
    nothing = SimpleNamespace(status=branch_and_bound.INFEASIBLE, x=None)
    monkeypatch.setattr(branch_and_bound, "milp", lambda *_, **__: nothing)
    face = Face.whole(np.ones(4))._replace(inside=np.eye(4)[:number])
    vectors, half = branch_and_bound._explored(np.eye(4), face, SLACK, TOLERANCES, HELD)
    assert len(vectors) == number and (half is None) is (number == 0)


def test_small_spaces_are_searched_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every vector comes once."""
    monkeypatch.setattr(branch_and_bound, "corners", corners)
    for size in (MOST - 1, MOST + 1):
        turn = np.linalg.qr(np.random.default_rng(0).normal(size=(size, size)))[0]
        found, complete = searched(np.eye(size) @ turn, np.ones(size) @ turn)
        assert complete and len(found) == size and as_set(found @ turn.T) == as_set(np.eye(size))


def test_a_face_is_split_into_those_where_one_part_is_one() -> None:
    """Also within a face, with the vectors that are known; parts that depend on others have none."""
    face = Face.whole(np.ones(4))._replace(inside=np.eye(4))
    pairs = face.split(np.array([[1.0, 1.0, 0.0, 0.0], [0.0, 0.0, 1.0, 1.0]]), TOLERANCES)
    assert [as_set(one.inside) for one in pairs] == [as_set(np.eye(4)[:2]), as_set(np.eye(4)[2:])]
    for pair, members in zip(pairs, (np.eye(4)[:2], np.eye(4)[2:]), strict=True):
        np.testing.assert_allclose(pair.space.T @ pair.space, np.eye(3), atol=1e-12)
        np.testing.assert_allclose(members @ pair.space @ pair.space.T, members, atol=1e-12)
        np.testing.assert_allclose(members @ pair.one, 1.0)
    first = np.array([1.0, 0.0, 0.0, 0.0])
    inner = pairs[0].split(np.array([first, pairs[0].one - first]) @ pairs[0].space, TOLERANCES)
    assert [as_set(one.inside) for one in inner] == [{(1, 0, 0, 0)}, {(0, 1, 0, 0)}]
    assert face.split(np.array([[0.5, 0.5, 0.5, 0.5], [0.5, 0.5, 0.5, 0.5]]), TOLERANCES) == []


def test_functionals_of_zeros_vanish_everywhere() -> None:
    rows = np.array([[0.0, 0.0, 2.0], [0.0, 0.0, 1.0]])
    for some, rank in (
        (0.0 * rows, 0),
        (rows[:0], 0),
        (rows, 1),
        (rows[:1], 1),
        (np.outer([3.0, 7.0], [0.1, 0.2, 0.3]), 1),
    ):
        zeros = null(some, TOLERANCES)
        assert zeros.shape == (3, 3 - rank)
        np.testing.assert_allclose(zeros.T @ zeros, np.eye(3 - rank), atol=1e-12)
        np.testing.assert_allclose(some @ zeros, 0.0, atol=1e-12)
    for unit, share in product((0.1, 10.0), (0.5, 2.0)):
        some = unit * np.diag([1.0, share * TOLERANCES.word_rank, 0.0])
        assert null(some, TOLERANCES).shape == (3, 2 if share < 1.0 else 1), "relative to the largest"
