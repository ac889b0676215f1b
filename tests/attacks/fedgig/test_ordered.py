"""The variant that knows the files' node order: frequencies of places, and what uses them."""

from __future__ import annotations

import dataclasses
from types import SimpleNamespace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from pytest import MonkeyPatch

from jgleak.attacks.fedgig import autoencoder, ordered
from jgleak.attacks.fedgig.autoencoder import TRAINING
from jgleak.attacks.matching.objectives import Guess
from jgleak.attacks.matching.problem import pose
from jgleak.federated import Knowledge, Observation


def test_log_odds_count_edges_between_places(lab: Any) -> None:
    graphs = [lab.path([0] * 4), lab.path([0] * 4), lab.path([0] * 2), lab.graph([0] * 4, [(0, 2), (1, 3)])]
    odds = ordered.log_odds(graphs, 8, 0.02)
    share = 1 / (1 + np.exp(-odds))
    np.testing.assert_allclose(share[0, 1], 3 / 4, rtol=1e-5)
    np.testing.assert_allclose(share[1, 2], 2 / 4, rtol=1e-5)
    np.testing.assert_allclose(share[0, 2], 1 / 4, rtol=1e-5)
    np.testing.assert_allclose(share[5, 7], 0.02, rtol=1e-5)
    np.testing.assert_array_equal(odds, odds.T)


def test_what_is_public_is_learnt_for_the_places_of_the_largest_client(lab: Any, monkeypatch: MonkeyPatch) -> None:
    monkeypatch.setattr(autoencoder, "trained", lambda *given: (given, []))
    public = (lab.path([0] * 3), lab.ring([1] * 4))
    model = lab.model(hidden=8, readout="flattened", slots=20)
    seen = Observation(model, lab.params(model), lab.params(model), "ce")
    few, many = (Knowledge(lab.space, n=n, auxiliary=public) for n in (3, 40))
    alone, both = (ordered.Learn()([seen] * len(known), known, TRAINING) for known in ([few], [few, many]))
    slots = 20
    assert both.logits.shape[0] >= 40
    assert alone.logits.shape == (slots, slots), "the readout's, which are more than the client's"
    np.testing.assert_array_equal(both.logits[:slots, :slots], alone.logits)
    np.testing.assert_array_equal(alone.logits, ordered.log_odds(public, slots, ordered.Learn().rarest_edge))
    assert alone.most == 2 and alone.weights == (public, lab.space, autoencoder.place_marks, TRAINING)


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


def test_an_auto_encoder_that_sees_places_has_the_last_word_on_unknown_edges(
    lab: Any, monkeypatch: MonkeyPatch
) -> None:
    truth = lab.path([0, 1, 2, 3])
    learnt = ordered.OrderPrior(3.0, "weights", ordered.log_odds([truth], 8, 0.02))
    setting, problem = pose(lab.observe(lab.model(), truth), Knowledge(lab.space, n=4), infer=True, prior=learnt)
    guess = Guess(jnp.zeros((1, 8, lab.space.width)), jnp.ones((1, 8, 8)), jnp.zeros((1, 2)))

    def complete(marks: Any, weights: Any, nodes: Any, adjacency: Any, mask: Any) -> Any:
        assert marks is autoencoder.place_marks and weights == "weights" and mask.sum() == 4
        return 0.25 * adjacency

    monkeypatch.setattr(ordered, "autoencoder", SimpleNamespace(complete=complete, place_marks=autoencoder.place_marks))
    np.testing.assert_array_equal(ordered.finish(setting, problem, guess).adjacency, 0.25 * guess.adjacency)
    known = dataclasses.replace(problem, adjacency=guess.adjacency)
    assert ordered.finish(setting, known, guess) is guess
