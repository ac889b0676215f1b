"""The gradients of the last two convolutions as one non-negative combination of blocks' columns."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from models import some_params

from jgleak import Knowledge
from jgleak.attacks.census.cone import ROWS, Folded, paying_most
from jgleak.attacks.census.conic import occurring
from jgleak.attacks.census.problem import CensusProblem
from jgleak.attacks.census.unit_classes import BlockCone, LastLayers, _basis, _classes, _fits
from jgleak.datasets import load
from jgleak.federated import Observation, fedsgd
from jgleak.gnn import GNN, MLP, GCNConv, GINConv, Layer, Pooled, SAGEConv
from jgleak.gnn.tree import at, put
from jgleak.graph import Graph
from tests.attacks.census.test_conic import FOREVER

DATA = load("embedded")
GRAPH = next(graph for graph in DATA.graphs if graph.name.startswith("indole"))
RAW = dataclasses.replace(DATA.space, mean=None, std=None)


def pooled(pooling: str = "mean", bias: bool = True, act: str = "relu") -> GNN:
    layers = Layer(GCNConv(64, bias=bias)), Layer(GCNConv(48, bias=True), act)
    return GNN(DATA.space.width, layers, Pooled(pooling, MLP((16, 2))))


def seen(model: GNN, graph: Graph = GRAPH) -> Observation:
    return fedsgd(model, some_params(model), [graph], RAW, loss="ce")


@pytest.fixture(scope="module")
def sage() -> Observation:
    return seen(GNN(DATA.space.width, (Layer(SAGEConv(24, bias=True)),) * 2, Pooled(mlp=MLP((16, 2)))))


def rows_of(observation: Observation, graph: Graph) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Of every node, from the graph itself: mixing, mixed row, state, and which last units are on."""
    looped = graph.adjacency.astype(float) + np.eye(graph.n)
    scale = 1.0 / np.sqrt(looped.sum(axis=1))
    mixing = scale[:, None] * looped * scale
    mixed, weights = mixing @ RAW.encode(graph.x).astype(float), observation.params
    first, second = weights["layers_0"]["conv"], weights["layers_1"]["conv"]
    states = np.maximum(mixed @ np.asarray(first["kernel"], float) + np.asarray(first.get("bias", 0.0)), 0.0)
    on = mixing @ states @ np.asarray(second["kernel"], float) + np.asarray(second["bias"]) > 0.0
    return mixing, mixed, states, on


@pytest.mark.parametrize(("pooling", "bias"), [("mean", True), ("sum", False)])
def test_what_nodes_get_back_makes_up_both_gradients(pooling: str, bias: bool) -> None:
    observation = seen(pooled(pooling, bias))
    mixing, mixed, states, on = rows_of(observation, GRAPH)
    last = LastLayers.of(observation, most=1000)
    assert last is not None
    delta = observation.model.readout.upstream(
        observation.model.readout_of(observation.params), observation.model.readout_of(observation.update)
    )
    masks = np.unique(on[:, on.any(axis=0) & (delta != 0)], axis=1)
    assert last.last.shape[1] == masks.shape[1], "a class for every set of nodes at which units are on"

    cone = BlockCone(last, states, lambda _: mixed, np.arange(GRAPH.n), most=GRAPH.n)
    share = 1.0 / GRAPH.n if pooling == "mean" else 1.0
    weights = []
    for said in last.last.T:  # the class of each column is the one whose sum it is
        back = [share * mixing @ mask for mask in masks.T.astype(float)]
        weights.append(min(back, key=lambda t: float(np.linalg.norm(t @ states - said))))
    whole = np.stack(weights, axis=1).ravel() * cone.lengths.ravel()
    made = whole @ cone.columns(np.arange(whole.size))
    scale = made @ cone.goal / (cone.goal @ cone.goal)
    np.testing.assert_allclose(made, scale * cone.goal, atol=3e-6 * float(np.linalg.norm(made)))
    assert cone.counts(np.flatnonzero(whole), whole[whole > 0]).any()


