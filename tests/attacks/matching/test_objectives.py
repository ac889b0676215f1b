"""The gradient of a guess is the client's where the guess is the client; distances in closed form; always finite."""

from __future__ import annotations

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree

from jgleak.attacks.attack import Budget
from jgleak.attacks.distance import gradient_distances
from jgleak.attacks.matching.objectives import Guess, cosine, distance, gradients, layerwise, squared
from jgleak.attacks.matching.problem import Problem, Setting, pose
from jgleak.attacks.matching.recipe import hard_distance
from jgleak.attacks.registry import get_attack
from jgleak.attacks.relaxations import sigmoid_edges
from jgleak.defenses import parse
from jgleak.federated import Knowledge, Observation, fedsgd
from jgleak.federated.client import node_gradients, target_gradient
from jgleak.graph import Graph

CONVOLUTIONS = pytest.mark.parametrize("conv", ["gcn", "sage", "gat", "gin"])


def posed(lab: Any, observation: Observation, graphs: list[Graph]) -> tuple[Setting, Problem, Guess]:
    """The problem, and the guess that is the truth."""
    most = max(g.n for g in graphs)
    knowledge = Knowledge(
        lab.space,
        sizes=tuple(g.n for g in graphs),
        features=np.stack([np.pad(g.x, ((0, most - g.n), (0, 0))) for g in graphs]),
        adjacency=np.stack([np.pad(g.adjacency, (0, most - g.n)) for g in graphs]),
        labels=np.stack([np.asarray(g.y) for g in graphs]),
    )
    setting, problem = pose(observation, knowledge, infer=False)
    assert problem.nodes is not None and problem.adjacency is not None and problem.labels is not None
    return setting, problem, Guess(*map(jnp.asarray, (problem.nodes, problem.adjacency, problem.labels)))


gap = jax.jit(hard_distance, static_argnames="setting")


def labelled(graph: Graph) -> Graph:
    return Graph(graph.x, graph.edges, graph.x[:, 0] % 2)


@CONVOLUTIONS
def test_the_truth_has_distance_zero_and_another_graph_has_not(lab: Any, conv: str) -> None:
    graphs = [lab.random(6, 0), lab.random(6, 1)]
    model = lab.model(conv=conv, hidden=8, readout="pooled", readout_widths=())
    setting, problem, truth = posed(lab, fedsgd(model, lab.params(model), graphs, lab.space, loss="ce"), graphs)
    assert gap(setting, problem, truth) < 1e-5
    assert gap(setting, problem, truth._replace(adjacency=truth.adjacency[::-1])) > 1e-2


def test_gradients_of_every_node_and_of_target_nodes(lab: Any) -> None:
    graph = labelled(lab.random(6, 2))
    model = lab.model(conv="sage", hidden=8, readout="node_scores", bias=True)
    params = lab.params(model)
    setting, problem, truth = posed(lab, node_gradients(model, params, graph, lab.space, loss="ce"), [graph])
    assert problem.update["layers_0"]["conv"]["bias"].shape == (6, 8)
    assert gap(setting, problem, truth) < 1e-5
    pair = [graph, labelled(lab.random(6, 3))]
    setting, problem, truth = posed(lab, target_gradient(model, params, pair, lab.space, loss="ce"), pair)
    assert gap(setting, problem, truth) < 1e-5
    mean = fedsgd(model, params, [graph], lab.space, loss="ce")
    each = node_gradients(model, params, graph, lab.space, loss="ce")
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b.mean(axis=0), atol=1e-6), mean.update, each.update)


def test_graphs_of_a_batch_have_sizes_of_their_own(lab: Any) -> None:
    """The truth explains the update where every graph has its own size, and does not where all have the largest."""
    graphs = [lab.random(3, 0), lab.random(7, 1), lab.random(5, 2)]
    model = lab.model(hidden=8, readout="pooled", readout_widths=())
    observation = fedsgd(model, lab.params(model), graphs, lab.space, loss="ce")
    setting, problem, truth = posed(lab, observation, graphs)
    np.testing.assert_array_equal(np.asarray(problem.mask).sum(axis=1), [3, 7, 5])
    assert gap(setting, problem, truth) < 1e-5
    largest = dataclasses.replace(problem, mask=np.arange(problem.mask.shape[1]) < np.full((3, 1), 7))
    assert gap(setting, largest, truth) > 1e-2


