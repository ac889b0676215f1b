"""From what a run ends with to graphs: rounded edges, decoded rows, named labels."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest

from jgleak.attacks.matching.discretise import choose, read
from jgleak.attacks.matching.dlg import RECIPE
from jgleak.attacks.matching.glg import project
from jgleak.attacks.matching.objectives import Guess
from jgleak.attacks.matching.options import configured
from jgleak.attacks.matching.problem import Problem, Setting, pose
from jgleak.attacks.matching.tableak import Ensemble
from jgleak.federated import Knowledge, Observation
from jgleak.gnn import GNN, MLP, GCNConv, Layer, NodeMLP, Pooled
from jgleak.graph import Graph


def posed(lab: Any, loss: str, sizes: tuple[int, ...], outputs: int = 3, **known: Any) -> tuple[Setting, Problem]:
    per_node = known.pop("per_node", False)
    readout = NodeMLP(MLP((outputs,)), per_node=True) if per_node else Pooled("mean", MLP((outputs,)))
    model = GNN(lab.space.width, (Layer(GCNConv(4)),), readout)
    observed = Observation(model, lab.params(model), lab.params(model), loss, batch_size=len(sizes))
    return pose(observed, Knowledge(lab.space, sizes=sizes, **known), infer=False)


def made(*parts: Any) -> Guess:
    """Of arrays of either kind."""
    return Guess(*parts)


def guess(lab: Any, graphs: list[Graph], slots: int, labels: Any, edge: float = 0.6, none: float = 0.4) -> Guess:
    """Soft edges, rows a little off, and numbers that are not finite where nothing is."""
    nodes = np.full((len(graphs), slots, lab.space.width), np.nan, np.float32)
    edges = np.full((len(graphs), slots, slots), np.nan, np.float32)
    for g, graph in enumerate(graphs):
        nodes[g, : graph.n] = lab.space.encode(graph.x) * 1.01
        edges[g, : graph.n, : graph.n] = np.where(graph.adjacency > 0, edge, none)
    return made(nodes, edges, np.asarray(labels, np.float32))


def test_edges_are_drawn_by_their_chances(lab: Any) -> None:
    """One toss a pair; metrics are of what was drawn, or of what was rounded, or of the chances themselves."""
    truth = lab.random(40, 3)
    setting, problem = posed(lab, "ce", (40,))
    soft = guess(lab, [truth], problem.mask.shape[1], [[1.0, 0.0, 0.0]], edge=0.8, none=0.1)

    def found(edges: str, seed: int = 0) -> Any:
        recipe = configured(RECIPE, {"edges": edges})
        return read(recipe, setting, problem, lab.space, soft, basis=None, rng=np.random.default_rng(seed))

    drawn = [found("sampled", seed) for seed in range(50)]
    for one in drawn:
        np.testing.assert_array_equal(one.soft.adjacency[0], one.graphs[0].adjacency)
        np.testing.assert_array_equal(one.soft.adjacency[0], one.soft.adjacency[0].T)
    share = np.mean([one.soft.adjacency[0] for one in drawn], axis=0)
    pairs, edges = np.triu_indices(40, k=1), truth.adjacency[np.triu_indices(40, k=1)] > 0
    for which, chance in ((edges, 0.8), (~edges, 0.1)):
        deviation = np.sqrt(chance * (1 - chance) / (50 * which.sum()))
        assert abs(share[pairs][which].mean() - chance) < 5 * deviation
    np.testing.assert_array_equal(found("rounded").soft.adjacency[0], truth.adjacency)
    np.testing.assert_allclose(found("soft").soft.adjacency[0], soft.adjacency[0, :40, :40])


def test_graphs_of_a_batch_are_read_one_by_one(lab: Any) -> None:
    graphs = [lab.random(3, 1), lab.random(5, 2)]
    setting, problem = posed(lab, "ce", (3, 5))
    slots = problem.mask.shape[1]
    soft = guess(lab, graphs, slots, [[0.2, 0.7, 0.1], [0.5, 0.2, np.nan]])
    found = read(RECIPE, setting, problem, lab.space, soft, basis=None, rng=np.random.default_rng(0))
    assert [graph.y for graph in found.graphs] == [1, 0]
    for g, graph in enumerate(graphs):
        np.testing.assert_array_equal(found.graphs[g].x, graph.x)
        np.testing.assert_array_equal(found.graphs[g].adjacency, graph.adjacency)
        np.testing.assert_array_equal(found.hard.nodes[g, : graph.n], lab.space.encode(graph.x))
        np.testing.assert_array_equal(found.hard.adjacency[g, : graph.n, : graph.n], graph.adjacency)
        assert not found.hard.nodes[g, graph.n :].any() and not found.hard.adjacency[g, graph.n :].any()
    assert found.soft.nodes.shape == (2, 5, lab.space.width) and found.soft.adjacency.shape == (2, 5, 5)
    np.testing.assert_allclose(found.soft.adjacency[0, :3, :3], soft.adjacency[0, :3, :3])
    np.testing.assert_array_equal(found.hard.labels, [[0, 1, 0], [1, 0, 0]])
    assert {np.asarray(part).dtype for part in found.hard[:3]} == {np.dtype(np.float32)}
    hard = dataclasses.replace(RECIPE, hard=True)
    again = read(hard, setting, problem, lab.space, soft, basis=None, rng=np.random.default_rng(0))
    np.testing.assert_array_equal(again.soft.adjacency, found.hard.adjacency[:, :5, :5])


@pytest.mark.parametrize(("edge", "kept"), [(0.5, True), (0.49, False)])
def test_an_edge_is_where_either_end_has_a_half(edge: float, kept: bool, lab: Any) -> None:
    graph = lab.path([0, 1])
    setting, problem = posed(lab, "ce", (2,))
    soft = guess(lab, [graph], problem.mask.shape[1], [[1.0, 0.0, 0.0]])
    soft.adjacency[0, :2, :2] = [[0.0, 0.1], [edge, 0.0]]
    found = read(RECIPE, setting, problem, lab.space, soft, basis=None, rng=np.random.default_rng(0))
    assert len(found.graphs[0].edges) == kept


@pytest.mark.parametrize(
    ("loss", "outputs", "per_node", "labels", "wanted"),
    [
        ("mse", 1, False, [[-1.5]], -1.5),
        ("mse", 1, True, [[0.5, -2.0, 3.0]], [0.5, -2.0, 3.0]),
        ("ce", 3, True, [[[0.1, 0.9, 0.0], [0.3, 0.2, 0.5], [0.9, 0.0, 0.1]]], [1, 2, 0]),
        ("masked_bce", 3, False, [[1.0, np.nan, 0.0]], [[1.0, np.nan, 0.0]]),
    ],
)
def test_labels_have_the_form_of_their_task(
    loss: str, outputs: int, per_node: bool, labels: Any, wanted: Any, lab: Any
) -> None:
    known = {"labels": np.array(labels)} if loss == "masked_bce" else {}
    setting, problem = posed(lab, loss, (3,), outputs, per_node=per_node, **known)
    slots, given = problem.mask.shape[1], np.array(labels, np.float32)
    if per_node:
        given = np.pad(given, ((0, 0), (0, slots - 3)) + ((0, 0),) * (given.ndim - 2))
    elif loss == "mse":
        given = given[0]
    soft = guess(lab, [lab.random(3, 1)], slots, given)
    found = read(RECIPE, setting, problem, lab.space, soft, basis=None, rng=np.random.default_rng(0)).graphs[0]
    np.testing.assert_array_equal(found.y, wanted)
    assert np.asarray(found.y).shape == np.shape(wanted)


def test_columns_of_a_reduction_are_undone(lab: Any) -> None:
    graph = lab.random(3, 1)
    setting, problem = posed(lab, "ce", (3,))
    basis = np.linalg.qr(np.random.default_rng(0).normal(size=(lab.space.width,) * 2))[0]
    soft = guess(lab, [graph], problem.mask.shape[1], [[1.0, 0.0, 0.0]])
    turned = soft._replace(nodes=(np.nan_to_num(soft.nodes) @ basis).astype(np.float32))
    found = read(RECIPE, setting, problem, lab.space, turned, basis=basis, rng=np.random.default_rng(0))
    np.testing.assert_array_equal(found.graphs[0].x, graph.x)


def test_of_all_restarts_the_nearest_is_chosen_then_finished(lab: Any) -> None:
    setting, problem = posed(lab, "ce", (3,))
    several = made(*(np.arange(3.0)[:, None] * np.ones((3, 2)) for _ in range(3)))
    assert choose(RECIPE, setting, problem, several, np.array([2.0, 0.5, 1.0])).nodes[0] == 1.0
    last = dataclasses.replace(RECIPE, combine=lambda s, p, guesses, values: Guess(*(part[2] for part in guesses[:3])))
    assert choose(last, setting, problem, several, np.array([2.0, 0.5, 1.0])).nodes[0] == 2.0
    doubled = dataclasses.replace(RECIPE, finish=lambda s, p, one: one._replace(nodes=2 * one.nodes))
    assert choose(doubled, setting, problem, several, np.array([2.0, 0.5, 1.0])).nodes[0] == 2.0


def test_without_a_finite_restart_an_ensemble_is_the_first(lab: Any) -> None:
    setting, problem = posed(lab, "ce", (3,))
    several = [guess(lab, [lab.random(3, seed)], problem.mask.shape[1], [[1.0, 0.0, 0.0]]) for seed in (1, 2)]
    both = made(*(np.stack([getattr(one, name) for one in several]) for name in ("nodes", "adjacency", "labels")))
    found = Ensemble(1.0)(setting, problem, both, np.array([np.inf, np.nan]))
    np.testing.assert_array_equal(found.adjacency, several[0].adjacency)


def test_what_is_not_searched_for_is_not_projected(lab: Any) -> None:
    setting, problem = posed(lab, "ce", (3,), adjacency=lab.ring([0, 1, 2]).adjacency[None])
    variables = {"nodes": np.ones((1, problem.mask.shape[1], 2))}
    assert project(setting, problem, variables) is variables
