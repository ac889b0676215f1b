"""The closed-form attack on real gradients: exact where the conditions hold, and reasons where they do not."""

from __future__ import annotations

import dataclasses
from typing import Any

import jax
import numpy as np
import pytest
from models import flat, some_params

from jgleak.attacks.attack import Budget, Reconstruction
from jgleak.attacks.closed_form import closed_form
from jgleak.attacks.closed_form.closed_form import CLOSED_FORM, _labels
from jgleak.features import FeatureSpace, binary, real
from jgleak.federated import Knowledge, Observation, fedsgd
from jgleak.federated.client import node_gradients
from jgleak.gnn import GNN, BatchNorm, Flattened, GCNConv, Layer, LinearEncoder, LinearResidual, NodeScores, SAGEConv
from jgleak.graph import Graph

KEY = jax.random.key(0)
KINDS = {"gaussian": real, "binary": binary}


def space_of(kind: str, width: int) -> FeatureSpace:
    return FeatureSpace(tuple(KINDS[kind](f"feature {k}") for k in range(width)))


def draw(rng: np.random.Generator, n: int, kind: str, width: int, task: str) -> Graph:
    """A random connected graph whose GCN mixing is far from singular."""
    while True:
        edges = {(int(rng.integers(v)), v) for v in range(1, n)}
        edges |= {(u, v) for u, v in rng.integers(n, size=(n // 2, 2)).tolist() if u < v}
        x = rng.normal(size=(n, width)) if kind == "gaussian" else rng.integers(2, size=(n, width)).astype(np.int32)
        y = rng.integers(3, size=n) if task == "node" else 1
        graph = Graph(x, np.array(sorted(edges)), y)
        looped = graph.adjacency + np.eye(n)
        if np.linalg.cond(looped / np.sqrt(np.outer(looped.sum(0), looped.sum(0)))) < 60:
            return graph


def model_of(convolution: str, task: str, width: int, **fields: Any) -> GNN:
    readout = {"readout": "node_scores"} if task == "node" else {"readout": "flattened", "slots": 40}
    defaults: dict[str, Any] = {"conv": convolution, "hidden": 100, "act": "sigmoid", "bias": True, **readout}
    return flat(**(defaults | {"in_features": width, "classes": 3, "last_act": task == "graph"} | fields))


def observe(model: GNN, graph: Graph, space: FeatureSpace, loss: str = "ce", shrink: float = 1.0) -> Observation:
    """A round with uniform weights (no initialiser to compile), those of the first layer times ``shrink``."""
    rng, shapes = np.random.default_rng(5), jax.eval_shape(lambda: model.initial(key=KEY))
    params = jax.tree.map(lambda s: uniform(rng, s.shape), shapes)
    params["layers_0"]["conv"] = {name: leaf * np.float32(shrink) for name, leaf in params["layers_0"]["conv"].items()}
    if model.node_level:
        return node_gradients(model, params, graph, space, loss=loss)
    return fedsgd(model, params, [graph], space, loss=loss)


def uniform(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    bound = np.sqrt(6.0 / sum(shape)) if len(shape) == 2 else 0.1
    return rng.uniform(-bound, bound, shape).astype(np.float32)


def attack(observation: Observation, space: FeatureSpace, **known: Any) -> Reconstruction:
    return CLOSED_FORM(observation, Knowledge(space, **known), key=KEY, budget=Budget())


def error(found: Reconstruction, graph: Graph, space: FeatureSpace) -> float:
    assert found.features is not None
    truth = space.encode(graph.x)
    return float(np.linalg.norm(found.features - truth) / np.linalg.norm(truth))


CASES = [
    ("sage", "node", 5, "gaussian", 20, {}),
    ("sage", "node", 40, "binary", 60, {"last_act": True}),
    ("sage", "node", 24, "gaussian", 30, {"act": "relu", "layers": 3}),
    ("sage", "graph", 6, "binary", 20, {}),
    ("sage", "graph", 40, "gaussian", 60, {"act": "tanh"}),
    ("sage", "graph", 24, "gaussian", 30, {"last_act": False, "layers": 3, "bias": False}),
    ("gcn", "node", 7, "binary", 20, {}),
    ("gcn", "node", 24, "gaussian", 60, {"last_act": True}),
    ("gcn", "node", 24, "gaussian", 30, {"act": "relu"}),
    ("gcn", "graph", 7, "gaussian", 20, {}),
    ("gcn", "graph", 40, "binary", 60, {"act": "tanh"}),
]


@pytest.mark.parametrize(("conv", "task", "n", "kind", "width", "fields"), CASES)
def test_edges_and_features_are_exact(
    conv: str, task: str, n: int, kind: str, width: int, fields: dict[str, Any]
) -> None:
    """GraphSAGE with nothing known (2-c, c), GCN with the edges (2-b, b)."""
    space, rng = space_of(kind, width), np.random.default_rng(n)
    graph = draw(rng, n, kind, width, task)
    observation = observe(model_of(conv, task, width, **fields), graph, space)
    found = attack(observation, space, adjacency=graph.adjacency if conv == "gcn" else None)
    assert dict(found.info, seconds=0) == {
        "adjacency": "known" if conv == "gcn" else "exact",
        "features": "exact",
        "seconds": 0,
    }
    assert found.best is not None and found.adjacency is not None
    np.testing.assert_array_equal(found.adjacency, graph.adjacency)
    np.testing.assert_array_equal(found.best.edges, graph.edges)
    np.testing.assert_array_equal(found.best.y, graph.y)
    assert error(found, graph, space) < 1e-4
    if kind == "binary":
        np.testing.assert_array_equal(found.best.x, graph.x)
    assert found.stop == "match" and found.gradient_distance is not None and found.gradient_distance < 1e-5


@pytest.mark.parametrize("task", ["node", "graph"])
def test_another_order_of_nodes_gives_the_graph_in_that_order(task: str) -> None:
    space, rng = space_of("gaussian", 30), np.random.default_rng(1)
    graph, model = draw(rng, 12, "gaussian", 30, task), model_of("sage", task, 30)
    order = rng.permutation(12)
    found = [attack(observe(model, g, space), space) for g in (graph, graph.permute(order))]
    assert all(f.best is not None and f.features is not None for f in found)
    assert found[0].adjacency is not None and found[1].adjacency is not None
    np.testing.assert_array_equal(found[1].adjacency, found[0].adjacency[np.ix_(order, order)])
    np.testing.assert_allclose(np.asarray(found[1].features), np.asarray(found[0].features)[order], atol=1e-4)


@pytest.mark.parametrize("task", ["node", "graph"])
def test_what_is_known_is_kept_and_used(task: str) -> None:
    space, rng = space_of("gaussian", 30), np.random.default_rng(2)
    graph = draw(rng, 10, "gaussian", 30, task)
    observation = observe(model_of("sage", task, 30), graph, space)
    known = attack(observation, space, features=graph.x)
    assert (known.info["adjacency"], known.info["features"]) == ("exact", "known")
    assert known.best is not None and known.best.isomorphic(graph)
    known = attack(observation, space, adjacency=graph.adjacency, features=graph.x)
    assert (known.info["adjacency"], known.info["features"]) == ("known", "known") and known.stop == "match"
    with pytest.raises(ValueError, match="it has 9 nodes, the gradients come from 10"):
        attack(observation, space, adjacency=np.ones((9, 9)) - np.eye(9), features=graph.x[:9])


def test_known_features_open_what_the_hidden_states_close() -> None:
    """Tiny weights make hidden states all but equal; features of full rank give the edges (Proposition 6)."""
    space, rng = space_of("gaussian", 20), np.random.default_rng(3)
    graph = draw(rng, 10, "gaussian", 20, "graph")
    observation = observe(model_of("sage", "graph", 20), graph, space, shrink=1e-6)
    blind = attack(observation, space)
    assert blind.best is None and blind.stop == "no candidates"
    assert blind.info["adjacency"].startswith("failed") and blind.info["features"].startswith("failed")
    given = attack(observation, space, features=graph.x)
    assert given.info["adjacency"] == "exact" and given.adjacency is not None
    np.testing.assert_array_equal(given.adjacency, graph.adjacency)


@pytest.mark.parametrize("task", ["node", "graph"])
def test_alike_nodes_with_other_neighbours_are_a_reason_to_stop(task: str) -> None:
    """A path that reads the same from both ends: equal states, of which the edges do not say which is meant."""
    space, rng = space_of("gaussian", 20), np.random.default_rng(4)
    x = rng.normal(size=(5, 20))[[0, 1, 2, 1, 0]]
    graph = Graph(x, np.array([[0, 1], [1, 2], [2, 3], [3, 4]]), np.zeros(5, int) if task == "node" else 0)
    observation = observe(model_of("sage", task, 20), graph, space)
    found = attack(observation, space)
    assert found.best is None and found.gradient_distance is None and found.stop == "no candidates"
    assert "3 distinct rows and rank 3" in found.info["adjacency"]
    given = attack(observation, space, adjacency=graph.adjacency)
    assert given.info["features"] == "exact" and error(given, graph, space) < 1e-4


@pytest.mark.parametrize("task", ["node", "graph"])
def test_a_singular_gcn_hides_only_what_it_must(task: str) -> None:
    """Two nodes of one closed neighbourhood get their mean; all others are exact; the gradient cannot tell."""
    space, rng = space_of("gaussian", 20), np.random.default_rng(6)
    base = draw(rng, 8, "gaussian", 18, task)
    edges = np.vstack([base.edges, [[0, 8], [0, 9], [8, 9]]])
    x = rng.normal(size=(10, 20))
    graph = Graph(x, edges, rng.integers(3, size=10) if task == "node" else 2)
    found = attack(observe(model_of("gcn", task, 20), graph, space), space, adjacency=graph.adjacency)
    assert found.info["features"].startswith("partial: 2 of 10 nodes show only in sums")
    assert found.features is not None and found.stop == "match"
    np.testing.assert_allclose(found.features[:8], x[:8], atol=1e-3)
    np.testing.assert_allclose(found.features[8:], np.tile(x[8:].mean(axis=0), (2, 1)), atol=1e-3)
    relu = attack(observe(model_of("gcn", task, 20, act="relu"), graph, space), space, adjacency=graph.adjacency)
    assert relu.info["features"].startswith("partial: 2 of 10") and relu.features is not None
    np.testing.assert_allclose(relu.features[:8], x[:8], atol=1e-3)


def test_a_changed_update_is_noticed() -> None:
    space, rng = space_of("gaussian", 20), np.random.default_rng(8)
    graph = draw(rng, 8, "gaussian", 20, "node")
    seen = observe(model_of("sage", "node", 20), graph, space)
    noise = jax.tree.map(lambda g: g + 0.01 * np.abs(g).max() * rng.normal(size=g.shape), seen.update)
    found = attack(Observation(seen.model, seen.params, noise, "ce", protocol="node_losses"), space)
    assert found.best is None and "no states fit" in found.info["adjacency"]
    found = attack(observe(model_of("gcn", "node", 20), graph, space), space)
    assert found.best is None and "give the edges" in found.info["features"]


def test_what_features_cannot_open_stays_closed_with_the_reason() -> None:
    """A GCN has no kernel of the nodes' own rows; features of two equal nodes leave their edges open."""
    space, rng = space_of("gaussian", 20), np.random.default_rng(3)
    graph = draw(rng, 8, "gaussian", 20, "graph")
    found = attack(observe(model_of("gcn", "graph", 20), graph, space), space, features=graph.x)
    assert found.info["features"] == "known" and found.best is None
    assert found.info["adjacency"].endswith("give the edges")
    twin = Graph(graph.x[[0, *range(7)]], graph.edges, 1)
    found = attack(observe(model_of("sage", "graph", 20), twin, space, shrink=1e-6), space, features=twin.x)
    assert "the features (8, 20) have rank 7" in found.info["adjacency"] and found.info["features"] == "known"


@pytest.mark.parametrize(("distance", "note"), [(0.9e-4, "exact"), (1e-4, "partial")])
def test_an_answer_that_does_not_match_is_called_partial(distance: float, note: str, monkeypatch: Any) -> None:
    space, rng = space_of("gaussian", 20), np.random.default_rng(2)
    graph = draw(rng, 6, "gaussian", 20, "graph")
    monkeypatch.setattr(closed_form, "_distance", lambda *_: distance)
    seen = observe(model_of("sage", "graph", 20), graph, space)
    for known, part in (({}, "features"), ({"features": graph.x}, "adjacency")):
        found = attack(seen, space, **known)
        assert found.info[part].startswith(note) and found.gradient_distance == distance
        assert found.stop == ("match" if note == "exact" else "done")
        assert note == "exact" or found.info[part].endswith("the gradient of what was found is 1.0e-04 away")


def test_users_set_what_counts_as_equal() -> None:
    space = space_of("gaussian", 20)
    seen = observe(model_of("sage", "node", 20), draw(np.random.default_rng(8), 8, "gaussian", 20, "node"), space)
    strict = CLOSED_FORM.with_options({"fit": "1e-12"})(seen, Knowledge(space), key=KEY, budget=Budget())
    assert strict.best is None and "no states fit" in strict.info["adjacency"]
    graph = draw(np.random.default_rng(8), 6, "gaussian", 20, "graph")
    seen = observe(model_of("sage", "graph", 20), graph, space)
    strict = CLOSED_FORM.with_options({"one_row": "1e-12"})(seen, Knowledge(space), key=KEY, budget=Budget())
    assert strict.best is None and "away from rank one" in strict.info["adjacency"]
    with pytest.raises(ValueError, match="option 'passes': expected a whole number from 1, got '0'"):
        CLOSED_FORM.with_options({"passes": "0"})


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"conv": "gat"}, "mixing of 'gat' is not linear"),
        ({"readout": "pooled"}, "'node_losses' with readout 'node_scores', or 'fedsgd' with 'flattened'"),
        ({"readout": "node_scores"}, "'node_losses' with readout 'node_scores', or 'fedsgd' with 'flattened'"),
        ({"act": "gelu"}, "slope of 'gelu' does not follow"),
    ],
)
def test_what_cannot_be_peeled_is_refused(fields: dict[str, Any], says: str) -> None:
    space = space_of("gaussian", 6)
    model = model_of("sage", "graph", 6, hidden=8, **({"readout_widths": ()} | fields))
    params = jax.tree.map(lambda s: np.ones(s.shape, np.float32), jax.eval_shape(lambda: model.initial(key=KEY)))
    with pytest.raises(ValueError, match=f"closed-form.*{says}"):
        attack(Observation(model, params, params, "ce"), space)


