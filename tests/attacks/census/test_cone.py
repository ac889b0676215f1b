"""Column generation: which columns a solution uses, how solutions follow each other, how long columns are folded."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest

from jgleak.attacks.attack import Budget
from jgleak.attacks.census import cone as generation
from jgleak.attacks.census.cone import Folded, _solved, covered, paying_most, used_blocks
from jgleak.attacks.census.settings import DEFAULTS, CensusSettings
from tests.clocks import HELD

ENDED = Budget(time_limit=0.0).start()


def limited(**limits: int) -> CensusSettings:
    return dataclasses.replace(DEFAULTS, limits=dataclasses.replace(DEFAULTS.limits, **limits))


@dataclasses.dataclass
class Rows:
    """The cone of some rows of length one; each block has two of them, and groups are given."""

    rows: np.ndarray
    goal: np.ndarray
    groups: np.ndarray

    def __post_init__(self) -> None:
        self.blocks = np.arange(len(self.rows)) // 2
        self.asked = list[np.ndarray]()

    def columns(self, some: np.ndarray) -> np.ndarray:
        self.asked.append(some)
        return self.rows[some]

    def prices(self, rest: np.ndarray) -> np.ndarray:
        return self.rows @ rest

    def counts(self, some: np.ndarray, weights: np.ndarray) -> np.ndarray:
        return weights > 1e-3


def cone(number: int = 40, size: int = 30, used: tuple[int, ...] = (3, 8, 30), groups: int = 1) -> Rows:
    """Rows of which a few make up the goal."""
    rows = np.random.default_rng(0).normal(size=(number, size))
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    goal = np.linspace(1.0, 2.0, len(used)) @ rows[list(used)]
    return Rows(rows, goal / np.linalg.norm(goal), np.arange(number) % groups)


NONE = np.zeros(0, np.int64)


def solved(some: Rows, costs: Any = 1e-9, start: Any = NONE, clock: Any = HELD, **limits: int) -> list[int] | None:
    found = _solved(some, start, np.full(len(some.rows), costs), limited(**limits), clock)
    return None if found is None else sorted(found.tolist())


@pytest.mark.parametrize("priced", [1, 2, 256])
def test_the_columns_that_make_up_the_goal_are_found(priced: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """However many a step adds, and whatever it starts with."""
    monkeypatch.setattr(generation, "PRICED", priced)
    assert solved(cone()) == [3, 8, 30]
    assert solved(cone(), start=np.array([5, 8, 17])) == [3, 8, 30]


def test_without_time_or_steps_or_a_solution_nothing_is_explained(monkeypatch: pytest.MonkeyPatch) -> None:
    some = cone()
    assert solved(some, clock=ENDED) is None and [one.size for one in some.asked] == [0], "no column is computed"
    monkeypatch.setattr(generation, "PRICED", 1)
    assert solved(cone(), conic_steps=2) is None and solved(cone(), conic_steps=30) == [3, 8, 30]
    true = cone()
    assert solved(dataclasses.replace(true, rows=np.delete(true.rows, 3, axis=0), groups=true.groups[1:])) is None
    assert solved(dataclasses.replace(true, goal=-true.rows[3], rows=true.rows[3:4], groups=true.groups[:1])) is None


def test_steps_end_where_one_helps_no_more_or_is_not_solved(monkeypatch: pytest.MonkeyPatch) -> None:
    """Though prices promise that it does: after the columns that explain the goal one more step is made."""

    class Praised(Rows):
        def prices(self, rest: np.ndarray) -> np.ndarray:
            return 2.0 + super().prices(rest)

    true = cone()
    praised = Praised(true.rows, true.goal, true.groups)
    monkeypatch.setattr(generation, "PRICED", 20)
    assert solved(praised) == [3, 8, 30]
    assert [one.size for one in praised.asked[:-1]] == [0, 20, 20], "the last one asks for what is used"
    monkeypatch.setattr(generation, "nonnegative", lambda *_: None)
    assert solved(true) is None


@pytest.mark.parametrize(("groups", "priced", "each"), [(1, 6, 6), (3, 6, 2), (3, 7, 3), (4, 1, 1)])
def test_a_step_adds_as_many_columns_of_every_group(
    groups: int, priced: int, each: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Together about as many as one step may add."""
    asked = list[int]()
    monkeypatch.setattr(generation, "PRICED", priced)
    monkeypatch.setattr(generation, "paying_most", lambda *given: asked.append(given[2]) or paying_most(*given))
    assert solved(cone(groups=groups)) == [3, 8, 30]
    assert set(asked) == {each}
    empty = Rows(np.zeros((0, 3)), np.array([1.0, 0.0, 0.0]), NONE)
    assert solved(empty) is None


