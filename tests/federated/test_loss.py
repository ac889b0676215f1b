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


@pytest.mark.usefixtures("unchecked")
def test_weights_of_labels_are_any_numbers() -> None:
    """A list of whole numbers is the same loss, so that what is compiled for one serves the other."""
    given: Any = [2, 1]
    loss = Loss("masked_bce", pos_weight=given)
    assert loss == Loss.of("masked_bce+pos_weight:2,1") and str(loss) == "masked_bce+pos_weight:2.0,1.0"
    assert {loss: 3}[Loss.of(str(loss))] == 3


def test_cross_entropy_of_one_score_is_told_apart_from_the_binary_one() -> None:
    model = standard(3, readout=Pooled(mlp=MLP((1,))), hidden=4)
    check_loss(model, "mse")
    with pytest.raises(ValueError, match=r"BCEWithLogitsLoss\) takes 'bce', one number 'mse'"):
        check_loss(model, "ce")


@pytest.mark.parametrize("text", ["bce", "ce", "bce+smoothing:0.3", "ce+smoothing:0.3"])
def test_a_relaxed_label_costs_the_mean_of_what_its_classes_cost(text: str) -> None:
    shares = np.random.default_rng(1).dirichlet(np.ones(3), 4).astype(np.float32)
    each = np.stack([label_loss(jnp.asarray(LOGITS), jnp.full(4, c), text) for c in range(3)], axis=1)
    found = label_loss(jnp.asarray(LOGITS), jnp.asarray(shares), text)
    np.testing.assert_allclose(found, (shares * each).sum(axis=1), rtol=1e-5)


@pytest.mark.parametrize("smoothing", [0.0, 0.3])
def test_one_output_of_bce_is_the_score_of_class_one(smoothing: float) -> None:
    """Labels of two classes, or their shares."""
    z, labels = LOGITS[:, :1], np.array([1, 0, 1, 1])
    target = (1 - smoothing) * labels + smoothing / 2
    expected = -target * np.log(expit(z[:, 0])) - (1 - target) * np.log(expit(-z[:, 0]))
    for given in (labels, np.eye(2, dtype=np.float32)[labels]):
        found = label_loss(jnp.asarray(z), jnp.asarray(given), Loss("bce", smoothing))
        np.testing.assert_allclose(found, expected, rtol=1e-5)
    assert [Loss(name).classes(1) for name in ("bce", "ce", "mse")] == [2, 1, 1] and Loss("bce").classes(3) == 3


@pytest.mark.parametrize(("name", "level"), [("ce", 1 / 3), ("bce", 1 / 2)])
def test_smoothing_is_undone(name: str, level: float) -> None:
    rows = np.eye(3)[LABELS]
    loss = Loss(name, 0.2)
    np.testing.assert_allclose(loss.unsmoothed(0.8 * rows + 0.2 * level), rows, atol=1e-12)
    assert Loss(name).unsmoothed(rows) is rows and loss.level(3) == level


def test_rows_of_tasks_are_weighed_one_by_one() -> None:
    labels, weights = np.array([[1.0, np.nan, 0.0], [np.nan, 1.0, 1.0]]), np.array([[0.5, 0.0, 2.0], [0.0, 1.0, 3.0]])
    entries = np.where(labels == 1, np.log(expit(LOGITS[:2])), np.log(expit(-LOGITS[:2])))
    found = label_loss(jnp.asarray(LOGITS[:2]), jnp.asarray(labels), "masked_bce", jnp.asarray(weights))
    np.testing.assert_allclose(found, -(weights * entries).sum(axis=1), rtol=1e-5)


def test_one_label_among_three_graphs_counts_whole() -> None:
    labels = np.full((3, 2), np.nan, np.float32)
    labels[1, 0] = 1.0
    for over, wanted in (("batch", 3.0), ("graph", 1.0), ("task", 1.5), ("all", 0.5)):
        found = np.asarray(Loss("masked_bce", over=over).entry_weights(labels))
        assert found[1, 0] == wanted and np.count_nonzero(found) == 1
    assert Loss("ce").entry_weights(labels) is None


def test_losses_fit_their_models(world: Any) -> None:
    """Each of them beside one that does not."""
    classes, one = world.model(classes=3), world.model(classes=1)
    nodes, ratings = world.model(readout="node_scores", classes=3), world.model(readout="dot")
    for model, fits, wrong, words in (
        (
            classes,
            "masked_bce+pos_weight:1,2,3",
            "masked_bce+pos_weight:1,2",
            "2 entries of pos_weight, this model has 3",
        ),
        (classes, "ce", "mse", "'mse' is the squared error of one output, this model has 3 outputs"),
        (classes, "masked_mse", "mse", "several tasks take 'masked_mse'"),
        (one, "bce", "ce", "of one output is zero whatever it is"),
        (one, "masked_bce", "ce", "of one output"),
        (nodes, "ce", "masked_bce", "is of graphs with several tasks, but this model labels nodes"),
        (nodes, "bce", "mse", "this model has 3 outputs"),
        (ratings, "mse", "ce", "the readout 'dot' predicts ratings; use 'mse'"),
    ):
        check_loss(model, fits)
        with pytest.raises(ValueError, match=words):
            check_loss(model, wrong)
