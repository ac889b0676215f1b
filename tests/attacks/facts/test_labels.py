"""Labels that an update shows, beside those that the client has; silence where they do not follow."""

from __future__ import annotations

import dataclasses
from typing import Any

import jax
import numpy as np
import pytest

from jgleak.attacks.facts.diagnosis import diagnoses
from jgleak.attacks.facts.evidence import Evidence
from jgleak.attacks.facts.head import squared_target
from jgleak.attacks.facts.registry import facts
from jgleak.defenses import parse
from jgleak.federated import LocalTraining, Observation, fedsgd
from jgleak.federated.client import node_gradients, target_gradient
from jgleak.gnn import GNN, MLP, GCNConv, Layer, NodeMLP, NodeScores, Pooled, Readout
from jgleak.graph import Graph

FIVE_STEPS = LocalTraining(0.01, 5)


def linear(lab: Any, outputs: int) -> GNN:
    """One linear map after pooling, so that its gradients show the pooled row and with it the outputs."""
    return GNN(lab.bare.width, (Layer(GCNConv(16, bias=True)),), Pooled("mean", MLP((outputs,))))


def sent(lab: Any, model: GNN, labels: Any, loss: str) -> Observation:
    """The update of one graph a label; a row of labels is one of several tasks."""
    graphs = [dataclasses.replace(lab.random(6, seed), y=label) for seed, label in enumerate(labels, start=4)]
    return fedsgd(model, lab.params(model), graphs, lab.bare, loss=loss)


def tasks(*labels: float) -> np.ndarray:
    return np.array([labels], np.float32)


def silent(lab: Any, observed: Observation, name: str = "label") -> str:
    found = facts(observed, lab.bare)
    assert name not in found.found
    return found.silent[name]


@pytest.mark.parametrize("target", [-3.25, 0.0, 1.5])
@pytest.mark.parametrize("widths", [(1,), (8, 1)])
def test_one_gradient_shows_the_target_of_a_regression(lab: Any, target: float, widths: tuple[int, ...]) -> None:
    seen = sent(lab, linear(lab, 1).clone(readout=Pooled("mean", MLP(widths))), [target], "mse")
    assert facts(seen, lab.bare).found["label"].value == pytest.approx(target, abs=1e-4)
    for hidden in ({"pruned": True}, {"scaled": True}, {"protocol": "fedavg", "local": FIVE_STEPS}):
        assert "length of one gradient alone" in silent(lab, dataclasses.replace(seen, **hidden))


@pytest.mark.parametrize("widths", [(4,), (8, 4)])
def test_targets_of_several_tasks_show_with_the_missing_ones(lab: Any, widths: tuple[int, ...]) -> None:
    model = linear(lab, 4).clone(readout=Pooled("mean", MLP(widths)))
    seen = sent(lab, model, [tasks(0.5, np.nan, -2.0, 0.0)], "masked_mse")
    fact = facts(seen, lab.bare).found["label"]
    assert fact.value == pytest.approx([0.5, None, -2.0, 0.0], abs=1e-4)
    assert fact.line.startswith(f"if {fact.condition}, the targets of the tasks are 0.5 - -2 ")
    assert fact.condition == (
        "the client has one graph and clients minimise 'masked_mse' and the update is one whole gradient"
    )
    several = dataclasses.replace(seen, protocol="fedavg", local=FIVE_STEPS)
    assert "in one gradient alone" in silent(lab, several)
    assert "noise hides" in silent(lab, dataclasses.replace(seen, noise=1e-9))
    assert "pruning left out" in silent(lab, dataclasses.replace(seen, pruned=True))


def test_targets_behind_readouts_per_node_and_absolute_errors_stay_hidden(lab: Any) -> None:
    nodes = linear(lab, 1).clone(readout=NodeMLP(MLP((8, 1))))
    assert "a pooled readout" in silent(lab, sent(lab, nodes, [1.5], "mse"))
    assert "on which side" in silent(lab, sent(lab, linear(lab, 2), [tasks(0.5, -1.0)], "masked_mae"))
    far = sent(lab, linear(lab, 2), [tasks(9.0, -9.0)], "masked_mse")
    assert "larger than 1" in silent(lab, dataclasses.replace(far, loss="masked_bce"))


