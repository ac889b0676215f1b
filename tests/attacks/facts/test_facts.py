"""Facts beside the truth: exact, or silent where their conditions do not hold."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import jax
import numpy as np
import optax
import pytest
from scipy.stats import laplace, norm

from jgleak.attacks.census.census import CENSUS
from jgleak.attacks.closed_form.labels import contradiction, names_no_class
from jgleak.attacks.facts.diagnosis import diagnoses
from jgleak.attacks.facts.evidence import Evidence
from jgleak.attacks.facts.fact import ADAM, DECAY, LINEAR, NOISE, PRUNING, Facts
from jgleak.attacks.facts.registry import FACTS, facts
from jgleak.attacks.noise import RATE, tail
from jgleak.defenses import parse
from jgleak.features import FeatureSpace, onehot
from jgleak.federated import Knowledge, LocalTraining, Observation, fedsgd
from jgleak.federated.observation import flatten
from jgleak.federated.statistics import of_batch
from jgleak.gnn import GNN, MLP, BatchNorm, GCNConv, Layer, Pooled
from jgleak.graph import Graph
from jgleak.interop.weights import mean_gradient, rounding

STEPS = 3


@pytest.fixture(scope="module")
def graph(lab: Any) -> Graph:
    """Seven nodes of colours 0 and 2, of degrees 1 to 3."""
    return lab.graph((0, 2, 0, 0, 2, 0, 2), [(0, 1), (1, 2), (2, 3), (1, 4), (4, 5), (5, 6), (2, 5)], 1)


def pooled(space: FeatureSpace, outputs: int = 2, norm: BatchNorm | None = None) -> GNN:
    layers = [Layer(GCNConv(64, bias=True), norm=norm and norm.clone()) for _ in range(2)]
    return GNN(space.width, tuple(layers), Pooled("mean", MLP((24, outputs))))


def trained(
    observed: Observation, optimiser: optax.GradientTransformation, rate: float, graphs: Sequence[Graph], space: Any
) -> Observation:
    """What a server computes from weights that came back after some steps."""
    model, params = observed.model, observed.params
    state = optimiser.init(params)
    for _ in range(STEPS):
        gradient = fedsgd(model, params, graphs, space, loss=observed.loss).update
        change, state = optimiser.update(gradient, state, params)
        params = jax.device_get(optax.apply_updates(params, change))
    length = np.float32(rate * STEPS)
    update = jax.tree.map(lambda a, b: (a - b) / length, observed.params, params)
    local = LocalTraining(rate, STEPS)
    return dataclasses.replace(observed, update=update, protocol="fedavg", local=local)


def value(found: Facts, name: str) -> Any:
    return found.found[name].value if name in found.found else None


def occurring(space: FeatureSpace, *graphs: Graph) -> dict[str, set[Any]]:
    rows = np.concatenate([graph.x for graph in graphs])
    free = [(column, f) for column, f in enumerate(space.features) if f.determined_by is None]
    return {f.name: {f.values[code] for code in rows[:, column]} for column, f in free}


def kinds(*graphs: Graph) -> set[tuple[int, ...]]:
    return {tuple(row[:2].tolist()) for graph in graphs for row in graph.x}


def test_a_schema_that_does_not_fit_is_named_and_is_a_condition_of_what_it_reads(lab: Any, graph: Graph) -> None:
    """Columns of the right number and another meaning: degrees first. The label needs no schema."""
    observed = lab.observe(pooled(lab.bare), graph, "ce", lab.bare)
    other = FeatureSpace((onehot("degree", range(6)), onehot("colour", range(4)), onehot("weight", (1, 2, 3))))
    told, right = facts(observed, other), facts(observed, lab.bare)
    assert any("the feature schema is not that of the model's columns" in said for said in diagnoses(observed, other))
    for name in ("feature_values", "different_nodes"):
        assert told.found[name].line.startswith("if the feature schema is right, ")
        assert told.to_json()[name]["condition"] == "the feature schema is right"
    assert told.to_json()["label"] == right.to_json()["label"]
    assert not any("schema" in f"{fact.condition} {fact.line}" for fact in right.found.values())
    assert "condition" not in right.to_json()["feature_values"]


def test_one_gradient_shows_values_kinds_nodes_label_and_units(lab: Any, graph: Graph) -> None:
    model = pooled(lab.bare)
    observed = lab.observe(model, graph, "ce", lab.bare)
    found = facts(observed, lab.bare)
    assert {k: set(v) for k, v in value(found, "feature_values").items()} == occurring(lab.bare, graph)
    assert value(found, "different_nodes") <= len(kinds(graph)), "two colours by three degrees hide one dimension"
    seen = value(found, "node_kinds")
    named = [(kind["colour"], kind["degree"]) for kind in seen["in_span"]]
    assert set(named) >= kinds(graph) and {named[k] for k in seen["needed"]} <= kinds(graph)
    assert value(found, "nodes") == {"multiple_of": 7}
    assert value(found, "label") == 1 and "graphs" in found.silent and "classes" in found.silent
    assert 0 < value(found, "units")["layers_0"]["on"] <= 64
    assert found.to_json()["label"]["exact_under"] == list(found.found["label"].exact_under)
    assert set(found.found) | set(found.silent) == set(FACTS)


def test_kinds_as_many_as_dimensions_are_needed(lab: Any) -> None:
    path = lab.path((0, 1, 1, 3, 2), 0)
    seen = value(facts(lab.observe(pooled(lab.bare), path, "ce", lab.bare), lab.bare), "node_kinds")
    named = [(seen["in_span"][k]["colour"], seen["in_span"][k]["degree"]) for k in seen["needed"]]
    assert set(named) <= kinds(path) and (3, 2) in named, "the only node of colour 3 has 2 neighbours"


def test_entries_that_quantisation_rounds_to_zero_are_no_missing_labels(lab: Any, graph: Graph) -> None:
    model, zeros = pooled(lab.bare, outputs=5), 0
    params = lab.params(model)
    for seed in range(4):
        sent = fedsgd(
            model, params, [graph], lab.bare, loss="ce", defense=parse("quantise:2"), key=jax.random.key(seed)
        )
        zeros += int(np.sum(sent.update["readout"]["mlp"]["linears_1"]["bias"] == 0))
        label = facts(sent, lab.bare).found.get("label")
        assert label is None or label.value == 1
        assert not any("masked_bce" in sentence for sentence in diagnoses(sent, lab.bare))
    assert zeros, "some entry was rounded"


def test_a_needed_kind_may_not_occur_and_the_line_says_when(lab: Any) -> None:
    """Both ends of a path have the middle's gradient, if nodes do not see themselves; ends minus middle is a vector."""
    space = FeatureSpace((onehot("a", "xyuv"), onehot("b", "pqrs")))
    path = Graph(np.array([[0, 0], [0, 1], [1, 1]], np.int32), np.array([[0, 1], [1, 2]]), 1)
    plain = pooled(space)
    model = plain.clone(layers=tuple(layer.clone(conv=layer.conv.clone(self_loops=False)) for layer in plain.layers))
    found = facts(lab.observe(model, path, "ce", space), space)
    seen = value(found, "node_kinds")
    assert [seen["in_span"][k] for k in seen["needed"]] == [{"a": "x", "b": "q"}, {"a": "y", "b": "p"}]
    line = found.found["node_kinds"].line
    assert line.startswith("if different nodes have independent gradients, ")
    assert line.endswith(" may occur, of which 2 must: a x, b q; a y, b p")
    assert value(found, "different_nodes") == 2
    assert found.found["different_nodes"].line == "at least 2 different feature vectors, so at least 2 nodes"