def said_of(model: GNN) -> str | None:
    params = jax.tree.map(lambda s: np.ones(s.shape, np.float32), jax.eval_shape(lambda: model.initial(key=KEY)))
    return CLOSED_FORM.refusal(Observation(model, params, params, "ce"), Knowledge(space_of("gaussian", 6)))


@pytest.mark.parametrize(
    ("first", "parts", "says"),
    [
        (Layer(SAGEConv(8)), {}, None),
        (Layer(SAGEConv(8), norm=BatchNorm()), {}, "convolutions and activations alone"),
        (Layer(SAGEConv(8), residual=LinearResidual()), {}, "convolutions and activations alone"),
        (Layer(SAGEConv(8)), {"encoder": LinearEncoder(4)}, "convolutions and activations alone"),
        (Layer(SAGEConv(8)), {"jump": "max"}, "convolutions and activations alone"),
        (Layer(GCNConv(8)), {}, "different ways"),
    ],
)
def test_what_stands_around_equal_convolutions_is_refused(
    first: Layer, parts: dict[str, Any], says: str | None
) -> None:
    said = said_of(GNN(6, (first, Layer(SAGEConv(8))), Flattened(40), **parts))
    assert said is None if says is None else says in str(said)


@pytest.mark.parametrize("last", [False, True])
def test_the_last_convolution_alone_needs_a_bias(last: bool) -> None:
    model = GNN(6, (Layer(SAGEConv(8, bias=not last)), Layer(SAGEConv(3, bias=last))), NodeScores(3))
    params = jax.tree.map(lambda s: np.ones(s.shape, np.float32), jax.eval_shape(lambda: model.initial(key=KEY)))
    update = jax.tree.map(lambda leaf: np.stack([leaf, leaf]), params)
    seen = Observation(model, params, update, "ce", protocol="node_losses")
    said = CLOSED_FORM.refusal(seen, Knowledge(space_of("gaussian", 6)))
    assert said is None if last else "give the convolutions one" in str(said)


