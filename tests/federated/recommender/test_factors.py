"""FCF and FedMF: their closed forms, and that they learn."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jgleak.federated.recommender import Clients, Settings, factorise, fcf, fedmf
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
