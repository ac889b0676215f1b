"""Neighbours from the encrypted expansion: whose embeddings come back, and that training uses them as any others."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jgleak.federated.expansion import Neighbours
from jgleak.federated.recommender import Clients, Recommender, RecommenderPlan, encrypted, neighbour_users, rmse, train
from jgleak.federated.recommender.handout import nearest
from jgleak.ratings import Ratings

KEY = jax.random.key(3)


def test_handed_out_embeddings_are_of_other_raters(made: Ratings, model: Recommender) -> None:
    users = model.initial(key=KEY).users
    rows, table = encrypted(made, limit=5, per_item=3, key=KEY)(users)
    rated = np.zeros((made.n_users, made.n_items), int)
    rated[made.users, made.items] = 1
    common = rated @ rated.T
    whose = {row.tobytes(): user for user, row in enumerate(np.asarray(users, np.float32))}
    assert rows.shape == (made.n_users, 5) and np.all(rows[7] == -1)
    for user, own in enumerate(rows):
        assert (
            own[own >= 0].tolist() == list(range(5 * user, 5 * user + np.count_nonzero(own >= 0))) and own.min() >= -1
        )
        others = [whose[np.asarray(table[row], np.float32).tobytes()] for row in own[own >= 0]]
        assert user not in others and len(set(others)) == len(others)
        assert all(common[user, other] > 0 for other in others)


def test_the_client_keeps_those_it_met_most() -> None:
    index = np.array([[0, 2], [2, 1], [2, -1], [1, -1]], np.int32)
    assert nearest(Neighbours(np.arange(4), np.zeros((3, 2), np.float32), index), 2).tolist() == [2, 1]
    index = np.stack([np.arange(50), np.where(np.arange(50) % 2, np.arange(50), -1)], axis=1).astype(np.int32)
    met = nearest(Neighbours(np.arange(50), np.zeros((51, 2), np.float32), index), 60)
    assert met.tolist() == [*range(1, 50, 2), *range(0, 50, 2), 50]  # ties as they came, and one met nowhere


@pytest.mark.long
def test_training_is_that_with_the_same_neighbours_in_the_clear(made: Ratings, model: Recommender) -> None:
    everyone = made.n_users - 1  # so many that both expansions find the same ones
    plan = RecommenderPlan(epochs=2, clients=20, optimiser="adam", rate=0.02, expand_at=0)
    params = model.initial(key=KEY)
    near = neighbour_users(made, everyone, np.random.default_rng(0))
    plain = train(model, params, Clients.from_ratings(made, near), plan, key=KEY)
    hidden = encrypted(made, limit=everyone, per_item=everyone, key=KEY)
    other = train(model, params, Clients.from_ratings(made), plan, key=KEY, expand=hidden)
    for one, two in zip(jax.tree.leaves(plain.params), jax.tree.leaves(other.params), strict=True):
        np.testing.assert_allclose(one, two, atol=2e-4)
    errors = [rmse(model, t.params, t.clients, made, neighbours=t.neighbours) for t in (plain, other)]
    assert errors[0] == pytest.approx(errors[1], rel=1e-3)


def test_biases_stay_where_their_share_of_the_step_is_nothing(made: Ratings, model: Recommender) -> None:
    params = model.initial(key=KEY)
    params = params._replace(users=params.users.at[:, -1].set(0.25))
    plan = RecommenderPlan(epochs=1, clients=20, optimiser="adam", rate=0.02, neighbours="off", bias_share=0.0)
    out = train(model, params, Clients.from_ratings(made), plan, key=KEY).params
    np.testing.assert_array_equal(out.users[:, -1], jnp.full(made.n_users, 0.25))
    assert not np.allclose(out.items[:, 0], params.items[:, 0])


def test_nonsense_is_refused(made: Ratings) -> None:
    with pytest.raises(ValueError, match="limit: must be at least 1"):
        encrypted(made, limit=0, per_item=1, key=KEY)
    few = made.take(made.users < 5)
    rows, table = encrypted(few, limit=1, per_item=1, key=KEY)(jnp.ones((made.n_users, 2)))
    assert rows.shape == (made.n_users, 1) and table.shape == (made.n_users, 2)
    with pytest.raises(ValueError, match="a row of neighbours for each of 60 users"):
        Clients.from_ratings(made).with_neighbours(np.zeros((3, 2), int))
