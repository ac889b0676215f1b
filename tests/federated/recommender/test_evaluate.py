"""The error of predictions, a rating at a time."""

from __future__ import annotations

import dataclasses
from functools import partial
from typing import Any

import jax
import numpy as np
import pytest

from jgleak.federated.recommender import Client, Clients, Parameters, Recommender, evaluate, rmse
from jgleak.federated.recommender.clients import apart
from jgleak.federated.recommender.evaluate import error, requests
from jgleak.federated.recommender.update import NeighbourUsers
from jgleak.ratings import Ratings


@partial(jax.jit, static_argnames=("model",))
def _predicted(model: Recommender, params: Parameters, client: Client, asked: jax.Array) -> jax.Array:
    return model.predict(model.local(params, client, params.users), client, asked)


def test_rmse_is_of_the_predictions_one_by_one(
    made: Ratings, model: Recommender, clients: Clients, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With neighbours and without; a few users at a time, so that the last ones do not fill a block."""
    monkeypatch.setattr(evaluate, "SIDE_BY_SIDE", 7)
    model = dataclasses.replace(model, width=6)  # no other test has this width: what it compiled would stay
    params = model.initial(key=jax.random.key(2))._replace(items=30 * model.initial(key=jax.random.key(4)).items)
    rows = made.take(np.arange(0, len(made), 9))
    for mode in ("fixed", "off"):
        wrong = []
        for user, item, value in zip(rows.users, rows.items, rows.values, strict=True):
            client = clients.one(int(user)) if mode == "fixed" else apart(clients.one(int(user)))
            found = _predicted(model, params, client, params.items[item][None])
            wrong.append(float(found[0]) - value)
        given: dict[str, Any] = {} if mode == "off" else {"neighbours": NeighbourUsers(mode)}
        found = rmse(model, params, clients, rows, **given, bounded=False)
        assert found == pytest.approx(np.sqrt(np.mean(np.square(wrong))), rel=1e-4)
        within = np.clip(np.add(wrong, rows.values), 1.0, 5.0) - rows.values
        assert np.any(within > wrong) and np.any(within < wrong)
        found = rmse(model, params, clients, rows, **given)
        assert found == pytest.approx(np.sqrt(np.mean(np.square(within))), rel=1e-4)


def test_ratings_of_others_are_refused(made: Ratings, clients: Clients) -> None:
    none = made.take(np.zeros(0, int))
    for wanted in (none, dataclasses.replace(made, n_users=61), dataclasses.replace(made, n_items=25)):
        with pytest.raises(ValueError, match=f"wanted: {len(wanted)} ratings of {wanted.n_users} users"):
            requests(clients, wanted)


def test_every_rating_is_asked_where_its_answer_is_looked_for(made: Ratings, clients: Clients) -> None:
    """Answers that are the ratings themselves have no error, in any order of the ratings; one that is off has some."""
    mixed = made.take(np.random.default_rng(0).permutation(len(made)))
    asked, told = requests(clients, mixed), np.zeros((made.n_users, made.n_items), np.float32)
    told[made.users, made.items] = made.values
    found = np.take_along_axis(told, asked.items, axis=1)
    assert error(asked, found, mixed, bounded=False) == 0.0
    rated = np.bincount(made.users, minlength=made.n_users)
    assert asked.items.shape[1] >= rated.max() and not asked.items[7].any()
    found[3, :] += 2.0
    assert error(asked, found, mixed, bounded=False) == pytest.approx(2.0 * np.sqrt(rated[3] / len(made)), rel=1e-6)
