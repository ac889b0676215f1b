"""Means with their intervals: bootstrap ones, as GRAIN reports them (section 6.4), and exact ones of rates.

Both are those of ``scipy.stats``, up to rounding. That is not used, since its import takes longer than all intervals of
an attack's summary.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np
from jaxtyping import Float
from scipy.special import betaincinv

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
      ValueError: no values, no resamples, or a level outside of (0, 1).
    """
    if resamples < 1 or not 0.0 < level < 1.0:
        raise ValueError(f"resamples, level: at least 1 and a share between 0 and 1, got {resamples} and {level}")
    values = np.asarray(values, np.float64)
    if values.ndim != 1 or values.size == 0:
        raise ValueError(f"values: expected one number a graph and at least one graph, got shape {values.shape}")
    mean = float(values.mean())
    if values.size == 1 or np.isnan(mean):
        return Interval(mean, mean, mean)
    rng, batch = np.random.default_rng(seed), max(1, BATCH_ENTRIES // values.size)
    sizes = [min(batch, resamples - done) for done in range(0, resamples, batch)]
    means = np.concatenate([values[rng.integers(0, values.size, (size, values.size))].mean(axis=-1) for size in sizes])
    low, high = np.quantile(means, ((1.0 - level) / 2.0, (1.0 + level) / 2.0))
    return Interval(mean, float(low), float(high))


def rate(values: Sequence[float] | Float[np.ndarray, " k"], *, resamples: int = 10_000, seed: int = 0) -> Interval:
    """Mean of values that lie in [0, 1] and its 95 % interval.

    Where every value is 0 or 1, it is Clopper and Pearson's of a binomial rate, as resamples of values that all agree
    agree too: 0 of 20 have 0 to 17 %. It holds for any values in [0, 1] that happen to be 0 or 1. Other means have
    the interval of ``bootstrap``. Both take the values for independent, which graphs of one batch are not: theirs are
    too narrow. A single value strictly between tells nothing of other ones: its interval is all of [0, 1]. (Several
    such values that agree still have the bootstrap's, of no width.)

    Raises:
      ValueError: no values, or one outside of [0, 1].
    """
    values = np.asarray(values, np.float64)
    if np.any((values < -ROUNDING) | (values > 1.0 + ROUNDING)):
        raise ValueError("values: a rate is the mean of values in [0, 1]; take bootstrap for others")
    if values.ndim != 1 or values.size == 0 or not np.all(np.minimum(np.abs(values), np.abs(values - 1.0)) <= ROUNDING):
        found = bootstrap(values, resamples=resamples, seed=seed)
        return found if values.size > 1 or np.isnan(found.mean) else Interval(found.mean, 0.0, 1.0)
    ones, zeros = int(np.round(values).sum()), int(np.round(1.0 - values).sum())
    low = betaincinv(ones, zeros + 1, 0.025) if ones else 0.0
    high = betaincinv(ones + 1, zeros, 0.975) if zeros else 1.0
    return Interval(float(values.mean()), float(low), float(high))
