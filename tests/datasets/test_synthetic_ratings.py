"""The made-up ratings: repeatable, in the levels, and as structured as they say."""

from __future__ import annotations

import numpy as np
import pytest

from jgleak.datasets import ratings, synthetic_ratings
from jgleak.federated.recommender import biases


def test_same_seed_same_ratings() -> None:
    one, two, other = (ratings("synthetic-ratings", seed=seed) for seed in (1, 1, 2))
    np.testing.assert_array_equal(one.train.values, two.train.values)
    assert one.train.values.shape != other.train.values.shape or np.any(one.train.values != other.train.values)
    assert set(np.unique(one.train.values)) == {1.0, 2.0, 3.0, 4.0, 5.0}
    whole = one.train.counts() + one.test.counts()
    assert whole.min() >= 8 and whole.max() < one.train.n_items
    assert len(one.test) == round(0.1 * (len(one.train) + len(one.test)))


def test_without_taste_and_noise_offsets_explain_all_but_rounding() -> None:
    rounding = np.sqrt(1 / 12)
    plain = synthetic_ratings(rank=0, noise=0.0)
    assert biases(plain.train, users=0.1, items=0.1).rmse(plain.test) < 1.4 * rounding
    full = synthetic_ratings()
    assert biases(full.train, users=0.1, items=0.1).rmse(full.test) > 2 * rounding


def test_nonsense_is_refused() -> None:
    with pytest.raises(ValueError, match=r"1\.\.60 rated, got 200, 60, 70"):
        synthetic_ratings(mean_rated=70)
