"""Intervals have the width that statistics promises."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from scipy import stats

from jgleak.metrics import intervals
from jgleak.metrics.intervals import ROUNDING, Interval, bootstrap, clustered, rate


@pytest.mark.parametrize("entries", [4_000_000, 2_000])
def test_intervals_are_those_of_scipy(entries: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """In one batch of resamples or in several, as many as a batch's entries allow."""
    monkeypatch.setattr(intervals, "BATCH_ENTRIES", entries)
    values = np.random.default_rng(4).random(37)
    wanted = stats.bootstrap(
        (values,), np.mean, n_resamples=999, batch=entries // 37, confidence_level=0.9, method="percentile",
        rng=np.random.default_rng(5),
    ).confidence_interval  # fmt: skip
    ours = bootstrap(values, resamples=999, level=0.9, seed=5)
    assert (ours.low, ours.high) == pytest.approx((wanted.low, wanted.high), rel=1e-14)
    for ones, zeros in ((1, 0), (0, 1), (3, 4), (17, 1)):
        found, exact = rate([1.0] * ones + [0.0] * zeros), stats.binomtest(ones, ones + zeros).proportion_ci()
        assert (found.low, found.high) == pytest.approx((exact.low, exact.high), rel=1e-12)


def test_interval_of_a_large_sample_is_the_normal_one() -> None:
    values = np.random.default_rng(0).normal(3.0, 2.0, 400)
    result = bootstrap(values)
    half = 1.96 * values.std() / np.sqrt(values.size)
    assert result.mean == pytest.approx(values.mean())
    assert result.low == pytest.approx(values.mean() - half, abs=0.1 * half)
    assert result.high == pytest.approx(values.mean() + half, abs=0.1 * half)


def test_the_interval_of_a_rate_is_the_exact_one() -> None:
    """From its definition: at either end as many successes as there are, or more (fewer), have a chance of 2.5 %."""
    found, (n, k) = rate([0.0] * 3 + [1.0] * 17), (20, 17)
    assert found.mean == pytest.approx(0.85)
    more = sum(math.comb(n, i) * found.low**i * (1 - found.low) ** (n - i) for i in range(k, n + 1))
    fewer = sum(math.comb(n, i) * found.high**i * (1 - found.high) ** (n - i) for i in range(k + 1))
    assert more == pytest.approx(0.025) and fewer == pytest.approx(0.025)


def test_clients_that_all_agree_leave_room() -> None:
    none, every = rate([0.0] * 20), rate([True] * 20)
    assert (none.mean, none.low, none.high) == (0.0, 0.0, pytest.approx(1 - 0.025 ** (1 / 20)))
    assert (every.mean, every.low, every.high) == (1.0, pytest.approx(0.025 ** (1 / 20)), 1.0)
    assert rate([0.0]).high == pytest.approx(0.975)
    rounded = rate([1.0 - 1e-9, 1.0] * 10)
    assert (rounded.low, rounded.high) == (every.low, 1.0)


def test_other_shares_have_the_bootstrap() -> None:
    values = [0.0, 1.0, 0.5, 1.0]
    assert rate(values) == bootstrap(values) and rate(values, seed=3) == bootstrap(values, seed=3)
    assert np.isnan(rate([np.nan]).mean)
    for wrong in ([1.5, 0.0], [-1.0]):
        with pytest.raises(ValueError, match=r"values in \[0, 1\]; take bootstrap"):
            rate(wrong)
    with pytest.raises(ValueError, match="at least one graph"):
        rate([])


def test_seed_decides() -> None:
    values = np.random.default_rng(1).random(30)
    assert bootstrap(values, seed=3) == bootstrap(values, seed=3)
    assert bootstrap(values, seed=3) != bootstrap(values, seed=4)


def test_a_single_share_bounds_no_other() -> None:
    assert rate([0.8]) == Interval(0.8, 0.0, 1.0)
    assert rate([0.8, 0.8]) == Interval(0.8, 0.8, 0.8)
    assert np.isnan(rate([np.nan]).mean)


def test_values_of_a_cluster_are_as_many_observations_as_their_sum_may_vary_like() -> None:
    """Equal clusters are one observation each; a rate over unequal ones has the variance of values that agree."""
    hits = [1.0] * 3 + [0.0] * 2
    alone, fours = rate(hits), rate(np.repeat(hits, 4), clusters=np.repeat(range(5), 4).tolist())
    assert (fours.mean, fours.low, fours.high) == pytest.approx((alone.mean, alone.low, alone.high), rel=1e-12)
    assert rate(hits, clusters="abcde") == alone
    sizes, rng = np.array([1, 2, 5, 8]), np.random.default_rng(0)
    drawn = (rng.random((200_000, sizes.size)) < 0.3) @ sizes / sizes.sum()  # clusters that agree within
    independent = sizes.sum() ** 2 / (sizes**2).sum()
    assert drawn.var() == pytest.approx(0.3 * 0.7 / independent, rel=0.02)
    labels = np.repeat(range(4), sizes).tolist()
    none, some = rate([0.0] * 16, clusters=labels), rate([1.0] * 8 + [0.0] * 8, clusters=labels)
    assert none.high == pytest.approx(1.0 - 0.025 ** (1.0 / independent))
    assert stats.beta.cdf(some.low, independent / 2, independent / 2 + 1) == pytest.approx(0.025)
    assert stats.beta.cdf(some.high, independent / 2 + 1, independent / 2) == pytest.approx(0.975)