def test_one_kind_with_other_options_is_another_mixing() -> None:
    assert said_of(GNN(6, (Layer(GCNConv(8, bias=True)), Layer(GCNConv(9))), Flattened(40))) is None
    mixed = GNN(6, (Layer(GCNConv(8)), Layer(GCNConv(8, self_loops=False))), Flattened(40))
    assert "different ways" in str(said_of(mixed))


def test_one_activation_stands_between_all_layers_and_any_after_the_last() -> None:
    for acts, says in ((("relu", "relu", "tanh"), None), (("relu", "tanh", "tanh"), "between its layers differ")):
        said = said_of(GNN(6, tuple(Layer(SAGEConv(8), act) for act in acts), Flattened(40)))
        assert said is None if says is None else says in str(said)


def test_without_bias_or_labels_it_says_so() -> None:
    space, rng = space_of("gaussian", 6), np.random.default_rng(9)
    graph = draw(rng, 5, "gaussian", 6, "node")
    with pytest.raises(ValueError, match="give the convolutions one"):
        attack(observe(model_of("sage", "node", 6, hidden=8, bias=False), graph, space), space)
    scored = Graph(graph.x, graph.edges, rng.normal(size=5))
    regression = observe(model_of("sage", "node", 6, hidden=16, classes=1), scored, space, "mse")
    with pytest.raises(ValueError, match="give the labels"):
        attack(regression, space)
    assert attack(regression, space, labels=scored.y).stop == "match"


