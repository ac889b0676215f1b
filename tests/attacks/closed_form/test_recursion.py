"""GraphDLG's recursion: the pooled embedding, Theorem 2 exactly, and the same solution as the Kronecker system."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache, partial
from typing import Any

import jax
import numpy as np
import pytest
from models import flat

from jgleak.attacks.closed_form.pooled_embedding import pooled_embedding
from jgleak.attacks.closed_form.propositions import ConditionFailed
from jgleak.attacks.closed_form.recursion import Recovered, pooling_weights, recover
from jgleak.attacks.closed_form.tolerances import TOLERANCES
from jgleak.defenses import parse
from jgleak.features import FeatureSpace, real
from jgleak.federated import Observation, fedsgd
from jgleak.gnn import GNN
from jgleak.gnn.pooled import Pooled
from jgleak.graph import Graph, GraphBatch

SPACE = FeatureSpace(tuple(real(f"x{i}") for i in range(6)))


def model(layers: int, **fields: Any) -> GNN:
    shared = {"hidden": 64, "last_act": True, "readout": "pooled", "readout_widths": ()}
    return flat(in_features=6, layers=layers, **(shared | fields))


@cache
def graphs() -> tuple[Graph, ...]:
    """Rings and paths whose nodes are all different and whose normalised adjacencies are regular."""
    rng = np.random.default_rng(3)
    rings = [[(i, (i + 1) % n) for i in range(n)] for n in (4, 5, 7)]
    paths = [[(i, i + 1) for i in range(n - 1)] for n in (3, 4, 6)]
    sizes = (4, 5, 7, 3, 4, 6)
    each = zip(sizes, rings + paths, strict=True)
    return tuple(Graph(rng.normal(size=(n, 6)), np.array(edges), int(rng.integers(2))) for n, edges in each)


def params(net: GNN) -> Any:
    """Uniform weights, without compiling an initialiser."""
    rng = np.random.default_rng(0)
    shapes = jax.eval_shape(lambda: net.initial(key=jax.random.key(0)))
    return jax.tree.map(lambda s: rng.uniform(-0.3, 0.3, s.shape).astype(np.float32), shapes)


def seen(net: GNN, several: Sequence[Graph]) -> list[Observation]:
    return [fedsgd(net, params(net), [g], SPACE, loss="ce") for g in several]


def states(net: GNN, several: Sequence[Graph]) -> list[list[np.ndarray]]:
    """The true states of every graph."""
    batch = GraphBatch.from_graphs(several, SPACE, slots=8)
    run = jax.vmap(lambda x, a, m: net.apply({"params": params(net)}, x, a, m, method="states"))
    found: Any = jax.device_get(jax.jit(run)(batch.nodes, batch.adjacency, batch.node_mask))
    return [[layer[i, : g.n] for layer in found] for i, g in enumerate(several)]


def recovered(net: GNN, several: Sequence[Graph], **given: Any) -> list[Recovered]:
    updates = [o.update for o in seen(net, several)]
    return recover(net, params(net), updates, [g.adjacency for g in several], **given)


def kronecker(coefficients: np.ndarray, gradient: np.ndarray) -> np.ndarray:
    """Algorithm 1, lines 8 to 11, as printed: least squares with the matrix ``r^T (x) I``."""
    n, width = coefficients.shape[0], gradient.shape[0]
    system = np.kron(coefficients.T, np.eye(width))
    return np.linalg.lstsq(system, gradient.T.reshape(-1), rcond=TOLERANCES.rank)[0].reshape(n, width)


@pytest.mark.parametrize(("layers", "pooling"), [(2, "mean"), (3, "sum"), (4, "mean"), (2, "max"), (3, "max")])
def test_exact_with_the_true_slopes(layers: int, pooling: str) -> None:
    net = model(layers, pooling=pooling)
    true = states(net, graphs())
    last = [(layer[-1] > 0).astype(float) for layer in true]
    found = recovered(net, graphs(), last=last, states=[layer[-1] for layer in true])
    exact = 0
    for one, wanted in zip(found, true, strict=True):
        spread = [np.linalg.svd(r, compute_uv=False) for r in one.coefficients]
        if all(len(s) == len(wanted[0]) and s[-1] > 1e-3 * s[0] for s in spread):
            exact += 1
            for got, want in zip(one.states, wanted, strict=False):
                assert np.linalg.norm(got - want) < 1e-3 * np.linalg.norm(want)
    assert exact >= 2


@pytest.mark.parametrize("pooling", ["mean", "sum", "max"])
def test_equal_nodes_need_one_row_between_them(pooling: str) -> None:
    """Two leaves of a star are alike: the rows are dependent, and the features come back all the same."""
    rows = np.random.default_rng(0).normal(size=(4, 6))
    star = Graph(np.r_[rows, rows[3:]], np.array([(0, 1), (1, 2), (1, 3), (1, 4)]), 1)
    net = model(2, pooling=pooling)
    last = states(net, [star])[0][-1]
    one = recovered(net, [star], last=[(last > 0).astype(float)], states=[last])[0]
    assert [np.linalg.matrix_rank(r, rtol=1e-4) for r in one.coefficients] == [4, 4]
    np.testing.assert_allclose(one.states[0], star.x, atol=float(1e-3 * np.linalg.norm(star.x)))


@pytest.mark.parametrize("layers", [1, 3, 4])
@pytest.mark.parametrize("slopes", ["ones", "true"])
def test_the_same_as_the_kronecker_system(layers: int, slopes: str) -> None:
    net = model(layers, hidden=10)
    several = graphs()[:3]
    last = None if slopes == "ones" else [(layer[-1] > 0).astype(float) for layer in states(net, several)]
    found = recovered(net, several, last=last)
    for one, observation in zip(found, seen(net, several), strict=True):
        for layer in range(layers):
            gradient = np.asarray(observation.update[f"layers_{layer}"]["conv"]["kernel"], np.float64)
            want = kronecker(np.asarray(one.coefficients[layer]), gradient)
            np.testing.assert_allclose(one.states[layer], want, rtol=1e-6, atol=1e-8 * np.abs(want).max())


def test_slopes_of_ones_leave_one_row() -> None:
    """Every recovered state is a multiple of one row, whose factors the edges alone tell."""
    for one, graph in zip(recovered(model(3), graphs()), graphs(), strict=True):
        mixing = graph.adjacency + np.eye(graph.n)
        scale = 1 / np.sqrt(mixing.sum(axis=1))
        factors = (scale[:, None] * mixing * scale).sum(axis=0)
        last = one.states[-1]
        np.testing.assert_allclose(last, np.outer(factors / factors[0], last[0]), rtol=1e-6, atol=1e-9)
        values = np.linalg.svd(one.states[0], compute_uv=False)
        assert values[1] < 1e-6 * values[0]


def test_node_order_is_that_of_the_edges() -> None:
    net, graph = model(2), graphs()[0]
    order = np.random.default_rng(0).permutation(graph.n)
    last = (states(net, [graph])[0][-1] > 0).astype(float)
    one = recovered(net, [graph], last=[last])[0]
    other = recovered(net, [graph.permute(order)], last=[last[order]])[0]
    scale = np.abs(one.states[0]).max()
    np.testing.assert_allclose(other.states[0], one.states[0][order], atol=1e-4 * scale)


@pytest.mark.parametrize("act", ["sigmoid", "tanh"])
def test_other_activations_and_a_bias(act: str) -> None:
    net = model(2, act=act, bias=True, hidden=16)
    true = states(net, graphs())
    slope = {"sigmoid": lambda h: h * (1 - h), "tanh": lambda h: 1 - h**2}[act]
    found = recovered(net, graphs(), last=[slope(layer[-1].astype(float)) for layer in true])
    for one, wanted in zip(found, true, strict=True):
        if all(np.linalg.matrix_rank(r, rtol=1e-3) == len(r) for r in one.coefficients):
            assert np.linalg.norm(one.states[0] - wanted[0]) < 1e-2 * np.linalg.norm(wanted[0])


def test_weights_of_the_poolings_are_their_derivatives() -> None:
    mask = np.array([True, True, True, False])
    rows = np.random.default_rng(0).normal(size=(4, 3)).astype(np.float32)
    for pooling in ("mean", "sum", "max"):
        head = Pooled(pooling)
        slopes = jax.jit(jax.jacobian(partial(head.apply, {}, method="pool")))(rows, mask)
        slopes = np.einsum("dnd->nd", np.asarray(slopes))
        weights = np.broadcast_to(jax.jit(partial(pooling_weights, head))(mask, rows), slopes.shape)
        np.testing.assert_allclose(weights, slopes, atol=1e-6)


@pytest.mark.parametrize("widths", [(), (12,), (12, 9)])
def test_the_pooled_embedding_under_any_readout(widths: tuple[int, ...]) -> None:
    net = model(2, hidden=16, readout_widths=widths)
    for one, wanted in zip(seen(net, graphs()[:3]), states(net, graphs()[:3]), strict=True):
        np.testing.assert_allclose(pooled_embedding(net, one.update), wanted[-1].mean(axis=0), rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("share", [0.5, 0.9])
def test_the_pooled_embedding_of_a_pruned_update_is_right_where_it_shows(share: float) -> None:
    net, several = model(2, hidden=16, readout_widths=(12,)), graphs()[:3]
    for one, wanted in zip(seen(net, several), states(net, several), strict=True):
        sent = jax.tree.map(np.asarray, parse(f"prune:{share}").apply(one.update, key=jax.random.key(0)))
        layer, truth = sent["readout"]["mlp"]["linears_0"], wanted[-1].mean(axis=0)
        shown = np.any((layer["kernel"] != 0) & (layer["bias"] != 0), axis=1)
        assert shown.any() and not shown.all()
        np.testing.assert_allclose(pooled_embedding(net, sent), np.where(shown, truth, 0.0), rtol=1e-4, atol=1e-6)


def test_the_embedding_of_a_batch_is_a_weighted_mean() -> None:
    net = model(2, hidden=16)
    several = [Graph(g.x, g.edges, 1) for g in graphs()[:4]]
    update = fedsgd(net, params(net), several, SPACE, loss="ce").update
    deltas = np.stack([o.update["readout"]["mlp"]["linears_0"]["bias"] for o in seen(net, several)]).astype(float)
    shares = deltas @ deltas.mean(axis=0) / (deltas.mean(axis=0) @ deltas.mean(axis=0)) / len(several)
    pooled = np.stack([layer[-1].mean(axis=0) for layer in states(net, several)])
    assert shares.sum() == pytest.approx(1.0)
    np.testing.assert_allclose(pooled_embedding(net, update), shares @ pooled, rtol=1e-4, atol=1e-6)


def test_no_gradient_no_embedding() -> None:
    net = model(1, hidden=16)
    nothing = jax.tree.map(np.zeros_like, params(net))
    with pytest.raises(ConditionFailed, match="observe another round"):
        pooled_embedding(net, nothing)


def test_of_no_clients_nothing_is_recovered() -> None:
    net = model(1, hidden=16)
    assert recover(net, params(net), [], []) == []
