"""Whole vectors along what equations leave free, against brute force."""

from __future__ import annotations

import dataclasses
from itertools import product
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from scipy import linalg

from jgleak.attacks.census import whole_numbers as module
from jgleak.attacks.census.settings import DEFAULTS
from jgleak.attacks.census.system import Solution
from jgleak.attacks.census.whole_numbers import all_censuses, real_solution, whole_vectors
from tests.clocks import HELD as FOREVER


def found(base: np.ndarray, null: np.ndarray, n: int, steps: int = 10_000) -> list[tuple[int, ...] | None]:
    free = np.linalg.norm(null, axis=1) > 1e-9
    vectors = whole_vectors(base, null, free, n=n, clock=FOREVER, steps=steps, whole=0.05)
    return [None if one is None else tuple(one.tolist()) for one in vectors]


@pytest.mark.parametrize(("seed", "equations"), [(0, 1), (1, 2), (2, 3)])
def test_every_whole_vector_up_to_the_largest_entry_is_found_once(seed: int, equations: int) -> None:
    """Zeros and the largest entry included; the last entry is fixed by an equation of its own."""
    rng, n = np.random.default_rng(seed), 3
    matrix = np.zeros((equations + 1, 5))
    matrix[:-1, :-1], matrix[-1, -1] = rng.integers(1, 3, (equations, 4)), 1.0
    truth = np.array([0, n, 1, 0, 2])
    null = linalg.null_space(matrix)
    base = truth + 0.3 * null.sum(axis=1) + rng.uniform(-0.01, 0.01, 5)
    wanted = [
        vector for vector in product(range(n + 1), repeat=5) if np.allclose(matrix @ (np.array(vector) - truth), 0.0)
    ]
    assert len(wanted) > 1
    assert sorted(one for one in found(base, null, n) if one is not None) == wanted


def test_vectors_that_are_not_whole_or_negative_are_none_and_a_search_that_is_cut_says_so() -> None:
    line = np.array([[1.0], [1.0], [-1.0]])
    assert found(np.array([0.0, 0.5, 2.0]), line, 3) == [], "two entries are never whole at once"
    assert found(np.array([0.0, 3.0, -3.0]), line, 2) == [], "their sum is beyond the largest"
    for base in ([0.0, 3.0], [3.0, 0.0]):
        assert found(np.array(base), line[:2], 2) == [], "one of them is"
        assert found(np.array(base), line[:2], 3) == [tuple(base)]
    assert found(np.array([0.0, 1.0, 2.0]), line, 3) == [(0, 1, 2), (1, 2, 1), (2, 3, 0)]
    assert found(np.array([0.0, 1.0, 2.0]), line, 3, steps=2) == [(0, 1, 2), None]
    assert found(np.array([1.98, 0.0]), np.zeros((2, 0)), 3) == [(2, 0)]


@pytest.mark.parametrize("lost", [(0,), (1,), (0, 1)], ids=["smallest", "largest", "both"])
def test_a_programme_that_is_not_solved_excludes_nothing(
    lost: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of each entry's two: all whole vectors of three nodes in three blocks are found all the same."""
    asked, solver = list[int](), module.linprog

    def given_up(*given: Any, **limits: Any) -> Any:
        asked.append(1)
        return SimpleNamespace(status=1, fun=None) if (len(asked) - 1) % 2 in lost else solver(*given, **limits)

    monkeypatch.setattr(module, "linprog", given_up)
    null = linalg.null_space(np.ones((1, 3)))
    wanted = [vector for vector in product(range(4), repeat=3) if sum(vector) == 3]
    vectors = found(np.array([0.0, 3.0, 0.0]) + 0.3 * null.sum(axis=1), null, 3)
    assert sorted(one for one in vectors if one is not None) == wanted and None not in vectors


def test_directions_that_rounding_magnifies_are_free() -> None:
    """Equations off by 1e-6 and a direction of 1e-4: the count it would fix is off by more than it may be."""
    system = np.array([[1.0, 1.0], [1e-4, -1e-4]])
    sharp, nothing = real_solution(system, system @ [2.0, 3.0], null=2e-5, blur=0.0)
    np.testing.assert_allclose(sharp, [2.0, 3.0])
    assert nothing.shape == (2, 0)
    _, free = real_solution(system, system @ [2.0, 3.0], null=2e-5, blur=40 * 1e-6 / 0.05)
    assert free.shape == (2, 1)


@pytest.mark.parametrize(
    ("blocks", "free", "searched"), [(5, 2, True), (5, 3, False), (6, 2, False), (5, 0, True), (6, 3, False)]
)
def test_of_too_many_blocks_or_free_directions_no_census_is_looked_for(blocks: int, free: int, searched: bool) -> None:
    """And the search says that it was cut."""
    solution = object.__new__(Solution)
    solution.__dict__.update(mean=np.zeros(blocks), null=np.zeros((blocks, free)))
    limits = dataclasses.replace(DEFAULTS.limits, freedom=2, real_blocks=5)
    assert list(all_censuses(solution, [], FOREVER, DEFAULTS.tolerances, limits)) == [None] * (not searched)