@pytest.mark.parametrize(("task", "label"), [("graph", 2), ("node", [2, 0])])
def test_where_signs_name_no_class_the_label_is_the_most_negative_entry(task: str, label: int | list[int]) -> None:
    """As noise leaves them; a label for the graph, or one a node."""
    space, model = space_of("gaussian", 6), model_of("sage", task, 6, hidden=8)
    shapes = jax.eval_shape(lambda: model.initial(key=KEY))
    noisy = np.array([[-0.1, 0.5, -0.4], [-0.6, -0.2, 0.1]], np.float32)
    shown, nodes = (noisy, (2,)) if task == "node" else (noisy[0], ())
    update = jax.tree.map(lambda leaf: shown if leaf.shape == (3,) else np.zeros(nodes + leaf.shape), shapes)
    params = jax.tree.map(lambda leaf: np.zeros(leaf.shape), shapes)
    protocol = "node_losses" if task == "node" else "fedsgd"
    assert np.array_equal(_labels(Observation(model, params, update, "ce", protocol=protocol), Knowledge(space)), label)


@pytest.mark.parametrize("n", [1, 3])
def test_without_edges_there_is_nothing_to_aggregate(n: int) -> None:
    """GraphSAGE on isolated nodes: the neighbours' kernel has no gradient, and the features still show."""
    space, rng = space_of("gaussian", 20), np.random.default_rng(n)
    graph = Graph(rng.normal(size=(n, 20)), np.zeros((0, 2), np.int64), 1)
    found = attack(observe(model_of("sage", "graph", 20), graph, space), space)
    assert found.stop == "match" and found.best is not None and found.best.edges.size == 0
    assert error(found, graph, space) < 1e-4


