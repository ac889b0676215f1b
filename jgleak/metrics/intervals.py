"""Means with their intervals: bootstrap ones, as GRAIN reports them (section 6.4), and exact ones of rates."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np
from jaxtyping import Float

BATCH_ENTRIES = 4_000_000
"""Resampled entries held in memory at once."""

ROUNDING = 1e-6
"""How far beside [0, 1] a share may lie for its arithmetic alone."""


@dataclasses.dataclass(frozen=True)
class Interval:
    """A mean and its interval, in the units of the values."""

    mean: float
    low: float
    high: float


def bootstrap(
    values: Sequence[float] | Float[np.ndarray, " k"], *, resamples: int = 10_000, level: float = 0.95, seed: int = 0
) -> Interval:
    """Mean of ``values`` and the percentile interval of the mean over resamples with replacement.

    A single value has the interval of zero width; NaN anywhere makes all three NaN. Same seed, same interval.

    Raises:
      ValueError: no values.
    """
    values = np.asarray(values, np.float64)
    if values.ndim != 1 or values.size == 0:
        raise ValueError(f"values: expected one number a graph and at least one graph, got shape {values.shape}")
    mean = float(values.mean())
    if values.size == 1 or np.isnan(mean):
        return Interval(mean, mean, mean)
    from scipy import stats  # here, since it takes longer to import than a command's help to print

    interval = stats.bootstrap(
        (values,),
        np.mean,
        n_resamples=resamples,
        batch=max(1, BATCH_ENTRIES // values.size),
        confidence_level=level,
        method="percentile",
        rng=np.random.default_rng(seed),
    ).confidence_interval
    return Interval(mean, float(interval.low), float(interval.high))


def rate(values: Sequence[float] | Float[np.ndarray, " k"], *, resamples: int = 10_000, seed: int = 0) -> Interval:
    """Mean of values that lie in [0, 1] and its 95 % interval.

    Where every value is 0 or 1, it is Clopper and Pearson's of a binomial rate, as resamples of values that all agree
    agree too: 0 of 20 have 0 to 17 %. It holds for any values in [0, 1] that happen to be 0 or 1. Other means have
    the interval of ``bootstrap``. Both take the values for independent, which graphs of one batch are not: theirs are
    too narrow.

    Raises:
      ValueError: no values, or one outside of [0, 1].
    """
    values = np.asarray(values, np.float64)
    if np.any((values < -ROUNDING) | (values > 1.0 + ROUNDING)):
        raise ValueError("values: a rate is the mean of values in [0, 1]; take bootstrap for others")
    if values.ndim != 1 or values.size == 0 or not np.all(np.minimum(np.abs(values), np.abs(values - 1.0)) <= ROUNDING):
        return bootstrap(values, resamples=resamples, seed=seed)
    from scipy import stats

    ends = stats.binomtest(int(np.round(values).sum()), values.size).proportion_ci(0.95, "exact")
    return Interval(float(values.mean()), float(ends.low), float(ends.high))
