"""Labels follow from the last bias's gradient: every loss, readout and class; counts of a batch; targets."""

from __future__ import annotations

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jgleak.attacks.closed_form.labels import (
    infer_counts,
    infer_label,
    infer_node_labels,
    infer_target,
    infer_tasks,
    prior_probability,
    tasks_hidden,
)
from jgleak.attacks.closed_form.propositions import ConditionFailed
from jgleak.defenses import parse
from jgleak.federated import LocalTraining, fedsgd
from jgleak.federated.client import node_gradients, target_gradient
from jgleak.gnn import GNN, BatchNorm, GCNConv, Layer, LayerNorm, NodeScores
from jgleak.graph import Graph

READOUTS: Any = [
    {"readout": "node_mlp"},
    {"readout": "pooled", "readout_widths": (5,)},
    {"readout": "pooled", "readout_widths": ()},
    {"readout": "flattened", "slots": 8},
]


@pytest.mark.parametrize("loss", ["bce", "ce"])
@pytest.mark.parametrize("fields", READOUTS, ids=lambda f: f["readout"])
def test_the_sign_names_the_class(lab: Any, loss: str, fields: dict[str, Any]) -> None:
    model = lab.model(hidden=8, classes=4, **fields)
    graph = lab.random(6, 1)
    for label in range(4):
        labelled = dataclasses.replace(graph, y=label)
        assert infer_label(fedsgd(model, lab.params(model), [labelled], lab.space, loss=loss)) == label


def test_every_node_tells_its_class(lab: Any) -> None:
    graph = lab.random(7, 2)
    labels = np.array([0, 3, 1, 1, 2, 0, 3])
    nodes = Graph(graph.x, graph.edges, labels)
    for last in (False, True):
        model = lab.model(
            conv="gcn", hidden=8, classes=4, readout="node_scores", bias=True, act="sigmoid", last_act=last
        )
        seen = node_gradients(model, lab.params(model), nodes, lab.space, loss="ce")
        np.testing.assert_array_equal(infer_node_labels(seen), labels)
        assert infer_label(target_gradient(model, lab.params(model), [nodes], lab.space, loss="ce")) == 0
        with pytest.raises(ConditionFailed, match="sums over several labels"):
            infer_label(seen)


def test_counts_of_a_batch(lab: Any) -> None:
    graphs = [dataclasses.replace(lab.random(6, seed), y=seed % 3) for seed in range(8)]
    model = lab.model(hidden=8, classes=3, readout="pooled", readout_widths=())
    for loss in ("ce", "bce"):
        seen = fedsgd(model, lab.params(model), graphs, lab.space, loss=loss)
        public = [lab.random(6, seed) for seed in range(20, 40)]
        batch = [_logits(lab, model, graph) for graph in public]
        counts = infer_counts(seen, prior_probability(seen, np.stack(batch)))
        np.testing.assert_array_equal(counts, [3, 3, 2])
        with pytest.raises(ConditionFailed, match="infer_counts"):
            infer_label(seen)


def _logits(lab: Any, model: Any, graph: Graph) -> np.ndarray:
    parts = [jnp.asarray(part) for part in (lab.space.encode(graph.x), graph.adjacency, np.ones(graph.n, bool))]
    return np.asarray(model.apply({"params": lab.params(model)}, *parts))


def test_targets_of_a_regression(lab: Any) -> None:
    model = lab.model(hidden=8, classes=1, readout="pooled", readout_widths=())
    for y in (-3.25, 0.0, 1.5):
        seen = fedsgd(model, lab.params(model), [dataclasses.replace(lab.random(6, 4), y=y)], lab.space, loss="mse")
        assert infer_target(seen) == pytest.approx(y, abs=1e-4)
        for defense in ("prune:0.5", "prune:0.5+gaussian:1e-9"):  # noise hides which entries were left out
            sent = parse(defense).apply(seen.update, key=jax.random.key(0))
            with pytest.raises(ConditionFailed, match="were pruned"):
                infer_target(dataclasses.replace(seen, update=jax.tree.map(np.asarray, sent), pruned=True))
    with pytest.raises(ConditionFailed, match="a regression has no classes"):
        infer_label(seen)


def test_what_hides_a_target_is_named(lab: Any) -> None:
    graph = dataclasses.replace(lab.random(6, 4), y=1.5)
    deep = lab.model(hidden=8, classes=1, readout="pooled", readout_widths=(5,))
    with pytest.raises(ConditionFailed, match="one linear map after pooling"):
        infer_target(fedsgd(deep, lab.params(deep), [graph], lab.space, loss="mse"))
    model = lab.model(hidden=8, classes=1, readout="pooled", readout_widths=())
    seen = fedsgd(model, lab.params(model), [graph], lab.space, loss="mse")
    met = dataclasses.replace(seen, update=jax.tree.map(np.zeros_like, seen.update))
    with pytest.raises(ConditionFailed, match="already equals the target"):
        infer_target(met)
    fixed = model.clone(frozen=("readout",))
    with pytest.raises(ConditionFailed, match="are frozen"):
        infer_target(fedsgd(fixed, lab.params(fixed), [graph], lab.space, loss="mse"))