def test_a_clipped_update_is_compared_by_its_direction() -> None:
    space, rng = space_of("gaussian", 20), np.random.default_rng(6)
    graph, model = draw(rng, 6, "gaussian", 20, "graph"), model_of("sage", "graph", 20)
    whole = observe(model, graph, space)
    clipped = jax.tree.map(lambda leaf: np.float32(0.1) * leaf, whole.update)
    found = attack(dataclasses.replace(whole, update=clipped, scaled=True), space)
    assert found.stop == "match" and found.info["features"] == "exact"
    np.testing.assert_array_equal(found.adjacency, graph.adjacency)
    found = attack(dataclasses.replace(whole, update=clipped), space)
    assert found.stop == "done" and found.gradient_distance == pytest.approx(9.0, rel=1e-3), "it is ten times as long"


def test_a_pruned_update_is_refused() -> None:
    space, rng = space_of("gaussian", 20), np.random.default_rng(6)
    whole = observe(model_of("sage", "graph", 20), draw(rng, 6, "gaussian", 20, "graph"), space)
    with pytest.raises(ValueError, match="closed-form.*entries of the update were left out"):
        attack(dataclasses.replace(whole, pruned=True), space)


def test_states_that_are_all_zero_are_a_reason() -> None:
    """ReLU without a bias's help: blank features reach the readout as zeros."""
    space = space_of("binary", 20)
    graph = Graph(np.zeros((3, 20), np.int32), np.array([(0, 1), (1, 2)]), 1)
    model = model_of("sage", "graph", 20, act="relu")
    params = some_params(model)
    params = {
        name: {"conv": part["conv"] | {"bias": part["conv"]["bias"] * 0}} if name.startswith("layers_") else part
        for name, part in params.items()
    }
    observation = fedsgd(model, params, [graph], space, loss="ce")
    found = attack(observation, space)
    assert not found.graphs and "no node shows" in str(found.info)


