"""Blocks that occur, told by the last convolution's gradient where its span lacks dimensions."""

from __future__ import annotations

import dataclasses

import jax
import numpy as np
import pytest
from models import some_params

from jgleak import Budget, Knowledge, get_attack, standard
from jgleak.attacks.census.candidates import CensusCandidates
from jgleak.attacks.census.checks import ATTEMPTS
from jgleak.attacks.census.conic import StateCone, occurring
from jgleak.attacks.census.problem import CensusProblem
from jgleak.attacks.census.unit_classes import Rows
from jgleak.datasets import load
from jgleak.datasets.molecules import molecule_graph
from jgleak.federated import Observation, fedsgd
from jgleak.gnn import GNN, MLP, GCNConv, GINConv, Layer, Pooled
from jgleak.gnn.tree import at, put
from tests.clocks import HELD as FOREVER

DATA = load("embedded")


def seen(states: np.ndarray, upstream: np.ndarray, last: type[GCNConv | GINConv] = GCNConv) -> CensusProblem:
    """An update whose last kernel has this gradient; the rows that enter it are the states themselves."""
    layers = Layer(GCNConv(states.shape[1])), Layer(last(upstream.shape[1]), "gelu")
    model = GNN(DATA.space.width, layers, Pooled(mlp=MLP((2,))))
    params = some_params(model)
    update = put(params, ("layers_1", "conv", "kernel"), (states.T @ upstream).astype(np.float32))
    return CensusProblem.of(Observation(model, params, update, "ce"), Knowledge(DATA.space))


def unknown(_: Rows) -> np.ndarray:
    """Mixed rows that nobody may ask for."""
    raise AssertionError("behind this last layer the gradient before it is not used")


def test_the_true_blocks_are_used_and_hardly_any_other() -> None:
    rng = np.random.default_rng(0)
    states = np.maximum(rng.normal(size=(500, 6)) @ rng.normal(size=(6, 60)) + rng.normal(size=60), 0.0)
    true = rng.choice(500, 8, replace=False)
    signs = rng.choice([-1.0, 1.0], 20)  # of the columns; a unit that is off at a node is a zero
    upstream = rng.exponential(size=(8, 1)) * (rng.random((8, 20)) < 0.9) * signs
    all_states = np.r_[states, np.zeros((1, 60))]  # one of zeros leaves no trace
    used = occurring(seen(states[true], upstream), all_states, np.arange(501), unknown, FOREVER)
    assert used is not None and used[true].all() and used[500] and used[:500].sum() <= 12


def test_without_a_true_block_nothing_is_said() -> None:
    rng = np.random.default_rng(1)
    states = np.maximum(rng.normal(size=(300, 60)), 0.0)
    problem = seen(states[:8], rng.exponential(size=(8, 20)))
    assert occurring(problem, states[1:], np.arange(299), unknown, FOREVER) is None  # a true block is missing


def blocks_of(problem: CensusProblem, states: np.ndarray) -> list[int] | None:
    """Those that are used."""
    used = occurring(problem, states, np.arange(states.shape[0]), unknown, FOREVER)
    return None if used is None else np.flatnonzero(used).tolist()


def test_neither_the_size_of_the_gradient_nor_that_of_states_decides() -> None:
    """A long state has as much less weight."""
    rng = np.random.default_rng(2)
    states, upstream = np.maximum(rng.normal(size=(100, 40)), 0.0), rng.exponential(size=(4, 6))
    assert blocks_of(seen(states[:4], upstream), states) == [0, 1, 2, 3]
    for unit in (1e-6, 1e6):
        assert blocks_of(seen(states[:4], unit * upstream), states) == [0, 1, 2, 3]
    lengths = 10.0 ** np.r_[-7.0, 7.0, 0.0, -3.0, rng.uniform(-7, 7, size=96)][:, None]
    assert blocks_of(seen(states[:4], upstream), lengths * states) == [0, 1, 2, 3]
    assert blocks_of(seen(states[:4], 0.0 * upstream), states) is None, "a gradient of zero says nothing"