@pytest.mark.parametrize("defense", ["sign", "clip-inf:0.01", "clip-layer:0.1"])
def test_a_target_rests_on_a_gradient_that_nothing_scaled(lab: Any, defense: str) -> None:
    """What a file does not tell may have changed the length that a target is read from."""
    model, graph = linear(lab, 1), dataclasses.replace(lab.random(6, 4), y=1.5)
    fields: dict[str, Any] = {"loss": "mse", "defense": parse(defense), "key": jax.random.key(0)}
    told = facts(fedsgd(model, lab.params(model), [graph], lab.bare, **fields), lab.bare).found["label"]
    assert abs(told.value - 1.5) > 0.01
    assert told.condition == "the client has one graph and clients minimise 'mse' and the update is one whole gradient"


def test_a_batch_of_tasks_shows_labels_that_occur(lab: Any) -> None:
    """A task's entry is below zero only where a 1 occurs, and above only where a 0 does."""
    rows = [(1, 0, 1, np.nan), (1, 0, 0, np.nan), (1, 0, 1, np.nan)]
    seen = sent(lab, linear(lab, 4), [tasks(*row) for row in rows], "masked_bce")
    found = facts(seen, lab.bare).found["classes"]
    certain = {0: 1, 1: 0}
    assert [found.value[task] for task in certain] == [[label] for label in certain.values()]
    assert found.value[2] in ([0], [1]) and found.value[3] == [], "no graph has a label of the last task"
    assert "task 0: a 1" in found.line and "task 1: a 0" in found.line and "task 3" not in found.line
    zero = jax.tree.map(np.zeros_like, seen.update)
    assert "did not move" in silent(lab, dataclasses.replace(seen, update=zero), "classes")
    assert "one class each" in silent(lab, seen, "class_counts")


def test_regressions_and_smoothed_labels_have_no_classes(lab: Any) -> None:
    for outputs, labels, loss in ((1, [0.5, 2.0], "mse"), (3, [0, 2], "ce+smoothing:0.1")):
        assert "leave signs that tell no label" in silent(lab, sent(lab, linear(lab, outputs), labels, loss), "classes")
    assert "several entries" in silent(lab, sent(lab, linear(lab, 3), [2], "ce+smoothing:0.1"))


@pytest.mark.parametrize(("declared", "true"), [("mse", "bce"), ("masked_mse", "masked_bce")])
def test_squared_errors_that_are_gradients_of_classes_are_questioned(lab: Any, declared: str, true: str) -> None:
    """One output: the target that squares would have is no class; and gradients of squares say nothing of classes."""
    for y in (0, 1):
        model = linear(lab, 1).clone(readout=Pooled("mean", MLP((8, 1)))) if y else linear(lab, 1)
        seen = sent(lab, model, [tasks(y) if true == "masked_bce" else y], true)
        wrong = dataclasses.replace(seen, loss=declared)
        (because,) = (said for said in diagnoses(wrong, lab.bare) if "--loss" in said)
        assert f"of the loss {true!r} with labels of 0 and 1" in because
        line = facts(wrong, lab.bare).found["label"].line
        assert declared != "mse" or (", the target is " in line and f"give --loss {true}" in line), line
        assert not any("--loss" in said for said in diagnoses(seen, lab.bare))
    for target in (0.3, 1.0):
        honest = sent(lab, linear(lab, 1), [tasks(target) if true == "masked_bce" else target], declared)
        assert "--loss" not in facts(honest, lab.bare).found["label"].line
        assert not any("--loss" in said for said in diagnoses(honest, lab.bare))