@pytest.mark.parametrize(("layers", "rows"), [(2, "failed"), (1, "partial")])
def test_more_nodes_than_units_are_not_told_apart(layers: int, rows: str) -> None:
    """One gradient of 12 units shows 12 directions of 20 nodes; above the features nothing makes up for the rest."""
    rng, space = np.random.default_rng(0), space_of("gaussian", 30)
    graph, model = draw(rng, 20, "gaussian", 30, "graph"), model_of("gcn", "graph", 30, layers=layers, hidden=12)
    found = attack(observe(model, graph, space), space, adjacency=graph.adjacency)
    note = found.info["features"]
    assert (
        note.startswith(rows) and "the gradients have rank 12, and the edges pass 20 directions of 20 nodes on" in note
    )
    if rows == "partial":
        assert found.features is not None
        assert np.linalg.norm(found.features - graph.x) < np.linalg.norm(graph.x)


def test_noise_on_a_gcn_is_not_blamed_on_its_edges() -> None:
    rng, space = np.random.default_rng(0), space_of("gaussian", 30)
    graph, model = draw(rng, 8, "gaussian", 30, "graph"), model_of("gcn", "graph", 30, layers=1)
    seen = observe(model, graph, space)
    kernel = np.asarray(seen.update["layers_0"]["conv"]["kernel"])
    noise = 1e-2 * np.sqrt(np.mean(kernel**2)) * rng.normal(size=kernel.shape).astype(np.float32)
    spoilt = {**seen.update["layers_0"]["conv"], "kernel": kernel + noise}
    seen = dataclasses.replace(seen, update={**seen.update, "layers_0": {"conv": spoilt}})
    note = attack(seen, space, adjacency=graph.adjacency).info["features"]
    assert note.startswith("partial: its gradients are") and "was the update changed?" in note


def test_a_last_node_that_is_dead_is_counted_where_the_edges_are_known() -> None:
    """Its states are zero, so that the readout's gradient ends at the node before."""
    rng, space = np.random.default_rng(0), space_of("gaussian", 10)
    model = model_of("gcn", "graph", 10, act="relu", hidden=2)
    notes = list[str]()
    for _ in range(12):
        graph = draw(rng, 8, "gaussian", 10, "graph")
        notes.append(attack(observe(model, graph, space), space, adjacency=graph.adjacency).info["features"])
    assert all(note.startswith(("failed: ", "partial: ")) for note in notes)
