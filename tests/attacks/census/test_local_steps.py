"""The census after several local steps: paths against training by hand, and what is claimed of a graph."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest

from jgleak.attacks.attack import Budget
from jgleak.attacks.census import followed as paths
from jgleak.attacks.census.attempted import excludes_others
from jgleak.attacks.census.candidates import CensusCandidates, Levels
from jgleak.attacks.census.census import CENSUS
from jgleak.attacks.census.checks import Attempt
from jgleak.attacks.census.equations import equations
from jgleak.attacks.census.followed import followable, followed, label_of, returned_distances
from jgleak.attacks.census.local_path import FOLLOWED, midway, straight
from jgleak.attacks.census.moves import Linked
from jgleak.attacks.census.problem import CensusProblem
from jgleak.attacks.census.search import levels_of
from jgleak.attacks.census.settled import _nearest, _turn
from jgleak.attacks.census.solve import solve
from jgleak.attacks.distance import Fit, gradient_distances
from jgleak.audit.certified import verify, write
from jgleak.federated import Knowledge, LocalTraining, Observation, fedavg, fedsgd, save
from jgleak.federated.observation import flatten, unflatten
from jgleak.gnn import GNN
from jgleak.graph import Graph
from jgleak.interop.weights import mean_gradient, rounding
from tests.clocks import HELD as FOREVER

ONE, OTHER = [0, 1, 1, 2, 0, 3], [0, 1, 2, 1, 0, 3]
PLAIN, MOMENTUM = LocalTraining(0.1, 3), LocalTraining(0.03, 3, 0.9, 0.02)


def pooled(lab: Any) -> GNN:
    return lab.model(readout="pooled", readout_widths=(32,), last_act=True)


def of_numbers(model: GNN) -> GNN:
    """The same with one output."""
    mlp = model.readout.mlp
    return model.clone(readout=model.readout.clone(mlp=mlp.clone(widths=(*mlp.widths[:-1], 1))))


def returned(lab: Any, model: GNN, graph: Graph, local: LocalTraining, loss: str = "bce") -> Observation:
    return fedavg(model, lab.params(model), [graph], lab.space, loss=loss, local=local)


def true_blocks(problem: CensusProblem, graph: Graph) -> tuple[Levels, np.ndarray]:
    """The graph's own blocks, and how many nodes have each."""
    codes, kinds = np.unique(graph.x, axis=0, return_inverse=True)
    linked = Linked(graph.adjacency.astype(bool), kinds.ravel())
    return levels_of(problem, linked, codes.astype(np.int32), int(graph.degree.max()))


def by_hand(lab: Any, model: GNN, graph: Graph, local: LocalTraining, loss: str = "bce") -> list[Any]:
    """The weights before every step, and those that came back."""
    weights = [lab.params(model)]
    speed = jax.tree.map(np.zeros_like, weights[0])
    for _ in range(local.steps):
        slope = fedsgd(model, weights[-1], [graph], lab.space, loss=loss).update
        speed = jax.tree.map(lambda v, g, w: local.momentum * v + g + local.weight_decay * w, speed, slope, weights[-1])
        weights.append(jax.tree.map(lambda w, v: w - local.rate * v, weights[-1], speed))
    return weights


def gap(one: Any, other: Any) -> float:
    """The largest difference of two trees, relative to the largest entry."""
    pairs = list(zip(jax.tree.leaves(one), jax.tree.leaves(other), strict=True))
    return max(float(np.abs(a - b).max()) for a, b in pairs) / max(float(np.abs(b).max()) for _, b in pairs)


@pytest.mark.parametrize("local", [PLAIN, MOMENTUM])
def test_a_straight_path_begins_and_ends_where_the_weights_did(lab: Any, local: LocalTraining) -> None:
    model, graph = lab.model(), lab.ring(ONE)
    seen = returned(lab, model, graph, local)
    path, weights = straight(seen), by_hand(lab, model, graph, local)
    assert gap(path[0].params, weights[0]) == 0 and sum(point.share for point in path) == pytest.approx(1.0)
    longer = dataclasses.replace(local, steps=local.steps + 1)
    beyond = straight(dataclasses.replace(seen, local=longer))[-1].params
    assert gap(beyond, weights[-1]) < 1e-5, "the weights before one step more are those that came back"
    middle = jax.tree.map(lambda *w: local.shares @ np.stack([leaf.ravel() for leaf in w]), *weights[:-1])
    assert gap(jax.tree.map(np.ravel, midway(seen).params), middle) < 0.3 * gap(weights[0], weights[-1])