def test_of_equal_columns_the_cheapest_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where the others are there first: the price of a column is what is left less what it costs."""
    twice = cone()
    twice.rows[4] = twice.rows[3]
    costs = np.full(40, 1e-6)
    costs[3] = 1e-2
    assert solved(twice, costs) == [4, 8, 30]
    monkeypatch.setattr(generation, "PRICED", 1)
    assert solved(twice, costs, start=np.array([3, 8, 30])) == [4, 8, 30]
    costs[[3, 4]] = costs[[4, 3]]
    assert solved(twice, costs, start=np.array([4, 8, 30])) == [3, 8, 30]


def following(answers: list[list[int] | None], monkeypatch: pytest.MonkeyPatch) -> list[tuple[list[int], np.ndarray]]:
    """What each solution starts with and costs, where solutions are those given, in turn."""
    asked = list[tuple[list[int], np.ndarray]]()

    def told(_: Any, start: np.ndarray, costs: np.ndarray, *__: Any) -> np.ndarray | None:
        asked.append((start.tolist(), costs))
        found = answers.pop(0)
        return None if found is None else np.array(found)

    monkeypatch.setattr(generation, "_solved", told)
    return asked


def test_solutions_follow_each_other_until_no_block_is_new(monkeypatch: pytest.MonkeyPatch) -> None:
    """Columns of blocks that were used cost three times as much; each solution starts with the last one's columns."""
    some, drawn = cone(), np.random.default_rng(0)
    asked = following([[6, 9], [7, 20], [21, 8]], monkeypatch)
    assert (found := used_blocks(some, DEFAULTS, HELD)) is not None and found.tolist() == [3, 4, 10]
    assert [start for start, _ in asked] == [[], [6, 9], [7, 20]]
    for (_, costs), used in zip(asked, ([], [3, 4], [3, 4, 10]), strict=True):
        random = 1e-6 * drawn.exponential(size=40)
        np.testing.assert_allclose(costs, np.where(np.isin(some.blocks, used), 3.0, 1.0) * random)


@pytest.mark.parametrize(
    ("answers", "rounds", "clock", "wanted"),
    [
        ([None], 4, HELD, None),
        ([[6], None], 4, HELD, [3]),
        ([[6], [8], None], 4, HELD, [3, 4]),
        ([[6], [8], [10]], 3, HELD, [3, 4, 5]),
        ([[6], [8]], 4, ENDED, [3]),
    ],
    ids=["nothing", "nothing then", "nothing after two", "as often as may be", "no time"],
)
def test_what_was_used_until_then_is_the_answer(
    answers: list[list[int] | None], rounds: int, clock: Any, wanted: list[int] | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where a later solution fails, there are no more rounds, or the time has ended."""
    following(answers, monkeypatch)
    found = used_blocks(cone(), limited(conic_rounds=rounds), clock)
    assert (None if found is None else found.tolist()) == wanted


@pytest.mark.parametrize("size", [10, 11, 20, 23])
def test_folding_keeps_every_entry_once(size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a sign; as many sums as there may be, and none where there are as few entries. Going back is the
    transpose, and lengths are kept on average."""
    monkeypatch.setattr(generation, "ROWS", 10)
    folded = Folded(size)
    matrix = folded(np.eye(size))
    assert matrix.shape == (size, 10) and np.all(np.abs(matrix).sum(axis=1) == 1.0)
    assert np.ptp(np.abs(matrix).sum(axis=0)) <= 1.0, "sums of equally many entries"
    if size == 10:
        np.testing.assert_array_equal(matrix, np.eye(10))
    else:
        assert {-1.0, 1.0} == set(matrix[matrix != 0].tolist())
    np.testing.assert_array_equal(folded(np.eye(size)[:3]), matrix[:3])
    for number in range(10):
        np.testing.assert_array_equal(folded.back(np.eye(10)[number]), matrix[:, number])


def test_blocks_like_a_used_one_are_covered() -> None:
    assert covered(np.array([0, 3]), np.array([5, 2, 5, 7, 1])).tolist() == [True, False, True, True, False]


def test_only_what_pays_is_added() -> None:
    """In order of groups, the best of each first."""
    prices, groups = np.array([0.0, 0.5, -1.0, 3.0, 2.0, 1.0]), np.array([0, 1, 0, 1, 0, 1])
    assert paying_most(prices, groups, 2).tolist() == [4, 3, 5]
    assert paying_most(prices, groups, 1).tolist() == [4, 3]
    assert paying_most(-prices, groups, 5).tolist() == [2]
