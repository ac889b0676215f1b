"""The star's networks are the dense ones; padding and unrated items change nothing."""

from __future__ import annotations

import dataclasses
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jgleak.federated.recommender import Client, Clients, Parameters, Recommender
from jgleak.federated.recommender.model import Local
from jgleak.federated.recommender.star import HEADS, NETWORKS, STEPS, Star, initial
from jgleak.gnn.gat import GATConv
from jgleak.gnn.gcn import GCNConv

WIDTH, LEAVES = 6, 5


@partial(jax.jit, static_argnames=("model",))
def _gradient(model: Recommender, params: Parameters, client: Client) -> Local:
    return jax.grad(model.loss)(model.local(params, client, params.users), client)


@partial(jax.jit, static_argnames=("model",))
def _predicted(model: Recommender, params: Parameters, client: Client, asked: jax.Array | None = None) -> jax.Array:
    return model.predict(model.local(params, client, params.users), client, asked)


@partial(jax.jit, static_argnames=("name",))
def _states(name: str, weights: dict[str, jax.Array], star: Star) -> jax.Array:
    states = NETWORKS[name](weights, star)
    return jnp.concatenate([states.user[None], states.asked])


def _star() -> Star:
    rows = jax.random.normal(jax.random.key(0), (1 + LEAVES, WIDTH))
    return Star(rows[0], rows[1:], jnp.ones(LEAVES, bool), rows[1:])


def _dense(star: Star) -> tuple[jax.Array, jax.Array]:
    adjacency = jnp.zeros((1 + LEAVES, 1 + LEAVES)).at[0, 1:].set(1.0).at[1:, 0].set(1.0)
    return jnp.concatenate([star.user[None], star.leaves]), adjacency


@pytest.mark.parametrize("name", ["gat", "gcn"])
def test_star_is_the_dense_layer(name: str) -> None:
    weights, star = initial(name, WIDTH, key=jax.random.key(1)), _star()
    layer = GATConv(WIDTH, heads=HEADS) if name == "gat" else GCNConv(WIDTH)
    dense = jax.jit(layer.apply)({"params": weights}, *_dense(star), jnp.ones(1 + LEAVES, bool))
    np.testing.assert_allclose(_states(name, weights, star), dense, atol=1e-5)


def _sigmoid(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-x))


def test_gated_star_is_the_dense_recursion() -> None:
    biases = jax.random.normal(jax.random.key(2), (4 * WIDTH,))
    weights = initial("ggnn", WIDTH, key=jax.random.key(1)) | {"message_bias": biases[:WIDTH], "bias": biases[WIDTH:]}
    w, star = jax.tree.map(np.asarray, weights), _star()
    h, adjacency = map(np.asarray, _dense(star))
    inward, own, bias = np.split(w["input"], 3, axis=1), np.split(w["hidden"], 3, axis=1), np.split(w["bias"], 3)
    for _ in range(STEPS):
        m = (adjacency / adjacency.sum(axis=1, keepdims=True)) @ (h @ w["message"] + w["message_bias"])
        update, reset = (_sigmoid(m @ inward[k] + bias[k] + h @ own[k]) for k in (0, 1))
        h = (1 - update) * h + update * np.tanh(m @ inward[2] + bias[2] + (reset * h) @ own[2])
    np.testing.assert_allclose(_states("ggnn", weights, star), h, atol=1e-5)


@pytest.mark.parametrize("name", NETWORKS)
def test_padding_changes_nothing(name: str, model: Recommender, clients: Clients) -> None:
    model = dataclasses.replace(model, network=name)
    params = model.initial(key=jax.random.key(0))
    client = clients.one(40)
    wider = client._replace(
        items=jnp.pad(client.items, (0, 7)), values=jnp.pad(client.values, (0, 7)), mask=jnp.pad(client.mask, (0, 7))
    )
    gradients = [_gradient(model, params, c) for c in (client, wider)]
    k = client.items.size
    np.testing.assert_array_equal(gradients[1].items[k:], 0.0)
    jax.tree.map(
        lambda a, b: np.testing.assert_allclose(a, b, atol=1e-5),
        gradients[0],
        gradients[1]._replace(items=gradients[1].items[:k]),
    )


@pytest.mark.parametrize("name", NETWORKS)
def test_an_asked_item_is_seen_as_a_rated_one_is(name: str, model: Recommender, clients: Clients) -> None:
    model = dataclasses.replace(model, network=name)
    params = model.initial(key=jax.random.key(0))
    client = clients.one(30)
    asked = _predicted(model, params, client, params.items[client.items])
    np.testing.assert_allclose(_predicted(model, params, client), asked, rtol=1e-6)


def test_a_user_without_ratings_gets_predictions_and_a_zero_loss(model: Recommender, clients: Clients) -> None:
    params = model.initial(key=jax.random.key(0))
    client = clients.one(7)
    assert np.isfinite(_predicted(model, params, client, params.items)).all()
    assert all(not np.any(leaf) for leaf in jax.tree.leaves(_gradient(model, params, client)))


