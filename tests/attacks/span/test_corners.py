"""Vectors on which functionals are 0 or 1, against all vectors of zeros and ones."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from jgleak.attacks.span.corners import MOST, corners
from jgleak.attacks.span.settings import TOLERANCES


def as_set(rows: np.ndarray) -> set[tuple[float, ...]]:
    return {tuple(np.round(row, 6) + 0.0) for row in rows}


@pytest.mark.parametrize(("size", "seed"), [(1, 0), (2, 0), (4, 0), (4, 1), (7, 0)])
def test_all_vectors_are_found_and_no_other(size: int, seed: int) -> None:
    """In coordinates of zeros and ones, turned: every coordinate is a pattern, and sums of some, and the first is one
    everywhere."""
    rng = np.random.default_rng(seed)
    turn = np.linalg.qr(rng.normal(size=(size, size)))[0]
    sums = [np.eye(size)[rng.permutation(size)[:2]].sum(axis=0) for _ in range(size // 2)]
    plain = np.array([*np.eye(size), *sums])
    bits = np.array([(1, *rest) for rest in product((0, 1), repeat=size - 1)], float)
    wanted = bits[np.all(np.isin(bits @ plain.T, (0.0, 1.0)), axis=1)]
    found = corners(plain @ turn.T, turn @ np.eye(size)[0], TOLERANCES)
    assert found is not None and as_set(found @ turn) == as_set(wanted) and len(found) == len(wanted)
    for unit in (0.1, 10.0):
        again = corners(unit * plain @ turn.T, unit * turn @ np.eye(size)[0], TOLERANCES)
        assert again is not None and as_set(unit * again @ turn) == as_set(wanted), "whatever the unit"


def test_what_leaves_a_line_of_vectors_or_too_many_choices_is_not_tried() -> None:
    one = np.array([1.0, 0.0, 0.0])
    assert corners(np.array([[0.0, 1.0, 0.0], [1.0, 1.0, 0.0]]), one, TOLERANCES) is None
    for unit, near in ((1.0, 0.5), (0.1, 0.5), (10.0, 0.5), (0.1, 2.0), (10.0, 2.0)):
        patterns = np.array([[0.0, 1.0, 0.0], [0.0, 1.0, near * TOLERANCES.word_entry]])
        assert (corners(unit * patterns, unit * one, TOLERANCES) is None) is (near < 1.0)
    assert corners(np.zeros((0, 3)), one, TOLERANCES) is None
    assert corners(np.eye(MOST + 1), np.eye(MOST + 1)[0], TOLERANCES) is None
    most = corners(np.eye(MOST), np.eye(MOST)[0], TOLERANCES)
    assert most is not None and len(most) == 1 << (MOST - 1)
    alone = corners(np.zeros((0, 1)), np.array([2.0]), TOLERANCES)
    assert alone is not None and alone.tolist() == [[0.5]], "one vector, without any pattern"


def test_where_no_row_can_be_there_is_none() -> None:
    """All rows of the space sum up to nothing; or a pattern is half of what every row has."""
    for patterns, one in ((np.eye(2), np.zeros(2)), (np.array([[0.5, 0.0], [0.0, 1.0]]), np.array([1.0, 0.0]))):
        found = corners(patterns, one, TOLERANCES)
        assert found is not None and found.shape == (0, 2)
