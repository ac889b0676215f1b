"""FCF and FedMF: their closed forms, and that they learn."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jgleak.federated.recommender import (
    Clients,
    Factors,
    Settings,
    factor_epochs,
    factorise,
    factors_rmse,
    fcf,
    fedmf,
)
from jgleak.ratings import Ratings

SETTINGS = Settings(width=3, decay=0.3)
KEYS = jax.random.split(jax.random.key(0), 3)
OWN, ITEMS, VALUES = (jax.random.normal(k, s) for k, s in zip(KEYS, ((3,), (6, 3), (6,)), strict=True))
MASK = jnp.arange(6) < 4


def _objective(x: jax.Array, items: jax.Array) -> jax.Array:
    wrong = jnp.where(MASK, VALUES - items @ x, 0.0)
    return wrong @ wrong + SETTINGS.decay * x @ x


def test_fcf_solves_for_the_user_and_sends_the_items_gradient() -> None:
    x, sent = fcf(SETTINGS, OWN, ITEMS, VALUES, MASK)
    np.testing.assert_allclose(jax.grad(_objective)(x, ITEMS), 0.0, atol=1e-4)
    np.testing.assert_allclose(sent, jax.grad(_objective, 1)(x, ITEMS), atol=1e-5)


def test_fedmf_steps_and_sends_the_items_gradient() -> None:
    x, sent = fedmf(SETTINGS, OWN, ITEMS, VALUES, MASK)
    np.testing.assert_allclose(sent, jax.grad(_objective, 1)(OWN, ITEMS), atol=1e-5)
    np.testing.assert_allclose(x, OWN - SETTINGS.user_rate * jax.grad(_objective)(OWN, ITEMS), atol=1e-5)


@pytest.mark.parametrize("method", [fcf, fedmf])
def test_both_learn(method, made: Ratings) -> None:
    rest, held = made.validation(0.15, np.random.default_rng(1))
    settings = Settings(width=2, epochs=60, clients=20, decay=2.0, rate=0.02, user_rate=0.02, centre=3.0, spread=0.3)
    settings = settings._replace(patience=30)
    found = factorise(method, Clients.from_ratings(rest), settings, key=KEYS[0], validation=held)
    assert min(found.validation) < 0.95 * float(np.sqrt(np.mean((held.values - 3.0) ** 2)))
    assert found.epoch == 1 + int(np.argmin(found.validation))
    assert len(found.validation) == min(60, found.epoch + 30)
    with pytest.raises(ValueError, match="patience"):
        factorise(method, Clients.from_ratings(rest), settings._replace(patience=1), key=KEYS[0])


def told(
    settings: Settings, own: jax.Array, items: jax.Array, values: jax.Array, mask: jax.Array
) -> tuple[jax.Array, jax.Array]:
    """A client whose new factors and gradients tell what it was given."""
    return own + jnp.where(mask, values, 0.0).sum(), jnp.where(mask, values, 0.0)[:, None] * own


def still(
    settings: Settings, own: jax.Array, items: jax.Array, values: jax.Array, mask: jax.Array
) -> tuple[jax.Array, jax.Array]:
    """A client that learns and sends nothing."""
    return own, jnp.zeros_like(items)


SERVER = Settings(width=2, epochs=1, clients=1000, rate=0.1, optimiser="sgd", decay=0.3, centre=2.0, scale=2.0)


def drawn(settings: Settings, clients: Clients) -> tuple[np.ndarray, np.ndarray]:
    """The initial factors, of a server that takes no step."""
    found = factorise(still, clients, settings._replace(rate=0.0), key=KEYS[1]).factors
    return np.asarray(found.users), np.asarray(found.items)


def test_initial_factors_have_their_spread(clients: Clients) -> None:
    users, items = drawn(SERVER._replace(width=50, spread=0.3), clients)
    assert users.shape == (60, 50) and items.shape == (24, 50) and not np.array_equal(users[:24], items)
    for factors in (users, items):
        assert factors.std() == pytest.approx(0.3, rel=0.1) and abs(factors.mean()) < 0.03


def test_a_round_is_the_sum_of_its_clients_gradients(made: Ratings, clients: Clients) -> None:
    """Of ratings in units of the scale about the centre; the items' penalty is added once. Adam has the rate's size."""
    users, items = drawn(SERVER, clients)
    found = factorise(told, clients, SERVER, key=KEYS[1]).factors
    values = (made.values - 2.0) / 2.0
    sums, wanted = np.zeros_like(items), users.copy()
    np.add.at(sums, made.items, values[:, None] * users[made.users])
    np.add.at(wanted, made.users, np.repeat(values[:, None], 2, axis=1))
    np.testing.assert_allclose(found.users, wanted, atol=1e-5)
    slope = sums + 2.0 * 0.3 * items
    np.testing.assert_allclose(found.items, items - 0.1 * slope, atol=1e-5)
    adam = factorise(told, clients, SERVER._replace(optimiser="adam"), key=KEYS[1]).factors
    np.testing.assert_allclose(adam.items, items - 0.1 * np.sign(slope), atol=1e-4)


def test_every_round_adds_its_share_of_the_penalty(clients: Clients) -> None:
    """59 users in rounds of 14 are five, some with a user less; the outcome of every epoch comes back, with its time
    and no better ones."""
    settings = SERVER._replace(clients=14, epochs=2)
    assert any(np.count_nonzero(group.mask.any(axis=1)) % 5 for group in clients.groups)
    users, items = drawn(settings, clients)
    outcomes = list(factor_epochs(still, clients, settings, key=KEYS[1]))
    assert [found.epoch for found in outcomes] == [1, 2] and [len(found.seconds) for found in outcomes] == [1, 2]
    for found in outcomes:
        np.testing.assert_allclose(found.factors.items, items * (1 - 0.1 * 2 * 0.3 / 5) ** (5 * found.epoch), rtol=1e-5)
        np.testing.assert_array_equal(found.factors.users, users)
        assert 0 < min(found.seconds) and max(found.seconds) < 600 and found.validation == []
        assert found.clients_per_second == pytest.approx(59 / min(found.seconds))


def test_epochs_without_a_number_for_an_error_leave_the_start(
    made: Ratings, clients: Clients, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("jgleak.federated.recommender.factors.factors_rmse", lambda *_: float("nan"))
    found = factorise(told, clients, SERVER, key=KEYS[1], validation=made)
    assert found.epoch == 0
    np.testing.assert_array_equal(found.factors.users, drawn(SERVER, clients)[0])


def test_predictions_are_products_in_the_ratings_units(made: Ratings, clients: Clients) -> None:
    rng = np.random.default_rng(0)
    factors = Factors(jnp.asarray(rng.normal(size=(60, 2))), jnp.asarray(rng.normal(size=(24, 2))))
    products = np.einsum("rd,rd->r", factors.users[made.users], factors.items[made.items])
    wanted = np.sqrt(np.mean((np.clip(2.0 + 2.0 * products, 1.0, 5.0) - made.values) ** 2))
    assert factors_rmse(factors, SERVER, clients, made) == pytest.approx(wanted, rel=1e-5)


def test_impossible_training_is_refused(made: Ratings, clients: Clients) -> None:
    with pytest.raises(ValueError, match="epochs: must be at least 1, got 0"):
        factorise(still, clients, SERVER._replace(epochs=0), key=KEYS[1])
    with pytest.raises(ValueError, match="no user has rated anything"):
        factorise(still, Clients.from_ratings(made.take(np.zeros(0, int))), SERVER, key=KEYS[1])
    one = Clients.from_ratings(made.take(np.arange(1)))
    assert factorise(still, one, SERVER, key=KEYS[1]).epoch == 1
