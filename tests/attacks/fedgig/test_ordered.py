"""The variant that knows the files' node order: frequencies of places, and what uses them."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jgleak.attacks.fedgig import ordered
from jgleak.attacks.matching.problem import pose
from jgleak.federated import Knowledge


def test_log_odds_count_edges_between_places(lab: Any) -> None:
    graphs = [lab.path([0] * 4), lab.path([0] * 4), lab.path([0] * 2), lab.graph([0] * 4, [(0, 2), (1, 3)])]
    odds = ordered.log_odds(graphs, 8, 0.02)
    share = 1 / (1 + np.exp(-odds))
    np.testing.assert_allclose(share[0, 1], 3 / 4, rtol=1e-5)
    np.testing.assert_allclose(share[1, 2], 2 / 4, rtol=1e-5)
    np.testing.assert_allclose(share[0, 2], 1 / 4, rtol=1e-5)
    np.testing.assert_allclose(share[5, 7], 0.02, rtol=1e-5)
    np.testing.assert_array_equal(odds, odds.T)


def test_the_search_begins_near_the_habit_and_is_pulled_there(lab: Any) -> None:
    truth = lab.path([0, 1, 2, 3])
    prior = ordered.OrderPrior(3.0, None, ordered.log_odds([truth], 8, 0.02))
    setting, problem = pose(lab.observe(lab.model(), truth), Knowledge(lab.space, n=4), infer=True, prior=prior)
    begun = ordered.Start()(setting, problem, jax.random.key(0))["adjacency"]
    assert np.abs(begun - prior.logits).mean() < 0.5
    away = {"adjacency": jnp.zeros_like(begun)}
    for _ in range(1000):
        away = ordered.Pull()(setting, problem, away)
    np.testing.assert_allclose(away["adjacency"][0], prior.logits, rtol=0.1)
