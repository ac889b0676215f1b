"""GLG's propositions on gradients of real models, their conditions, and bad input."""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from models import flat, some_params

from jgleak.attacks.closed_form import propositions as glg
from jgleak.gnn import GNN

NODES, FEATURES = 8, 12
ONES = jnp.ones(NODES, bool)


def graph(seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Random features and a random connected adjacency (a tree and a few more edges)."""
    rng = np.random.default_rng(seed)
    adjacency = np.zeros((NODES, NODES))
    for v in range(1, NODES):
        adjacency[v, rng.integers(v)] = 1.0
    more = rng.random((NODES, NODES)) < 0.15
    adjacency = np.triu(np.maximum(adjacency + adjacency.T, more), 1)
    return rng.normal(size=(NODES, FEATURES)), adjacency + adjacency.T


def normalised(conv: str, adjacency: np.ndarray) -> np.ndarray:
    """GCN's symmetric and GraphSAGE's row normalisation, written out."""
    if conv == "sage":
        return adjacency / adjacency.sum(axis=1, keepdims=True)
    looped = adjacency + np.eye(NODES)
    return looped / np.sqrt(np.outer(looped.sum(axis=1), looped.sum(axis=1)))


def node_gradients(model: GNN, features: np.ndarray, adjacency: np.ndarray) -> dict[str, np.ndarray]:
    """First-layer gradients of every node's own cross-entropy, stacked."""
    params = some_params(model)

    @jax.jit
    def one(node: Any) -> Any:
        def loss(weights: Any) -> Any:
            scores = model.apply({"params": weights}, jnp.asarray(features), jnp.asarray(adjacency), ONES)
            return -jax.nn.log_softmax(jnp.asarray(scores)[node])[1]

        return jax.grad(loss)(params)["layers_0"]["conv"]

    parts = [one(v) for v in range(NODES)]
    return {name: np.stack([np.asarray(part[name]) for part in parts]) for name in parts[0]}


@pytest.fixture(scope="module", params=["gcn", "sage"])
def single(request: pytest.FixtureRequest) -> tuple[str, np.ndarray, np.ndarray, dict[str, np.ndarray]]:
    features, adjacency = graph(2)
    model = flat(
        in_features=FEATURES,
        hidden=16,
        layers=1,
        conv=request.param,
        readout="node_scores",
        classes=5,
        act="sigmoid",
        bias=True,
    )
    return request.param, features, adjacency, node_gradients(model, features, adjacency)


def test_a_node_s_rows_are_read_off(single: tuple[str, np.ndarray, np.ndarray, dict[str, np.ndarray]]) -> None:
    conv, features, adjacency, gradients = single
    aggregated = normalised(conv, adjacency) @ features
    name = "kernel" if conv == "gcn" else "neighbour_kernel"
    for node in range(NODES):
        row = glg.aggregated_row(gradients[name][node], gradients["bias"][node])
        np.testing.assert_allclose(row, aggregated[node], atol=1e-5)
        if conv == "sage":
            own = glg.node_row(gradients["self_kernel"][node], gradients["bias"][node])
            np.testing.assert_allclose(own, features[node], atol=1e-5)


def test_all_nodes_give_the_graph(single: tuple[str, np.ndarray, np.ndarray, dict[str, np.ndarray]]) -> None:
    conv, features, adjacency, gradients = single
    mixing = normalised(conv, adjacency)
    if conv == "sage":
        names = ("self_kernel", "neighbour_kernel", "bias")
        rows, found = glg.graph_of_rows(*(gradients[name] for name in names))
        np.testing.assert_allclose(rows, features, atol=1e-5)
        np.testing.assert_allclose(found, mixing, atol=1e-4)
        return
    aggregated = np.stack(
        [glg.aggregated_row(k, b) for k, b in zip(gradients["kernel"], gradients["bias"], strict=True)]
    )
    np.testing.assert_allclose(glg.adjacency_of_rows(aggregated, features), mixing, atol=1e-4)
    assert np.linalg.cond(mixing) < 1e3
    np.testing.assert_allclose(glg.features_of_rows(aggregated, mixing), features, atol=1e-3)


@pytest.mark.parametrize("layers", [1, 2, 3])
def test_one_gradient_of_a_graph_gives_its_edges(layers: int) -> None:
    """Proposition 6 through any layers above, the paper's sigmoid GraphSAGE with a flattened readout."""
    features, adjacency = graph(1)
    model = flat(
        in_features=FEATURES, hidden=100, layers=layers, conv="sage", act="sigmoid", readout="flattened", slots=NODES
    )
    params = some_params(model, seed=2)

    @jax.jit
    def gradient(weights: Any) -> Any:
        def loss(w: Any) -> Any:
            logits = model.apply({"params": w}, jnp.asarray(features), jnp.asarray(adjacency), ONES)
            return -jax.nn.log_softmax(jnp.asarray(logits))[1]

        return jax.grad(loss)(weights)["layers_0"]["conv"]

    seen = gradient(params)
    found = glg.adjacency_of_gradient(features, np.asarray(seen["self_kernel"]), np.asarray(seen["neighbour_kernel"]))
    edges = found > 0.5 / NODES
    assert np.array_equal(edges, adjacency > 0)
    np.testing.assert_allclose(found, normalised("sage", adjacency), atol=0.02)


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10**6))
def test_proposition_six_in_exact_arithmetic(seed: int) -> None:
    """Whatever the upstream gradient is, the quotient is the adjacency; permuting nodes permutes it."""
    features, adjacency = graph(seed)
    mixing, rng = normalised("sage", adjacency), np.random.default_rng(seed)
    upstream = rng.normal(size=(NODES, 20))
    own, others = features.T @ upstream, (mixing @ features).T @ upstream
    np.testing.assert_allclose(glg.adjacency_of_gradient(features, own, others), mixing, atol=1e-6)
    order = rng.permutation(NODES)
    moved = glg.adjacency_of_gradient(features[order], own, others)
    np.testing.assert_allclose(moved, mixing[np.ix_(order, order)], atol=1e-6)


