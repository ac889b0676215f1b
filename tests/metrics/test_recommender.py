"""Scores of recovered histories and ratings, against counting by hand."""

from __future__ import annotations

import warnings
from typing import NamedTuple

import numpy as np
import pytest

from jgleak.metrics.intervals import bootstrap, rate
from jgleak.metrics.recommender import _precision_at, blind, leak, summarise


class Profile(NamedTuple):
    """What an attack would say."""

    items: np.ndarray
    scores: np.ndarray
    reported: np.ndarray
    ratings: np.ndarray


FOUND = Profile(
    items=np.array([1, 3, 4, 7, 9]),
    scores=np.array([5.0, 1.0, 4.0, 1.0, 0.0]),
    reported=np.array([True, False, True, False, False]),
    ratings=np.array([10.0, 25.0, 34.0, 25.0, 25.0]),
)
LEVELS = (10.0, 20.0, 30.0, 40.0)


def test_everything_by_hand() -> None:
    found = leak(FOUND, np.array([7, 1]), np.array([40.0, 20.0]), LEVELS)
    assert found.auc == pytest.approx((3 + 0.5 + 1) / 6)
    assert found.precision_at_size == 0.5 and found.precision == 0.5 and found.recall == 0.5
    assert found.rmse == found.mae == 1.0 and found.nearest == 0.0
    assert found.rmse_all == pytest.approx(np.sqrt((1 + 1.5**2) / 2)) and found.mae_all == 1.25


def test_ties_share() -> None:
    level = FOUND._replace(scores=np.zeros(5))
    found = leak(level, np.array([3, 9]), np.array([20.0, 30.0]), LEVELS)
    assert found.auc == 0.5 and found.precision_at_size == pytest.approx(0.4)
    assert np.isnan(found.rmse) and found.recall == 0.0 and found.nearest_all == 0.5


def test_blind_guesses() -> None:
    found = blind(FOUND, np.array([7, 1]), np.array([40.0, 20.0]), LEVELS, mean=25.0, commonest=20.0)
    assert found.auc == 0.5 and found.precision == found.recall == 0.4
    assert found.mae == 1.0 and found.nearest == 0.5
    every = blind(FOUND, FOUND.items, np.full(5, 20.0), LEVELS, mean=25.0, commonest=20.0)
    assert np.isnan(every.auc) and every.precision == 1.0 and every.recall == 0.4


def test_means_leave_undefined_users_out() -> None:
    scored = leak(FOUND, np.array([7, 1]), np.array([40.0, 20.0]), LEVELS)
    means = summarise([scored, scored._replace(rmse=np.nan, auc=np.nan)], resamples=50)
    assert means["rmse"].mean == 1.0 and means["recall"].mean == 0.5
    assert np.isnan(summarise([scored._replace(auc=np.nan)])["auc"].mean)


@pytest.mark.usefixtures("unchecked")
def test_what_cannot_be_scored_is_said() -> None:
    for items, values in (([], []), ([1, 1], [20.0, 20.0]), ([1, 3], [20.0])):
        with pytest.raises(ValueError, match="distinct rated items"):
            leak(FOUND, np.array(items), np.array(values), LEVELS)
    with pytest.raises(ValueError, match="never sent"):
        leak(FOUND, np.array([2]), np.array([20.0]), LEVELS)
    with pytest.raises(ValueError, match="never sent"):
        blind(FOUND, np.array([2]), np.array([20.0]), LEVELS, mean=25.0, commonest=20.0)
    with pytest.raises(ValueError, match="at least one user"):
        summarise([])


def test_of_tied_scores_each_is_as_likely_among_the_best() -> None:
    """One real item is first, and the other ties with a false one for the second place."""
    scores, real = np.array([3.0, 2.0, 2.0, 1.0]), np.array([True, True, False, False])
    assert _precision_at(scores, real) == 0.75 and _precision_at(scores, ~real) == 0.25


def test_guesses_of_the_commonest_rating_are_right_where_it_was_given() -> None:
    found = blind(FOUND, np.array([7, 1, 4]), np.array([40.0, 20.0, 20.0]), LEVELS, mean=25.0, commonest=20.0)
    assert found.nearest == found.nearest_all == pytest.approx(2 / 3)


def test_a_history_of_one_has_an_area_and_one_of_all_items_has_none() -> None:
    """Nor does it divide by nothing."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert leak(FOUND, np.array([4]), np.array([20.0]), LEVELS).auc == 0.75
        every = leak(FOUND, FOUND.items, np.full(5, 20.0), LEVELS)
    assert np.isnan(every.auc) and every.precision_at_size == every.precision == 1.0 and every.recall == 0.4


def test_the_resamples_and_the_seed_that_are_given_decide() -> None:
    scored = leak(FOUND, np.array([7, 1]), np.array([40.0, 20.0]), LEVELS)
    users = [scored._replace(auc=auc, mae=mae) for auc, mae in np.random.default_rng(0).random((30, 2))]
    means = summarise(users, resamples=50, seed=3)
    assert means["auc"] == rate([user.auc for user in users], resamples=50, seed=3)
    assert means["mae"] == bootstrap([user.mae for user in users], resamples=50, seed=3)
    for other in (summarise(users, resamples=50), summarise(users, seed=3)):
        assert other["auc"] != means["auc"] and other["mae"] != means["mae"]
    far = summarise([scored._replace(rmse=5.0, rmse_all=6.0, mae=7.0, mae_all=8.0)] * 2)
    assert [far[name].mean for name in ("rmse", "rmse_all", "mae", "mae_all")] == [5.0, 6.0, 7.0, 8.0]