def test_one_step_has_the_weights_that_were_sent(lab: Any) -> None:
    seen = lab.observe(lab.model(), lab.ring(ONE))
    (point,) = straight(seen)
    assert point.params is seen.params and midway(seen) is seen


def test_others_are_excluded_along_the_path_of_the_only_shares_alone(lab: Any) -> None:
    """Not where other shares solve the equations too, where a residual is left, under noise, or without a path."""
    graph = lab.ring(ONE)
    problem = CensusProblem.of(returned(lab, lab.model(), graph, PLAIN), Knowledge(lab.space, n=graph.n))
    levels, counts = true_blocks(problem, graph)
    path = followed(problem, levels, np.arange(counts.size), counts / graph.n)
    problem = dataclasses.replace(problem, path=path)
    system = equations(problem, levels, FOREVER)
    assert system is not None
    solution = solve(problem, levels, system, problem.rounds[0], FOREVER)
    assert excludes_others(problem, solution)
    free = dataclasses.replace(solution, null=np.ones((solution.columns.size, 1)))
    noisy = dataclasses.replace(problem, knowledge=dataclasses.replace(problem.knowledge, noise=1e-9))
    assert not excludes_others(problem, free) and not excludes_others(noisy, solution)
    assert not excludes_others(problem, dataclasses.replace(solution, residual=1e-4))
    assert not excludes_others(dataclasses.replace(problem, path=path[:1]), solution)


@pytest.mark.long
@pytest.mark.parametrize("loss", ["bce", "mse"])
@pytest.mark.parametrize("local", [PLAIN, MOMENTUM])
@pytest.mark.parametrize("readout", ["nodes", "pooled"])
def test_the_path_of_the_true_shares_is_the_client_s(lab: Any, readout: str, local: LocalTraining, loss: str) -> None:
    """Weights step by step, the equations along them, and the update that comes back; a straight path misses."""
    model, graph = (lab.model() if readout == "nodes" else pooled(lab)), lab.ring(ONE)
    if loss == "mse":
        model, graph = of_numbers(model), dataclasses.replace(graph, y=0.5)
    seen = returned(lab, model, graph, local, loss)
    problem = CensusProblem.of(seen, Knowledge(lab.space, n=graph.n))
    levels, counts = true_blocks(problem, graph)
    blocks, shares = np.arange(counts.size), counts / graph.n
    path, weights = followed(problem, levels, blocks, shares), by_hand(lab, model, graph, local, loss)
    assert max(gap(point.params, there) for point, there in zip(path, weights, strict=False)) < 1e-5
    uneven = (1.0 + blocks) / np.sum(1.0 + blocks)
    near, far = returned_distances(problem, levels, blocks, np.stack([shares, uneven]))
    assert near < 1e-5 < 1e-3 < far
    for other in (shares, uneven):
        there = followed(problem, levels, blocks, other)
        slopes = [jax.tree.map(np.ravel, point.readout) for point in there]
        mean = jax.tree.map(lambda *leaves: local.shares @ np.stack(leaves), *slopes)
        assert gap(mean, jax.tree.map(np.ravel, seen.update["readout"])) < 1e-5, "whatever the shares"
    residuals = []
    for along in (problem, dataclasses.replace(problem, path=path)):
        found = equations(along, levels, FOREVER)
        assert found is not None
        residuals.append(float(np.linalg.norm(found.matrix @ shares - found.observed)) / found.length)
        typical = float(np.sqrt(np.mean(found.observed[-model.layers[-1].features :] ** 2)))
        assert readout == "nodes" or typical == pytest.approx(1.0), "the pooled state, in units of its entries"
    assert residuals[1] < 1e-5 < 1e-3 < residuals[0]


