"""One output under binary cross-entropy: attacks, facts and labels, against two logits ``(0, z)`` and the formula."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest
from scipy.special import expit

from jgleak.attacks.attack import Budget, Reconstruction
from jgleak.attacks.census.batches.number_of_graphs import numbers_of_graphs
from jgleak.attacks.census.followed import label_of
from jgleak.attacks.census.problem import CensusProblem
from jgleak.attacks.closed_form.labels import infer_counts, infer_label, infer_node_labels, prior_probability
from jgleak.attacks.distance import gradient_distances, labelled_distance
from jgleak.attacks.facts.diagnosis import diagnoses
from jgleak.attacks.facts.registry import facts
from jgleak.attacks.matching.problem import pose
from jgleak.attacks.matching.starts import labels
from jgleak.attacks.registry import get_attack
from jgleak.audit.certified import verify, write
from jgleak.federated import Knowledge, LocalTraining, Observation, fedavg, fedsgd, save
from jgleak.federated.client import node_gradients
from jgleak.federated.observation import flatten
from jgleak.federated.rounds import accuracy, outputs
from jgleak.gnn import GNN
from jgleak.graph import Graph, GraphBatch
from tests.clocks import HELD as FOREVER

POOLED = {"readout": "pooled", "readout_widths": (64,), "last_act": True}


def graphs(lab: Any) -> list[Graph]:
    return [lab.path([0, 1, 1, 2, 0], y=1), lab.ring([1, 3, 2, 0], y=0), lab.path([2, 0, 3, 1], y=1)]


def sent(lab: Any, some: list[Graph], loss: str = "bce", **fields: Any) -> Observation:
    model = lab.model(**({"classes": 1} | fields))
    return fedsgd(model, lab.params(model), some, lab.space, loss=loss)


def trained(lab: Any, some: list[Graph], fields: dict[str, Any], **training: Any) -> Observation:
    model = lab.model(**({"classes": 1} | fields))
    local = LocalTraining(**({"rate": 0.05, "steps": len(some)} | training))
    return fedavg(model, lab.params(model), some, lab.space, loss="bce", local=local, key=jax.random.key(0))


def widened(model: GNN, tree: Any, factor: float) -> Any:
    last = model.readout.mlp.last
    maps = tree["readout"]["mlp"]
    wide = {name: np.concatenate([factor * leaf, leaf], axis=-1) for name, leaf in maps[last].items()}
    return {**tree, "readout": {"mlp": {**maps, last: wide}}}


def two_logits(lab: Any, seen: Observation, **fields: Any) -> Observation:
    """The same update as that of the logits ``(0, z)`` under cross-entropy."""
    model = seen.model
    trees = {"params": widened(model, seen.params, 0.0), "update": widened(model, seen.update, -1.0)}
    return dataclasses.replace(seen, model=lab.model(classes=2, **fields), loss="ce", **trees)


def attack(lab: Any, name: str, seen: Observation, **options: Any) -> Reconstruction:
    known = {key: options.pop(key) for key in ("n", "auxiliary", "max_n") if key in options}
    chosen = get_attack(name).with_options(options) if options else get_attack(name)
    return chosen(seen, Knowledge(lab.space, **known), key=jax.random.key(0), budget=Budget(time_limit=60))


def lists(found: Reconstruction, truth: Graph) -> bool:
    """Whether the graph is listed, all with its label."""
    assert all(graph.y == truth.y for graph in found.graphs if graph.isomorphic(truth))
    return any(graph.isomorphic(truth) for graph in found.graphs)


@pytest.mark.parametrize("label", [0, 1])
@pytest.mark.parametrize("smoothing", [0.0, 0.2])
def test_the_gradient_is_that_of_pytorch_s_formula(label: int, smoothing: float, lab: Any) -> None:
    """``(sigmoid(z) - target)`` times the gradient of ``z``, the target ``y``, or ``(1 - s) y + s / 2``."""
    truth = dataclasses.replace(lab.random(5, 1), y=label)
    seen = sent(lab, [truth], f"bce+smoothing:{smoothing}")
    # The squared error of the target z - 1/2 has the gradient of z itself.
    z = float(np.asarray(outputs(seen.model, seen.params, GraphBatch.from_graphs([truth], lab.space)))[0, 0])
    own = fedsgd(seen.model, seen.params, [dataclasses.replace(truth, y=z - 0.5)], lab.space, loss="mse").update
    factor = expit(z) - ((1 - smoothing) * label + smoothing / 2)
    for name, leaf in flatten(own).items():
        np.testing.assert_allclose(flatten(seen.update)[name], factor * leaf, atol=1e-6 * np.abs(leaf).max())


@pytest.mark.parametrize(
    ("name", "fields"), [pytest.param("census", {}, marks=pytest.mark.slow), ("census", POOLED), ("grain", {})]
)
def test_a_gradient_gives_what_that_of_two_logits_gives(name: str, fields: dict[str, Any], lab: Any) -> None:
    truth = graphs(lab)[2]
    seen = sent(lab, [truth], **fields)
    found, other = attack(lab, name, seen, max_n=8), attack(lab, name, two_logits(lab, seen, **fields), max_n=8)
    assert found.stop == other.stop == "match" and lists(found, truth)
    assert [g.canonical_form() for g in found.graphs] == [g.canonical_form() for g in other.graphs]
    if name == "census":
        assert found.certificate is not None and other.certificate is not None
        assert dataclasses.replace(found.certificate, residual=0.0) == dataclasses.replace(
            other.certificate, residual=0.0
        )


@pytest.mark.parametrize(("fields", "label"), [({}, 0), (POOLED, 1)], ids=["a readout per node", "pooled"])
@pytest.mark.long
def test_one_graph_comes_back_through_local_steps(fields: dict[str, Any], label: int, lab: Any) -> None:
    truth = dataclasses.replace(graphs(lab)[1], y=label)
    seen = trained(lab, [truth], fields, steps=3)
    assert label_of(CensusProblem.of(seen, Knowledge(lab.space))) == label
    found = attack(lab, "census", seen, max_n=8)
    assert found.stop == "match" and lists(found, truth)
    assert found.gradient_distance is not None and found.gradient_distance < 1e-6


@pytest.mark.parametrize(
    ("fields", "training"),
    [
        pytest.param({}, {"steps": 1}, id="a batch, a readout per node", marks=pytest.mark.slow),
        pytest.param(POOLED, {"steps": 1}, id="a batch, pooled"),
        pytest.param({}, {"loader": 1}, id="one a step, a readout per node"),
        pytest.param({}, {"loader": 2, "steps": 2}, id="two a step, a readout per node", marks=pytest.mark.slow),
        pytest.param(POOLED | {"readout_widths": (256,)}, {"loader": 1}, id="one a step, pooled"),
        pytest.param(POOLED, {"steps": 2, "rate": 0.01}, id="all in every step, pooled", marks=pytest.mark.slow),
    ],
)
@pytest.mark.long
def test_several_graphs_come_back(fields: dict[str, Any], training: dict[str, Any], lab: Any, tmp_path: Path) -> None:
    some = graphs(lab)
    seen = trained(lab, some, fields, **training)
    found = attack(lab, "census", seen, max_n=6)
    assert len(found.members) == 3 and all(any(lists(one, truth) for one in found.members) for truth in some)
    assert found.stop == "match" and found.certificate is not None
    save(tmp_path / "seen", seen, lab.space)
    write(tmp_path / "found.json", found, tmp_path / "seen")
    assert verify(tmp_path / "found.json").holds


@pytest.mark.parametrize(("name", "label"), [("dlg", 1), ("graphdlg", 0), ("glg-graph", 1), ("empty", 0)])
def test_other_attacks_name_one_of_two_classes(name: str, label: int, lab: Any) -> None:
    truth = dataclasses.replace(lab.random(6, 3), y=label)
    public = tuple(lab.random(6, seed) for seed in range(40, 44))
    seen = sent(lab, [truth], **SMALL)
    options = {"steps": "5"} if name != "empty" else {}
    found = attack(lab, name, seen, n=truth.n, auxiliary=public, **options)
    assert found.best is not None
    assert found.best.y in ((0, 1) if name == "dlg" else (label,)) and np.isfinite(found.gradient_distance or 0.0)


def test_a_search_for_a_label_has_two_classes(lab: Any) -> None:
    setting, problem = pose(sent(lab, [lab.random(6, 3)], **SMALL), Knowledge(lab.space, n=6), infer=False)
    assert labels(setting, problem, jax.random.key(0))["labels"].shape == (1, 2)


SMALL: dict[str, Any] = {"hidden": 16, "readout": "pooled", "readout_widths": (), "layers": 1}


@pytest.mark.parametrize(("label", "loss"), [(0, "bce"), (1, "bce+smoothing:0.1")])
def test_the_closed_form_reads_a_graph(label: int, loss: str, lab: Any) -> None:
    """Smoothed labels are told by the likelier class."""
    truth = dataclasses.replace(lab.random(6, 3), y=label)
    shown = {"readout": "flattened", "slots": 8, "conv": "sage", "act": "sigmoid", "bias": True, "hidden": 16}
    found = attack(lab, "closed-form", sent(lab, [truth], loss, **shown))
    assert found.best is not None and found.best.y == label and found.best.isomorphic(truth)


def test_the_census_reads_a_node_task(lab: Any) -> None:
    truth = lab.path([0, 1, 2, 3, 1, 0, 2, 2], y=np.array([1, 0, 1, 1, 0, 0, 1, 0]))
    found = attack(lab, "census", sent(lab, [truth], per_node=True), max_n=10)
    assert found.stop == "match" and any(graph.isomorphic(truth) for graph in found.graphs)
    assert all(np.asarray(graph.y).sum() == 4 for graph in found.graphs)


def test_labels_of_nodes_are_read(lab: Any) -> None:
    """From each node's own gradient, and from their mean, of known edges and features."""
    graph, labels = lab.random(6, 2), np.array([0, 1, 1, 0, 1, 0])
    nodes = Graph(graph.x, graph.edges, labels)
    model = lab.model(classes=1, hidden=8, readout="node_scores", bias=True, act="sigmoid")
    each = node_gradients(model, lab.params(model), nodes, lab.space, loss="bce")
    np.testing.assert_array_equal(infer_node_labels(each), labels)
    mean = fedsgd(model, lab.params(model), [nodes], lab.space, loss="bce")
    distance, found = gradient_distances(mean, lab.space, [nodes])[0]
    assert distance < 1e-5
    np.testing.assert_array_equal(found, labels)