def test_of_a_clipped_update_only_the_direction_counts(lab: Any) -> None:
    graphs = [lab.random(6, 0)]
    model = lab.model(hidden=8, readout="pooled", readout_widths=())
    params = lab.params(model)
    apart = jax.jit(lambda *case: squared(gradients(*case), case[1].update), static_argnums=0)
    lengths, errors = [], []
    for defense in map(parse, ("", "clip:0.01", "clip:0.0001")):
        observation = fedsgd(model, params, graphs, lab.space, loss="ce", defense=defense, key=jax.random.key(0))
        lengths.append(float(jnp.linalg.norm(ravel_pytree(observation.update)[0])))
        setting, problem, truth = posed(lab, observation, graphs)
        other = truth._replace(adjacency=truth.adjacency[:, ::-1, ::-1])
        assert gap(setting, problem, truth) < 1e-5
        errors.append([float(apart(setting, problem, guess)) for guess in (truth, other)])
    assert lengths[0] > 0.01 and lengths[1:] == pytest.approx([0.01, 0.0001], rel=1e-5)
    assert errors[1] == pytest.approx(errors[2], abs=1e-5) and errors[1][1] > 1e-3


def test_labels_that_absorb_clipping_leave_the_length_alone(lab: Any) -> None:
    graph = lab.random(6, 0)
    for loss, classes in (("mse", 1), ("ce", 2)):
        model = lab.model(hidden=8, readout="pooled", readout_widths=(), classes=classes)
        clip = parse("clip:0.0001")
        seen = fedsgd(model, lab.params(model), [graph], lab.space, loss=loss, defense=clip, key=jax.random.key(0))
        assert seen.scaled
        for infer, labels, scaled in ((False, None, False), (True, None, loss == "ce"), (True, [graph.y], True)):
            known = Knowledge(lab.space, n=graph.n, labels=None if labels is None else np.array(labels))
            setting, _ = pose(seen, known, infer=infer)
            assert setting.scaled == scaled, (loss, infer, labels)


def test_distances_in_closed_form() -> None:
    rng = np.random.default_rng(0)
    found: Any = {"layers_0": {"conv": rng.normal(size=(2, 3, 4))}, "readout": {"bias": rng.normal(size=(2, 4))}}
    seen: Any = jax.tree.map(lambda leaf: leaf + 0.1 * rng.normal(size=leaf.shape), found)
    flat, want = (
        np.concatenate([t["layers_0"]["conv"].reshape(2, -1), t["readout"]["bias"]], axis=1) for t in (found, seen)
    )
    relative = np.sum((flat - want) ** 2, axis=1) / np.sum(want**2, axis=1)
    angle = np.sum(flat * want, axis=1) / np.linalg.norm(flat, axis=1) / np.linalg.norm(want, axis=1)
    found, seen = jax.tree.map(jnp.asarray, (found, seen))
    np.testing.assert_allclose(squared(found, seen), relative.mean(), rtol=1e-5)
    np.testing.assert_allclose(cosine(found, seen), np.mean(1 - angle), rtol=1e-4)
    np.testing.assert_allclose(distance(found, seen), np.linalg.norm(flat - want) / np.linalg.norm(want), rtol=1e-5)
    first, head = (
        squared(found["layers_0"]["conv"], seen["layers_0"]["conv"]),
        squared(found["readout"], seen["readout"]),
    )
    np.testing.assert_allclose(layerwise({"readout": 3.0})(found, seen), (first + 3 * head) / 4, rtol=1e-5)
    assert cosine(jax.tree.map(lambda g: 7 * g, found), seen) == pytest.approx(float(cosine(found, seen)), abs=1e-6)