def test_means_of_clusters_have_students_interval() -> None:
    """Equal clusters: the paired t-interval of their means. Unequal ones: that of a ratio of sums, which covers."""
    rng = np.random.default_rng(1)
    values, labels = rng.random((7, 3)), np.repeat(range(7), 3)
    found, means = clustered(values.ravel(), labels.tolist()), values.mean(axis=1)
    wanted = stats.ttest_1samp(means, 0.0).confidence_interval()
    assert (found.low, found.high) == pytest.approx((wanted.low, wanted.high), rel=1e-12)
    assert rate(values.ravel(), clusters=labels.tolist()) == found
    shuffled = rng.permutation(21)
    again = clustered(values.ravel()[shuffled], labels[shuffled].tolist())
    assert (again.low, again.high) == pytest.approx((found.low, found.high))
    sizes = np.array([3, 4, 4, 4, 2])
    own = np.repeat(range(5), sizes)
    drawn = rng.normal(size=(2000, 5))[:, own] + rng.normal(size=(2000, own.size))
    covered = [one.low < 0.0 < one.high for one in (clustered(row, own.tolist()) for row in drawn)]
    assert np.mean(covered) == pytest.approx(0.95, abs=0.015)


def test_clusters_of_one_value_and_a_single_cluster() -> None:
    values, own = np.random.default_rng(0).random(30), range(30)
    assert clustered(values, own) == bootstrap(values) != bootstrap(values, seed=3)
    assert clustered(values, own, seed=3) == bootstrap(values, seed=3)
    assert rate(values, clusters=own, seed=3) == rate(values, seed=3)
    assert clustered([0.2, 0.8], "aa") == Interval(0.5, 0.5, 0.5)
    assert rate([0.2, 0.8], clusters="aa") == Interval(0.5, 0.0, 1.0)
    wide = rate([0.9, 0.9, 0.4, 0.5], clusters="aabb")
    assert (wide.low, wide.high) == (0.0, 1.0) and clustered([0.9, 0.9, 0.4, 0.5], "aabb").high > 1.0
    assert np.isnan(clustered([0.0, np.nan, 1.0], "aab").low) and np.isnan(
        rate([0.5, np.nan, 1.0], clusters="aab").high
    )
    for interval in (lambda v, c: rate(v, clusters=c), clustered):
        for wrong in ([0.0, 1.0], [0.2, 0.8]):
            with pytest.raises(ValueError, match="clusters: expected one a value, got 1 for 2 values"):
                interval(wrong, "a")
            with pytest.raises(ValueError, match="clusters: expected one a value, got 3 for 2 values"):
                interval(wrong, "abc")
    with pytest.raises(ValueError, match="at least one graph"):
        clustered([], [])


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


@pytest.mark.parametrize("wrong", [{"resamples": 0}, {"level": -0.2}, {"level": 0.0}, {"level": 1.0}])
def test_an_interval_of_nothing_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="resamples, level: at least 1 and a share between 0 and 1"):
        bootstrap([0.0, 1.0], **wrong)


def test_degenerate_samples() -> None:
    assert bootstrap([0.4]) == Interval(0.4, 0.4, 0.4)
    assert bootstrap([0.2, 0.8]) == Interval(0.5, 0.2, 0.8)
    single = bootstrap([0.2, 0.8], resamples=1)
    assert single.low == single.high in (0.2, 0.5, 0.8), "one resample has one mean"
    constant = bootstrap([1.0] * 10)
    assert (constant.mean, constant.low, constant.high) == (1.0, 1.0, 1.0)
    assert np.isnan(bootstrap([1.0, np.nan]).low)
    with pytest.raises(ValueError, match="at least one graph"):
        bootstrap([])


def test_a_share_may_lie_beside_its_ends_by_the_rounding_and_counts_as_the_end() -> None:
    beside, ends = rate([-ROUNDING, 1.0 + ROUNDING, 1.0]), rate([0.0, 1.0, 1.0])
    assert (beside.low, beside.high) == (ends.low, ends.high)


def test_other_shares_have_the_resamples_and_the_seed_that_are_given() -> None:
    values = np.random.default_rng(1).random(30)
    assert rate(values, seed=3) == bootstrap(values, seed=3) != bootstrap(values)
    assert rate(values, resamples=2) == bootstrap(values, resamples=2) != bootstrap(values)


@pytest.mark.parametrize(("entries", "batch"), [(4, 1), (60, 2), (89, 2), (90, 3)])
def test_resamples_are_drawn_as_many_at_a_time_as_memory_holds(
    entries: int, batch: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One at least; the last ones may be fewer. The interval is the same."""
    values, own, asked = np.random.default_rng(1).random(30), np.random.default_rng(0), list[int]()
    usual = bootstrap(values, resamples=50)

    def integers(low: int, high: int, shape: tuple[int, int]) -> Any:
        asked.append(shape[0])
        return own.integers(low, high, shape)

    monkeypatch.setattr(intervals, "BATCH_ENTRIES", entries)
    monkeypatch.setattr(np.random, "default_rng", lambda _: SimpleNamespace(integers=integers))
    assert bootstrap(values, resamples=50) == usual
    assert sum(asked) == 50 and asked[0] == batch == max(asked)
