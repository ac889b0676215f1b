"""The server: who takes part, what is averaged, and that it learns."""

from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jgleak.federated.recommender import Client, Clients, Parameters, Recommender, RecommenderPlan, rmse, train
from jgleak.federated.recommender.rounds import aggregate, deal
from jgleak.federated.recommender.update import OPEN, Upload, upload
from jgleak.ratings import Ratings

KEY = jax.random.key(5)


@partial(jax.jit, static_argnames=("model",))
def _sent(model: Recommender, params: Parameters, client: Client) -> Upload:
    return upload(model, params, params.users, client, neighbours="off", protection=OPEN, key=KEY)


def test_everyone_is_dealt_once_and_evenly() -> None:
    active = [np.array([0, 2, 3, 5, 8]), np.zeros(0, int), np.arange(12)]
    dealt = deal(active, 3, np.random.default_rng(0))
    for rows, table in zip(active, dealt, strict=True):
        assert sorted(np.asarray(table)[np.asarray(table) >= 0].tolist()) == rows.tolist()
        taken = (np.asarray(table) >= 0).sum(axis=1)
        assert set(taken) <= {rows.size // 3, -(-rows.size // 3)}


@pytest.mark.parametrize("mean", ["clients", "senders"])
def test_the_mean_is_over_clients_or_senders(mean: str, made: Ratings, model: Recommender, clients: Clients) -> None:
    params, users = model.initial(key=jax.random.key(0)), (40, 41, 50)
    received, gradients, weights = [], [], (1.0, 2.0, 4.0)
    for user, weight in zip(users, weights, strict=True):
        client = clients.one(user)
        sent = _sent(model, params, client)
        received.append(
            (*(jax.tree.map(lambda leaf: leaf[None], part) for part in (client, sent)), jnp.array([weight]))
        )
        gradients.append((client, sent))
    out = aggregate(params, received, mean)  # type: ignore[arg-type]
    whole, who = np.zeros(params.items.shape), np.zeros(made.n_items)
    for (client, sent), weight in zip(gradients, weights, strict=True):
        for k in np.flatnonzero(client.mask):
            whole[client.items[k]] += weight * np.asarray(sent.gradient.items[k])
            who[client.items[k]] += weight
    divisor = np.full(made.n_items, 7.0) if mean == "clients" else np.where(who > 0, who, 1.0)
    np.testing.assert_allclose(out.items, whole / divisor[:, None], atol=1e-5)
    kernels = [w * sent.gradient.network["kernel"] for (_, sent), w in zip(gradients, weights, strict=True)]
    np.testing.assert_allclose(out.network["kernel"], sum(kernels) / 7.0, atol=1e-5)
    own = gradients[1][1].gradient.user * (2.0 / 7.0 if mean == "clients" else 1.0)
    np.testing.assert_allclose(out.users[41], own, atol=1e-5)


def test_clients_weigh_as_much_as_they_rated(made: Ratings, model: Recommender, clients: Clients) -> None:
    """One step of everyone together: the mean of gradients, each as often as its client has ratings."""
    params = model.initial(key=jax.random.key(0))
    plan = RecommenderPlan(epochs=1, clients=1000, rate=1.0, weight="ratings", neighbours="off")
    trained = train(model, params, clients, plan, key=KEY)
    total, counts = np.zeros(params.network["kernel"].shape), 0
    for user in range(made.n_users):
        if number := int(clients.one(user).mask.sum()):
            total += number * np.asarray(_sent(model, params, clients.one(user)).gradient.network["kernel"])
            counts += number
    moved = params.network["kernel"] - trained.params.network["kernel"]
    np.testing.assert_allclose(moved, total / counts, atol=1e-5)


def test_training_beats_the_mean_rating(made: Ratings) -> None:
    rest, held = made.validation(0.15, np.random.default_rng(1))
    near = np.roll(np.arange(made.n_users), 1)[:, None]
    clients = Clients.from_ratings(rest, near)
    centre = float(rest.values.mean())
    model = Recommender(made.n_users, made.n_items, width=8, bias=True, centre=centre, spread=0.05, dropout=0.0)
    params = model.initial(key=jax.random.key(0))
    plan = RecommenderPlan(epochs=40, clients=20, optimiser="adam", rate=0.02, mean="senders", expand_at=10)
    trained = train(model, params, clients, plan, key=KEY, validation=held)
    assert trained.validation[5] < trained.validation[0]
    assert min(trained.validation) < 0.9 * float(np.sqrt(np.mean((held.values - centre) ** 2)))
    assert trained.epoch == 1 + int(np.argmin(trained.validation)) and trained.clients_per_second > 0
    again = rmse(model, trained.params, clients, held, neighbours=trained.neighbours)
    assert again == pytest.approx(min(trained.validation), rel=1e-5)
    with pytest.raises(ValueError, match="rate: training diverged in epoch 1"):
        train(model, params, clients, plan._replace(rate=1e30), key=KEY)


def test_impossible_training_is_refused(made: Ratings, model: Recommender, clients: Clients) -> None:
    params = model.initial(key=jax.random.key(0))
    with pytest.raises(ValueError, match="patience"):
        train(model, params, clients, RecommenderPlan(patience=2), key=KEY)
    nobody = Clients.from_ratings(made.take(np.zeros(0, int)))
    with pytest.raises(ValueError, match="no user has rated anything"):
        train(model, params, nobody, RecommenderPlan(), key=KEY)