def test_conditions_are_checked() -> None:
    features, adjacency = graph(2)
    mixing, rng = normalised("sage", adjacency), np.random.default_rng(0)
    deep = flat(in_features=FEATURES, hidden=16, conv="gcn", readout="node_scores", classes=5, act="sigmoid", bias=True)
    gradients = node_gradients(deep, features, adjacency)
    with pytest.raises(glg.ConditionFailed, match="away from rank one.*no second convolution"):
        glg.aggregated_row(gradients["kernel"][0], gradients["bias"][0])
    with pytest.raises(glg.ConditionFailed, match="bias gradient is zero"):
        glg.aggregated_row(np.zeros((3, 2)), np.zeros(2))
    twins = features.copy()
    twins[1] = twins[0]
    for refused in (
        partial(glg.adjacency_of_rows, mixing @ twins, twins),
        partial(glg.adjacency_of_gradient, twins, rng.normal(size=(FEATURES, 20)), rng.normal(size=(FEATURES, 20))),
    ):
        with pytest.raises(glg.ConditionFailed, match="features .* rank 7; .* full row rank 8"):
            refused()
    singular = np.zeros((NODES, NODES))
    singular[:, 0] = 1.0
    with pytest.raises(glg.ConditionFailed, match="normalised adjacency .* rank 1; .* full column rank 8"):
        glg.features_of_rows(features, singular)
    narrow = rng.normal(size=(NODES, 5))
    with pytest.raises(glg.ConditionFailed, match="layer's output .* rank 5; .* full row rank 8"):
        glg.adjacency_of_gradient(features, features.T @ narrow, (mixing @ features).T @ narrow)


@pytest.mark.parametrize("size", [1e-4, 1.0, 1e4])
@pytest.mark.parametrize(("share", "one"), [(0.9e-3, True), (1.1e-3, False)])
def test_a_gradient_is_of_one_row_to_a_thousandth_of_its_size(share: float, one: bool, size: float) -> None:
    row, bias, across = np.array([2.0, 0.0, 1.0]), np.array([0.6, 0.8]), np.array([0.8, -0.6])
    off = share * np.linalg.norm(row) * np.outer([0.0, 1.0, 0.0], across)
    kernel = size * (np.outer(row, bias) + off)
    if one:
        np.testing.assert_allclose(glg.aggregated_row(kernel, size * bias), row, atol=1e-9)
    else:
        with pytest.raises(glg.ConditionFailed, match="1.1e-03 away from rank one"):
            glg.aggregated_row(kernel, size * bias)


@pytest.mark.parametrize("size", [1e-7, 1e7])
def test_units_of_features_do_not_matter_and_the_rank_is_judged_as_told(size: float) -> None:
    features, adjacency = graph(2)
    mixing, upstream = normalised("sage", adjacency), np.random.default_rng(0).normal(size=(NODES, 20))
    np.testing.assert_allclose(glg.adjacency_of_rows(size * mixing @ features, size * features), mixing, atol=1e-8)
    with pytest.raises(glg.ConditionFailed, match="the features .* rank 0"):
        glg.adjacency_of_rows(0.0 * features, 0.0 * features)
    round_ones = np.linalg.svd(features, full_matrices=False)[2]
    for rows, gradient, what in (
        (features, np.eye(NODES, 20), "the features"),
        (round_ones, np.diag(np.arange(1.0, 9.0)) @ np.eye(NODES, 20), "the gradient at the layer's output"),
        (round_ones, upstream, None),
    ):
        seen = rows, rows.T @ gradient, (mixing @ rows).T @ gradient
        np.testing.assert_allclose(glg.adjacency_of_gradient(*seen), mixing, atol=1e-6)
        if what is not None:
            with pytest.raises(glg.ConditionFailed, match=what):
                glg.adjacency_of_gradient(*seen, rank=0.5)


def test_an_isolated_node_aggregates_zero() -> None:
    upstream = np.array([0.5, -1.0])
    assert not glg.aggregated_row(np.zeros((3, 2)), upstream).any()


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: glg.aggregated_row(np.ones((3, 2)), np.ones(3)), "2 columns and the bias gradient 3 entries"),
        (lambda: glg.aggregated_row(np.full((3, 2), np.nan), np.ones(2)), "kernel's gradient holds NaN"),
        (lambda: glg.aggregated_row(np.ones(3), np.ones(2)), "must have 2 dimensions"),
        (lambda: glg.adjacency_of_rows(np.ones((3, 2)), np.ones((2, 2))), "differ in shape"),
        (lambda: glg.features_of_rows(np.ones((3, 2)), np.eye(2)), "have 3 rows"),
        (lambda: glg.adjacency_of_gradient(np.eye(3), np.ones((2, 4)), np.ones((2, 4))), "do not belong together"),
    ],
)
@pytest.mark.usefixtures("unchecked")
def test_bad_input_is_named(call: Any, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        call()