@pytest.mark.parametrize("readout", [Pooled("mean", MLP((1,))), Pooled("sum", MLP((8, 1))), NodeMLP(MLP((8, 1)))])
def test_gradients_of_classes_that_are_squared_errors_are_questioned(lab: Any, readout: Readout) -> None:
    """One output: a target of 0 or 1 is named as such, another one as one of several causes. ``2 (o - y)`` may be any
    number, and ``p - y`` one of two."""
    model = linear(lab, 1).clone(readout=readout)
    for target in (1.0, 2.75):
        seen = sent(lab, model, [target], "mse")
        wrong = dataclasses.replace(seen, loss="bce")
        (because,) = (said for said in diagnoses(wrong, lab.bare) if "--loss mse" in said)
        told, whole = facts(wrong, lab.bare).found["label"], target < 2
        line = told.line
        assert told.condition == "the client has one graph and clients minimise 'bce'" and line.startswith(
            f"if {told.condition}, the label is class"
        )
        assert f"with the target {target:g}" in because and ("to rounding" in because) == whole
        assert ("times that of the loss 'bce'" in because) == (not whole), "one reason names both causes"
        assert ("give --loss mse" in line) == whole, line
        assert sum("times that of the loss" in said for said in diagnoses(wrong, lab.bare)) == (not whole)
        for change in ({"scaled": True}, {"pruned": True}, {"batch_size": 2}, {"noise": 1e-9}):
            other = dataclasses.replace(wrong, **change)
            assert squared_target(Evidence(other, lab.bare, other.noise)) is None
    for label in (0, 1):
        honest = sent(lab, model, [label], "bce")
        assert squared_target(Evidence(honest, lab.bare)) is None
        assert facts(honest, lab.bare).found["label"].condition == "the client has one graph"
        stale = dataclasses.replace(honest, params=model.initial(key=jax.random.key(9)))
        two_maps = readout == Pooled("sum", MLP((8, 1)))
        assert (squared_target(Evidence(stale, lab.bare)) is None) == two_maps


def test_counts_that_exclude_nothing_are_not_told(lab: Any) -> None:
    """Two graphs of two classes at even odds: none, one and both may be of either class."""
    seen = sent(lab, linear(lab, 2), [0, 1], "ce")
    even = jax.tree.map(np.zeros_like, seen.update)
    even["readout"]["mlp"]["linears_0"]["bias"] += np.array([1e-7, -1e-7], np.float32)
    assert "any number of labels" in silent(lab, dataclasses.replace(seen, update=even), "class_counts")
    counts = facts(seen, lab.bare).found["class_counts"].value
    assert np.all(np.array(counts["at_least"]) <= 1) and np.all(np.array(counts["at_most"]) >= 1)


def test_states_that_gelu_made_hide_classes_of_nodes(lab: Any) -> None:
    """GELU falls before it rises, so that the sign of what flows back through it is not that of the loss."""
    graph = lab.random(6, 4)
    labelled = Graph(graph.x, graph.edges, np.array([3, 0, 1, 3, 3, 0]))
    for act, shown in (("sigmoid", True), ("gelu", False)):
        model = GNN(lab.bare.width, (Layer(GCNConv(4, bias=True), act),), NodeScores(4))
        found = facts(fedsgd(model, lab.params(model), [labelled], lab.bare, loss="ce"), lab.bare)
        assert ("classes" in found.found) == shown
        if shown:
            assert set(found.found["classes"].value) <= {0, 1, 3}
        else:
            assert "GELU" in found.silent["classes"]


def test_a_gradient_of_one_nodes_loss_has_one_label(lab: Any) -> None:
    """Where it is sent alone and where one of every node is, no signs of several labels add up."""
    model = GNN(lab.bare.width, (Layer(GCNConv(16)), Layer(GCNConv(3, bias=True))), NodeScores(3))
    graph = dataclasses.replace(lab.random(6, 1), y=np.array([0, 1, 2, 0, 1, 2]))
    params = lab.params(model)
    for seen in (
        node_gradients(model, params, graph, lab.bare, loss="ce"),
        target_gradient(model, params, [graph], lab.bare, loss="ce"),
    ):
        assert silent(lab, seen, "classes") == "there is one label; see 'label'"
    assert "classes" in facts(fedsgd(model, params, [graph], lab.bare, loss="ce"), lab.bare).found