def test_a_label_that_a_graph_states_is_compared(lab: Any) -> None:
    truth = dataclasses.replace(lab.random(6, 3), y=1)
    seen = sent(lab, [truth], **SMALL)
    assert labelled_distance(seen, lab.space, truth) < 1e-6
    assert labelled_distance(seen, lab.space, dataclasses.replace(truth, y=0)) > 0.1
    with pytest.raises(ValueError, match=r"outside the classes 0\.\.1"):
        labelled_distance(seen, lab.space, dataclasses.replace(truth, y=2))
    with pytest.raises(ValueError, match=r"is not a class 0\.\.1"):
        sent(lab, [dataclasses.replace(truth, y=2)], **SMALL)


@pytest.mark.parametrize("label", [0, 1])
def test_facts_read_the_class(label: int, lab: Any) -> None:
    seen = sent(lab, [dataclasses.replace(lab.random(6, 3), y=label)], **SMALL)
    assert infer_label(seen) == label and facts(seen, lab.space).found["label"].value == label
    assert diagnoses(seen, lab.space) == []
    half = dataclasses.replace(seen, update=jax.tree.map(lambda g: g / 2, seen.update))
    assert "the head's gradient is 0.5 times that of the loss 'bce'" in " ".join(diagnoses(half, lab.space))