@CONVOLUTIONS
def test_derivatives_are_finite_at_the_edge_of_the_domain(lab: Any, conv: str) -> None:
    """Nodes without edges, a single node, saturated edges, an update of zeros; a sum of objectives is as bad as one."""
    model = lab.model(conv=conv, hidden=4, readout="pooled", readout_widths=())
    lonely, single = lab.graph([0, 1, 2], [(0, 1)]), lab.graph([1], [])

    @jax.jit
    def slopes(edges: Any, problem: Problem) -> Any:
        def value(edges: Any, nodes: Any) -> Any:
            guess = Guess(nodes, sigmoid_edges(edges, problem.mask), jnp.asarray(problem.labels))
            found = gradients(setting, problem, guess)
            return sum(objective(found, problem.update) for objective in (squared, cosine, layerwise({})))

        return jax.grad(value, argnums=(0, 1))(edges, problem.nodes)

    for graph in (lonely, single):
        observation = fedsgd(model, lab.params(model), [graph], lab.space, loss="ce")
        setting, problem, _ = posed(lab, observation, [graph])
        empty = jax.tree.map(np.zeros_like, problem.update)
        for update in (problem.update, empty):
            for height in (0.0, 40.0, -40.0, 1e4, -1e4):
                edges = np.full((1, 8, 8), height, np.float32)
                found = slopes(edges, Problem(**{**vars(problem), "update": update}))
                assert all(np.isfinite(leaf).all() for leaf in found), (graph.n, height)


@pytest.mark.long
def test_a_rounded_answer_is_compared_with_a_clipped_update_by_direction(lab: Any) -> None:
    """DLG searches for labels, which absorb the clipping until they are rounded to a class."""
    graph, model = lab.path([0, 1, 2]), lab.model(hidden=16, readout_widths=(8,))
    length = float(np.linalg.norm(ravel_pytree(lab.observe(model, graph).update)[0]))
    clip = parse(f"clip:{length / 2}")
    seen = fedsgd(model, lab.params(model), [graph], lab.space, loss="bce", defense=clip, key=jax.random.key(0))
    known = Knowledge(lab.space, adjacency=graph.adjacency, features=graph.x)
    dlg = get_attack("dlg").with_options({"steps": "200"})
    found = dlg(seen, known, key=jax.random.key(1), budget=Budget(time_limit=60))
    assert found.best is not None and found.best.y == graph.y
    assert found.gradient_distance is not None and found.gradient_distance < 1e-4 and found.stop == "match"


@pytest.mark.parametrize(
    ("defense", "objective"),
    [
        ("prune:0.9", "squared"),
        ("prune:0.9", "cosine"),
        ("clip:{half}+prune:0.9", "squared"),
        pytest.param("clip:{half}+prune:0.9", "cosine", marks=pytest.mark.slow),  # cosines see no length
    ],
)
@pytest.mark.long
def test_the_truth_explains_a_pruned_update(lab: Any, defense: str, objective: str) -> None:
    graph, model = lab.path([0, 1, 2]), lab.model(hidden=16, readout_widths=(8,))
    length = float(np.linalg.norm(ravel_pytree(lab.observe(model, graph).update)[0]))
    pruned = parse(defense.format(half=length / 2))
    seen = fedsgd(model, lab.params(model), [graph], lab.space, loss="bce", defense=pruned, key=jax.random.key(0))
    distances = gradient_distances(seen, lab.space, [graph, lab.path([0, 2, 1])])
    assert distances[0][0] < 1e-5 and distances[0][1] == graph.y and distances[1][0] > 1e-2
    known = Knowledge(lab.space, adjacency=graph.adjacency, features=graph.x, labels=np.array(graph.y))
    idlg = get_attack("idlg").with_options({"steps": "2", "objective": objective})
    found = idlg(seen, known, key=jax.random.key(1), budget=Budget(time_limit=60))
    assert found.stop == "match" and found.info["matching_loss"] < 1e-6
    blind = idlg(dataclasses.replace(seen, pruned=False), known, key=jax.random.key(1), budget=Budget(time_limit=60))
    assert blind.gradient_distance is not None and blind.gradient_distance > 0.1


@pytest.mark.long
def test_attention_vectors_of_many_heads_are_no_kernels(lab: Any) -> None:
    """Their gradients are matrices too, and stay as they are."""
    graph = lab.path([0, 1, 2])
    model = lab.model(conv="gat", hidden=64, heads=32, layers=1, last_heads=32, readout="pooled", readout_widths=())
    observation = lab.observe(model, graph)
    attack = get_attack("dlg").with_options({"steps": "3"})
    found = attack(observation, Knowledge(lab.space, n=3), key=jax.random.key(0), budget=Budget(time_limit=60))
    assert found.best is not None and found.best.n == 3
