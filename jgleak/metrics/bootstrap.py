"""Means with bootstrap intervals, as GRAIN reports them (section 6.4)."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np
from jaxtyping import Float

BATCH_ENTRIES = 4_000_000
"""Resampled entries held in memory at once."""


@dataclasses.dataclass(frozen=True)
class Interval:
    """A mean and its percentile interval, in the units of the values."""

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