@pytest.mark.parametrize("mean_over", ["batch", "task"])
def test_labels_of_tasks_show_under_either_mean(lab: Any, mean_over: str) -> None:
    model = lab.model(hidden=8, classes=3, readout="pooled", readout_widths=())
    wanted = np.array([[-2.0, np.nan, 0.75]], np.float32)
    graph = dataclasses.replace(lab.random(6, 4), y=wanted)
    found = infer_tasks(fedsgd(model, lab.params(model), [graph], lab.space, loss=f"masked_mse+over:{mean_over}"))
    np.testing.assert_allclose(found, wanted[0], atol=1e-4)
    binary = dataclasses.replace(graph, y=np.array([[1.0, np.nan, 0.0]], np.float32))
    found = infer_tasks(fedsgd(model, lab.params(model), [binary], lab.space, loss=f"masked_bce+over:{mean_over}"))
    np.testing.assert_array_equal(found, [1.0, np.nan, 0.0])


def test_what_hides_labels_of_tasks_is_named(lab: Any) -> None:
    model = lab.model(hidden=8, classes=2, readout="pooled", readout_widths=())
    graph = dataclasses.replace(lab.random(6, 4), y=np.array([[1.0, 0.0]], np.float32))
    seen = fedsgd(model, lab.params(model), [graph], lab.space, loss="masked_bce")
    still = model.clone(frozen=("readout",))
    fixed = fedsgd(still, lab.params(still), [graph], lab.space, loss="masked_bce")
    errors = dataclasses.replace(seen, loss="masked_mse")
    reasons = {
        "not of several tasks": tasks_hidden(dataclasses.replace(seen, loss="ce")),
        "are frozen": tasks_hidden(fixed),
        "several graphs": tasks_hidden(dataclasses.replace(seen, batch_size=2)),
        "noise hides": tasks_hidden(seen, 1e-3),
        "pruning left out": tasks_hidden(dataclasses.replace(seen, pruned=True)),
        "on which side": tasks_hidden(dataclasses.replace(seen, loss="masked_mae")),
        "one linear map": tasks_hidden(dataclasses.replace(errors, protocol="fedavg", local=LocalTraining(0.01, 5))),
        "gradient's length": tasks_hidden(dataclasses.replace(errors, scaled=True)),
    }
    assert all(reason is not None and said in reason for said, reason in reasons.items())
    assert tasks_hidden(seen) is tasks_hidden(errors) is None
    with pytest.raises(ConditionFailed, match="see infer_tasks"):
        infer_label(seen)


def test_what_hides_a_class_is_named(lab: Any) -> None:
    model = lab.model(hidden=8, classes=3, readout="pooled", readout_widths=())
    seen = lab.observe(model, lab.random(5, 5), loss="ce")
    with pytest.raises(ConditionFailed, match="smoothing"):
        infer_label(dataclasses.replace(seen, loss="ce+smoothing:0.1"))
    with pytest.raises(ConditionFailed, match="come summed up"):
        infer_node_labels(seen)
    with pytest.raises(ValueError, match="one entry for each of 3 classes"):
        infer_counts(seen, np.full(2, 0.5))
    graph = lab.random(7, 2)
    nodes = Graph(graph.x, graph.edges, np.array([0, 3, 1, 1, 2, 0, 3]))
    curved = lab.model(conv="gcn", hidden=8, classes=4, readout="node_scores", bias=True, act="gelu", last_act=True)
    with pytest.raises(ConditionFailed, match="GELU"):
        infer_node_labels(node_gradients(curved, lab.params(curved), nodes, lab.space, loss="ce"))


def test_signs_that_fit_no_class_are_refused(lab: Any) -> None:
    model = lab.model(hidden=8, classes=3, readout="pooled", readout_widths=())
    seen = lab.observe(model, lab.random(5, 5), loss="ce")
    noisy = jax.tree.map(lambda leaf: -np.abs(leaf), seen.update)
    with pytest.raises(ConditionFailed, match="fit no class"):
        infer_label(dataclasses.replace(seen, update=noisy))
    bare = lab.model(hidden=8, readout="node_scores")
    graph = lab.random(5, 5)
    sent = node_gradients(bare, lab.params(bare), Graph(graph.x, graph.edges, graph.x[:, 0] % 2), lab.space, loss="ce")
    with pytest.raises(ConditionFailed, match="adds no bias"):
        infer_node_labels(sent)


@pytest.mark.parametrize(
    ("parts", "jump"), [({"norm": BatchNorm()}, "last"), ({"norm": LayerNorm()}, "last"), ({}, "cat"), ({}, "max")]
)
def test_a_bias_that_does_not_reach_the_logits_alone_names_no_class(lab: Any, parts: dict[str, Any], jump: str) -> None:
    """The last bias meets a norm, or other layers' states stand between it and the logits."""
    width = 2 if jump == "cat" else 4
    layers = tuple(Layer(GCNConv(width, bias=True), "identity", **parts) for _ in range(2))
    model = GNN(lab.space.width, layers, NodeScores(4), jump=jump)
    model.check()
    graph = lab.random(5, 5)
    labelled = Graph(graph.x, graph.edges, np.array([3, 0, 1, 2, 0]))
    with pytest.raises(ConditionFailed, match="adds no bias"):
        infer_label(target_gradient(model, lab.params(model), [labelled], lab.space, loss="ce"))
