"""How much of a user's history and ratings an attack found."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol, runtime_checkable

import numpy as np
from jaxtyping import Bool, Float, Int

from jgleak.metrics.intervals import Interval, bootstrap, rate


@runtime_checkable
class Reported(Protocol):
    """What is scored; ``jgleak.attacks.recommender.Profile`` is one."""

    @property
    def items(self) -> Int[np.ndarray, " S"]: ...
    @property
    def scores(self) -> Float[np.ndarray, " S"]: ...
    @property
    def reported(self) -> Bool[np.ndarray, " S"]: ...
    @property
    def ratings(self) -> Float[np.ndarray, " S"]: ...


class RecommenderLeak(NamedTuple):
    """One user beside the truth; NaN where a number is not defined. Errors are in units of a level's width.

    Attributes:
      auc: that a random rated item of those sent has a higher score than a random pseudo one; ties count half.
      precision_at_size: share of rated items among the ``K`` best scores, ``K`` the true history's length; ties share.
      precision: share of rated items among those reported.
      recall: share of rated items that are reported.
      rmse: root mean square rating error over rated items that are reported.
      mae: mean absolute rating error over the same.
      nearest: share of the same whose nearest level is the rating.
      rmse_all: as ``rmse`` over the true history; a rating that is not reported is guessed by the prior's mean.
      mae_all: as ``mae``, over the true history.
      nearest_all: as ``nearest``, over the true history.
    """

    auc: float
    precision_at_size: float
    precision: float
    recall: float
    rmse: float
    mae: float
    nearest: float
    rmse_all: float
    mae_all: float
    nearest_all: float


def leak(
    found: Reported, items: Int[np.ndarray, " K"], values: Float[np.ndarray, " K"], levels: Sequence[float]
) -> RecommenderLeak:
    """What an attack found of a user who rated ``items`` with ``values``.

    Raises:
      ValueError: an empty or repeated history, values that are not one an item, or a rated item that was never sent.
    """
    order = _checked(found, items, values)
    items, values = np.asarray(items)[order], np.asarray(values, np.float64)[order]
    place = np.searchsorted(found.items, items)
    real = np.zeros(len(found.items), bool)
    real[place] = True
    hit = found.reported[place]
    errors = (found.ratings[place] - values) / _width(levels)
    right = _nearest(found.ratings[place], levels) == values
    return RecommenderLeak(
        auc=_auc(found.scores, real),
        precision_at_size=_precision_at(found.scores, real),
        precision=float(real[found.reported].mean()) if found.reported.any() else np.nan,
        recall=float(hit.mean()),
        **_errors(errors[hit], right[hit], ""),
        **_errors(errors, right, "_all"),
    )


def blind(
    found: Reported,
    items: Int[np.ndarray, " K"],
    values: Float[np.ndarray, " K"],
    levels: Sequence[float],
    *,
    mean: float,
    commonest: float,
) -> RecommenderLeak:
    """What an attacker who ignores the update finds: the expectation over random rankings of the items sent.

    Args:
      found: for the items sent and the number reported.
      items: the true history.
      values: its ratings.
      levels: the values that a rating can take.
      mean: the guess that ``rmse`` and ``mae`` are of, the mean of other users' ratings.
      commonest: the guess that ``nearest`` is of.

    Raises:
      ValueError: as ``leak``.
    """
    _checked(found, items, values)
    share, values = len(items) / len(found.items), np.asarray(values, np.float64)
    off, right = (mean - values) / _width(levels), values == commonest
    errors = _errors(off, right, "") | _errors(off, right, "_all")
    return RecommenderLeak(0.5 if share < 1 else np.nan, share, share, float(found.reported.mean()), **errors)


def summarise(leaks: Sequence[RecommenderLeak], *, resamples: int = 10_000, seed: int = 0) -> dict[str, Interval]:
    """Means over users with 95 % intervals (``bootstrap`` of errors, else ``rate``).

    Users for whom a number is undefined do not count in it.

    Returns:
      For every field of ``RecommenderLeak`` its interval; NaN where it is defined for no user.

    Raises:
      ValueError: no user.
    """
    if not leaks:
        raise ValueError("leaks: expected at least one user")
    columns = {name: np.array([getattr(one, name) for one in leaks], np.float64) for name in RecommenderLeak._fields}
    defined = {name: column[~np.isnan(column)] for name, column in columns.items()}
    return {
        name: (bootstrap if name.startswith(("rmse", "mae")) else rate)(
            column if column.size else [np.nan], resamples=resamples, seed=seed
        )
        for name, column in defined.items()
    }


def _checked(found: Reported, items: Int[np.ndarray, " K"], values: Float[np.ndarray, " K"]) -> Int[np.ndarray, " K"]:
    """The order that sorts the history."""
    if np.shape(items) != np.shape(values) or not len(items) or len(np.unique(items)) != len(items):
        raise ValueError(f"items: need distinct rated items and one value each, got {len(items)} and {len(values)}")
    if not np.isin(items, found.items).all():
        raise ValueError("items: a rated item was never sent; is this the same user?")
    return np.argsort(items)


def _errors(errors: Float[np.ndarray, " n"], right: Bool[np.ndarray, " n"], suffix: str) -> dict[str, float]:
    numbers = (
        {"rmse": np.sqrt(np.mean(errors**2)), "mae": np.mean(np.abs(errors)), "nearest": np.mean(right)}
        if (errors.size)
        else dict.fromkeys(("rmse", "mae", "nearest"), np.nan)
    )
    return {name + suffix: float(value) for name, value in numbers.items()}


def _auc(scores: Float[np.ndarray, " S"], real: Bool[np.ndarray, " S"]) -> float:
    """Mann and Whitney's statistic."""
    from scipy.stats import rankdata  # here, since it takes long to import

    n = int(real.sum())
    if n == 0 or n == len(real):
        return np.nan
    return float((rankdata(scores)[real].sum() - n * (n + 1) / 2) / (n * (len(real) - n)))


def _precision_at(scores: Float[np.ndarray, " S"], real: Bool[np.ndarray, " S"]) -> float:
    """Expected share of real items among the best ``K`` when ties are broken at random."""
    n = int(real.sum())
    edge = np.sort(scores)[-n]
    above, tied = scores > edge, scores == edge
    return float((real[above].sum() + real[tied].mean() * (n - above.sum())) / n)


def _nearest(ratings: Float[np.ndarray, " K"], levels: Sequence[float]) -> Float[np.ndarray, " K"]:
    return np.asarray(levels)[np.abs(ratings[:, None] - np.asarray(levels)).argmin(axis=1)]


def _width(levels: Sequence[float]) -> float:
    """Mean distance of adjacent levels."""
    return (levels[-1] - levels[0]) / (len(levels) - 1)
