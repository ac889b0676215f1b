"""A head's gradient in closed form beside the losses and labels that explain it, and where nothing follows from it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.special import expit, softmax

from jgleak.attacks.facts.evidence import Evidence
from jgleak.attacks.facts.fact import Silent
from jgleak.attacks.facts.head import fit, of_classes, squared_target
from jgleak.federated import LocalTraining, Loss
from jgleak.gnn import MLP, Flattened, NodeMLP, Pooled

from .known_updates import PLAIN, WEIGHTS, evidence, model

ROW, KERNEL, BIAS = np.array([0.4, 1.1]), np.array([[0.7, -0.2, 0.5], [0.3, 0.9, -0.6]]), np.array([0.1, -0.3, 0.2])
STEPS = {"protocol": "fedavg", "local": LocalTraining(0.1, 2)}


def outputs(count: int) -> np.ndarray:
    """What the head makes of the row that entered it."""
    return ROW @ KERNEL[:, :count] + BIAS[:count]


def headed(slopes: Any, loss: str, *, decay: float = 0.0, **marks: Any) -> Evidence:
    """One row entered one map, whose outputs got these gradients."""
    slopes = np.atleast_1d(np.asarray(slopes, np.float64))
    kernel, bias = "readout/mlp/linears_0/kernel", "readout/mlp/linears_0/bias"
    sent = {kernel: KERNEL[:, : slopes.size], bias: BIAS[: slopes.size]}
    back = {kernel: np.outer(ROW, slopes), bias: slopes}
    built = model(Pooled("mean", MLP((slopes.size,)))).clone(dropout=marks.pop("dropout", 0.0))
    return evidence(PLAIN + decay * WEIGHTS, built=built, loss=loss, sent=sent, back=back, **marks)


@pytest.mark.parametrize("label", range(3))
@pytest.mark.parametrize("factor", [0.3, 1.0, 3.0])
def test_a_multiple_of_a_labels_gradient_is_that_far_off(label: int, factor: float) -> None:
    slopes = factor * (softmax(outputs(3)) - np.eye(3)[label])
    found = fit(headed(slopes, "ce"), Loss("ce"))
    assert found.factor == pytest.approx(factor, rel=1e-5)
    assert found.distance == pytest.approx(abs(factor - 1.0) / factor, abs=1e-5)
    assert found.rest == pytest.approx(0.0, abs=1e-5)


def test_labels_of_tasks_are_tried_by_their_signs_whatever_loss_the_file_names() -> None:
    """Of three tasks the second one has no label."""
    slopes = (expit(outputs(3)) - np.array([1.0, 0.0, 0.0])) * np.array([0.5, 0.0, 0.5])
    assert fit(headed(slopes, "bce"), Loss("masked_bce")).distance < 1e-5
    assert fit(headed(2.0 * slopes, "bce"), Loss("masked_bce")).factor == pytest.approx(2.0, rel=1e-5)


@pytest.mark.parametrize("label", [0, 1])
def test_a_squared_error_that_is_a_class_to_a_ten_thousandth_is_one(label: int) -> None:
    slope = expit(outputs(1)) - label
    assert of_classes(headed(slope, "mse")) == "bce"
    assert [of_classes(headed((1 + off) * slope, "mse")) for off in (0.9e-4, 1.1e-4)] == ["bce", None]
    for changed in ({"batch_size": 2}, {"scaled": True}, STEPS):
        assert of_classes(headed(slope, "mse", **changed)) is None
    for loss in ("bce", "masked_mae"):
        assert of_classes(headed(slope, loss)) is None


@pytest.mark.parametrize("target", [-3.0, 0.0, 0.5, 7.0])
def test_a_target_shows_where_no_class_explains_the_length(target: float) -> None:
    slope = 2.0 * (outputs(1) - target)
    assert squared_target(headed(slope, "bce")) == pytest.approx(target, abs=1e-5)
    for changed in (
        {"batch_size": 2},
        {"scaled": True},
        {"pruned": True},
        {"noise": 1e-9},
        {"decay": 0.25},
        {"dropout": 0.5},
        STEPS,
    ):
        assert squared_target(headed(slope, "bce", **changed)) is None, changed
    assert squared_target(headed(slope, "mse")) is None
    assert squared_target(headed(np.append(slope, 0.1), "bce")) is None, "two outputs"
    for label in (0, 1):
        assert squared_target(headed(expit(outputs(1)) - label, "bce")) is None, "a class explains it"


@pytest.mark.parametrize("readout", [Flattened(4, 3), NodeMLP(MLP((4, 3)), per_node=True)])
def test_a_row_that_does_not_show_is_compared_with_nothing(readout: Any) -> None:
    with pytest.raises(Silent, match="does not show"):
        fit(evidence(PLAIN, built=model(readout)), Loss("ce"))
