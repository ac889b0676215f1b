"""One layer at a time: exact on gradients made in float64, and every condition checked."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jgleak.attacks.closed_form import activations, layers
from jgleak.attacks.closed_form.layers import LayerGradient
from jgleak.attacks.closed_form.propositions import ConditionFailed
from jgleak.gnn import Convolution, GCNConv, SAGEConv
from jgleak.gnn.activation import activation

GCN, SAGE = GCNConv(4), SAGEConv(4)


def connected(rng: np.random.Generator, n: int) -> np.ndarray:
    """A random tree and a few more edges."""
    adjacency = np.triu(rng.random((n, n)) < 0.1, 1).astype(float)
    for v in range(1, n):
        adjacency[rng.integers(v), v] = 1.0
    return adjacency + adjacency.T


def layer_of(
    conv: Convolution, rng: np.random.Generator, states: np.ndarray, mixing: np.ndarray, upstream: np.ndarray
) -> LayerGradient:
    """A layer with random weights, and the gradients that ``upstream`` gives its kernels, written out."""
    shape = states.shape[1], upstream.shape[2]
    entered = {"kernel": mixing @ states, "self_kernel": states, "neighbour_kernel": mixing @ states}
    return LayerGradient(
        conv,
        {name: rng.normal(size=shape) for name in {tap.path[0] for tap in conv.taps}},
        np.zeros(shape[1]),
        {name: np.stack([entered[name].T @ one for one in upstream]) for name in {tap.path[0] for tap in conv.taps}},
    )


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10**6), st.booleans())
def test_states_and_edges_in_exact_arithmetic(seed: int, each_node: bool) -> None:
    """From one gradient with rows for all nodes, or from one gradient a node; in any order of the nodes."""
    rng = np.random.default_rng(seed)
    n, states = 9, rng.normal(size=(9, 14))
    adjacency = connected(rng, n)
    order = rng.permutation(n)
    for place in (np.arange(n), order):
        a, h = adjacency[np.ix_(place, place)], states[place]
        mixing = layers.mixing_of(SAGE, a)
        upstream = rng.normal(size=(1, n, 11))
        if each_node:
            upstream = np.eye(n)[:, :, None] * rng.normal(size=(n, 1, 3))
        layer = layer_of(SAGE, rng, h, mixing, upstream)
        np.testing.assert_allclose(layers.rows_of(layer, upstream, mixing), h, atol=1e-4)
        np.testing.assert_allclose(layers.rows_of(layer, upstream, None), h, atol=1e-4)
        np.testing.assert_array_equal(layers.edges_of(layer, upstream, h), a)


@pytest.mark.parametrize("conv", [GCN, SAGE], ids=["gcn", "sage"])
@pytest.mark.parametrize("act", ["sigmoid", "tanh", "relu"])
def test_the_gradient_below_is_the_derivative(conv: Convolution, act: str) -> None:
    rng = np.random.default_rng(3)
    n, z = 6, rng.normal(size=(6, 5)).astype(np.float32)
    mixing = layers.mixing_of(conv, connected(rng, n))
    upstream = rng.normal(size=(2, n, 4))
    layer = layer_of(conv, rng, np.asarray(activation(act)(jnp.asarray(z))), mixing, upstream)

    def output(inner: Any, seen: np.ndarray) -> Any:
        h = activation(act)(inner)
        out = {
            "kernel": lambda w: mixing @ h @ w,
            "self_kernel": lambda w: h @ w,
            "neighbour_kernel": lambda w: mixing @ h @ w,
        }
        return sum(jnp.sum(out[name](w) * seen) for name, w in layer.weights.items())

    slope = activations.slope_of(act, np.asarray(activation(act)(jnp.asarray(z)), np.float64))
    found = layers.below(layer, upstream, mixing, slope)
    for one, seen in zip(found, upstream, strict=True):
        np.testing.assert_allclose(one, jax.grad(output)(jnp.asarray(z), seen), atol=1e-4)


@pytest.mark.parametrize("scale", [1e-4, 1.0, 1e4])
@pytest.mark.parametrize("act", sorted(activations.VALUES))
def test_slopes_are_the_derivatives_of_the_values(act: str, scale: float) -> None:
    rng, value = np.random.default_rng(0), activations.VALUES[act]
    inner = scale * rng.normal(size=(5, 4))
    step = 1e-6 * scale
    wanted = (value(inner + step) - value(inner - step)) / (2 * step)
    np.testing.assert_allclose(activations.slope_of(act, value(inner)), wanted, atol=1e-5)


def test_a_positive_value_below_the_noise_of_its_node_is_a_zero() -> None:
    """A ReLU gives no negative states, so they show how far rounding has moved the zeros."""
    states = np.array([[1.0, 3e-4, -2e-4, 0.0], [1.0, 3e-4, 0.0, 1e-6]])
    np.testing.assert_array_equal(activations.slope_of("relu", states), [[1, 0, 0, 0], [1, 1, 0, 0]])
    np.testing.assert_array_equal(activations.slope_of("relu", jnp.asarray(states)), [[1, 0, 0, 0], [1, 1, 0, 0]])


def test_twins_of_one_neighbourhood_do_not_hide_edges() -> None:
    """Two leaves at one node with equal states: all or none of a group's edges."""
    rng = np.random.default_rng(1)
    adjacency = connected(rng, 7)
    adjacency = np.pad(adjacency, (0, 2))
    adjacency[[7, 8], 2] = adjacency[2, [7, 8]] = 1.0
    states = rng.normal(size=(9, 12))
    states[8] = states[7]
    mixing, upstream = layers.mixing_of(SAGE, adjacency), rng.normal(size=(1, 9, 11))
    layer = layer_of(SAGE, rng, states, mixing, upstream)
    np.testing.assert_array_equal(layers.edges_of(layer, upstream, states), adjacency)