def test_prices_are_products_with_the_columns() -> None:
    observation = seen(pooled())
    _, mixed, states, _ = rows_of(observation, GRAPH)
    last = LastLayers.of(observation, most=1000)
    assert last is not None
    cone = BlockCone(last, states, lambda _: mixed, np.arange(GRAPH.n), most=40)
    rest = np.random.default_rng(0).normal(size=cone.goal.size)
    columns = cone.columns(np.arange(cone.blocks.size))
    np.testing.assert_allclose(cone.prices(rest), columns @ rest, atol=1e-5)
    np.testing.assert_allclose(np.linalg.norm(columns, axis=1), 1.0)
    shorter = Folded(3 * ROWS + 5)
    long, short = np.random.default_rng(1).normal(size=(2, 3 * ROWS + 5)), np.arange(ROWS) / ROWS
    np.testing.assert_allclose(long @ shorter.back(short), shorter(long) @ short)


def test_every_group_sends_its_best_columns() -> None:
    prices = np.array([3.0, 2.0, -1.0, 5.0, 0.0, 4.0, 1.0])
    groups = np.array([0, 0, 1, 0, 1, 2, 2])
    assert sorted(paying_most(prices, groups, 2).tolist()) == [0, 3, 5, 6]
    assert sorted(paying_most(prices, groups, 1).tolist()) == [3, 5]


def test_true_blocks_are_used_and_one_that_is_missing_leaves_nothing() -> None:
    observation = seen(pooled())
    _, mixed, states, _ = rows_of(observation, GRAPH)
    rng = np.random.default_rng(0)
    false = np.maximum(mixed[rng.integers(0, GRAPH.n, 200)] + rng.normal(size=(200, mixed.shape[1])), 0.0)
    first = observation.params["layers_0"]["conv"]
    other = np.maximum(false @ np.asarray(first["kernel"], float) + np.asarray(first["bias"]), 0.0)
    problem = CensusProblem.of(observation, Knowledge(RAW))
    many = dataclasses.replace(problem.settings, limits=dataclasses.replace(problem.limits, conic_classes=1000))
    problem = dataclasses.replace(problem, settings=many)
    both, roots = np.r_[states, other], np.arange(GRAPH.n + 200)
    silent, place = np.zeros((1, states.shape[1])), GRAPH.n + 200  # a state of zeros leaves no trace
    used = occurring(
        problem, np.r_[both, silent], np.r_[roots, place], lambda _: np.r_[mixed, false, mixed[:1]], FOREVER
    )
    assert used is not None and used[: GRAPH.n].all() and used[place] and not used[GRAPH.n : place].any()
    alone = ~np.isclose(states, states[0]).all(axis=1)  # the first node's block is missing
    kept = np.r_[alone, np.ones(200, bool)]
    assert occurring(problem, both[kept], roots[kept], lambda _: np.r_[mixed[alone], false], FOREVER) is None


def test_units_without_an_upstream_gradient_or_off_everywhere_are_in_no_class() -> None:
    """Two nodes: units 0 and 4 are on at the first alone, 1 at both; 2 has no upstream gradient, 3 is off."""
    states, on = np.array([[1.0, 2.0], [0.0, 3.0]]), np.array([[1, 1, 1, 0, 1], [0, 1, 1, 0, 0]])
    delta = np.array([1.0, -2.0, 0.0, 1.0, 0.5])
    seen = states.T @ on * delta
    seen[:, 2] = 1e-9  # as rounding leaves it
    assert [sorted(units.tolist()) for units in _classes(seen, delta)] == [[1], [0, 4]]


def test_classes_are_apart_by_more_than_rounding() -> None:
    """Rounding is relative to the largest column, so that it is much of a unit whose upstream gradient is small.

    In whatever unit the gradient is.
    """
    delta = np.array([1.0, 1.0, 1.0, 1e-4, 1e-4])
    columns = np.array([np.ones(5), [0.0, 5e-5, 1e-3, 5e-3, 5e-2]])
    for unit in (1e-6, 1.0, 1e6):
        assert [sorted(units.tolist()) for units in _classes(unit * columns * delta, delta)] == [[2, 3], [0, 1], [4]]


def test_a_basis_leaves_rounding_out() -> None:
    left, right = (np.linalg.qr(np.random.default_rng(seed).normal(size=(4, 3)))[0] for seed in (0, 1))
    basis = _basis(left * [10.0, 1e-5, 1e-6] @ right.T)
    np.testing.assert_allclose(basis @ basis.T, left[:, :2] @ left[:, :2].T, atol=1e-6)


