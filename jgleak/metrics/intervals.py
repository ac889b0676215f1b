"""Means with their intervals: bootstrap ones, as GRAIN reports them (section 6.4), exact ones of rates, and Student's
where several graphs are behind an update.

The first two are those of ``scipy.stats``, up to rounding. That is not used, since its import takes longer than all
intervals of an attack's summary.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Hashable, Sequence

import numpy as np
from jaxtyping import Float, Int
from scipy.special import betaincinv, stdtrit

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


def clustered(
    values: Sequence[float] | Float[np.ndarray, " k"], clusters: Sequence[Hashable], *, seed: int = 0
) -> Interval:
    """Mean of ``values``, of which some share a cluster, as the graphs behind one update do, and its 95 % interval.

    The interval is Student's with ``k - 1`` degrees of freedom, for clusters are few, and resamples of few are too
    narrow. The variance is that of a ratio of sums over ``k`` clusters of ``m_i`` values, as in surveys (Cochran,
    Sampling Techniques, 1977, chapter 6): ``k / (k - 1) sum_i (sum of i's values - m_i mean)^2 / n^2``. Where every
    cluster has one value, the interval is that of ``bootstrap``; as there, a single cluster has one of zero width, and
    NaN anywhere makes all three NaN.

    Args:
      values: one number an observation.
      clusters: of every value its cluster.
      seed: of the bootstrap.

    Raises:
      ValueError: no values, or not one cluster a value.
    """
    values = np.asarray(values, np.float64)
    place = _places(values, clusters)
    sizes = np.bincount(place)
    if sizes.size == values.size:
        return bootstrap(values, seed=seed)
    mean, k = float(values.mean()), sizes.size
    if k == 1 or np.isnan(mean):
        return Interval(mean, mean, mean)
    gaps = np.bincount(place, values) - sizes * mean
    half = float(stdtrit(k - 1, 0.975) * np.sqrt(k / (k - 1) * np.sum(gaps**2)) / values.size)
    return Interval(mean, mean - half, mean + half)


def rate(
    values: Sequence[float] | Float[np.ndarray, " k"],
    *,
    clusters: Sequence[Hashable] | None = None,
    resamples: int = 10_000,
    seed: int = 0,
) -> Interval:
    """Mean of values that lie in [0, 1] and its 95 % interval.

    Where every value is 0 or 1, it is Clopper and Pearson's of a binomial rate, as resamples of values that all agree
    agree too: 0 of 20 have 0 to 17 %. It holds for any values in [0, 1] that happen to be 0 or 1. Other means have
    the interval of ``bootstrap``, or of ``clustered`` within [0, 1]. A single value strictly between tells nothing of
    other ones, nor do several of a single cluster: the interval is all of [0, 1]. (Several such values that agree
    still have an interval of no width.)

    Where values are 0 or 1, those of one cluster are taken to agree, as graphs that come back together or not at all.
    If a cluster's size tells nothing of its values, the mean over clusters of ``m_i`` of ``n`` values then has at most
    the variance of ``n^2 / sum m_i^2`` independent values (of equal clusters their number), and so many Clopper and
    Pearson's interval counts (Korn and Graubard, Survey Methodology 1998, with the greatest design effect in place of
    an estimated one).

    Args:
      values: one number an observation.
      clusters: of every value what it shares with others; None: values are independent.
      resamples: of the bootstrap.
      seed: of the bootstrap.

    Raises:
      ValueError: no values, one outside of [0, 1], or not one cluster a value.
    """
    values = np.asarray(values, np.float64)
    if np.any((values < -ROUNDING) | (values > 1.0 + ROUNDING)):
        raise ValueError("values: a rate is the mean of values in [0, 1]; take bootstrap for others")
    labels = range(values.size) if clusters is None else clusters
    number = np.unique(_places(values, labels)).size
    if values.ndim != 1 or values.size == 0 or not np.all(np.minimum(np.abs(values), np.abs(values - 1.0)) <= ROUNDING):
        if number < values.size:
            found = clustered(values, labels)
            found = dataclasses.replace(found, low=max(found.low, 0.0), high=min(found.high, 1.0))
        else:
            found = bootstrap(values, resamples=resamples, seed=seed)
        return Interval(found.mean, 0.0, 1.0) if number == 1 and not np.isnan(found.mean) else found
    found = proportion(float(np.round(values).mean()), labels)
    return dataclasses.replace(found, mean=float(values.mean()))


def proportion(mean: float, clusters: Sequence[Hashable]) -> Interval:
    """The interval of ``rate`` of a mean of zeros and ones, or of shares of such.

    Args:
      mean: a share in [0, 1].
      clusters: of every observation its cluster.
    """
    sizes = np.array(list(Counter(clusters).values()))
    count = float(sizes.sum() ** 2 / np.sum(sizes**2))
    ones, zeros = mean * count, (1.0 - mean) * count
    low = betaincinv(ones, zeros + 1.0, 0.025) if ones else 0.0
    high = betaincinv(ones + 1.0, zeros, 0.975) if zeros else 1.0
    return Interval(mean, float(low), float(high))


def _places(values: Float[np.ndarray, " k"], clusters: Sequence[Hashable]) -> Int[np.ndarray, " k"]:
    """Of every value the number of its cluster, by first appearance."""
    if len(clusters) != values.size:
        raise ValueError(f"clusters: expected one a value, got {len(clusters)} for {values.size} values")
    numbers = {cluster: number for number, cluster in enumerate(dict.fromkeys(clusters))}
    return np.array([numbers[cluster] for cluster in clusters], np.int64)
