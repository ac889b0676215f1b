"""Offsets of users and items: the minimum of their objective."""

from __future__ import annotations

import numpy as np
import pytest

from jgleak.federated.recommender import biases
from jgleak.ratings import Ratings


def test_offsets_solve_the_normal_equations(made: Ratings) -> None:
    found = biases(made, users=2.0, items=5.0, rounds=200)
    design = np.zeros((len(made), made.n_users + made.n_items))
    rows = np.arange(len(made))
    design[rows, made.users] = design[rows, made.n_users + made.items] = 1.0
    penalty = np.diag(np.repeat([2.0, 5.0], [made.n_users, made.n_items]))
    best = np.linalg.solve(design.T @ design + penalty, design.T @ (made.values - made.values.mean()))
    np.testing.assert_allclose(np.concatenate([found.users, found.items]), best, atol=1e-6)
    assert found.users[7] == 0.0  # rated nothing


def test_rmse_is_of_predictions_within_the_levels(made: Ratings) -> None:
    found = biases(made, users=1.0, items=1.0)._replace(centre=50.0)
    assert found.predict(made) == pytest.approx(5.0)
    assert found.rmse(made) == pytest.approx(np.sqrt(np.mean((5.0 - made.values) ** 2)))


def test_a_prediction_is_the_centre_and_both_offsets(made: Ratings) -> None:
    few = made.take(np.arange(5))
    found = biases(made, users=50.0, items=50.0)  # small: within the levels
    added = found.centre + found.users[few.users] + found.items[few.items]
    np.testing.assert_allclose(found.predict(few), added)
    assert np.abs(found.items[few.items]).min() > 1e-3


def test_nonsense_is_refused(made: Ratings) -> None:
    with pytest.raises(ValueError, match="penalties must be positive"):
        biases(made, users=0.0, items=1.0)
    with pytest.raises(ValueError, match="no rating to learn from"):
        biases(made.take(np.zeros(0, int)), users=1.0, items=1.0)