def test_other_last_layers_are_left_to_their_gradient_alone() -> None:
    assert LastLayers.of(seen(pooled(act="gelu")), most=1000) is None
    gin = GNN(DATA.space.width, tuple(Layer(GINConv(16, bias=True)) for _ in range(2)), Pooled(mlp=MLP((16, 2))))
    assert LastLayers.of(seen(gin), most=1000) is None
    assert LastLayers.of(seen(pooled()), most=1) is None, "more classes than may be"
    alone = LastLayers.of(seen(pooled(act="identity")), most=1)
    assert alone is not None and alone.last.shape == (64, 1), "without an activation all units are one class"


@pytest.mark.parametrize("act", ["relu", "identity"])
def test_a_layer_with_a_kernel_for_own_rows_has_classes_for_each(act: str) -> None:
    """GraphSAGE: nodes get back through the mean of their neighbours, and directly."""
    layers = Layer(SAGEConv(24, bias=True)), Layer(SAGEConv(20, bias=True), act)
    observation = seen(GNN(DATA.space.width, layers, Pooled(mlp=MLP((16, 2)))))
    last = LastLayers.of(observation, most=1000)
    assert last is not None
    first, second = (observation.params[f"layers_{i}"]["conv"] for i in (0, 1))
    mixing, own = GRAPH.adjacency / GRAPH.adjacency.sum(axis=1, keepdims=True), RAW.encode(GRAPH.x).astype(float)
    rows = {"own": own, "mixed": mixing @ own}

    def mapped(layer: dict[str, np.ndarray], x: np.ndarray) -> np.ndarray:
        return x @ layer["self_kernel"] + mixing @ x @ layer["neighbour_kernel"] + layer["bias"]

    states = np.maximum(mapped(first, rows["own"]), 0.0)
    on = mapped(second, states) > 0.0 if act == "relu" else np.ones((GRAPH.n, 20), bool)
    masks = np.unique(on, axis=1).T.astype(float)
    back = np.r_[masks @ mixing, masks] / GRAPH.n
    assert last.last.shape[1] == 2 * np.unique(on[:, on.any(axis=0)], axis=1).shape[1]

    cone = BlockCone(last, states, rows.__getitem__, np.arange(GRAPH.n), most=GRAPH.n)
    fits = [min(back, key=lambda t: float(np.linalg.norm(t @ states - said))) for said in last.last.T]
    made = (np.stack(fits, axis=1).ravel() * cone.lengths.ravel()) @ cone.columns(np.arange(cone.blocks.size))
    np.testing.assert_allclose(made / np.linalg.norm(made), cone.goal, atol=3e-6)


@pytest.mark.parametrize(
    ("part", "says"),
    [
        ("layers_0", False),
        ("layers_0/conv/bias", False),
        ("layers_1/conv/self_kernel", False),
        ("layers_1/conv/neighbour_kernel", False),
        ("layers_1/conv/bias", True),
    ],
)
def test_a_part_that_is_frozen_leaves_the_last_gradient_alone(part: str, says: bool, sage: Observation) -> None:
    """But for the last bias, which is not looked at."""
    frozen = dataclasses.replace(sage.model, frozen=(part,))
    observation = Observation(frozen, sage.params, frozen.trained(sage.update), "ce")
    assert (LastLayers.of(observation, most=1000) is not None) == says


@pytest.mark.parametrize(
    "path", [("layers_0", "conv", "self_kernel"), ("layers_0", "conv", "neighbour_kernel"), None], ids=str
)
def test_last_layers_that_no_gradient_reaches_say_nothing(path: tuple[str, ...] | None, sage: Observation) -> None:
    """One kernel before the last, or both of the last."""
    paths = [path] if path else [("layers_1", "conv", name) for name in ("self_kernel", "neighbour_kernel")]
    update = sage.update
    for place in paths:
        update = put(update, place, 0.0 * at(update, place))
    assert LastLayers.of(dataclasses.replace(sage, update=update), most=1000) is None


def test_states_of_all_layers_together_are_left_to_their_gradient_alone() -> None:
    """Behind ``cat`` the first layer's units have gradients of their own."""
    model = pooled().clone(jump="cat")
    params = some_params(model)
    assert not _fits(Observation(model, params, params, "ce"))


