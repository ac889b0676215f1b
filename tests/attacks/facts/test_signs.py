"""Labels from the last bias, of updates whose last bias is known, and how many labels there may be by brute force."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from jgleak.attacks.facts.evidence import Evidence
from jgleak.attacks.facts.fact import BATCH, DECAY, NOISE, ONE, PRUNING, QUANTISATION, Fact, Silent
from jgleak.attacks.facts.labels import ONE_GRAPH, SIGNS, class_counts, classes, label
from jgleak.attacks.noise import RATE, tail
from jgleak.federated import LocalTraining
from jgleak.gnn import GNN, MLP, GCNConv, Layer, NodeMLP, Pooled

from .known_updates import PLAIN, SPACE, UNITS, WEIGHTS, evidence

STEPS = {"protocol": "fedavg", "local": LocalTraining(0.1, 2)}


def seen(bias: Any, loss: str = "ce", *, decay: float = 0.0, weights: Any = None, **marks: Any) -> Evidence:
    """A last bias that came back, with weight decay that the first kernel shows."""
    bias = np.asarray(bias, np.float64)
    kept = np.zeros(bias.shape) if weights is None else np.asarray(weights, np.float64)
    model = GNN(SPACE.width, (Layer(GCNConv(UNITS)), Layer(GCNConv(3))), Pooled("mean", MLP((bias.size,))))
    place, kernel = "readout/mlp/linears_0/bias", "readout/mlp/linears_0/kernel"
    gradient = marks.pop("first", PLAIN) + decay * WEIGHTS
    return evidence(
        gradient,
        built=marks.pop("built", model),
        loss=loss,
        sent={place: kept},
        back={place: bias + decay * kept, kernel: marks.pop("kernel", np.zeros((3, bias.size)))},
        **marks,
    )


def told(fact: Any, found: Evidence) -> Fact | str:
    try:
        return fact(found)
    except Silent as reason:
        return str(reason)


TWO_ROWS = np.outer([1.0, 2.0, 0.0], [0.2, -0.3, 0.1]) + np.outer([0.0, 1.0, 1.0], [0.1, -0.2, 0.1])
NOISY = PLAIN + 0.1 * np.random.default_rng(0).normal(size=PLAIN.shape)

LABELS: Mapping[str, tuple[Evidence, Any]] = {
    "the negative one": (seen([0.3, -0.5, 0.2]), 1),
    "of two": (seen([-0.5, 0.5], "bce"), 0),
    "after steps": (seen([0.3, 0.2, -0.5], **STEPS), 2),
    "the only zero": (seen([0.2, 0.0, 0.2], "bce"), 1),
    "two negative ones of two classes": (seen([-0.5, -0.5]), "fit no class under the loss"),
    "decay against it": (seen([0.3, -0.5, 0.2], decay=0.25, weights=[-9.0, 9.0, 0.0]), 1),
    "decay that nearly hides it": (seen([0.3, -0.1, 0.2], decay=0.25, weights=[0.0, 9.0, 0.0]), 1),
    "decay, in steps so short that weights are rounded": (
        seen([0.3, -0.05, 0.2], decay=0.25, weights=[0.0, 1.0, 10.0], protocol="fedavg", local=LocalTraining(1e-4, 2)),
        "do not single out a class",
    ),
    "noise": (seen([0.0, -1.01 * tail(3), 0.3], noise=1.0), 1),
    "noise hides it": (seen([0.0, -0.99 * tail(3), 0.3], noise=1.0), "do not single out a class"),
    "noise hides two": (seen([5 * tail(3), 0.0, 0.0], noise=1.0), "do not single out a class"),
    "noise leaves two": (seen([-2 * tail(3), -2 * tail(3), 4 * tail(3)], noise=1.0), "do not single out a class"),
    "noise leaves one": (seen([1.01 * tail(3), 0.0, 1.01 * tail(3)], noise=1.0), 1),
    "smoothed": (seen([0.3, -0.5, 0.2], "ce+smoothing:0.1"), "several entries of the last bias negative"),
    "a batch": (seen([0.3, -0.5, 0.2], batch_size=2), "sums over several labels"),
    "two graphs": (seen([0.3, -0.5, 0.2], kernel=TWO_ROWS), "that of several graphs"),
    "nothing": (seen([0.0, 0.0, 0.0]), "did not move"),
}


@pytest.mark.parametrize("case", LABELS)
def test_the_label_of_one_graph(case: str) -> None:
    found, wanted = LABELS[case]
    fact = told(label, found)
    if isinstance(fact, str):
        assert isinstance(wanted, str) and wanted in fact, fact
    else:
        assert fact.value == wanted and fact.condition == ONE_GRAPH
        assert fact.line == f"if {ONE_GRAPH}, the label is class {wanted}"


def test_under_what_a_label_is_proved() -> None:
    def under(found: Evidence) -> tuple[str, ...]:
        return label(found).exact_under

    assert under(seen([0.3, -0.5, 0.2])) == (*SIGNS, DECAY)
    assert under(seen([0.3, -0.5, 0.2], pruned=True)) == (*SIGNS, PRUNING, DECAY)
    assert under(seen([0.3, -50.0, 0.2], noise=1.0)) == (*SIGNS, DECAY, NOISE)


TASKS: Mapping[str, tuple[Evidence, Any]] = {
    "signs": (seen([-0.2, 0.0, 0.3], "masked_bce"), [1, None, 0]),
    "signs after steps": (seen([-0.2, 0.0, 0.3], "masked_bce", **STEPS), [1, None, 0]),
    "decay": (seen([-0.2, 0.0, 0.3], "masked_bce", decay=0.25, weights=[1e-3, 1e-3, -1e-3]), [1, None, 0]),
    "decay and a faint one": (
        seen([-0.2, 2e-2, 0.3], "masked_bce", decay=0.25, weights=[0.0, 1.0, 0.0]),
        "entries of which nothing is certain",
    ),
    "decay and a clear one": (seen([-0.2, 1.5, 0.3], "masked_bce", decay=0.25, weights=[0.0, 1.0, 0.0]), [1, 0, 0]),
    "noise": (seen([-0.2, 0.0, 0.3], "masked_bce", noise=1e-6), "noise hides which task labels are missing"),
    "pruned": (seen([-0.2, 0.0, 0.3], "masked_bce", pruned=True), "looks like a missing task label"),
    "other loss, a missing one": (seen([-0.2, 0.0, -0.3]), [1, None, 1]),
    "other loss, all there": (seen([-0.2, -0.3, 0.4]), [1, 1, 0]),
    "other loss, two outputs": (seen([-0.5, 0.0]), [1, None]),
    "other loss, two below zero beside rounding": (seen([-0.2, -0.3, 0.4], first=np.sign(PLAIN)), [1, 1, 0]),
    "decay that does not show": (seen([-0.2, 0.1, 0.3], "masked_bce", first=NOISY), "weight decay may hide which"),
    "a zero that does not decay": (seen([-0.2, 0.0, 0.3], "masked_bce", first=NOISY), [1, None, 0]),
    "other loss, rounded": (
        seen([-0.2, 0.0, 0.3, 0.1], "bce", first=np.sign(PLAIN)),
        "missing labels of tasks, or were rounded",
    ),
}


@pytest.mark.parametrize("case", TASKS)
def test_labels_of_tasks_and_missing_ones(case: str) -> None:
    found, wanted = TASKS[case]
    fact = told(label, found)
    if isinstance(fact, str):
        assert isinstance(wanted, str) and wanted in fact, fact
        return
    assert fact.value == wanted
    said = " ".join("-" if one is None else str(one) for one in wanted)
    assert f"the labels of the tasks are {said} (- is missing" in fact.line
    assert (QUANTISATION in fact.exact_under) is (None not in wanted), "which makes zeros of its own"
    if "other loss" in case:
        negative, zeros = wanted.count(1), wanted.count(None)
        assert fact.line.startswith(
            f"if {ONE_GRAPH}, {negative} negative entries and {zeros} zeros in the last bias refute the loss 'ce'; of "
            "binary tasks the"
        )


def test_zeros_beside_rounding_may_be_of_either_kind() -> None:
    fact = label(seen([-0.2, 0.0, 0.3], "masked_bce", first=np.sign(PLAIN)))
    assert fact.line.endswith("(- is missing or rounded to zero)") and fact.value == [1, None, 0]


def test_classes_that_occur_in_a_batch() -> None:
    fact = classes(seen([0.3, -0.5, 0.2, -0.1], batch_size=4))
    assert fact.value == [1, 3] and fact.line == "labels of class 1, 3 occur"
    assert fact.exact_under == (*SIGNS, BATCH, DECAY)
    assert PRUNING in classes(seen([0.3, -0.5, 0.2], batch_size=4, pruned=True)).exact_under
    noisy = classes(seen([0.0, -2.0 * tail(3), -0.5 * tail(3)], batch_size=4, noise=1.0))
    assert noisy.value == [1] and NOISE in noisy.exact_under
    tasks = classes(seen([0.3, -0.5, 0.0], "masked_bce", batch_size=4))
    assert tasks.value == [[0], [1], []] and tasks.line == "labels that occur: task 0: a 0; task 1: a 1"
    for said, found in (
        ("no entry of the last bias is certainly negative", seen([0.3, 0.1, 0.2], batch_size=4)),
        ("has a certain sign", seen([0.3, 0.1, -0.2], "masked_bce", batch_size=4, noise=1.0)),
        ("there is one label", seen([0.3, -0.5, 0.2])),
        ("tell no label", seen([0.3, -0.5, 0.2], "ce+smoothing:0.1", batch_size=4)),
    ):
        assert said in str(told(classes, found))


def by_brute_force(gradient: np.ndarray, graphs: int) -> tuple[list[int], list[int]]:
    """Of every class the least and the largest number of labels with which its mean probability lies in [0, 1]."""
    possible = [
        counts
        for counts in itertools.product(range(graphs + 1), repeat=gradient.size)
        if sum(counts) == graphs and np.all(np.abs(gradient + np.array(counts) / graphs - 0.5) <= 0.5 + 1e-9)
    ]
    return np.min(possible, axis=0).tolist(), np.max(possible, axis=0).tolist()


@pytest.mark.parametrize(("loss", "outputs"), [("ce", 3), ("bce", 3), ("bce", 2)])
@pytest.mark.parametrize("seed", range(8))
def test_numbers_of_labels_are_those_that_some_predictions_explain(seed: int, loss: str, outputs: int) -> None:
    rng = np.random.default_rng(seed)
    graphs = int(rng.integers(2, 6))
    counts = np.bincount(rng.integers(outputs, size=graphs), minlength=outputs)
    probability = rng.dirichlet(np.full(outputs, 0.3), graphs) if loss == "ce" else rng.random((graphs, outputs)) ** 3
    gradient = (probability.mean(axis=0) - counts / graphs) / (outputs if loss == "bce" else 1)
    low, high = by_brute_force(gradient * (outputs if loss == "bce" else 1), graphs)
    fact = told(class_counts, seen(gradient, loss, batch_size=graphs))
    if isinstance(fact, str):
        assert "any number of labels" in fact and low == [0] * outputs and high == [graphs] * outputs
        return
    assert fact.value == {"at_least": low, "at_most": high}
    assert np.all(low <= counts) and np.all(counts <= high)
    assert fact.exact_under[0] == ONE
    said = ", ".join(f"{a} to {b} of class {k}" for k, (a, b) in enumerate(zip(low, high, strict=True)))
    assert fact.line == f"of {graphs} labels {said}"


def test_numbers_at_the_edge_of_what_is_possible_are_told_to_rounding() -> None:
    """Predictions of 0 and 1: exactly two, one and no label; an entry that rounding moved tells the same."""
    exact = np.array([1 / 3 - 2 / 3, 2 / 3 - 1 / 3, 0.0])
    for moved in (0.0, 2e-6, -2e-6):
        value = class_counts(seen(exact + moved, batch_size=3)).value
        assert value == {"at_least": [1, 0, 0], "at_most": [3, 2, 2]}
    certain = class_counts(seen([-2 / 3 + 1e-6, 1 / 3, 1 / 3], batch_size=3)).value
    assert certain == {"at_least": [2, 0, 0], "at_most": [3, 1, 1]}


def test_what_hides_numbers_of_labels() -> None:
    gradient = [-0.6, 0.3, 0.3]
    per_node = GNN(SPACE.width, (Layer(GCNConv(UNITS)), Layer(GCNConv(3))), NodeMLP(MLP((3,)), per_node=True))
    for said, found in (
        ("one gradient without noise, pruning or weight decay", seen(gradient, batch_size=3, noise=1e-9)),
        ("one gradient without noise", seen(gradient, batch_size=3, pruned=True)),
        ("one gradient without noise", seen(gradient, batch_size=3, decay=0.25)),
        ("one gradient without noise", seen(gradient, batch_size=3, **STEPS)),
        ("one class each", seen(gradient, "masked_bce", batch_size=3)),
        ("one class each", evidence(PLAIN, built=per_node, back={"readout/mlp/linears_0/bias": np.array(gradient)})),
        ("there is one label", seen(gradient)),
    ):
        assert said in str(told(class_counts, found))
    assert tail(1) == pytest.approx(np.log(1 / RATE) / np.sqrt(2.0))
