"""Relaxed graphs stay graphs: symmetric, masked, sparse as asked; derivatives go straight through."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jaxtyping import Array

from jgleak.attacks import relaxations
from jgleak.attacks.matching import regularisers
from jgleak.attacks.relaxations import Group
from jgleak.features import FeatureSpace, binary, number, onehot, real

SEEDS = st.integers(0, 10_000)


def matrix(seed: int, n: int = 6) -> Array:
    return jnp.asarray(np.random.default_rng(seed).normal(size=(n, n)), jnp.float32)


@settings(max_examples=20, deadline=None)
@given(SEEDS, st.integers(1, 6))
def test_edges_are_symmetric_probabilities_of_real_pairs(seed: int, n: int) -> None:
    mask: Any = np.arange(6) < n
    for relax in (relaxations.sigmoid_edges, relaxations.clip_edges):
        edges = np.asarray(relax(3 * matrix(seed), mask))
        np.testing.assert_array_equal(edges, edges.T)
        assert edges.min() >= 0 and edges.max() <= 1
        assert not edges[~mask].any() and not np.diag(edges).any()


@settings(max_examples=20, deadline=None)
@given(SEEDS, st.integers(0, 6))
def test_the_sparsest_edges_are_the_largest_of_some_end(seed: int, most: int) -> None:
    mask: Any = np.ones(6, bool)
    edges = np.asarray(relaxations.sigmoid_edges(matrix(seed), mask))
    got = np.asarray(relaxations.sparsest(jnp.asarray(edges), jnp.asarray(float(most))))
    want = np.zeros((6, 6))
    for v in range(6):
        for u in np.argsort(-edges[v])[:most]:
            if edges[v, u] >= 0.5:
                want[v, u] = want[u, v] = 1
    np.testing.assert_allclose(got, want, atol=1e-6)


def test_derivatives_go_straight_through() -> None:
    weights = matrix(1)

    def value(edges: Any) -> Any:
        return jnp.sum(weights * relaxations.sparsest(edges, jnp.asarray(2.0)))

    np.testing.assert_allclose(jax.grad(value)(matrix(2)), weights, rtol=1e-6)


def test_structured_features_are_mixtures_of_rows_that_exist() -> None:
    groups = (Group(0, 3, "onehot"), Group(3, 1, "binary"), Group(4, 1, "real"))
    raw = np.asarray(relaxations.softmax_features(5 * matrix(3, 5), groups))
    np.testing.assert_allclose(raw[:, :3].sum(axis=1), 1, rtol=1e-6)
    assert raw[:, :4].min() >= 0 and raw[:, :4].max() <= 1
    np.testing.assert_array_equal(raw[:, 4], 5 * matrix(3, 5)[:, 4])


def test_neighbours_of_one_kind_are_mapped_together_and_each_by_itself() -> None:
    groups = (
        *(Group(0, 2, "onehot"), Group(2, 2, "onehot"), Group(4, 3, "onehot"), Group(7, 1, "binary")),
        *(Group(8, 1, "binary"), Group(9, 1, "real"), Group(10, 1, "binary")),
    )
    values = np.random.default_rng(0).normal(size=(2, 4, 11)).astype(np.float32)
    raw, sigmoid = np.asarray(relaxations.softmax_features(jnp.asarray(values), groups)), 1 / (1 + np.exp(-values))
    for start, width in ((0, 2), (2, 2), (4, 3)):
        part = np.exp(values[..., start : start + width])
        np.testing.assert_allclose(raw[..., start : start + width], part / part.sum(-1, keepdims=True), rtol=1e-5)
    np.testing.assert_allclose(raw[..., [7, 8, 10]], sigmoid[..., [7, 8, 10]], rtol=1e-5)
    np.testing.assert_array_equal(raw[..., 9], values[..., 9])


@pytest.mark.parametrize(("kind", "width"), [("binary", 1), ("onehot", 2)])
def test_a_networks_thousand_features_are_no_longer_program_than_two(kind: str, width: int) -> None:
    """XLA took minutes and gigabytes for one map a feature, and died."""

    def length(count: int) -> int:
        groups = tuple(Group(width * place, width, kind) for place in range(count))
        made = jax.make_jaxpr(lambda values: relaxations.softmax_features(values, groups))
        return len(made(np.zeros((2, count * width), np.float32)).eqns)

    assert length(1000) == length(2)


@settings(max_examples=10, deadline=None)
@given(SEEDS)
def test_regularisers_in_closed_form(seed: int) -> None:
    graph = nx.gnp_random_graph(6, 0.4, seed=seed)
    edges = jnp.asarray(nx.to_numpy_array(graph), jnp.float32)
    x, degree = np.asarray(matrix(seed)), np.asarray(edges).sum(axis=1)
    terms = [np.sum((x[u] / np.sqrt(degree[u]) - x[v] / np.sqrt(degree[v])) ** 2) for u, v in graph.edges]
    np.testing.assert_allclose(regularisers.smoothness(jnp.asarray(x), edges), sum(terms), rtol=1e-4, atol=1e-4)
    linked = degree > 0
    laplacian = nx.normalized_laplacian_matrix(graph).toarray()
    np.testing.assert_allclose(
        sum(terms), np.trace(x[linked].T @ laplacian[np.ix_(linked, linked)] @ x[linked]), rtol=1e-4
    )
    assert regularisers.frobenius(edges) == regularisers.edge_count(edges) == 2 * graph.number_of_edges()


@settings(max_examples=10, deadline=None)
@given(SEEDS)
def test_regularisers_of_soft_edges_in_closed_form(seed: int) -> None:
    """Of edges between 0 and 1: the squares, the sum and the weighted Laplacian are told apart."""
    mask: Any = np.arange(6) < 5
    edges = np.asarray(relaxations.sigmoid_edges(2 * matrix(seed), mask), np.float64)
    x, pairs = np.asarray(matrix(seed + 1)), list(zip(*np.nonzero(edges), strict=True))
    degree = edges.sum(axis=1)
    soft = jnp.asarray(edges, jnp.float32)
    bends = [edges[u, v] * np.sum((x[u] / degree[u] ** 0.5 - x[v] / degree[v] ** 0.5) ** 2) for u, v in pairs if u < v]
    assert len(pairs) == 20
    np.testing.assert_allclose(regularisers.smoothness(jnp.asarray(x), soft), sum(bends), rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(regularisers.frobenius(soft), np.linalg.norm(edges) ** 2, rtol=1e-5)
    np.testing.assert_allclose(regularisers.edge_count(soft), sum(edges[u, v] for u, v in pairs), rtol=1e-5)


def test_pairs_are_averages_of_both_directions_graph_by_graph() -> None:
    """Of two graphs at once, of which the second has a node less."""
    values = jnp.asarray([[[9.0, 0.4, 3.0], [0.2, 9.0, -1.0], [0.0, 0.5, 9.0]]] * 2)
    mask = np.array([[True, True, True], [True, True, False]])
    whole = np.array([[0.0, 0.3, 1.5], [0.3, 0.0, -0.25], [1.5, -0.25, 0.0]])
    part = np.where(np.arange(3) < 2, np.where(np.arange(3)[:, None] < 2, whole, 0.0), 0.0)
    both = np.stack([whole, part])
    np.testing.assert_allclose(relaxations.symmetric(values, mask), both, atol=1e-6)
    np.testing.assert_allclose(relaxations.clip_edges(values, mask), np.clip(both, 0.0, 1.0), atol=1e-6)
    shown = np.where(relaxations.pairs(mask), 1.0 / (1.0 + np.exp(-both)), 0.0)
    np.testing.assert_allclose(relaxations.sigmoid_edges(values, mask), shown, atol=1e-6)


def test_as_many_edges_are_kept_as_are_asked_for_from_the_threshold_on() -> None:
    """Of every node of each graph; a fraction is rounded."""
    edges = np.zeros((2, 4, 4))
    edges[:, 0, 1:] = edges[:, 1:, 0] = [0.9, 0.5, 0.3]
    edges[1] *= 2.0
    stars = ((0.4, 0.5, 0), (1.0, 0.5, 2), (1.6, 0.31, 2), (3.0, 0.2, 3))
    for most, threshold, kept in stars:
        found = np.asarray(relaxations.sparsest(jnp.asarray(edges), jnp.asarray(most), threshold))
        assert round(found[0].sum()) == 2 * kept, (most, threshold)
    found = np.asarray(relaxations.sparsest(jnp.asarray(edges), jnp.asarray(1.0)))
    assert [round(one.sum()) for one in found] == [4, 6], "each leaf keeps its own edge"


def test_columns_are_moved_and_scaled_and_padding_is_zero() -> None:
    raw, mean, scale = jnp.asarray([[1.0, 4.0], [3.0, 0.0]]), np.array([1.0, 2.0]), np.array([5.0, 0.5])
    found = relaxations.encode(raw, mean, scale, np.array([True, False]))
    np.testing.assert_allclose(found, [[0.0, 1.0], [0.0, 0.0]])


def test_groups_are_the_columns_of_features_and_listed_numbers_are_real() -> None:
    space = FeatureSpace((onehot("colour", "rgb"), number("charge", (-1, 0, 1)), binary("ring"), real("height")))
    wanted = [Group(0, 3, "onehot"), Group(3, 1, "real"), Group(4, 1, "binary"), Group(5, 1, "real")]
    assert list(relaxations.groups(space)) == wanted