def made_up() -> tuple[LastLayers, np.ndarray, np.ndarray, np.ndarray]:
    """Two classes over three units, of which the last is off everywhere; states, rows and roots of five blocks."""
    rng = np.random.default_rng(3)
    states = np.abs(rng.normal(size=(5, 3)))
    states[2, 1] = 0.0
    states[:, 2] = 0.0
    states[0] = 0.0  # a block whose units are all off
    states[4, 2] = 0.5  # one that cannot be in the graph
    states[1, 2] = 1e-7  # rounding
    rows = rng.normal(size=(5, 4))
    states[3], rows[3], rows[1] = states[2], rows[2], rows[2]  # equal blocks, and one that differs in its state alone
    basis = np.linalg.qr(rng.normal(size=(4, 2)))[0]
    last, before = np.abs(rng.normal(size=(3, 2))), rng.normal(size=(3, 3))
    last[2] = 0.0
    layers = LastLayers(before, (("mixed", basis),), last, rng.normal(size=(3, 2)), True)
    return layers, states, rows, np.array([7, 9, 9, 4, 4])


def test_columns_of_a_block_are_its_part_of_both_gradients() -> None:
    layers, states, rows, roots = made_up()
    cone = BlockCone(layers, states, lambda kind: {"mixed": rows}[kind], roots, most=4)
    assert cone.possible.tolist() == [0, 1, 2, 3] and cone.blocks.tolist() == [0, 0, 1, 1, 2, 2, 3, 3]
    parts = [np.linalg.norm(layers.before), np.linalg.norm(layers.last)]
    goal = np.r_[layers.before.ravel() / parts[0], layers.last.T.ravel() / parts[1]]
    np.testing.assert_allclose(cone.goal, goal / np.sqrt(2.0))
    for number, column in enumerate(cone.columns(np.arange(8))):
        block, unit = divmod(number, 2)
        entering = np.r_[rows[block] @ layers.bases[0][1], 1.0]  # the bias last
        before = np.outer(entering, (states[block] > 0.0) * layers.weights[:, unit]) / parts[0]
        last = np.zeros((2, 3))
        last[unit] = states[block] / parts[1]
        whole = np.r_[before.ravel(), last.ravel()]
        np.testing.assert_allclose(column, whole / (np.linalg.norm(whole) or 1.0), atol=1e-12)
    first, second, third, fourth = cone.alike
    assert third == fourth and len({first, second, third}) == 3
    assert cone.groups.tolist() == [2, 3, 4, 5, 4, 5, 0, 1], "one for each root and class"


@pytest.mark.parametrize("unit", [1e-9, 1e9])
def test_the_unit_of_states_and_rows_decides_nothing(unit: float) -> None:
    layers, states, rows, roots = made_up()
    layers = dataclasses.replace(layers, biased=False, before=layers.before[:2])
    cone = BlockCone(layers, unit * states, lambda _: unit * rows, roots, most=4)
    assert cone.possible.tolist() == [0, 1, 2, 3]
    first, second, third, fourth = cone.alike
    assert third == fourth and len({first, second, third}) == 3
    silent = BlockCone(layers, 0.0 * states, lambda _: unit * rows, roots, most=4)
    assert silent.possible.tolist() == [0, 1, 2, 3, 4], "a state of zeros leaves no trace"


def test_where_no_block_is_possible_no_column_is_left() -> None:
    layers, states, rows, roots = made_up()
    for some in (states[:0], states[4:]):
        cone = BlockCone(layers, some, lambda _, some=some: rows[: len(some)], roots[: len(some)], most=4)
        assert cone.possible.size == cone.blocks.size == cone.alike.size == cone.groups.size == 0
        assert not cone.counts(np.zeros(0, np.int64), np.zeros(0)).size


def test_a_block_counts_with_a_tenth_of_what_one_of_equal_nodes_gets_back() -> None:
    layers, states, rows, roots = made_up()
    cone = BlockCone(layers, states, lambda _: rows, roots, most=4)
    some = np.array([2, 4, 3, 5, 7])  # two blocks of the first class, three of the second, which gets back 41 in all
    for last, counted in ((1.03, True), (1.02, False)):  # a tenth of a quarter of 41 is 1.025
        back = np.array([1.03, 0.5, 20.0, 41.0 - 20.0 - last, last])
        found = cone.counts(some, back * cone.lengths[some // 2, some % 2])
        assert found.tolist() == [True, False, True, True, counted]
