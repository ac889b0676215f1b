"""Non-negative least squares: the optimum, or None."""

from __future__ import annotations

import numpy as np
import pytest

from jgleak.attacks import nonnegative
from jgleak.attacks.attack import Clock
from tests.clocks import HELD as FOREVER


def test_the_optimum_or_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Orthogonal columns are projected one by one; in one step there is no answer, and no exception."""
    system, right = np.eye(3)[:, :2], np.array([2.0, -1.0, 0.5])
    found = nonnegative.nonnegative(system, right, 30, FOREVER)
    assert found is not None
    np.testing.assert_allclose(found[0], [2.0, 0.0])
    assert found[1] == pytest.approx(np.hypot(1.0, 0.5))
    own = nonnegative.nnls
    monkeypatch.setattr(nonnegative, "nnls", lambda *given, maxiter: own(*given, maxiter=1))
    assert (
        nonnegative.nonnegative(np.abs(np.random.default_rng(0).normal(size=(20, 10))), np.ones(20), 30, FOREVER)
        is None
    )


@pytest.mark.parametrize("shape", [(3, 0), (0, 3), (0, 0)])
def test_nothing_to_solve_for_leaves_everything(shape: tuple[int, int]) -> None:
    """SciPy alone ends the process there."""
    found = nonnegative.nonnegative(np.zeros(shape), np.full(shape[0], 2.0), 30, FOREVER)
    assert found is not None
    np.testing.assert_array_equal(found[0], np.zeros(shape[1]))
    assert found[1] == pytest.approx(2.0 * np.sqrt(shape[0]))


@pytest.mark.parametrize("noise", [0.0, 1e-6, 0.3])
def test_unknowns_that_are_added_as_they_pay_give_the_same_optimum(noise: float) -> None:
    """Against SciPy on all of them at once; the conditions of an optimum hold (no column shortens the residual)."""
    rng = np.random.default_rng(3)
    system = np.abs(rng.normal(size=(60, 1500))) + rng.normal(size=(60, 1500))
    true = np.zeros(1500)
    true[rng.choice(1500, 12, replace=False)] = rng.random(12)
    right = system @ true + noise * rng.normal(size=60)
    expected, least = nonnegative.nnls(system, right)
    for likely in (None, np.flatnonzero(true)[:5], np.arange(40)):
        found = nonnegative.nonnegative(system, right, 30, FOREVER, likely)
        assert found is not None and np.all(found[0] >= 0.0)
        assert found[1] == pytest.approx(np.linalg.norm(system @ found[0] - right), abs=1e-9)
        assert found[1] == pytest.approx(least, abs=1e-8)
        prices = (right - system @ found[0]) @ system
        assert prices.max() < 1e-6 * np.linalg.norm(system, 2)
        if noise > 0.1:
            np.testing.assert_allclose(found[0], expected, atol=1e-6)


@pytest.mark.parametrize("size", [1e-9, 1e9])
def test_the_unit_of_many_columns_does_not_matter(size: float) -> None:
    rng = np.random.default_rng(4)
    system, true = rng.normal(size=(30, 700)), np.zeros(700)
    true[rng.choice(700, 5, replace=False)] = 1.0 + rng.random(5)
    found = nonnegative.nonnegative(size * system, system @ true, 30, FOREVER)
    assert found is not None and found[1] < 1e-9
    np.testing.assert_allclose(size * system @ found[0], system @ true, atol=1e-9)


def test_prices_of_rounding_do_not_pay(monkeypatch: pytest.MonkeyPatch) -> None:
    """Once equations hold up to rounding, no round follows."""
    rng = np.random.default_rng(4)
    system, true = np.abs(rng.normal(size=(30, 700))), np.zeros(700)
    true[:5] = 1.0 + rng.random(5)
    own, chosen = nonnegative._solved, list[int]()
    monkeypatch.setattr(nonnegative, "_solved", lambda some, *rest: chosen.append(some.shape[1]) or own(some, *rest))
    found = nonnegative.nonnegative(system, system @ true, 30, FOREVER, np.arange(5))
    assert found is not None and found[1] < 1e-12 and chosen == [5 + nonnegative.PRICED]


@pytest.mark.parametrize("number", [3, 900])
def test_where_no_column_shortens_the_residual_all_are_zero(number: int) -> None:
    system, right = np.abs(np.random.default_rng(0).normal(size=(20, number))), np.linspace(-2.0, -1.0, 20)
    found = nonnegative.nonnegative(system, right, 30, FOREVER)
    assert found is not None and not found[0].any() and found[1] == pytest.approx(np.linalg.norm(right))


def test_the_clock_ends_it_between_rounds(monkeypatch: pytest.MonkeyPatch) -> None:
    """No answer is given once time is up: half an optimum would exclude what it should not."""
    rng = np.random.default_rng(3)
    system, right = np.abs(rng.normal(size=(60, 1500))), np.abs(rng.normal(size=60))
    asked: list[int] = []
    monkeypatch.setattr(Clock, "left", property(lambda _: asked.append(1) or 2.5 - len(asked)))
    assert nonnegative.nonnegative(system, right, 30, Clock(0.0, 0.0)) is None and len(asked) == 3
    assert nonnegative.nonnegative(system[:, :9], right, 30, Clock(0.0, 0.0)) is None


def test_rounds_that_do_not_converge_give_nothing_and_those_that_gain_nothing_end_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Of many unknowns: what a few leave is solved for again with those that pay; a round without gain is the last."""
    rng = np.random.default_rng(3)
    system, right = np.abs(rng.normal(size=(60, 1500))), np.abs(rng.normal(size=60))
    own, rests = nonnegative._solved, list[float]()

    def stalled(some: np.ndarray, right: np.ndarray, rounds: int) -> tuple[np.ndarray, float]:
        found = own(some, right, rounds)
        assert found is not None
        rests.append(found[1])
        return found[0], 0.5 * (1.0 - 5e-10 * (len(rests) - 1))

    monkeypatch.setattr(nonnegative, "_solved", stalled)
    found = nonnegative.nonnegative(system, right, 30, FOREVER)
    assert found is not None and found[1] == 0.5 and len(rests) == 2
    assert np.linalg.norm(system @ found[0] - right) == pytest.approx(rests[0])
    monkeypatch.setattr(nonnegative, "_solved", lambda *_: None)
    assert nonnegative.nonnegative(system, right, 30, FOREVER) is None
