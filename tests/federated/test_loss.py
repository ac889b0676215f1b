"""The losses in closed form, and what they average over."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import expit, log_softmax

from jgleak.federated.loss import Loss, check_loss, graph_loss, label_loss
from jgleak.gnn import MLP, Pooled, standard
from jgleak.graph import DenseGraph

LOGITS = np.random.default_rng(0).normal(scale=3, size=(4, 3)).astype(np.float32)
LABELS = np.array([2, 0, 1, 1])


def test_bce_is_the_mean_over_outputs_of_one_hot_labels() -> None:
    target = np.eye(3)[LABELS]
    expected = -(target * np.log(expit(LOGITS)) + (1 - target) * np.log(expit(-LOGITS))).mean(axis=1)
    np.testing.assert_allclose(label_loss(jnp.asarray(LOGITS), jnp.asarray(LABELS), "bce"), expected, rtol=1e-5)


def test_ce_is_the_negative_log_likelihood() -> None:
    expected = -log_softmax(LOGITS, axis=1)[np.arange(4), LABELS]
    np.testing.assert_allclose(label_loss(jnp.asarray(LOGITS), jnp.asarray(LABELS), "ce"), expected, rtol=1e-5)


@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_a_loss_has_the_precision_of_the_outputs(kind: Any) -> None:
    classes = LOGITS.shape[-1]
    target = 0.9 * np.eye(classes)[LABELS] + 0.1 / classes
    expected = -(target * log_softmax(LOGITS.astype(np.float64), axis=-1)).sum(axis=-1)
    with jax.enable_x64(True):
        found = label_loss(jnp.asarray(LOGITS, kind), jnp.asarray(LABELS), "ce+smoothing:0.1")
    assert found.dtype == kind
    np.testing.assert_allclose(found, expected, rtol=4 * np.finfo(kind).eps)


def test_mse_is_the_squared_error_of_the_output_or_the_rating() -> None:
    ratings = jnp.array([1.0, 3.5, -2.0, 0.0])
    expected = (LOGITS[:, 0] - ratings) ** 2
    np.testing.assert_allclose(label_loss(jnp.asarray(LOGITS[:, :1]), ratings, "mse"), expected, rtol=1e-6)
    np.testing.assert_allclose(label_loss(jnp.asarray(LOGITS[:, 0]), ratings, "mse"), expected, rtol=1e-6)


def test_one_output_of_bce_has_the_share_of_the_second_class() -> None:
    """Whatever axes stand before; any other outputs have one share a class."""
    shares = np.array([[[0.1], [0.7]]], np.float32)
    np.testing.assert_allclose(Loss.of("bce").by_class(shares), [[[0.9, 0.1], [0.3, 0.7]]], rtol=1e-6)
    for loss, own in (("ce", shares), ("bce", np.ones((2, 3)))):
        assert Loss.of(loss).by_class(own) is own


def test_an_unknown_loss_is_refused() -> None:
    with pytest.raises(ValueError, match="loss: unknown 'hinge'; choose one of bce, ce, mse, masked_bce"):
        label_loss(jnp.asarray(LOGITS), jnp.asarray(LABELS), "hinge")


def test_node_losses_are_the_mean_over_real_nodes(world: Any) -> None:
    nodes = np.zeros((6, world.space.width), np.float32)
    nodes[:4] = np.random.default_rng(1).normal(size=(4, world.space.width))
    adjacency = np.zeros((6, 6), np.float32)
    adjacency[:4, :4] = 1 - np.eye(4)
    graph = jnp.asarray(nodes), jnp.asarray(adjacency), jnp.arange(6) < 4
    for readout, loss in (("node_scores", "ce"), ("dot", "mse")):
        model = world.model(readout=readout, classes=3, layers=1)
        params = world.params(model)
        logits: Any = model.apply({"params": params}, *graph)
        got = graph_loss(model, params, DenseGraph(*graph), jnp.array([2, 0, 1, 1, 2, 2]), loss)
        np.testing.assert_allclose(got, label_loss(logits[:4], jnp.asarray(LABELS), loss).mean(), rtol=1e-6)


def test_cross_entropy_of_one_score_is_told_apart_from_the_binary_one() -> None:
    model = standard(3, readout=Pooled(mlp=MLP((1,))), hidden=4)
    check_loss(model, "mse")
    with pytest.raises(ValueError, match=r"BCEWithLogitsLoss\) takes 'bce', one number 'mse'"):
        check_loss(model, "ce")
