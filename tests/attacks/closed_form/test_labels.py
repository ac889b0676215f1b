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
    prior_probability,
)
from jgleak.attacks.closed_form.propositions import ConditionFailed
from jgleak.defenses import parse
from jgleak.federated import fedsgd
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
