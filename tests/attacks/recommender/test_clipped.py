"""The line through a clipped normal number, against integrals."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import norm

from jgleak.attacks.recommender.clipped import clipped

MEANS = np.array([-3.0, -0.7, 0.0, 0.2, 1.5, 4.0])


@pytest.mark.parametrize("deviation", [0.3, 1.0, 2.5])
def test_the_line_is_the_best_one(deviation: float) -> None:
    """Least squares of ``clip(g)`` on ``g``: its mean, its slope, and what it leaves."""
    bound = np.array([0.5, 1.0, 1.0, 2.0, 2.0, 3.0])
    found = clipped(MEANS, np.full(MEANS.size, deviation**2), bound)
    middle = (np.arange(200_000) + 0.5) / 200_000
    numbers = MEANS[:, None] + deviation * norm.ppf(middle)
    cut = np.clip(numbers, -bound[:, None], bound[:, None])
    off = numbers - numbers.mean(axis=1, keepdims=True)
    slope = (cut * off).mean(axis=1) / (off**2).mean(axis=1)
    np.testing.assert_allclose(found.expected, cut.mean(axis=1), atol=1e-6)
    np.testing.assert_allclose(found.slope, slope, atol=1e-4)
    np.testing.assert_allclose(found.left, cut.var(axis=1) - slope**2 * off.var(axis=1), atol=1e-4)


def test_nothing_is_cut_by_infinite_bounds() -> None:
    found = clipped(MEANS, np.ones(MEANS.size), np.full(MEANS.size, np.inf))
    assert found.expected is MEANS and np.all(found.slope == 1.0) and not found.left.any()


@pytest.mark.parametrize("size", [1e-30, 1.0, 1e30])
def test_a_number_that_is_certain_is_cut_or_not(size: float) -> None:
    found = clipped(size * MEANS, np.zeros(MEANS.size), np.full(MEANS.size, size))
    np.testing.assert_allclose(found.expected / size, np.clip(MEANS, -1.0, 1.0), atol=1e-8)
    np.testing.assert_allclose(found.slope, np.abs(MEANS) < 1.0)
    np.testing.assert_allclose(found.left / size**2, 0.0, atol=1e-8)
