"""Offsets of users and items: the minimum of their objective."""

from __future__ import annotations

import dataclasses

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
    for centre, level in ((50.0, 5.0), (-50.0, 1.0)):
        found = biases(made, users=1.0, items=1.0)._replace(centre=centre)
        assert found.predict(made) == pytest.approx(level)
        assert found.rmse(made) == pytest.approx(np.sqrt(np.mean((level - made.values) ** 2)))


def test_what_nobody_rated_has_no_offset(made: Ratings) -> None:
    """Items behind the last one that was rated too; and ten rounds are made unless another number is given."""
    wider = dataclasses.replace(made, n_users=made.n_users + 2, n_items=made.n_items + 3)
    found, same = biases(wider, users=2.0, items=5.0), biases(made, users=2.0, items=5.0, rounds=10)
    np.testing.assert_array_equal(found.users, np.pad(same.users, (0, 2)))
    np.testing.assert_array_equal(found.items, np.pad(same.items, (0, 3)))


def test_a_prediction_is_the_centre_and_both_offsets(made: Ratings) -> None:
    few = made.take(np.arange(5))
    found = biases(made, users=50.0, items=50.0)  # small: within the levels
    added = found.centre + found.users[few.users] + found.items[few.items]
    np.testing.assert_allclose(found.predict(few), added)
    assert np.abs(found.items[few.items]).min() > 1e-3


def test_nonsense_is_refused(made: Ratings) -> None:
    for users, items in ((0.0, 1.0), (1.0, 0.0)):
        with pytest.raises(ValueError, match=f"penalties must be positive, got {users} and {items}"):
            biases(made, users=users, items=items)
    with pytest.raises(ValueError, match="no rating to learn from"):
        biases(made.take(np.zeros(0, int)), users=1.0, items=1.0)
