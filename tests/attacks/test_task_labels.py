"""Labels of several tasks from a gradient: against every combination, and through the distance and the signs."""

from __future__ import annotations

import dataclasses
from functools import partial
from itertools import product
from typing import Any

import jax
import numpy as np
import pytest

from jgleak.attacks.closed_form.labels import infer_tasks, tasks_hidden
from jgleak.attacks.closed_form.propositions import ConditionFailed
from jgleak.attacks.distance import gradient_distances, labelled_distance
from jgleak.attacks.task_labels import task_labels
from jgleak.defenses import parse
from jgleak.federated import Loss, Observation, fedavg, fedsgd
from jgleak.federated.local_training import LocalTraining
from jgleak.federated.loss import label_loss
from jgleak.graph import Graph

NAN = np.nan
TASKS = 12
ZERO = 1e-5
LOSSES = ("masked_bce", "masked_bce+over:task", "masked_bce+pos_weight:" + ",".join(["3"] * 6 + ["0.25"] * 6))


def slopes(loss: Loss, outputs: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """The gradient at the outputs, by autodiff in float64."""
    with jax.enable_x64(True):
        return np.asarray(_slopes(loss, outputs, labels))


@partial(jax.jit, static_argnums=0)
def _slopes(loss: Loss, outputs: Any, labels: Any) -> Any:
    return jax.grad(lambda z: label_loss(z, labels, loss))(outputs)


def row(seed: int, tasks: int = TASKS, missing: int = 3) -> np.ndarray:
    rng = np.random.default_rng(seed)
    labels = rng.integers(2, size=(1, tasks)).astype(float)
    labels[0, rng.permutation(tasks)[:missing]] = NAN
    return labels


@pytest.mark.parametrize("pruned", [False, True])
@pytest.mark.parametrize("scaled", [False, True])
@pytest.mark.parametrize("over", ["batch", "all"])
@pytest.mark.parametrize("name", ["masked_bce", "masked_mse", "masked_mae"])
def test_every_combination_of_labels_is_told(name: str, over: str, scaled: bool, pruned: bool) -> None:
    outputs = np.array([0.4, -2.0, 1.5])
    loss = Loss(name, over=over, pos_weight=(0.5, 2.0, 1.0) if name == "masked_bce" else ())
    for labels in map(np.array, product((0.0, 1.0, NAN), repeat=3)):
        seen = (0.01 if scaled else 1.0) * slopes(loss, outputs, labels)
        found = task_labels(loss, outputs, seen, scaled=scaled, pruned=pruned)
        if name == "masked_mae":  # the side of the output
            np.testing.assert_allclose(found, outputs + np.sign(labels - outputs))
        elif name == "masked_mse" and scaled:
            np.testing.assert_array_equal(np.sign(found - outputs), np.sign(labels - outputs))
        else:
            np.testing.assert_allclose(found, labels, atol=1e-12)


def test_labels_are_those_that_no_other_combination_beats_under_noise() -> None:
    rng, loss, outputs = np.random.default_rng(1), Loss("masked_bce"), np.array([0.4, -0.3, 1.5, 0.1])
    every = [np.array(labels) for labels in product((0.0, 1.0, NAN), repeat=4)]
    gradients = np.array([slopes(loss, outputs, labels) for labels in every])
    for truth in rng.integers(len(every), size=20):
        noisy = gradients[truth] + 0.05 * rng.normal(size=4)
        best = every[int(np.square(gradients - noisy).sum(axis=1).argmin())]
        np.testing.assert_array_equal(task_labels(loss, outputs, noisy, scaled=False, pruned=False), best)
    alone = slopes(loss, outputs[:1], np.ones(1))
    for share, label in ((0.4, NAN), (0.6, 1.0)):
        found = task_labels(loss, outputs[:1], share * alone, scaled=False, pruned=False)
        np.testing.assert_array_equal(found, [label])


@pytest.mark.parametrize("name", ["masked_bce", "masked_mae"])
def test_exact_zeros_are_missing_labels_whatever_the_size_of_the_others(name: str) -> None:
    """As after several local steps, which make slopes smaller; pruning leaves zeros of present labels, too."""
    outputs, loss = np.array([0.4, -2.0, 1.5]), Loss(name)
    for labels in map(np.array, product((0.0, 1.0), (0.0, 1.0, NAN), (NAN,))):
        sides = np.where(np.isnan(labels), NAN, outputs + np.sign(labels - outputs))
        wanted = labels if name == "masked_bce" else sides
        seen = 0.66 * slopes(loss, outputs, labels)
        np.testing.assert_array_equal(task_labels(loss, outputs, seen, scaled=False, pruned=False), wanted)
    left_out = slopes(loss, outputs, np.array([1.0, 0.0, 1.0])) * [1.0, 1.0, 0.0]
    assert not np.isnan(task_labels(loss, outputs, left_out, scaled=False, pruned=True)[:2]).any()


@pytest.mark.parametrize("least", [1e-80, 2e-37])
def test_a_saturated_task_still_counts(least: float) -> None:
    """Its slope is no float32 any more, but the others are divided by one more label."""
    loss, labels = Loss("masked_bce"), np.array([1.0, 0.0, 1.0])
    outputs = np.array([0.4, -0.3, -np.log(least)])
    seen = np.r_[slopes(loss, outputs, labels)[:2], 0.0]
    np.testing.assert_array_equal(task_labels(loss, outputs, seen, scaled=False, pruned=False), labels)


def tasks_of(lab: Any, name: str, loss: str, truth: Graph) -> tuple[Observation, Any]:
    fields = {"readout": "flattened", "slots": 8} if name == "flattened" else {"readout": name}
    model = lab.model(hidden=32, classes=TASKS, **fields)
    return lab.observe(model, truth, loss), model


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("readout", ["node_mlp", "pooled", "flattened"])
def test_a_graph_s_labels_and_distance(readout: str, loss: str, lab: Any) -> None:
    truth = dataclasses.replace(lab.random(6, 1), y=row(2))
    observation, _ = tasks_of(lab, readout, loss, truth)
    bare = dataclasses.replace(truth, y=None)
    distance, found = gradient_distances(observation, lab.space, [bare])[0]
    assert distance < ZERO
    np.testing.assert_array_equal(found, truth.y)  # type: ignore[arg-type]
    assert labelled_distance(observation, lab.space, truth) < ZERO
    wrong = np.where(np.isnan(truth.y), 1.0, truth.y)  # type: ignore[arg-type]
    assert labelled_distance(observation, lab.space, dataclasses.replace(truth, y=wrong)) > 100 * ZERO
    assert gradient_distances(observation, lab.space, [lab.random(6, 11)])[0][0] > 100 * ZERO


@pytest.mark.parametrize("defense", ["clip:0.001", "prune:0.3", "clip:0.001+prune:0.5"])
def test_labels_behind_a_defence(defense: str, lab: Any) -> None:
    truth = dataclasses.replace(lab.random(6, 1), y=row(2))
    model = lab.model(hidden=32, classes=TASKS)
    defence = parse(defense)
    kept: dict[str, Any] = {"loss": "masked_bce", "defense": defence, "key": jax.random.key(0)}
    observation = fedsgd(model, lab.params(model), [truth], lab.space, **kept)
    distance, found = gradient_distances(observation, lab.space, [dataclasses.replace(truth, y=None)])[0]
    assert distance < ZERO
    np.testing.assert_array_equal(found, truth.y)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["masked_mse", "masked_mae"])
