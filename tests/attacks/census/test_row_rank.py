"""How many dimensions rows span, beside those that the input's gradient shows."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from jgleak.attacks.census import row_rank
from jgleak.attacks.census.problem import CensusProblem
from jgleak.attacks.census.row_rank import all_shown, scaled, shown_rank, spanning
from jgleak.attacks.census.settings import DEFAULTS
from jgleak.attacks.span.hops import Nodes


def problem(
    monkeypatch: pytest.MonkeyPatch, rank: int, features: Any = None, pruned: bool = False, sites: int = 1
) -> CensusProblem:
    """One whose input's gradient has this rank."""
    some = object.__new__(CensusProblem)
    known, seen = SimpleNamespace(features=features), SimpleNamespace(pruned=pruned)
    some.__dict__.update(knowledge=known, seen=seen, settings=DEFAULTS)
    monkeypatch.setattr(row_rank, "leak_points", lambda _, hop: [None] * sites if hop == 0 else [])
    monkeypatch.setattr(row_rank, "input_subspace", lambda *_: SimpleNamespace(rank=rank))
    return some


def nodes(rank: int, hidden: int = 0) -> Nodes:
    rows = np.repeat(np.eye(5)[:rank], 2, axis=0)
    return Nodes(np.zeros((2 * rank, 1), np.int32), rows, np.ones(2 * rank, np.int64), hidden=hidden)


@pytest.mark.parametrize(
    ("gradient", "rows", "hidden", "shown", "whole", "enough"),
    [
        (3, 3, 0, 3, True, True),
        (3, 4, 0, 3, False, True),
        (3, 4, 1, 4, False, True),
        (3, 3, 1, 3, True, True),
        (3, 2, 0, 2, False, False),
        (1, 1, 0, 1, True, True),
        (0, 0, 0, 0, False, True),
        (1, 0, 0, 0, False, False),
    ],
)
def test_rows_span_what_the_gradient_shows_and_what_it_hides(
    gradient: int, rows: int, hidden: int, shown: int, whole: bool, enough: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    some, there = problem(monkeypatch, gradient), nodes(rows, hidden)
    assert (shown_rank(some, there), all_shown(some, there), spanning(some, there)) == (shown, whole, enough)


@pytest.mark.parametrize("more", [{"features": np.zeros((2, 1))}, {"pruned": True}, {"sites": 0}])
def test_some_gradients_show_nothing(more: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """Known rows need no gradient; that of a pruned update, and of a graph of a batch, is not of the nodes' rows."""
    some = problem(monkeypatch, 3, **more)
    assert (shown_rank(some, nodes(3)), all_shown(some, nodes(3)), spanning(some, nodes(1))) == (0, False, True)


def test_a_column_of_large_numbers_hides_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    """Three rows that differ in one-hot columns, beside a number of seven digits; equal columns add nothing."""
    rows = np.c_[np.eye(3), [5e6, 1e-3, 2.0], np.zeros(3)].astype(np.float32)
    there = Nodes(np.zeros((3, 1), np.int32), rows, np.ones(3, np.int64))
    assert all_shown(problem(monkeypatch, 3), there) and not spanning(problem(monkeypatch, 4), there)


def test_a_column_with_each_number_counts_as_much_as_any(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two rows that differ by a millionth of a thousandth beside a one that both have."""
    rows = np.array([[1.0, 0.0], [1.0, 1e-9]])
    assert all_shown(problem(monkeypatch, 2), Nodes(np.zeros((2, 1), np.int32), rows, np.ones(2, np.int64)))


def test_what_single_precision_rounds_spans_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """A third row between two others; without any row there is none to scale."""
    two = np.random.default_rng(0).normal(size=(2, 5))
    rows = np.r_[two, [0.3 * two[0] + 0.7 * two[1]]].astype(np.float32)
    assert all_shown(problem(monkeypatch, 2), Nodes(np.zeros((3, 1), np.int32), rows, np.ones(3, np.int64)))
    assert scaled(rows[:0]).shape == (0, 5)