def test_hubs_that_have_twins_each_keep_the_edge_between_them() -> None:
    rng = np.random.default_rng(1)
    adjacency = np.zeros((6, 6))
    for u, v in [(0, 1), (0, 2), (0, 3), (1, 4), (1, 5)]:
        adjacency[u, v] = adjacency[v, u] = 1.0
    states = rng.normal(size=(6, 12))[[0, 1, 2, 2, 4, 4]]
    mixing, upstream = layers.mixing_of(SAGE, adjacency), rng.normal(size=(1, 6, 11))
    layer = layer_of(SAGE, rng, states, mixing, upstream)
    np.testing.assert_array_equal(layers.edges_of(layer, upstream, states), adjacency)


@pytest.mark.parametrize("nodes", [1, 2, 4])
def test_nodes_without_edges_have_none(nodes: int) -> None:
    """One alone has no differences that could be checked."""
    rng = np.random.default_rng(1)
    states, upstream = rng.normal(size=(nodes, 12)), rng.normal(size=(1, nodes, 11))
    layer = layer_of(SAGE, rng, states, np.zeros((nodes, nodes)), upstream)
    assert not layers.edges_of(layer, upstream, states).any()


def test_two_nodes_are_checked_as_well() -> None:
    rng = np.random.default_rng(1)
    states, upstream = rng.normal(size=(2, 12)), rng.normal(size=(1, 2, 11))
    layer = layer_of(SAGE, rng, states, np.array([[0.0, 0.3], [0.7, 0.0]]), upstream)
    with pytest.raises(ConditionFailed, match="no graph fits"):
        layers.edges_of(layer, upstream, states)


@pytest.mark.parametrize("size", [1e-3, 1.0, 1e3])
@pytest.mark.parametrize(("share", "equal"), [(0.98, True), (1.02, False)])
def test_rows_are_equal_by_their_distance_beside_the_usual_one(share: float, equal: bool, size: float) -> None:
    """Whatever all rows have in common, and whatever two rows that are not equal do."""
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(6, 5)) + 100.0 * rng.normal(size=5)
    rows[1] = rows[0] + 0.1 * rng.normal(size=5)
    usual = np.sqrt(np.mean(np.sum((rows - rows.mean(axis=0)) ** 2, axis=1)))
    rows[5] = rows[2]
    for _ in range(3):  # the usual distance depends a little on that row
        usual = np.sqrt(np.mean(np.sum((rows - rows.mean(axis=0)) ** 2, axis=1)))
        rows[5] = rows[2] + 1e-4 * share * usual * np.eye(5)[0]
    group, sizes = layers._equal_rows(size * rows, 1e-4)
    assert (group[5] == group[2]) == equal and sizes.size == 6 - equal


@pytest.mark.parametrize(("ratio", "known"), [(0.95e-6, False), (1.05e-6, True)])
def test_nodes_of_nearly_equal_gradients_show_to_a_millionth(ratio: float, known: bool) -> None:
    """By the ratio of the singular values of their directions."""
    angle = 2 * np.arctan(ratio)
    upstream = np.array([[[1.0, 0.0, 0.0], [np.cos(angle), np.sin(angle), 0.0]]])
    layer = layer_of(SAGE, np.random.default_rng(0), np.eye(2, 4), np.zeros((2, 2)), upstream)
    if known:
        np.testing.assert_allclose(layers.rows_of(layer, upstream, None), np.eye(2, 4), atol=1e-3)
    else:
        with pytest.raises(ConditionFailed, match="have rank 1; full row rank 2"):
            layers.rows_of(layer, upstream, None)


def test_equal_states_at_different_nodes_hide_edges() -> None:
    """A path whose two halves look alike: which leaf is whose does not show."""
    rng = np.random.default_rng(1)
    adjacency = np.zeros((5, 5))
    for v in range(4):
        adjacency[v, v + 1] = adjacency[v + 1, v] = 1.0
    states = rng.normal(size=(5, 12))[[0, 1, 2, 1, 0]]
    mixing, upstream = layers.mixing_of(SAGE, adjacency), rng.normal(size=(1, 5, 11))
    layer = layer_of(SAGE, rng, states, mixing, upstream)
    with pytest.raises(
        ConditionFailed, match="which whose does not show: the 5 states have 3 distinct rows and rank 3"
    ):
        layers.edges_of(layer, upstream, states)