def test_targets_of_several_tasks(name: str, lab: Any) -> None:
    targets = np.where(np.isnan(row(3)), NAN, np.random.default_rng(3).normal(scale=4, size=(1, TASKS)))
    truth = dataclasses.replace(lab.random(6, 1), y=targets)
    observation, _ = tasks_of(lab, "node_mlp", name, truth)
    distance, found = gradient_distances(observation, lab.space, [dataclasses.replace(truth, y=None)])[0]
    assert distance < ZERO
    if name == "masked_mse":
        np.testing.assert_allclose(found, targets, rtol=1e-4, atol=1e-4)  # type: ignore[arg-type]
    else:
        assert found is None, "only the side of a target shows"
    assert labelled_distance(observation, lab.space, truth) < ZERO


@pytest.mark.parametrize(
    ("y", "message"),
    [
        (1, r"y: expected a row \(1, 12\) of labels, got 1"),
        (np.zeros((1, 5)), r"y: expected a row \(1, 12\) of labels"),
        (np.full((1, TASKS), 0.5), r"has a label outside the classes 0\.\.1"),
    ],
)
def test_a_stated_label_must_be_one_of_the_tasks(y: Any, message: str, lab: Any) -> None:
    observation, _ = tasks_of(lab, "pooled", "masked_bce", dataclasses.replace(lab.random(5, 1), y=row(2)))
    with pytest.raises(ValueError, match=message):
        labelled_distance(observation, lab.space, dataclasses.replace(lab.random(5, 1), y=y))


