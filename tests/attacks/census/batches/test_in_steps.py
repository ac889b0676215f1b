"""Several graphs in every local step: rows at the middle of the path, paths from weights of blocks, training again."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest
from models import some_params

from jgleak.attacks.attack import Budget, Clock, Reconstruction
from jgleak.attacks.census.batches import in_steps as module
from jgleak.attacks.census.batches import switched
from jgleak.attacks.census.batches.answers import of_all
from jgleak.attacks.census.batches.head import HeadGradient
from jgleak.attacks.census.batches.in_steps import FOLLOWED, TURNS, _confirmed, corrected, in_steps
from jgleak.attacks.census.batches.joint import each_gradient, summed
from jgleak.attacks.census.batches.members import Member, taken
from jgleak.attacks.census.batches.parts import Part, parts_of, single_update
from jgleak.attacks.census.batches.sparse import least_squares
from jgleak.attacks.census.batches.states import root_states
from jgleak.attacks.census.batches.trained_again import of_trained
from jgleak.attacks.census.batches.upstream import Upstream
from jgleak.attacks.census.batches.weighted_path import weighted_path
from jgleak.attacks.census.batches.weights import _equations, _settled
from jgleak.attacks.census.candidates import Levels
from jgleak.attacks.census.census import CENSUS
from jgleak.attacks.census.local_path import midway, straight
from jgleak.attacks.census.moves import Linked
from jgleak.attacks.census.problem import CensusProblem
from jgleak.attacks.census.search import levels_of
from jgleak.attacks.certificate import Certificate, Status
from jgleak.attacks.closed_form.pooled_embedding import pooled_embedding
from jgleak.attacks.distance import MATCH, gradient_distances
from jgleak.attacks.span.settings import TOLERANCES
from jgleak.attacks.span.subspace import Subspace
from jgleak.audit.certified import verify, write
from jgleak.datasets import embedded
from jgleak.federated import Knowledge, LocalTraining, Observation, fedavg, fedsgd, save
from jgleak.gnn import GNN, MLP, Pooled
from jgleak.gnn.standard import standard
from jgleak.graph import Graph
from tests.clocks import HELD as FOREVER

DATA = embedded()
MOLECULES = [graph for graph in DATA.graphs if graph.name.split(":")[0] in ("histamine", "metformin")]
POOLED = {"readout": "pooled", "readout_widths": (32,), "last_act": True}
READOUTS: dict[str, dict[str, Any]] = {"pooled": POOLED, "nodes": {}}
RATE = 0.05


def graphs(lab: Any) -> list[Graph]:
    return [lab.path([0, 1, 1, 2, 0], y=1), lab.ring([1, 3, 2, 0], y=0)]


def returned(lab: Any, model: GNN, some: list[Graph], **fields: Any) -> Observation:
    local = LocalTraining(**({"rate": RATE, "steps": 2} | fields))
    return fedavg(model, lab.params(model), some, lab.space, loss="bce", local=local)


def problem_of(lab: Any, seen: Observation) -> CensusProblem:
    return CensusProblem.of(seen, Knowledge(lab.space, max_n=8))


def length(tree: Any) -> float:
    return float(np.sqrt(sum(float(np.sum(np.square(leaf, dtype=np.float64))) for leaf in jax.tree.leaves(tree))))


def gap(one: Any, other: Any) -> float:
    """Relative to the second."""
    return length(jax.tree.map(lambda a, b: np.asarray(a, np.float64) - b, one, other)) / length(other)


def true_levels(problem: CensusProblem, graph: Graph) -> tuple[Levels, np.ndarray]:
    """The blocks of a graph, and how many nodes have each."""
    codes, kinds = np.unique(graph.x, axis=0, return_inverse=True)
    linked = Linked(graph.adjacency.astype(bool), kinds.ravel())
    return levels_of(problem, linked, codes.astype(np.int32), int(graph.degree.max()))


@pytest.mark.parametrize(
    ("readout", "local"),
    [
        ("pooled", LocalTraining(0.01, 2)),
        pytest.param("pooled", LocalTraining(0.01, 5), marks=pytest.mark.slow),
        pytest.param("pooled", LocalTraining(0.003, 3, 0.9, 1e-3), marks=pytest.mark.slow),
        ("nodes", LocalTraining(0.01, 2)),
        pytest.param("nodes", LocalTraining(0.01, 5), marks=pytest.mark.slow),
    ],
)
@pytest.mark.long
def test_molecules_come_back_and_training_on_all_confirms_them(
    readout: str, local: LocalTraining, tmp_path: Path
) -> None:
    pooled = standard(DATA.space.width, "gcn", Pooled("mean", MLP((64, 2))), hidden=64, last_act=True)
    model = pooled if readout == "pooled" else standard(DATA.space.width, hidden=64)
    params = some_params(model)
    seen = fedavg(model, params, MOLECULES, DATA.space, loss="bce", local=local)
    found = CENSUS(seen, Knowledge(DATA.space, prior="molecule"), key=jax.random.key(0), budget=Budget(time_limit=600))
    lists = [{graph.canonical_form() for graph in member.graphs} for member in found.members]
    assert len(lists) == 2 and all(any(truth.canonical_form() in one for one in lists) for truth in MOLECULES)
    assert found.stop == "match" and found.gradient_distance is not None and found.gradient_distance < 1e-6
    for certificate in (found.certificate, *(member.certificate for member in found.members)):
        assert certificate is not None and certificate.status == "at_least_k" and FOLLOWED in certificate.conditions
    save(tmp_path / "seen", seen, DATA.space)
    write(tmp_path / "found.json", found, tmp_path / "seen")
    assert verify(tmp_path / "found.json").holds
    slower = dataclasses.replace(seen, local=dataclasses.replace(local, rate=local.rate / 2))
    save(tmp_path / "seen", slower, DATA.space)
    assert not verify(tmp_path / "found.json").holds


@pytest.mark.parametrize("readout", READOUTS)
def test_what_training_leaves_beside_the_middle_is_taken_off(lab: Any, readout: str) -> None:
    """Of the true graphs: the rest is their gradient in the middle of the path. Of others it is not."""
    some, model = graphs(lab), lab.model(**READOUTS[readout])
    problem = problem_of(lab, returned(lab, model, some, rate=0.2, steps=4))
    there = summed(each_gradient(problem.observation, lab.space, some))
    assert gap(problem.seen.update, there) > 1e-3
    assert gap(corrected(problem, some).update, there) < 1e-6
    assert gap(corrected(problem, [some[0], lab.ring([1, 3, 2, 1], y=0)]).update, there) > 1e-4


def test_graphs_whose_training_returns_another_update_are_not_certified(lab: Any) -> None:
    some = graphs(lab)
    problem = problem_of(lab, returned(lab, lab.model(**POOLED), some))
    claim = Certificate("unique", 1, 8, False, 0.0, ("said",))
    searches = list[float]()

    def wrong(here: CensusProblem, clock: Any) -> Reconstruction:
        searches.append(gap(here.observation.update, problem.seen.update))
        members = tuple(
            Reconstruction((graph,), 0.0, "match", certificate=claim)
            for graph in (some[0], lab.ring([1, 3, 2, 1], y=0))
        )
        info = {"graphs": 2, "found": 2}
        return Reconstruction(tuple(m.graphs[0] for m in members), 0.0, "match", None, None, claim, info, members)

    found = in_steps(problem, FOREVER, wrong)
    assert len(searches) == 2 and searches[0] == 0 < searches[1], "the second search is in a corrected update"
    assert found.certificate is None and all(member.certificate is None for member in found.members)
    assert found.gradient_distance is not None and found.gradient_distance > 1e-3
    assert found.stop == "nothing assembled" and "does not return the update" in found.info["reason"]


@pytest.mark.parametrize(
    ("offs", "numbers", "seconds", "searches", "kept"),
    [
        ([0.4, 0.3, 0.2, 0.1, 0.05], [2] * 5, 1e6, TURNS, TURNS),
        ([0.4, 0.3, 0.35, 0.1], [2] * 4, 1e6, 3, 2),
        ([0.4, 0.3], [2, 1], 1e6, 2, 1),
        ([0.5 * MATCH, 0.1 * MATCH], [2] * 2, 1e6, 1, 1),
        ([0.1], [1, 2], 1e6, 1, 1),
        ([np.inf, 0.1], [2] * 2, 1e6, 1, 1),
        ([0.4, 0.3], [2] * 2, 0.0, 1, 1),
    ],
    ids=["nearer each time", "farther", "fewer graphs", "a match", "too few graphs", "diverged", "no time"],
)
def test_searches_end_where_another_one_cannot_help(
    offs: list[float], numbers: list[int], seconds: float, searches: int, kept: int, lab: Any, monkeypatch: Any
) -> None:
    """Each is in the update that the last graphs correct; the best graphs stay. Nothing is corrected by graphs that are
    too few or diverge, that match, or after the last second."""
    some = graphs(lab)
    problem = problem_of(lab, returned(lab, lab.model(**POOLED), some))
    asked, compared = list[Observation](), iter(offs)

    def batch(here: CensusProblem, _: Clock) -> Reconstruction:
        found = tuple(some[: numbers[len(asked)]])
        asked.append(here.observation)
        info = {"graphs": 2, "turn": len(asked)}
        return Reconstruction(found, 0.0, "match", info=info, members=tuple(listed(graph) for graph in found))

    def corrected(_: CensusProblem, found: Any) -> Observation:
        assert len(found) == 2
        return dataclasses.replace(problem.observation, batch_size=2)

    monkeypatch.setattr(module, "replayed", lambda *_: next(compared))
    monkeypatch.setattr(module, "corrected", corrected)
    monkeypatch.setattr(
        module, "_answered", lambda _, found, far, __: dataclasses.replace(found, gradient_distance=far)
    )
    found = in_steps(problem, Budget(time_limit=seconds).start(), batch)
    assert len(asked) == searches and len({id(here) for here in asked}) == searches
    assert found.info == {"graphs": 2, "turn": kept, "searches": kept}
    assert found.gradient_distance == (offs[kept - 1] if numbers[0] == 2 else np.inf)


def listed(*some: Graph) -> Reconstruction:
    return Reconstruction(some, 0.0, "match")


def test_what_a_search_tells_of_itself_is_told_on_and_a_reason_where_it_holds(lab: Any) -> None:
    """That graphs are missing still holds; a reason why a batch of all graphs is not certified is that of training."""
    some = graphs(lab)
    problem = problem_of(lab, returned(lab, lab.model(**POOLED), some))
    for number, reason in ((1, "one is missing"), (2, None)):
        members = tuple(listed(graph) for graph in some[:number])
        info = {"graphs": 2, "found": number, "rank": 7, "reason": "one is missing"}
        told = Reconstruction(tuple(some[:number]), 0.0, "time", info=info, members=members)
        found = module._answered(problem, told, np.inf, FOREVER)
        assert found.info["rank"] == 7 and found.info["graphs"] == 2 and found.info["found"] == number
        assert found.info["reason"] == (reason or "training on the graphs that were found does not return the update")
        assert found.gradient_distance is None and found.certificate is None and found.stop == "nothing assembled"


@pytest.mark.parametrize("status", ["unique", "k_graphs", "at_least_k"])
def test_a_trained_list_claims_itself_alone_and_that_it_was_followed(status: Status, lab: Any) -> None:
    """Of so many graphs, at the distance of the client's own update, however many the search in the middle claimed; the
    conditions of that search stay."""
    made = Certificate(status, 3, 8, True, 1e-8, ("said", "too"))
    answer = Reconstruction(tuple(graphs(lab)), 1e-8, "match", certificate=made)
    found = _confirmed(answer, 1e-6, matched=True)
    assert found.certificate == Certificate("at_least_k", 2, 8, True, 1e-6, ("said", "too", FOLLOWED))
    assert found.gradient_distance == 1e-6 and found.graphs == answer.graphs
    nearer = _confirmed(found, 1e-7, matched=True)
    assert nearer.certificate == found.certificate, "each condition is said once, and the largest distance of a graph"
    assert nearer.gradient_distance == 1e-7
    for nothing in (_confirmed(answer, 1e-6, matched=False), _confirmed(answer, None, matched=False)):
        assert nothing.certificate is None and nothing.graphs == answer.graphs
    assert _confirmed(dataclasses.replace(answer, certificate=None), 1e-6, matched=True).certificate is None


def test_a_listed_graph_whose_training_returns_another_update_is_left_out(lab: Any) -> None:
    some, other = graphs(lab), lab.ring([1, 3, 2, 1], y=0)
    problem = problem_of(lab, returned(lab, lab.model(**POOLED), some))
    claim = Certificate("unique", 1, 8, False, 0.0, ())
    lists = ((some[0],), (some[1], other))
    members = tuple(Reconstruction(graphs, 0.0, "match", certificate=claim) for graphs in lists)
    info = {"graphs": 2, "found": 2}
    told = Reconstruction(tuple(m.graphs[0] for m in members), 0.0, "match", None, None, claim, info, members)
    found = in_steps(problem, FOREVER, lambda *_: told)
    assert [len(member.graphs) for member in found.members] == [1, 1] and found.certificate is not None
    assert "reason" not in found.info and found.info["found"] == 2
    assert found.members[1].graphs[0].canonical_form() == some[1].canonical_form()


def test_rows_are_read_where_units_switched_on_the_way(lab: Any) -> None:
    """In the middle of the path, up to second order in it; with all units the masks contradict each other."""
    some, model = graphs(lab), lab.model(readout="pooled", readout_widths=(256,), last_act=True)
    seen = returned(lab, model, some, rate=0.06, steps=4)
    here, path = midway(seen), straight(seen)

    def own_rows(params: Any) -> np.ndarray:
        alone = [fedsgd(model, params, [graph], lab.space, loss="bce").update for graph in some]
        return np.array([pooled_embedding(model, update) for update in alone])

    truth, before = own_rows(here.params), own_rows(seen.params)
    first = [model.readout.first(model.readout_of(point.params)) for point in path]
    lit = [truth @ np.asarray(at["kernel"]) + np.asarray(at["bias"]) > 0 for at in first]
    assert np.any(lit[0] != lit[-1]), "no unit switches"
    head = HeadGradient.of(here)
    assert head.moved and head.rank == 2
    rows = switched.pooled_rows(head, FOREVER)
    assert rows is not None
    far = np.linalg.norm(rows[:, None] - truth, axis=2) / np.linalg.norm(truth, axis=1)
    moved = np.linalg.norm(before - truth, axis=1) / np.linalg.norm(truth, axis=1)
    assert sorted(far.argmin(axis=1)) == [0, 1] and far.min(axis=1).max() < 0.2 * moved.min()
    assert not HeadGradient.of(dataclasses.replace(here, protocol="fedsgd", local=None)).moved


def test_a_row_that_moved_names_its_graph_though_the_gradient_at_it_is_another(lab: Any) -> None:
    """The same row of one gradient, which is exact up to rounding, names none."""
    graph, model = graphs(lab)[0], lab.model(**POOLED)
    problem = problem_of(lab, returned(lab, model, [graph]))
    levels, _ = true_levels(problem, graph)
    states = root_states(model, problem.observation.params, levels, FOREVER)
    alone = fedsgd(model, problem.observation.params, [graph], lab.space, loss="bce").update
    truth = np.asarray(pooled_embedding(model, alone), np.float64)
    row = truth + 8e-4 * np.linalg.norm(truth) / np.sqrt(truth.size) * np.where(truth > 0, 1.0, -1.0)
    slope = np.asarray(model.output_bias(alone), np.float64)
    assert states is not None and np.any(row < 0), "a unit that is dark at all nodes adds less than nothing"
    for seen, moved in ((row, True), (row, False), (np.maximum(row, 0), True), (np.maximum(row, 0), False)):
        observation = single_update(problem.observation, seen, slope)
        assert gradient_distances(observation, lab.space, [graph])[0][0] > 2 * MATCH
        member = Member.of(problem, Part(seen, (1,), observation, moved))
        assert (member.problem.limits.programmes == 0) == moved, "only near counts are looked for"
        found = [one.graph.canonical_form() for one in taken(member, levels, states, FOREVER).found.graphs]
        assert (graph.canonical_form() in found) == moved
    (part,) = parts_of(HeadGradient.of(problem.observation), truth[None])
    assert part.moved


def test_the_path_of_weights_is_nearer_than_a_straight_one_and_explains_more(lab: Any) -> None:
    """Of a graph that the client has twice, with the weights that its output gives."""
    graph, model = graphs(lab)[0], lab.model()
    seen = returned(lab, model, [graph, graph], rate=0.01, steps=3)
    problem, local = problem_of(lab, seen), seen.local
    levels, counts = true_levels(problem, graph)
    values = counts[:, None] / graph.n * np.asarray(model.output_bias(seen.update), np.float64)
    path = weighted_path(problem, levels, values, np.eye(model.outputs))
    weights = [seen.params]
    assert local is not None
    for _ in range(local.steps - 1):
        slope = fedsgd(model, weights[-1], [graph], lab.space, loss="bce").update
        weights.append(jax.tree.map(lambda w, g: w - local.rate * np.asarray(g), weights[-1], slope))

    def off(way: Any) -> float:
        return max(gap(point.params, truth) for point, truth in zip(way, weights, strict=True))

    assert off(path) < 0.3 * off(straight(seen))
    upstream = Upstream.of(problem.observation)

    def left(of: CensusProblem) -> float:
        equations = _equations(of, levels, upstream, FOREVER)
        assert equations is not None
        return least_squares(equations.matrix, equations.right).residual

    assert left(_settled(problem, levels, FOREVER)) < 0.1 * left(problem)


def test_of_weights_that_explain_nothing_the_path_of_weights_is_straight(lab: Any) -> None:
    """It begins with the weights that the client got, and what the blocks do not explain is gone evenly."""
    graph, model = graphs(lab)[0], lab.model()
    seen = returned(lab, model, [graph, graph], rate=0.01, steps=3, momentum=0.5)
    problem = problem_of(lab, seen)
    levels, counts = true_levels(problem, graph)
    path = weighted_path(problem, levels, 1e-9 * np.ones((counts.size, 1)), np.eye(1, model.outputs))
    for point, evenly in zip(path, straight(seen), strict=True):
        assert gap(point.params, evenly.params) < 1e-7 < 1e-5 < gap(seen.params, path[-1].params)


def test_layers_that_are_frozen_stay_along_the_path_of_weights(lab: Any) -> None:
    graph, model = graphs(lab)[0], lab.model(hidden=8, readout_widths=(4,)).clone(frozen=("layers_0",))
    params = lab.params(model)
    update, local = jax.tree.map(np.zeros_like, params), LocalTraining(0.5, 3)
    problem = problem_of(lab, Observation(model, params, update, "bce", 2, protocol="fedavg", local=local))
    levels, counts = true_levels(problem, graph)
    path = weighted_path(problem, levels, counts[:, None] / graph.n, np.eye(1, model.outputs))
    for point in path[1:]:
        assert (
            gap(point.params["layers_0"], params["layers_0"]) == 0.0 < gap(point.params["layers_1"], params["layers_1"])
        )


def test_only_batches_that_were_trained_are_counted() -> None:
    """Of two lists of two three batches were: the alternatives, each beside the other list's first graph."""
    certificate = Certificate("at_least_k", 2, 9, False, 0.0)
    one, two, three, four = (Graph(np.array([[k]]), np.zeros((0, 2), np.int64), 0) for k in range(4))
    answers = [Reconstruction(pair, 0.0, "match", certificate=certificate) for pair in ((one, two), (three, four))]
    assert of_all(answers, 0.0).size == 4 and of_trained(answers, 0.0).size == 3


def test_a_span_without_a_gap_takes_all_directions_above_rounding() -> None:
    rng = np.random.default_rng(0)
    falling = rng.normal(size=(40, 12)) * 2.0 ** -np.arange(12.0) @ rng.normal(size=(12, 30))
    whole = Subspace.of_gradient(falling, tolerances=dataclasses.replace(TOLERANCES, rank_gap=0.0))
    assert whole.rank == 12
    blurred = falling + 1e-4 * rng.normal(size=(40, 3)) @ rng.normal(size=(3, 30))
    assert Subspace.of_gradient(blurred, tolerances=dataclasses.replace(TOLERANCES, rank_gap=0.0)).rank == 15
