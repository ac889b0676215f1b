"""Fewer feature columns, the same client: losses, gradients and distances do not change."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jgleak import Budget, Knowledge
from jgleak.attacks.distance import labelled_distance
from jgleak.attacks.matching import reduction
from jgleak.attacks.matching.reduction import Reduction, _beside, _combined, _of_gradients, _padded, reduce
from jgleak.attacks.registry import get_attack
from jgleak.features import FeatureSpace, binary
from jgleak.federated import fedsgd
from jgleak.federated.client import node_gradients
from jgleak.federated.loss import graph_loss
from jgleak.gnn import GNN, AddedRow, Encoder, GCNConv, Layer, LayerNorm, LinearEncoder, LinearResidual, Pooled, Rows
from jgleak.graph import DenseGraph, Graph, bucket

WORDS = FeatureSpace(tuple(binary(f"word {i}") for i in range(90)))


def client(labels: Any, n: int = 11) -> Graph:
    """A cycle of words (of 12 nodes, its mixing matrix would be singular)."""
    rng = np.random.default_rng(3)
    edges = np.array([(i, i + 1) for i in range(n - 1)] + [(0, n - 1)])
    return Graph(rng.integers(2, size=(n, 90)), edges, labels)


@pytest.mark.parametrize("conv", ["gcn", "sage", pytest.param("gat", marks=pytest.mark.slow), "gin"])
def test_a_graph_seen_along_its_own_directions(lab: Any, conv: str) -> None:
    graph = client(1)
    model = lab.model(
        in_features=90, conv=conv, hidden=32, readout="flattened", slots=16, bias=True, act="sigmoid", last_act=True
    )
    observation = fedsgd(model, lab.params(model), [graph], WORDS, loss="ce")
    seen, basis = reduce(observation)
    assert basis is not None and basis.shape == (90, 16) and seen.model.in_features == 16
    x = np.zeros((16, 90), np.float32)
    x[:11] = WORDS.encode(graph.x)
    np.testing.assert_allclose(x @ basis @ basis.T, x, atol=1e-3)
    edges = jnp.zeros((16, 16)).at[:11, :11].set(graph.adjacency)
    mask = jnp.arange(16) < 11

    def loss(params: Any, model: Any, rows: Any) -> Any:
        return model.apply({"params": params}, rows, edges, mask)[0]

    value, slope = jax.value_and_grad(loss)(observation.params, model, jnp.asarray(x))
    less, thin = jax.value_and_grad(loss)(seen.params, seen.model, jnp.asarray(x @ basis, jnp.float32))
    assert value == pytest.approx(float(less), rel=1e-4)
    sizes = [np.sqrt(sum(float(np.sum(leaf**2)) for leaf in jax.tree.leaves(tree))) for tree in (slope, thin)]
    assert sizes[0] == pytest.approx(sizes[1], rel=1e-4)


@pytest.mark.long
def test_a_rounded_answer_is_compared_in_all_columns(lab: Any) -> None:
    """Its rows leave the few directions that were searched along, in which its gradient would be another."""
    model = lab.model(
        in_features=90, conv="sage", hidden=32, readout="flattened", slots=16, bias=True, act="sigmoid", last_act=True
    )
    observation = fedsgd(model, lab.params(model), [client(1)], WORDS, loss="ce")
    basis = reduce(observation).basis
    assert basis is not None
    attack = get_attack("glg-graph").with_options({"steps": "3", "init": "normal"})
    found = attack(observation, Knowledge(WORDS, n=11), key=jax.random.key(0), budget=Budget(time_limit=60))
    (graph,) = found.graphs
    x = WORDS.encode(graph.x)
    assert np.linalg.norm(x - x @ basis @ basis.T) > 0.5 * np.linalg.norm(x)
    away = labelled_distance(observation, WORDS, graph)
    assert found.gradient_distance == pytest.approx(away, rel=1e-3) and away > 0.1


def test_gradients_of_every_node_keep_their_norms(lab: Any) -> None:
    graph = client(np.arange(11) % 2)
    model = lab.model(in_features=90, conv="gcn", hidden=32, readout="node_scores", bias=True)
    observation = node_gradients(model, lab.params(model), graph, WORDS, loss="ce")
    seen, basis = reduce(observation)
    assert basis is not None and basis.shape[1] == 16
    for whole, thin in zip(jax.tree.leaves(observation.update), jax.tree.leaves(seen.update), strict=True):
        norms = [np.linalg.norm(np.asarray(leaf).reshape(11, -1), axis=1) for leaf in (whole, thin)]
        np.testing.assert_allclose(norms[0], norms[1], rtol=1e-4)


def test_models_that_show_the_features_elsewhere_stay_as_they_are(lab: Any) -> None:
    observation = lab.observe(lab.model(hidden=8), lab.random(5, 0))
    assert reduce(observation) == (observation, None)
    added = GNN(90, (Layer(GCNConv(90), residual=AddedRow()),), Pooled())
    seen = fedsgd(added, lab.params(added), [client(1)], WORDS, loss="ce")
    assert reduce(seen) == (seen, None)
    frozen = GNN(90, (Layer(GCNConv(8)), Layer(GCNConv(8))), Pooled(), frozen=("layers_0",))
    hidden = fedsgd(frozen, lab.params(frozen), [client(1)], WORDS, loss="ce")
    assert reduce(hidden) == (hidden, None), "whose first map is frozen"


@pytest.mark.parametrize(
    ("first", "encoder"),
    [
        (Layer(GCNConv(32), "tanh", norm=LayerNorm(), residual=LinearResidual()), Rows()),
        (Layer(GCNConv(32), "tanh", residual=AddedRow()), LinearEncoder(32)),
    ],
)
def test_every_map_that_the_features_enter_gets_fewer_columns(lab: Any, first: Layer, encoder: Encoder) -> None:
    graph = client(1)
    model = GNN(90, (first, Layer(GCNConv(32), "tanh")), Pooled(), encoder=encoder)
    observation = fedsgd(model, lab.params(model), [graph], WORDS, loss="ce")
    seen, basis = reduce(observation)
    assert basis is not None and basis.shape == (90, 16)
    rows = np.asarray(WORDS.encode(graph.x) @ basis, np.float32)
    thin = DenseGraph(jnp.asarray(rows), jnp.asarray(graph.adjacency), jnp.ones(11, bool))
    wanted = jax.grad(lambda p: graph_loss(seen.model, p, thin, jnp.array(1), "ce"))(seen.params)
    for found, leaf in zip(jax.tree.leaves(wanted), jax.tree.leaves(seen.update), strict=True):
        np.testing.assert_allclose(leaf, found, rtol=1e-3, atol=1e-3 * np.abs(leaf).max())


def test_gradients_of_several_kernels_are_combined_as_if_they_stood_beside_each_other() -> None:
    """Those of three losses and two kernels have 27 columns: each is there, or has a part in each combination."""
    rng = np.random.default_rng(0)
    kernels = [rng.normal(size=(3, 50, 5)), rng.normal(size=(3, 50, 4))]
    whole = np.hstack([loss for kernel in kernels for loss in kernel])
    np.testing.assert_array_equal(_combined(kernels, 27, 26), whole)
    fewer = _combined(kernels, 26, 26)
    mixing = np.linalg.lstsq(whole, fewer, rcond=None)[0]
    np.testing.assert_allclose(whole @ mixing, fewer, atol=1e-9)
    assert fewer.shape == (50, 26) and np.abs(mixing).min() > 0
    assert 0.8 < mixing.std() < 1.2 and np.linalg.matrix_rank(mixing) == 26


@pytest.mark.parametrize("size", [1e-9, 1.0, 1e9])
@pytest.mark.parametrize("rows", [0, 2])
@pytest.mark.parametrize("columns", [6, 40])
@pytest.mark.parametrize("rank", [3, 8])
def test_directions_are_those_of_the_gradient_and_of_the_rows_and_no_more(
    rank: int, columns: int, rows: int, size: float
) -> None:
    """Of a matrix of few directions, and of rows beside it, however long either is; from random combinations where
    columns are many."""
    rng, how = np.random.default_rng(0), Reduction(sketch=20)
    seen = size * rng.normal(size=(50, rank)) @ rng.normal(size=(rank, columns))
    beside = rng.normal(size=(rows, 50)) / size
    directions = _of_gradients([seen], how)
    directions = np.hstack([directions, _beside(directions, beside, how)])
    rank = min(rank, columns) + rows
    assert directions.shape == (50, rank)
    np.testing.assert_allclose(directions.T @ directions, np.eye(rank), atol=1e-9)
    for part in (seen, beside.T):
        np.testing.assert_allclose(directions @ (directions.T @ part), part, atol=1e-8 * np.abs(part).max(initial=0.0))
    assert _beside(directions, seen.T, how).shape == (50, 0), "which are spanned already"


def test_faint_directions_are_rounding_and_a_basis_is_narrower_than_the_space() -> None:
    rng = np.random.default_rng(0)
    left, right = np.linalg.qr(rng.normal(size=(50, 3)))[0], np.linalg.qr(rng.normal(size=(9, 3)))[0]
    for least, rank in ((1.1e-3, 3), (0.9e-3, 2)):
        how = Reduction(weakest_direction=1e-3)
        assert _of_gradients([left @ np.diag([1.0, 0.5, least]) @ right.T], how).shape == (50, rank)
        rows = np.diag([1.0, least]) @ left[:, :2].T
        assert _beside(left[:, 2:], rows, how).shape == (50, rank - 1)
    assert _of_gradients([np.zeros((50, 9))], Reduction()).shape == (50, 0)
    assert _beside(left, np.zeros((4, 50)), Reduction()).shape == (50, 0)


def test_a_basis_has_padding_and_is_narrower_than_the_space() -> None:
    slots = bucket(3)
    one = np.eye(slots + 1)[:, :3]
    assert _padded(one[:slots]) is None, "nothing would be won"
    basis = _padded(one)
    assert basis is not None and basis.shape == (slots + 1, slots)
    np.testing.assert_array_equal(basis[:, :3], one)
    assert not basis[:, 3:].any()
    nothing = _padded(np.zeros((50, 0)))
    assert nothing is not None and nothing.shape == (50, bucket(1)) and not nothing.any()


@pytest.mark.parametrize("rank", [28, 29, 30, 31, 45, 59, 60, 61])
def test_faint_directions_of_many_gradients_are_found_by_few_combinations(rank: int) -> None:
    """Ten losses get 30 combinations first. As many directions would be told from ill-conditioned mixtures."""
    rng = np.random.default_rng(rank)
    left = np.linalg.qr(rng.normal(size=(400, rank)))[0] * np.geomspace(1.0, 1e-5, rank)
    gradients = (left @ rng.normal(size=(10, rank, 50))).astype(np.float32)
    directions = _of_gradients([gradients], Reduction())
    assert directions.shape == (400, rank)
    rows = left / np.linalg.norm(left, axis=0)
    beyond = np.linalg.norm(rows - directions @ (directions.T @ rows), axis=0)
    assert beyond.max() < 0.05, "to single precision, as of all columns"
    assert beyond[: rank // 2].max() < 1e-4


@pytest.mark.parametrize(
    ("losses", "columns", "rank", "asked"),
    [(10, 50, 15, [30]), (10, 50, 16, [30, 320]), (10, 32, 30, [30]), (120, 50, 170, [320])],
)
def test_no_more_combinations_are_made_than_needed(
    monkeypatch: pytest.MonkeyPatch, losses: int, columns: int, rank: int, asked: list[int]
) -> None:
    """Three a loss, and all where directions are more than half of these; none where the columns fit as they are."""
    found = []

    def combined(kernels: Any, whole: int, most: int) -> np.ndarray:
        found.append(most)
        return _combined(kernels, whole, most)

    monkeypatch.setattr(reduction, "_combined", combined)
    rng = np.random.default_rng(0)
    gradients = rng.normal(size=(400, rank)) @ rng.normal(size=(losses, rank, columns))
    assert _of_gradients([gradients], Reduction()).shape == (400, rank)
    assert found == asked