def test_signs_and_zeros_of_the_last_bias_tell_the_labels(lab: Any) -> None:
    """Also after several local steps: a probability stays on its side of the label."""
    truth = dataclasses.replace(lab.random(6, 1), y=row(5))
    model = lab.model(hidden=32, classes=TASKS)
    once = lab.observe(model, truth, "masked_bce")
    local = LocalTraining(0.5, 5)
    often = fedavg(model, lab.params(model), [truth], lab.space, loss="masked_bce", local=local)
    for observation in (once, often):
        np.testing.assert_array_equal(infer_tasks(observation), truth.y[0])  # type: ignore[index]


def test_targets_follow_under_one_linear_map(lab: Any) -> None:
    targets = np.where(np.isnan(row(3)), NAN, np.random.default_rng(3).normal(scale=4, size=(1, TASKS)))
    truth = dataclasses.replace(lab.random(6, 1), y=targets)
    model = lab.model(hidden=32, classes=TASKS, readout="pooled", readout_widths=())
    found = infer_tasks(lab.observe(model, truth, "masked_mse"))
    np.testing.assert_allclose(found, targets[0], rtol=1e-3)


def test_what_hides_the_labels_is_named(lab: Any) -> None:
    truth = dataclasses.replace(lab.random(6, 1), y=row(5))
    observation, _ = tasks_of(lab, "node_mlp", "masked_bce", truth)
    cases = [
        (dataclasses.replace(observation, batch_size=2), None, "sums over the task labels of several graphs"),
        (observation, 0.1, "noise hides which task labels are missing"),
        (dataclasses.replace(observation, pruned=True), None, "looks like a missing task label"),
        (dataclasses.replace(observation, loss="masked_mae"), None, "on which side of the output a target lies"),
        (dataclasses.replace(observation, loss="masked_mse"), None, "only in one gradient of a pooled readout"),
        (dataclasses.replace(observation, loss="ce"), None, "the loss 'ce' is not of several tasks"),
    ]
    for seen, noise, message in cases:
        assert message in str(tasks_hidden(seen, noise))
    with pytest.raises(ConditionFailed, match="sums over the task labels"):
        infer_tasks(cases[0][0])


@pytest.mark.parametrize("loss", ["ce+smoothing:0.3", "bce+smoothing:0.3"])
def test_smoothed_classes_of_graphs(loss: str, lab: Any) -> None:
    model = lab.model(hidden=32, classes=4)
    for label in range(4):
        truth = dataclasses.replace(lab.random(6, label), y=label)
        distance, found = gradient_distances(lab.observe(model, truth, loss), lab.space, [truth])[0]
        assert distance < ZERO and found == label


@pytest.mark.parametrize("loss", ["ce+smoothing:0.3", "bce+smoothing:0.3"])
def test_smoothed_classes_of_nodes(loss: str, lab: Any) -> None:
    labels = np.array([2, 0, 1, 1])
    truth = dataclasses.replace(lab.path([0, 1, 2, 3]), y=labels)
    model = lab.model(hidden=32, classes=3, readout="node_mlp", per_node=True)
    distance, found = gradient_distances(lab.observe(model, truth, loss), lab.space, [truth])[0]
    assert distance < ZERO
    np.testing.assert_array_equal(found, labels)  # type: ignore[arg-type]