def test_columns_count_alike_however_small() -> None:
    """Also where no more than one of them is explained alone: the sum of all has those of a thousandth as well."""
    rng = np.random.default_rng(3)
    states = np.maximum(rng.normal(size=(50, 40)), 0.0)
    problem = seen(states[:3], np.array([[1e3, 0.0], [1e3, 0.0], [0.0, 1.0]]))
    limits = dataclasses.replace(problem.limits, conic_columns=1)
    few = dataclasses.replace(problem, settings=dataclasses.replace(problem.settings, limits=limits))
    assert blocks_of(few, states) == [0, 1, 2]


def test_each_column_has_a_sign_of_its_own() -> None:
    """Turned together, columns of both signs cancel in their sum, which nothing explains then."""
    rng = np.random.default_rng(6)
    states, signs = np.maximum(rng.normal(size=(50, 40)), 0.0), np.array([1.0, -1.0])
    assert blocks_of(seen(states[:3], signs * [[5.0, 1.0], [1.0, 5.0], [2.0, 2.0]]), states) == [0, 1, 2]


def test_a_column_whose_entries_nearly_cancel_has_their_sum_s_sign() -> None:
    """States of both signs, as behind other activations, whose entries add up to little above zero."""
    rng = np.random.default_rng(4)
    states = rng.normal(size=(50, 40))
    states += 0.01 - states.mean(axis=1, keepdims=True)
    for sign in (1.0, -1.0):
        assert blocks_of(seen(states[:3], sign * rng.exponential(size=(3, 5))), states) == [0, 1, 2]


def test_rows_behind_an_inner_layer_are_not_made_of_states() -> None:
    """Of a GIN, in whose first kernel a true block is missing, the second explains nothing either."""
    rng = np.random.default_rng(5)
    states, upstream = np.maximum(rng.normal(size=(50, 40)), 0.0), rng.exponential(size=(3, 6))
    assert blocks_of(seen(states[:3], upstream, GINConv), states) == [0, 1, 2]
    assert blocks_of(seen(states[:3], upstream, GINConv), states[1:]) is None


def test_a_weight_counts_above_its_share_of_the_largest() -> None:
    cone = StateCone(np.eye(4), np.full(4, 3.0), 0.1)
    assert np.linalg.norm(cone.goal) == 1.0
    some = np.arange(4)
    assert cone.counts(some, np.array([10.0, 1.0, 1.01, 0.5])).tolist() == [True, False, True, False]
    assert not cone.counts(some, np.zeros(4)).any() and cone.counts(some[:0], np.zeros(0)).size == 0


def test_a_last_layer_whose_units_are_all_on_is_no_obstacle() -> None:
    layers = tuple(Layer(GCNConv(64, bias=True), "relu") for _ in range(2))
    model = GNN(DATA.space.width, layers, Pooled(mlp=MLP((16, 2))))
    params = some_params(model)
    path = ("layers_1", "conv")
    params = put(params, path, {**at(params, path), "bias": np.full(64, 10.0, np.float32)})
    graph = next(graph for graph in DATA.graphs if graph.name.startswith("indole"))
    observation = fedsgd(model, params, [graph], DATA.space, loss="ce")
    assert np.linalg.matrix_rank(observation.update["layers_1"]["conv"]["kernel"], tol=1e-5) == 1

    knowledge = Knowledge(DATA.space, n=graph.n, prior="molecule")
    answer = get_attack("census")(observation, knowledge, key=jax.random.key(1), budget=Budget(time_limit=60))
    assert any(one.isomorphic(graph) for one in answer.graphs)
    assert answer.certificate is not None and answer.certificate.status == "at_least_k"
    assert any("make up the last convolution's gradient" in said for said in answer.certificate.conditions)