def test_a_cover_with_the_same_gradients_is_not_taken_for_the_graph() -> None:
    """A ring of six whose opposite nodes are alike mixes as the octahedron does."""
    rng = np.random.default_rng(1)
    ring = np.roll(np.eye(6), 1, axis=0) + np.roll(np.eye(6), -1, axis=0)
    states = rng.normal(size=(6, 12))[[0, 1, 2, 0, 1, 2]]
    mixing, upstream = layers.mixing_of(SAGE, ring), rng.normal(size=(1, 6, 11))
    layer = layer_of(SAGE, rng, states, mixing, upstream)
    with pytest.raises(ConditionFailed, match="which whose does not show"):
        layers.edges_of(layer, upstream, states)


def test_states_without_differences_show_no_edges() -> None:
    """All aggregates of nearly equal states are alike, so no wrong graph may pass for fitting them."""
    rng = np.random.default_rng(1)
    mixing, upstream = layers.mixing_of(SAGE, connected(rng, 8)), rng.normal(size=(1, 8, 11))
    states = 0.5 + 1e-8 * rng.normal(size=(8, 12))
    layer = layer_of(SAGE, rng, states, mixing, upstream)
    rounded = layer._replace(gradients={k: g.astype(np.float32) for k, g in layer.gradients.items()})
    with pytest.raises(ConditionFailed):
        layers.edges_of(rounded, upstream, layers.rows_of(rounded, upstream, None))


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("lost", [1, 7])
def test_a_direction_that_rounding_spoils_hides_no_edges_and_many_do(lost: int, seed: int) -> None:
    """Of nine nodes' states, whose gradients are of single precision; the reason tells the rank without rounding."""
    rng, kept = np.random.default_rng(seed), 9 - lost
    adjacency = connected(rng, 9)
    states = rng.normal(size=(9, kept)) @ rng.normal(size=(kept, 14)) + 1e-8 * rng.normal(size=(9, 14))
    mixing, upstream = layers.mixing_of(SAGE, adjacency), rng.normal(size=(1, 9, 11))
    layer = layer_of(SAGE, rng, states, mixing, upstream)
    rounded = layer._replace(gradients={k: g.astype(np.float32) for k, g in layer.gradients.items()})
    rows = layers.rows_of(rounded, upstream, None)
    if lost == 1:
        np.testing.assert_array_equal(layers.edges_of(rounded, upstream, rows), adjacency)
    else:
        with pytest.raises(ConditionFailed, match="no graph fits.* 9 distinct rows and rank 2; "):
            layers.edges_of(rounded, upstream, rows)


def test_conditions_are_checked() -> None:
    rng = np.random.default_rng(2)
    states, adjacency = rng.normal(size=(8, 12)), connected(rng, 8)
    mixing = layers.mixing_of(SAGE, adjacency)
    narrow = rng.normal(size=(1, 8, 3))
    layer = layer_of(SAGE, rng, states, mixing, narrow)
    with pytest.raises(ConditionFailed, match="gradients at the layer's output .* full row rank"):
        layers.rows_of(layer, narrow, mixing)
    wide = rng.normal(size=(1, 8, 20))
    layer = layer_of(SAGE, rng, states, mixing, wide)
    other = wide + 0.1 * rng.normal(size=wide.shape)
    for size in (1.0, 1e-4):
        faint = layer._replace(gradients={name: size * leaf for name, leaf in layer.gradients.items()})
        with pytest.raises(ConditionFailed, match="no states fit"):
            layers.rows_of(faint, size * other, mixing)
    dead = wide.copy()
    dead[:, 4] = 0.0
    with pytest.raises(ConditionFailed, match="row 4 .* is zero"):
        layers.rows_of(layer, dead, None)
    with pytest.raises(ConditionFailed, match="slope of 'gelu' is not a function of its value"):
        activations.slope_of("gelu", states)


def test_nodes_of_faint_gradients_count_as_much() -> None:
    """Sizes of gradients do not spoil the rank: a confident node is no less known."""
    rng = np.random.default_rng(4)
    states, adjacency = rng.normal(size=(8, 12)), connected(rng, 8)
    mixing = layers.mixing_of(SAGE, adjacency)
    upstream = np.eye(8)[:, :, None] * rng.normal(size=(8, 1, 3)) * 10.0 ** -np.arange(8)[:, None, None]
    layer = layer_of(SAGE, rng, states, mixing, upstream)
    for known in (None, mixing):
        np.testing.assert_allclose(layers.rows_of(layer, upstream, known), states, atol=1e-8)


def test_isolated_nodes_mix_to_nothing() -> None:
    assert not layers.mixing_of(SAGE, np.zeros((2, 2))).any()
    np.testing.assert_array_equal(layers.mixing_of(GCN, np.zeros((2, 2))), np.eye(2))