def test_the_users_offset_is_in_predictions_and_not_in_the_gradient(model: Recommender, clients: Clients) -> None:
    client, penalty, params = clients.one(40), 3.0, model.initial(key=jax.random.key(0))
    device = dataclasses.replace(model, own=penalty)
    offset = float((client.values - model.centre)[client.mask].sum()) / (float(client.mask.sum()) + penalty)
    assert abs(offset) > 0.05
    lower = client._replace(values=client.values - offset)
    jax.tree.map(
        lambda a, b: np.testing.assert_allclose(a, b, atol=1e-6),
        _gradient(device, params, client),
        _gradient(model, params, lower),
    )
    np.testing.assert_allclose(
        _predicted(device, params, client), _predicted(model, params, client) + offset, atol=1e-6
    )


def test_errors_count_in_units_of_the_scale(model: Recommender, clients: Clients) -> None:
    client, params = clients.one(40), model.initial(key=jax.random.key(0))
    wide = dataclasses.replace(model, scale=2.0)
    wrong = np.asarray(_predicted(wide, params, client) - client.values)[np.asarray(client.mask)]
    found = jax.jit(lambda: wide.loss(wide.local(params, client, params.users), client))()
    assert float(found) == pytest.approx(np.mean((wrong / 2.0) ** 2), rel=1e-5)


def test_dropout_waits_for_a_key(model: Recommender, clients: Clients) -> None:
    client, params = clients.one(40), model.initial(key=jax.random.key(0))
    dropping = dataclasses.replace(model, dropout=0.5)
    plain = _predicted(model, params, client)
    np.testing.assert_array_equal(_predicted(dropping, params, client), plain)
    local = dropping.local(params, client, params.users)
    masked = dropping.predict(local, client, key=jax.random.key(1))
    np.testing.assert_allclose(masked, dropping.shared(local, client, key=jax.random.key(1)))
    assert not np.allclose(masked, plain, atol=1e-4)


def test_a_sum_is_a_mean_of_as_many(model: Recommender, clients: Clients) -> None:
    client, params = clients.one(40), model.initial(key=jax.random.key(0))
    count, total = float(client.mask.sum()), dataclasses.replace(model, reduction="sum")
    jax.tree.map(
        lambda a, b: np.testing.assert_allclose(a, count * b, rtol=1e-4, atol=1e-6),
        _gradient(total, params, client),
        _gradient(model, params, client),
    )


def test_biases_of_the_user_and_of_items_are_added(model: Recommender, clients: Clients) -> None:
    """In units of the scale, to the ratings in the graph and to others."""
    client, plain = clients.one(40), model.initial(key=jax.random.key(0))
    model, rng = dataclasses.replace(model, scale=2.0), np.random.default_rng(0)
    users, items = (rng.normal(size=len(table)).astype(np.float32) for table in (plain.users, plain.items))
    assert not np.any(plain.users[:, -1]) and not np.any(plain.items[:, -1])
    biased = plain._replace(users=plain.users.at[:, -1].set(users), items=plain.items.at[:, -1].set(items))
    for asked in (None, np.arange(client.items.size)):
        before, after = (
            _predicted(model, params, client, None if asked is None else params.items[asked])
            for params in (plain, biased)
        )
        number = np.asarray(client.items) if asked is None else asked
        np.testing.assert_allclose(after - before, 2.0 * (users[40] + items[number]), atol=1e-5)


def test_initial_embeddings_have_their_spread(model: Recommender) -> None:
    wide = dataclasses.replace(model, width=64, spread=0.3).initial(key=jax.random.key(0))
    assert wide.users.shape == (60, 65) and wide.items.shape == (24, 65)
    for table in (wide.users, wide.items):
        assert np.std(table[:, :-1]) == pytest.approx(0.3, rel=0.1)
    assert not np.array_equal(wide.users[:24], wide.items)


def test_a_mean_is_over_the_ratings_there_are(model: Recommender, clients: Clients) -> None:
    client = clients.one(40)
    for count, wanted in ((0, 1), (1, 1), (3, 3)):
        some = client._replace(mask=jnp.arange(client.mask.size) < count)
        assert model.addends(some) == wanted
        assert dataclasses.replace(model, reduction="sum").addends(some) == 1


def test_dropout_keeps_the_mean() -> None:
    """A fifth of the entries is zero, and the others are larger."""
    rows = jnp.asarray(np.random.default_rng(0).normal(size=(100, 100)).astype(np.float32))
    left = np.asarray(Recommender(2, 2, width=100, dropout=0.2)._dropped(rows, jax.random.key(0)))
    assert np.mean(left == 0) == pytest.approx(0.2, abs=0.02)
    np.testing.assert_allclose(left[left != 0], np.asarray(rows)[left != 0] / 0.8, rtol=1e-6)


@pytest.mark.usefixtures("unchecked")
def test_impossible_models_are_refused() -> None:
    impossible: list[dict[str, Any]] = [
        *({"network": "sage"}, {"width": 7}, {"width": 0}, {"width": 0, "network": "gcn"}, {"dropout": 1.0}),
        *({"dropout": -0.1}, {"scale": 0.0}, {"reduction": "max"}, {"own": 0.0}),
    ]
    for change in impossible:
        with pytest.raises(ValueError, match=next(iter(change))):
            Recommender(2, 2, **change)
    Recommender(2, 2, width=1, network="gcn", own=0.5)  # it has no heads