def test_a_list_of_few_feature_vectors_is_closed_without_them() -> None:
    """No check of nodes tells this molecule's blocks. The few that its feature vectors can have are compared, all of
    them, after those that make up the gradient: no other graph is left out, where once a single graph stood open."""
    graph, model = molecule_graph("CCOC(C)OCC", 1), standard(DATA.space.width, hidden=64)
    observation = fedsgd(model, some_params(model), [graph], DATA.space, loss="bce")
    knowledge = Knowledge(DATA.space, n=graph.n)
    problem = CensusProblem.of(observation, knowledge)
    first = next(CensusCandidates(problem, FOREVER, Budget()).attempts(FOREVER))
    assert not first.complete and any("make up the last convolution's gradient" in said for said in first.conditions)

    answer = get_attack("census")(observation, knowledge, key=jax.random.key(1), budget=Budget(time_limit=60))
    assert answer.certificate is not None and answer.certificate.status == "unique"
    assert answer.graphs[0].isomorphic(graph)
    assert not any("make up" in said for said in answer.certificate.conditions)


def test_usual_vectors_are_compared_first_and_all_of_them_may_follow() -> None:
    """Lactic acid: what restricts the candidates least is asked of all ten vectors, not of the six usual ones."""
    graph, model = (
        next(one for one in DATA.graphs if one.name.startswith("lactic")),
        standard(DATA.space.width, hidden=64),
    )
    observation = fedsgd(model, some_params(model), [graph], DATA.space, loss="bce")
    problem = CensusProblem.of(observation, Knowledge(DATA.space, n=graph.n))
    first = next(CensusCandidates(problem, FOREVER, Budget()).attempts(FOREVER))
    assert first.start is not None and first.start.complete
    assert first.nodes.degrees.size < first.start.nodes.degrees.size


def test_a_hop_below_that_cannot_be_afforded_ends_it_quietly() -> None:
    model = GNN(DATA.space.width, tuple(Layer(GCNConv(64, bias=True), "relu") for _ in range(3)), Pooled(mlp=MLP((2,))))
    graph = next(graph for graph in DATA.graphs if graph.name.startswith("indole"))
    observation = fedsgd(model, some_params(model), [graph], DATA.space, loss="ce")
    census = get_attack("census").with_options({"hop_blocks": "1", "enumerated_nodes": "0"})
    answer = census(observation, Knowledge(DATA.space), key=jax.random.key(1), budget=Budget(time_limit=10))
    assert not answer.graphs and answer.stop in ("no candidates", "no information")


@pytest.mark.parametrize(("blocks", "hop_blocks"), [(5, 7), (7, 5)])
def test_no_search_keeps_more_blocks_than_a_hop_may_have(blocks: int, hop_blocks: int) -> None:
    model = GNN(DATA.space.width, (Layer(GCNConv(64, bias=True), "relu"),), Pooled(mlp=MLP((2,))))
    graph = next(graph for graph in DATA.graphs if graph.name.startswith("indole"))
    observation = fedsgd(model, some_params(model), [graph], DATA.space, loss="ce")
    problem = CensusProblem.of(observation, Knowledge(DATA.space))
    limits = dataclasses.replace(problem.limits, hop_blocks=hop_blocks)
    problem = dataclasses.replace(problem, settings=dataclasses.replace(problem.settings, limits=limits))
    candidates = CensusCandidates(problem, FOREVER, Budget(time_limit=60, blocks=blocks))
    assert candidates.budget.blocks == 5


def test_too_many_blocks_to_compare_are_named() -> None:
    model = GNN(DATA.space.width, tuple(Layer(GCNConv(64, bias=True), "relu") for _ in range(2)), Pooled(mlp=MLP((2,))))
    graph = next(graph for graph in DATA.graphs if graph.name.startswith("indole"))
    observation = fedsgd(model, some_params(model), [graph], DATA.space, loss="ce")
    problem = CensusProblem.of(observation, Knowledge(DATA.space))
    few = dataclasses.replace(problem.settings, limits=dataclasses.replace(problem.limits, conic_blocks=1))
    candidates = CensusCandidates(dataclasses.replace(problem, settings=few), FOREVER, Budget(time_limit=60))
    conic = next(attempt for attempt in ATTEMPTS if attempt.conic)
    assert candidates._conic(candidates.start, conic) is None
    number = f"{candidates.start.nodes.degrees.size} feature vectors"
    assert number in candidates.given_up[0] and "more than the 1 that" in candidates.given_up[0]
