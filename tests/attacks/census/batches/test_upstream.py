"""What flows back to the graphs of a batch, and where that cannot be told."""

from __future__ import annotations

import dataclasses
from typing import Any

import jax
import numpy as np
import pytest

from jgleak.attacks.census.batches.upstream import Upstream, own_upstreams, unsupported
from jgleak.federated import fedsgd
from jgleak.federated.observation import Observation

POOLED = {"readout": "pooled", "readout_widths": (16,), "last_act": True}


def seen(lab: Any, loss: str = "ce", **fields: Any) -> Observation:
    """An update of two graphs."""
    model = lab.model(**fields)
    return fedsgd(model, lab.params(model), [lab.random(6, 1), lab.random(7, 2)], lab.space, loss=loss)


@pytest.mark.parametrize("pooling", ["mean", "sum"])
def test_own_upstreams_lie_in_the_directions(lab: Any, pooling: str) -> None:
    """Behind pooling those of the batch's graphs with their labels, from their own pooled rows."""
    observation = seen(lab, **POOLED, pooling=pooling)
    upstream = Upstream.of(observation)
    basis = np.linalg.qr(upstream.rows.T)[0]
    for seed in (1, 2):
        graph = lab.random(5 + seed, seed)
        one = fedsgd(observation.model, observation.params, [graph], lab.space, loss="ce")
        own = Upstream.of(one).rows[0]
        state = np.asarray(observation.model.readout.pooled_row(observation.model.readout_of(one.update)))
        gradient = own_upstreams(observation, state)[int(graph.y)]
        assert abs(own @ gradient) > (1 - 1e-5) * np.linalg.norm(own) * np.linalg.norm(gradient)
        np.testing.assert_allclose(basis @ (basis.T @ gradient), gradient, atol=1e-4 * float(np.linalg.norm(gradient)))


@pytest.mark.parametrize("pooling", ["mean", "sum"])
def test_what_states_and_weights_add_up_to_is_that_of_the_graphs(lab: Any, pooling: str) -> None:
    """Every graph's pooled row times what flows back to it, and, behind a mean, these alone."""
    observation, parts = seen(lab, **POOLED, pooling=pooling), []
    upstream = Upstream.of(observation)
    for seed in (1, 2):
        graph = lab.random(5 + seed, seed)
        one = fedsgd(observation.model, observation.params, [graph], lab.space, loss="ce")
        state = np.asarray(observation.model.readout.pooled_row(observation.model.readout_of(one.update)))
        parts.append((state, own_upstreams(observation, state)[int(graph.y)] / 2))
    whole = sum(np.outer(state, back) for state, back in parts)
    assert upstream.states is not None and upstream.sizes[0] == 1.0 and upstream.sizes[-1] < 1.0
    np.testing.assert_allclose(upstream.states.T @ upstream.rows, whole, atol=1e-5 * float(np.linalg.norm(whole)))
    assert (upstream.total is None) == (pooling == "sum")
    if upstream.total is not None:
        back = sum(back for _, back in parts)
        np.testing.assert_allclose(upstream.total @ upstream.rows, back, atol=1e-4 * float(np.linalg.norm(back)))


@pytest.mark.parametrize("size", [1e-6, 1.0, 1e6])
def test_directions_are_told_by_their_share_of_the_largest(lab: Any, size: float) -> None:
    """As many for an update of any size: one a graph, as a softmax over two classes has one direction."""
    observation = seen(lab, **POOLED)
    scaled = dataclasses.replace(observation, update=jax.tree.map(lambda leaf: size * leaf, observation.update))
    assert len(Upstream.of(scaled).rows) == len(Upstream.of(observation).rows) == 2


def test_gradients_of_a_softmax_add_up_to_zero(lab: Any) -> None:
    """So there is a direction less than logits; under a logistic loss there is none less."""
    np.testing.assert_allclose(np.abs(Upstream.of(seen(lab)).rows), [[0.5**0.5, 0.5**0.5]])
    assert Upstream.of(seen(lab)).rows.sum() == pytest.approx(0.0)
    assert Upstream.of(seen(lab, "bce")).rows.shape == (2, 2)


@pytest.mark.parametrize(
    ("fields", "marks", "why"),
    [
        ({}, {}, None),
        ({"classes": 1}, {"loss": "mse"}, "must determine the label"),
        ({}, {"loss": "masked_bce"}, "must determine the label"),
        ({}, {"scaled": True}, "clipped"),
        ({**POOLED, "pooling": "max"}, {}, "adds up"),
        ({**POOLED, "pooling": "mean,sum"}, {}, "needs one pooling"),
        ({"per_node": True}, {}, "nodes have"),
    ],
)
def test_what_it_cannot_do_is_said(lab: Any, fields: dict[str, Any], marks: dict[str, Any], why: str | None) -> None:
    """Each reason once."""
    model = lab.model(**fields)
    params = lab.params(model)
    reason = unsupported(Observation(model, params, params, **{"loss": "ce", "batch_size": 2, **marks}))
    assert reason is None if why is None else why in (reason or "")


def test_a_frozen_head_shows_nothing(lab: Any) -> None:
    """Its gradient is where the upstream gradients are read off."""
    model = lab.model(**POOLED).clone(frozen=("readout",))
    params = lab.params(model)
    update = {name: part for name, part in params.items() if name != "readout"}
    assert "frozen" in (unsupported(Observation(model, params, update, "ce", batch_size=2)) or "")


def test_an_update_of_zeros_has_no_directions(lab: Any) -> None:
    model = lab.model(**POOLED)
    params = lab.params(model)
    upstream = Upstream.of(Observation(model, params, jax.tree.map(np.zeros_like, params), "ce", batch_size=2))
    assert upstream.rows.shape[0] == upstream.sizes.size == 0


def test_a_softmax_gradient_adds_up_to_zero_in_double_precision(lab: Any) -> None:
    model = lab.model(hidden=4, readout_widths=(3,))
    params = lab.params(model)
    own = own_upstreams(Observation(model, params, params, "ce", batch_size=2), np.array([0.3, -0.2]))
    assert np.abs(own.sum(axis=1)).max() < 1e-14
    wrong = 1.0 / (1.0 + np.exp(0.5))
    np.testing.assert_allclose(own, [[-wrong, wrong], [1.0 - wrong, wrong - 1.0]], rtol=1e-12)