def test_what_is_frozen_stays_along_the_path_of_shares(lab: Any) -> None:
    """And without any block the training returns nothing, all of the update off."""
    model, graph = lab.model(hidden=8, readout_widths=(8,)).clone(frozen=("layers_0",)), lab.ring(ONE)
    seen = returned(lab, model, graph, MOMENTUM)
    problem = CensusProblem.of(seen, Knowledge(lab.space, n=graph.n))
    levels, counts = true_blocks(problem, graph)
    blocks, shares = np.arange(counts.size), counts / graph.n
    last = followed(problem, levels, blocks, shares)[-1].params
    assert gap(last["layers_0"], seen.params["layers_0"]) == 0 < gap(last["layers_1"], seen.params["layers_1"])
    near, none = returned_distances(problem, levels, blocks, np.stack([shares, 0.0 * shares]))
    assert near < 1e-5 and none == pytest.approx(1.0, rel=1e-6)


def test_the_search_for_a_target_begins_with_that_of_one_step(lab: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The gradient at the output is there twice what the output exceeds the target by."""
    model, graph = of_numbers(lab.model(hidden=8, readout_widths=(8, 2))), dataclasses.replace(lab.ring(ONE), y=0.5)
    problem = CensusProblem.of(returned(lab, model, graph, PLAIN, "mse"), Knowledge(lab.space, n=graph.n))
    levels, counts = true_blocks(problem, graph)
    blocks = np.arange(counts.size)
    bias = model.output_bias(fedsgd(model, lab.params(model), [graph], lab.space, loss="mse").update)
    assert bias is not None
    given = paths._trained(problem, levels, blocks)._replace(label=np.asarray(bias[0]))
    begun = list[Any]()
    monkeypatch.setattr(paths, "trained_target", lambda _, first: begun.append(first) or first)

    @jax.jit
    def first(shares: jax.Array) -> jax.Array:
        paths._slope(model, "mse", given, shares)
        return begun[0]

    assert float(first(paths._padded(blocks, counts / graph.n))) == pytest.approx(0.5, abs=1e-5)


@pytest.mark.parametrize("local", [PLAIN, MOMENTUM])
def test_the_distance_is_that_of_the_same_training(lab: Any, local: LocalTraining) -> None:
    model, graph = lab.model(), lab.ring(ONE)
    seen = returned(lab, model, graph, local)
    near, far = gradient_distances(seen, lab.space, [graph, lab.ring(OTHER)])
    assert near[0] < 1e-6 and near[1] == graph.y and far[0] > 1e-3
    once = dataclasses.replace(seen, protocol="fedsgd", local=None)
    assert gradient_distances(once, lab.space, [graph])[0][0] > 1e-3


@pytest.mark.parametrize(
    ("y", "local"),
    [
        *((-4.0, local) for local in (LocalTraining(0.01, 3), LocalTraining(0.009, 3, 0.9, 0.02))),
        *((0.05, LocalTraining(rate, 3)) for rate in (0.01, 0.1)),
        *((20.0, LocalTraining(rate, 3, 0.9)) for rate in (0.001, 0.003)),
    ],
)
def test_a_target_is_the_one_whose_training_gives_the_update(lab: Any, local: LocalTraining, y: float) -> None:
    """That of one gradient is another, since the output approaches the target on the way."""
    model, graph = lab.model(classes=1), dataclasses.replace(lab.ring(ONE), y=y)
    seen = returned(lab, model, graph, local, "mse")
    near, far = gradient_distances(seen, lab.space, [graph, lab.ring(OTHER)])
    assert near[0] < 2e-6 and near[1] == pytest.approx(y, rel=1e-5, abs=1e-6) and far[0] > 1e-3
    once = dataclasses.replace(seen, protocol="fedsgd", local=None)
    assert gradient_distances(once, lab.space, [graph])[0][0] > 1e-3
    assert gradient_distances(dataclasses.replace(seen, scaled=True), lab.space, [graph])[0][1] is None


def test_a_target_with_which_another_graph_s_training_diverges_is_a_number(lab: Any) -> None:
    model, graph = lab.model(classes=1), dataclasses.replace(lab.ring(ONE), y=-300.0)
    seen = returned(lab, model, graph, LocalTraining(1e-3, 5), "mse")
    found = gradient_distances(seen, lab.space, [lab.ring(OTHER), lab.path([0, 1, 2])])
    assert all(isinstance(label, float) and np.isfinite(label) for _, label in found)


@pytest.mark.parametrize(("readout", "local"), [("nodes", MOMENTUM), ("pooled", PLAIN)])
@pytest.mark.long
def test_graphs_come_back_with_a_certificate(lab: Any, readout: str, local: LocalTraining, tmp_path: Path) -> None:
    """Where one gradient says nothing; and ``verify`` trains again, by the steps that the file states."""
    model, graph = (lab.model() if readout == "nodes" else pooled(lab)), lab.ring(ONE)
    seen = returned(lab, model, graph, local)
    known, run = Knowledge(lab.space, n=graph.n), {"key": jax.random.key(0), "budget": Budget(time_limit=60)}
    found, certificate = (answer := CENSUS(seen, known, **run)).best, answer.certificate
    assert found is not None and found.canonical_form() == graph.canonical_form()
    assert certificate is not None and certificate.residual < 1e-6
    assert any("the local path of 3 steps" in condition for condition in certificate.conditions)
    once = CENSUS(dataclasses.replace(seen, protocol="fedsgd", local=None), known, **run)
    assert once.certificate is None
    save(tmp_path / "seen", seen, lab.space)
    write(tmp_path / "found.json", answer, tmp_path / "seen")
    assert verify(tmp_path / "found.json").holds
    save(tmp_path / "seen", dataclasses.replace(seen, local=dataclasses.replace(local, rate=local.rate / 2)), lab.space)
    assert not verify(tmp_path / "found.json").holds


def test_nothing_is_claimed_of_others_while_shares_and_path_disagree(lab: Any) -> None:
    """Without a turn the path is straight: graphs of what is left may be found, and no others are excluded."""
    graph = lab.path([0, 1, 1, 2, 0])
    seen = returned(lab, lab.model(), graph, LocalTraining(0.003, 3))
    known, run = Knowledge(lab.space, n=graph.n), {"key": jax.random.key(0), "budget": Budget(time_limit=60)}
    found = CENSUS.with_options({"path_turns": "0"})(seen, known, **run)
    assert found.best is not None and found.best.canonical_form() == graph.canonical_form()
    assert found.certificate is not None and found.certificate.status == "at_least_k"
    settled = CENSUS(seen, known, **run)
    assert settled.certificate is not None and settled.certificate.status == "unique"


def test_what_cannot_be_followed_is_read_straight(lab: Any) -> None:
    """Several targets, clipped updates and single gradients; classes, tasks and one target are followed."""
    graph, known = lab.ring(ONE), Knowledge(lab.space, n=len(ONE))
    one = returned(lab, lab.model(), graph, PLAIN)
    assert followable(CensusProblem.of(one, known))
    assert followable(CensusProblem.of(dataclasses.replace(one, local=LocalTraining(0.1, 2)), known)), "of two steps"
    assert not followable(CensusProblem.of(dataclasses.replace(one, scaled=True), known))
    assert not followable(CensusProblem.of(dataclasses.replace(one, protocol="fedsgd", local=None), known))
    for y, loss in ((0.5, "mse"), (np.array([[0.5]]), "masked_mse"), (np.array([[0.5]]), "masked_mae")):
        target = returned(lab, lab.model(classes=1), dataclasses.replace(graph, y=y), PLAIN, loss)
        assert followable(CensusProblem.of(target, known)) == (loss == "mse")
    assert CensusCandidates(CensusProblem.of(one, known), FOREVER, Budget()).start.nodes.degrees.size


@pytest.mark.parametrize("readout", ["nodes", "pooled"])
def test_weights_of_a_client_that_trains_in_32_bits_fit_up_to_their_rounding(lab: Any, readout: str) -> None:
    """Every step rounds; the noise that is stated explains all of it, and no other graph."""
    model, graph, local = (lab.model() if readout == "nodes" else pooled(lab)), lab.ring(ONE), LocalTraining(0.01, 5)
    weights = [flatten(jax.tree.map(np.asarray, tree)) for tree in by_hand(lab, model, graph, local)]
    update = unflatten({name: mean_gradient(w, weights[-1][name], local) for name, w in weights[0].items()})
    noise = rounding(weights[0], weights[-1], local)
    seen = dataclasses.replace(returned(lab, model, graph, local), update=update, noise=noise)
    (near, _), (far, _) = gradient_distances(seen, lab.space, [graph, lab.ring(OTHER)])
    fit = Fit.of(seen, noise)
    assert 0.2 * fit.most < near <= fit.most < far


def test_more_steps_than_are_followed_are_read_in_the_middle(lab: Any) -> None:
    """And so are updates that were clipped, or pruned, at the weights that were sent."""
    graph, long = lab.ring(ONE), LocalTraining(1e-4, FOLLOWED + 1)
    seen = returned(lab, lab.model(), graph, long)
    (point,) = straight(seen)
    assert gap(point.params, midway(seen).params) == 0 and point.share == 1.0
    assert len(straight(dataclasses.replace(seen, local=LocalTraining(1e-4, FOLLOWED)))) == FOLLOWED
    assert not followable(CensusProblem.of(seen, Knowledge(lab.space)))
    for mark in ({"scaled": True}, {"pruned": True}):
        clipped = dataclasses.replace(seen, **mark)
        assert midway(clipped) is clipped and straight(clipped)[0].params is clipped.params


def test_a_missing_label_is_missing_under_noise(lab: Any) -> None:
    """Weight decay, and weights of 32 bits, leave of its entry what rounding leaves, which is not zero."""
    model = lab.model(classes=3)
    graph = dataclasses.replace(lab.ring(ONE), y=np.array([[1.0, np.nan, 0.0]], np.float32))
    seen = returned(lab, model, graph, PLAIN, "masked_bce")
    bias = np.array(model.output_bias(seen.update))
    assert bias[1] == 0
    place = {
        **seen.update["readout"]["mlp"][model.readout.mlp.last],
        "bias": bias + np.array([0.0, -3e-8, 0.0], np.float32),
    }
    mlp = {**seen.update["readout"]["mlp"], model.readout.mlp.last: place}
    noisy = dataclasses.replace(seen, update={**seen.update, "readout": {"mlp": mlp}})
    for one, noise, wanted in ((seen, None, np.nan), (noisy, 1e-8, np.nan), (noisy, 1e-9, 1.0)):
        problem = CensusProblem.of(one, Knowledge(lab.space, noise=noise))
        np.testing.assert_array_equal(label_of(problem), [1.0, wanted, 0.0])


def test_the_nearest_whole_census_is_that_whose_training_comes_back(lab: Any) -> None:
    """From a straight path, whose shares are off: among whole censuses near them the true one returns the update."""
    graph = lab.ring(ONE)
    problem = CensusProblem.of(returned(lab, lab.model(), graph, PLAIN), Knowledge(lab.space, n=graph.n))
    levels, counts = true_blocks(problem, graph)
    system = equations(problem, levels, FOREVER)
    assert system is not None
    turn = _turn(problem, levels, system, FOREVER)
    assert turn.residual > 1e-3
    shares = _nearest(turn, levels, FOREVER)
    assert shares is not None
    np.testing.assert_allclose(shares, counts / graph.n)
    few = dataclasses.replace(problem.settings, limits=dataclasses.replace(problem.limits, sphere_blocks=1))
    assert _nearest(turn._replace(problem=dataclasses.replace(problem, settings=few)), levels, FOREVER) is None


def test_next_gaps_of_a_span_are_tried_after_several_steps_alone(lab: Any) -> None:
    """Another rank than the likeliest is a condition, and leaves the search open."""
    graph = lab.ring(ONE)
    seen = returned(lab, lab.model(), graph, PLAIN)
    several, once = (
        CensusCandidates(CensusProblem.of(one, Knowledge(lab.space, n=graph.n)), FOREVER, Budget())
        for one in (seen, dataclasses.replace(seen, protocol="fedsgd", local=None))
    )
    ranks = [
        [check.likeliest for hops in one._chosen(Attempt(("node",), ()), one.start.nodes) for check in hops[0]]
        for one in (several, once)
    ]
    assert ranks[0][0] and not all(ranks[0]) and all(ranks[1])