def test_a_line_of_many_kinds_is_short(lab: Any) -> None:
    """It tells the first three, without features that all of them share."""
    space = FeatureSpace((onehot("colour", "abcdef"), onehot("size", "uvw"), onehot("charge", (0, 1))))
    edges = np.array([*((i, i + 1) for i in range(5)), (0, 3)])
    different = Graph(np.array([[i, i % 3, 0] for i in range(6)], np.int32), edges, 1)
    found = facts(lab.observe(pooled(space), different, "ce", space), space)
    first = "colour a, size u; colour b, size v; colour c, size w; 3 more (--json lists them)"
    assert found.found["node_kinds"].line.endswith(f"6 feature vectors may occur, of which 6 must: {first}")
    assert len(value(found, "node_kinds")["needed"]) == 6


OPTIMISERS = {
    "momentum": (optax.sgd(0.1, momentum=0.9), 0.1),
    "decay": (optax.chain(optax.add_decayed_weights(1e-2), optax.sgd(0.1, momentum=0.9)), 0.1),
    "adam": (optax.adam(1e-3), 1e-3),
    "adamw": (optax.adamw(1e-2, weight_decay=0.1), 1e-2),
}


@pytest.mark.parametrize("name", OPTIMISERS)
def test_local_steps_leave_values_and_labels(lab: Any, graph: Graph, name: str) -> None:
    optimiser, rate = OPTIMISERS[name]
    tasks = dataclasses.replace(graph, y=np.array([[0.0, np.nan, 1.0]], np.float32))
    one = fedsgd(pooled(lab.bare, 3), lab.params(pooled(lab.bare, 3)), [tasks], lab.bare, loss="masked_bce")
    found = facts(trained(one, optimiser, rate, [tasks], lab.bare), lab.bare)
    assert {k: set(v) for k, v in value(found, "feature_values").items()} == occurring(lab.bare, graph)
    assert value(found, "label") == [0, None, 1], "a missing label is not moved by weight decay"
    assert ("units" in found.found) == (name in ("momentum", "adam")), "weight decay moves every column"
    assert ("node_kinds" in found.found) == (name in ("momentum", "decay")), "Adam is not linear"
    stated = trained(one, optimiser, rate, [tasks], lab.bare)
    if name == "adam":
        stated = dataclasses.replace(stated, protocol="fedavg", local=LocalTraining(rate, 1, optimiser="adam"))
        assert value(facts(stated, lab.bare), "label") == [0, None, 1]
        with pytest.raises(ValueError, match="Adam, whose steps divide .* jgleak.facts says what these tell"):
            CENSUS(stated, Knowledge(lab.bare), key=jax.random.key(0))
    under = {"adam": ADAM, "adamw": ADAM}.get(name, DECAY)
    assert under in found.found["feature_values"].exact_under
    assert "nodes" in found.silent and "graphs" in found.silent


