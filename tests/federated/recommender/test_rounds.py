"""The server: who takes part, what is averaged, and that it learns."""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jgleak.federated.recommender import Client, Clients, Parameters, Recommender, RecommenderPlan, rmse, rounds, train
from jgleak.federated.recommender.model import Local
from jgleak.federated.recommender.rounds import aggregate, deal, epochs
from jgleak.federated.recommender.update import OPEN, Protection, Upload, upload
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
        assert set(np.asarray(table).ravel()) - {-1} == set(rows)
        taken = (np.asarray(table) >= 0).sum(axis=1)
        assert set(taken) <= {rows.size // 3, -(-rows.size // 3)}


@pytest.mark.parametrize("mean", ["clients", "senders"])
def test_the_mean_is_over_clients_or_senders(mean: str, made: Ratings, model: Recommender, clients: Clients) -> None:
    params, users = model.initial(key=jax.random.key(0)), (40, 41, 50)
    received, gradients, weights = [], [], (0.5, 2.0, 4.5)
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
    for (client, sent), weight in zip(gradients, weights, strict=True):
        own = sent.gradient.user * (weight / 7.0 if mean == "clients" else 1.0)
        np.testing.assert_allclose(out.users[client.user], own, atol=1e-5)


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


def test_what_every_step_takes_of_the_mean_gradient(made: Ratings, model: Recommender, clients: Clients) -> None:
    """One step of everyone: ``w - rate share (g + decay w)``, with shares for biases and for all else."""
    params = model.initial(key=jax.random.key(0))
    params = params._replace(users=params.users.at[:, -1].set(0.5), items=params.items.at[:, -1].set(-0.5))
    plan = RecommenderPlan(epochs=1, clients=1000, rate=1.0, weight="ratings", neighbours="off")
    slope = jax.tree.map(lambda w, v: w - v, params, train(model, params, clients, plan, key=KEY).params)
    plan = plan._replace(rate=0.5, decay=0.1, bias_share=0.25, graph_share=0.5)
    found = train(model, params, clients, plan, key=KEY).params
    share = np.append(np.full(8, 0.5), 0.25)
    for part, shares in (("network", 0.5), ("users", share), ("items", share)):
        for w, g, now in zip(*(jax.tree.leaves(getattr(tree, part)) for tree in (params, slope, found)), strict=True):
            np.testing.assert_allclose(now, w - 0.5 * shares * (g + 0.1 * w), atol=1e-5)


def test_neighbours_count_from_the_expansion_on(made: Ratings, model: Recommender, clients: Clients) -> None:
    """Before it the graphs are as without them, behind it they have the embeddings of that moment."""
    params, nobody = model.initial(key=jax.random.key(0)), np.full((made.n_users, 2), -1)
    plan = RecommenderPlan(epochs=2, clients=20, rate=0.5, expand_at=1)
    first, second = epochs(model, params, clients, plan, key=KEY)
    alone, still = epochs(model, params, clients.with_neighbours(nobody), plan, key=KEY)
    jax.tree.map(np.testing.assert_array_equal, first.params, alone.params)
    assert not np.allclose(second.params.items, still.params.items, atol=1e-6)
    assert [one.neighbours.mode for one in (first, second)] == ["off", "fixed"]
    np.testing.assert_array_equal(first.neighbours.embeddings, params.users)
    np.testing.assert_array_equal(second.neighbours.embeddings, first.params.users)
    for number, one in enumerate((first, second), start=1):
        assert (one.epoch, one.validation, len(one.seconds)) == (number, [], number)
        assert 0 < min(one.seconds) and max(one.seconds) < 600
        assert one.clients_per_second == pytest.approx((made.n_users - 1) / min(one.seconds))
    shown = []

    def expand(users: jax.Array) -> tuple[np.ndarray, jax.Array]:
        shown.append(users)
        return np.asarray(np.stack([np.arange(made.n_users), nobody[:, 0]], axis=1)), users[::-1]

    last = train(model, params, clients, plan, key=KEY, expand=expand)
    assert len(shown) == 1 and last.clients.one(3).neighbours.tolist() == [3, 0]
    np.testing.assert_array_equal(shown[0], first.params.users)
    np.testing.assert_array_equal(last.neighbours.embeddings, first.params.users[::-1])

    def reversed_rows(users: jax.Array) -> tuple[np.ndarray, jax.Array]:
        return np.asarray(np.stack([np.arange(made.n_users)[::-1], nobody[:, 0]], axis=1)), users

    same = train(model, params, clients, plan, key=KEY, expand=reversed_rows)  # the same embeddings, in another order
    np.testing.assert_array_equal(last.params.items, same.params.items)
    assert not np.allclose(last.params.items, second.params.items, atol=1e-6)


def test_training_stops_without_better_epochs(
    made: Ratings, model: Recommender, clients: Clients, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second is the best until the third epoch behind it. Where no error is a number the start is. Errors are those
    with the epoch's neighbours."""
    scores, near = iter([3.0, 2.0, 2.5, 2.2, 1.9]), []
    monkeypatch.setattr(rounds, "rmse", lambda *_, neighbours: near.append(neighbours) or next(scores))
    plan = RecommenderPlan(epochs=5, clients=20, rate=0.5, expand_at=1, patience=2)
    found = list(epochs(model, model.initial(key=jax.random.key(0)), clients, plan, key=KEY, validation=made))
    assert [one.epoch for one in found] == [1, 2, 2, 2] and found[-1].validation == [3.0, 2.0, 2.5, 2.2]
    assert [one.mode for one in near] == ["off", "fixed", "fixed", "fixed"] and found[1].neighbours is near[1]
    np.testing.assert_array_equal(found[-1].params.items, found[1].params.items)
    monkeypatch.setattr(rounds, "rmse", lambda *_, **__: float("nan"))
    params = model.initial(key=jax.random.key(0))
    lost = train(model, params, clients, plan._replace(epochs=1), key=KEY, validation=made)
    assert lost.epoch == 0 and lost.params is params


@pytest.mark.usefixtures("unchecked")
def test_training_is_the_last_of_its_epochs(monkeypatch: pytest.MonkeyPatch) -> None:
    given: dict[str, Any] = {"key": KEY, "protection": Protection(3), "validation": "ratings", "expand": "expansion"}
    monkeypatch.setattr(rounds, "epochs", lambda *args, **named: iter([(args, {}), (args, named)]))
    parts: Any = "model", "params", "clients", "plan"
    found: Any = train(*parts, **given)
    assert found == (parts, given)


@pytest.mark.parametrize("mean", ["clients", "senders"])
def test_gradients_of_neighbours_join_those_of_their_users(mean: str) -> None:
    """Numbers in the place of gradients: two groups, users 0 and 2 of three, who are neighbours of each other."""
    rng, params = np.random.default_rng(0), Parameters({"w": jnp.zeros(2)}, jnp.zeros((3, 2)), jnp.zeros((2, 2)))
    received, users, weights = [], np.zeros((3, 2)), np.zeros(3)
    for user, near, weight in ((0, [2, 1], 1.0), (2, [0, 0], 3.0)):
        own, others = rng.normal(size=(1, 2)), rng.normal(size=(1, 2, 2)) * [[[1.0], [user == 0]]]
        held: Any = np.array([user]), np.array([[0]]), np.zeros((1, 1)), np.array([[True]])
        client = Client(*held, *map(jnp.asarray, (np.array([near]), np.array([[True, user == 0]]))))
        gradient: Any = {"w": np.zeros((1, 2))}, own, np.ones((1, 1, 2)), others
        sent: Any = np.array([[0]]), np.array([[True]])
        parts = client, Upload(Local(*gradient), *sent)
        received.append((*jax.tree.map(jnp.asarray, parts), jnp.array([weight])))
        users[user] += weight * own[0]
        weights[user] += weight
        for place in range(2 if user == 0 else 1):
            users[near[place]] += weight * others[0, place]
            weights[near[place]] += weight
    found = aggregate(params, received, mean)  # type: ignore[arg-type]
    np.testing.assert_allclose(found.users, users / (4.0 if mean == "clients" else weights[:, None]), atol=1e-6)
    np.testing.assert_allclose(found.items[1], 0.0)
    np.testing.assert_allclose(found.items[0], 1.0)


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
    with pytest.raises(ValueError, match="patience: stopping early needs validation ratings"):
        train(model, params, clients, RecommenderPlan(patience=2), key=KEY)
    with pytest.raises(ValueError, match="epochs: must be at least 1, got 0"):
        train(model, params, clients, RecommenderPlan(epochs=0), key=KEY)
    plan = RecommenderPlan(neighbours="trainable")
    with pytest.raises(ValueError, match="an expansion does not say whose embeddings it handed out"):
        train(model, params, clients, plan, key=KEY, expand=lambda users: (np.zeros((60, 1), int), users))
    nobody = Clients.from_ratings(made.take(np.zeros(0, int)))
    with pytest.raises(ValueError, match="no user has rated anything"):
        train(model, params, nobody, RecommenderPlan(), key=KEY)
