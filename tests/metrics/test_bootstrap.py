"""Bootstrap intervals have the width that statistics promises."""

from __future__ import annotations

import numpy as np
import pytest

from jgleak.metrics.bootstrap import Interval, bootstrap


def test_interval_of_a_large_sample_is_the_normal_one() -> None:
    values = np.random.default_rng(0).normal(3.0, 2.0, 400)
    result = bootstrap(values)
    half = 1.96 * values.std() / np.sqrt(values.size)
    assert result.mean == pytest.approx(values.mean())
    assert result.low == pytest.approx(values.mean() - half, abs=0.1 * half)
    assert result.high == pytest.approx(values.mean() + half, abs=0.1 * half)


def test_rate_interval_stays_between_zero_and_one() -> None:
    result = bootstrap([0.0] * 3 + [1.0] * 17)
    assert result.mean == pytest.approx(0.85)
    assert 0.0 <= result.low < result.mean < result.high <= 1.0


def test_seed_decides() -> None:
    values = np.random.default_rng(1).random(30)
    assert bootstrap(values, seed=3) == bootstrap(values, seed=3)
    assert bootstrap(values, seed=3) != bootstrap(values, seed=4)


def test_wider_level_wider_interval() -> None:
    values = np.random.default_rng(2).random(30)
    wide, narrow = bootstrap(values, level=0.99), bootstrap(values, level=0.5)
    assert wide.low < narrow.low < narrow.high < wide.high


def test_the_interval_is_that_of_so_many_resamples() -> None:
    """Two resamples have two means, and the interval is 95 % of what lies between these."""
    values = np.random.default_rng(3).random(30)
    few, again = bootstrap(values, resamples=2, level=0.95), bootstrap(values, resamples=2, level=0.5)
    assert few.high - few.low == pytest.approx(0.95 / 0.5 * (again.high - again.low)) != 0.0
    assert few != bootstrap(values)


def test_degenerate_samples() -> None:
    assert bootstrap([0.4]) == Interval(0.4, 0.4, 0.4)
    constant = bootstrap([1.0] * 10)
    assert (constant.mean, constant.low, constant.high) == (1.0, 1.0, 1.0)
    assert np.isnan(bootstrap([1.0, np.nan]).low)
    with pytest.raises(ValueError, match="at least one graph"):
        bootstrap([])