@pytest.mark.parametrize("decay", [0.0, 0.02])
def test_weights_of_stated_adam_show_values_and_labels_and_no_ranks(lab: Any, graph: Graph, decay: float) -> None:
    """Steps as PyTorch makes them in 32 bits, which round ``1 - rate decay`` at every one alike."""
    local, model = LocalTraining(1e-2, 40, weight_decay=decay, optimiser="adam"), pooled(lab.bare, 3)
    adam, sent, kept = optax.adam(local.rate), lab.params(model), np.float32(1 - local.rate * decay)
    params, state = sent, adam.init(sent)
    for _ in range(local.steps):
        gradient = fedsgd(model, params, [graph], lab.bare, loss="ce").update
        change, state = adam.update(gradient, state)
        params = jax.device_get(jax.tree.map(lambda w, c: w * kept + c, params, change))
    update = jax.tree.map(lambda a, b: mean_gradient(np.asarray(a), b, local), sent, params)
    noise = rounding(flatten(sent), flatten(params), local)
    seen = Observation(model, sent, update, "ce", protocol="fedavg", local=local, noise=noise)
    assert not Evidence(dataclasses.replace(seen, update=gradient), lab.bare).linear, "it says so, whatever it holds"
    whole = dict(update["readout"]["mlp"]["linears_1"], bias=np.array([1, 0, 0.9], np.float32))
    sure = {**update, "readout": {"mlp": {**update["readout"]["mlp"], "linears_1": whole}}}
    assert not names_no_class(dataclasses.replace(seen, update=sure)), "a class may have a probability of 1"
    assert contradiction(seen) is None, "directions of three classes do not add up to zero"
    for known in (seen, dataclasses.replace(seen, noise=None)) if not decay else (seen,):
        found = facts(known, lab.bare)
        assert {k: set(v) for k, v in value(found, "feature_values").items()} == occurring(lab.bare, graph)
        assert value(found, "label") == 1 and ADAM in found.found["label"].exact_under
        assert value(found, "different_nodes") == 3, "degrees, and no rank of rows that Adam divided"
        assert {"node_kinds", "nodes", "graphs"} <= set(found.silent) and not diagnoses(known, lab.bare)


def test_noise_is_silence_unless_its_size_is_known(lab: Any, graph: Graph) -> None:
    model = pooled(lab.bare)
    defense, key = parse("gaussian:0.001"), jax.random.key(1)
    observed = fedsgd(model, lab.params(model), [graph], lab.bare, loss="ce", defense=defense, key=key)
    unknown, known = facts(observed, lab.bare), facts(observed, lab.bare, noise=1e-3)
    for name in ("feature_values", "different_nodes", "node_kinds", "nodes", "graphs", "units"):
        assert name in unknown.silent
    faint = jax.tree.map(lambda g: g + np.float32(1e-9), lab.observe(model, graph, "ce", lab.bare).update)
    hidden = facts(dataclasses.replace(observed, update=faint), lab.bare)
    assert "every row" in hidden.silent["feature_values"], "sums look sound, and yet no row stands still"
    true = occurring(lab.bare, graph)
    assert all(set(values) <= true[name] for name, values in value(known, "feature_values").items())
    assert value(known, "feature_values")["colour"] == [0, 2] and value(known, "label") == 1
    assert NOISE in known.found["feature_values"].exact_under


def test_a_single_entry_names_no_label_that_laplace_noise_may_have_made(lab: Any, graph: Graph) -> None:
    """Nobody says whether noise is Gaussian or Laplace, and Laplace noise reaches 6 deviations in one such client of a
    thousand."""
    sent, far = lab.observe(pooled(lab.bare, outputs=12), graph, "ce", lab.bare), norm.isf(RATE / 12)
    assert 12 * 2 * laplace.sf(tail(12), scale=np.sqrt(0.5)) == pytest.approx(RATE) and tail(12) > far

    def named(deviations: float) -> Any:
        noisy = jax.tree.map(np.array, sent.update)
        noisy["readout"]["mlp"]["linears_1"]["bias"][5] -= deviations * 100.0
        return value(facts(dataclasses.replace(sent, update=noisy), lab.bare, noise=100.0), "label")

    assert (named(6.0), named(9.5), named(10.5)) == (None, None, 5)