def test_facts_and_counts_of_a_batch(lab: Any) -> None:
    some = [dataclasses.replace(lab.random(6, seed), y=y) for seed, y in enumerate((1, 1, 1, 0, 1))]
    seen = sent(lab, some, **SMALL)
    found = facts(seen, lab.space).found
    assert found["classes"].value == [1], "the mean gradient is below 0"
    low, high = found["class_counts"].value["at_least"], found["class_counts"].value["at_most"]
    assert all(a <= count <= b for a, count, b in zip(low, (1, 4), high, strict=True)) and low[1] > 0
    logits = np.asarray(outputs(seen.model, seen.params, GraphBatch.from_graphs(some, lab.space)))
    chance = prior_probability(seen, logits)
    np.testing.assert_allclose(chance, [1 - expit(logits).mean(), expit(logits).mean()], rtol=1e-6)
    np.testing.assert_array_equal(infer_counts(seen, chance), [1, 4])
    smooth = sent(lab, some, "bce+smoothing:0.3", **SMALL)
    np.testing.assert_array_equal(infer_counts(smooth, chance), [1, 4])


def test_the_number_of_graphs_follows_from_their_labels(lab: Any) -> None:
    """One of two labels explains each pooled row, and then no other number is left to try."""
    assert list(numbers_of_graphs(sent(lab, graphs(lab), **POOLED), FOREVER)) == [3]


def test_accuracy_is_by_the_score_s_sign(lab: Any) -> None:
    model = lab.model(classes=1, **SMALL)
    some = [dataclasses.replace(lab.random(6, seed), y=0) for seed in range(6)]
    logits = np.asarray(outputs(model, lab.params(model), GraphBatch.from_graphs(some, lab.space)))[:, 0]
    assert 0 < np.sum(logits > 0)
    told = [dataclasses.replace(graph, y=int(z > 0)) for graph, z in zip(some, logits, strict=True)]
    assert accuracy(model, lab.params(model), told, lab.space) == 1.0
    assert accuracy(model, lab.params(model), [dataclasses.replace(g, y=1 - g.y) for g in told], lab.space) == 0.0