def test_pruning_keeps_values_and_says_nothing_of_ranks(lab: Any, graph: Graph) -> None:
    model = pooled(lab.bare)
    defense, key = parse("prune:0.6"), jax.random.key(1)
    observed = fedsgd(model, lab.params(model), [graph], lab.bare, loss="ce", defense=defense, key=key)
    found = facts(observed, lab.bare)
    true = occurring(lab.bare, graph)
    assert all(set(values) <= true[name] for name, values in value(found, "feature_values").items())
    assert PRUNING in found.found["feature_values"].exact_under and value(found, "label") == 1
    assert {"node_kinds", "nodes", "graphs"} <= set(found.silent)


def test_normalised_columns_show_the_row_of_absent_values(lab: Any, graph: Graph) -> None:
    model, path = pooled(lab.space), lab.path((0, 2, 0))
    observed = lab.observe(model, path, "ce")
    found = facts(observed, lab.space)
    assert {k: set(v) for k, v in value(found, "feature_values").items()} == occurring(lab.space, path)
    assert found.found["feature_values"].exact_under == LINEAR, "Adam divides it away"
    assert value(found, "nodes") == {"multiple_of": 3}
    wrong = facts(observed, lab.bare)
    assert "normalised" in wrong.silent["feature_values"], "read as raw, every value would occur"
    most = facts(lab.observe(model, graph, "ce"), lab.space)
    assert "no row stands out" in most.silent["feature_values"], "fewer than half of the values are absent"


def test_signs_that_no_class_has_refute_the_loss(lab: Any, graph: Graph) -> None:
    tasks = dataclasses.replace(graph, y=np.array([[1.0, np.nan, 1.0, 0.0]], np.float32))
    observed = fedsgd(pooled(lab.bare, 4), lab.params(pooled(lab.bare, 4)), [tasks], lab.bare, loss="masked_bce")
    fact = facts(dataclasses.replace(observed, loss="ce"), lab.bare).found["label"]
    assert fact.value == [1, None, 1, 0] and "refute the loss 'ce'" in fact.line
    frozen = dataclasses.replace(observed, loss="ce", update=jax.tree.map(np.zeros_like, observed.update))
    assert not facts(frozen, lab.bare).found, "what did not move shows nothing"


def test_a_batch_shows_how_many_graphs_and_labels_there_are(lab: Any, graph: Graph) -> None:
    graphs = [graph, lab.ring((0, 1, 2, 0), 3), lab.path((1, 1, 2), 1)]
    model = pooled(lab.bare, 5)
    observed = fedsgd(model, lab.params(model), graphs, lab.bare, loss="ce")
    found = facts(observed, lab.bare)
    assert value(found, "graphs") == 3 and value(found, "classes") == [1, 3] and "label" in found.silent
    counts = value(found, "class_counts")
    assert all(a <= b <= c for a, b, c in zip(counts["at_least"], [0, 2, 0, 1, 0], counts["at_most"], strict=True))
    assert counts["at_least"][1] > 0 and counts["at_most"][0] < 3
    declared_one = facts(dataclasses.replace(observed, batch_size=1), lab.bare)
    assert value(declared_one, "graphs") == 3 and "label" in declared_one.silent
    assert "more than one row" in declared_one.silent["nodes"]


def test_buffers_give_the_mean_of_every_norm(lab: Any, graph: Graph) -> None:
    model = pooled(lab.bare, norm=BatchNorm(training=True))
    observed = lab.observe(model, graph, "ce", lab.bare)
    found = value(facts(observed, lab.bare), "batch_statistics")
    conv = observed.params["layers_0"]["conv"]
    degree = graph.adjacency.sum(axis=0) + 1.0
    mixing = (graph.adjacency + np.eye(graph.n)) / np.sqrt(np.outer(degree, degree))
    rows = mixing @ lab.bare.encode(graph.x) @ conv["kernel"] + conv["bias"]
    assert np.allclose(found["layers_0/norm"]["mean"], rows.mean(axis=0), atol=1e-5)
    assert len(found) == len(of_batch(model, observed.params, observed.statistics))


def test_another_space_is_refused(lab: Any, graph: Graph) -> None:
    observed = lab.observe(pooled(lab.bare), graph, "ce", lab.bare)
    with pytest.raises(ValueError, match="model: takes .* features a node, but the feature space has"):
        facts(observed, lab.bare.without("degree"))
