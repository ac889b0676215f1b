"""GSM is 1 for isomorphic graphs, ignores node order, and agrees with hand-made values."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import f1_score, r2_score

from jgleak.features import FeatureSpace, binary, number
from jgleak.graph import Graph
from jgleak.metrics.exact import exact
from jgleak.metrics.gsm import Gsm, gsm, r_squared, weighted_f1

from .graphs import REAL, SPACE, graphs, path, permuted, plain


def _values(result: Gsm) -> list[float]:
    return [result.gsm0, result.gsm1, result.gsm2, result.gsm0_recall]


@given(permuted())
@settings(max_examples=30, deadline=None)
def test_isomorphic_graphs_score_one(pair: tuple[Graph, Graph]) -> None:
    np.testing.assert_allclose(_values(gsm(*pair, SPACE)), 1.0, rtol=0, atol=1e-9)


@pytest.mark.parametrize(
    "graph",
    [nx.cycle_graph(12), nx.star_graph(9), nx.petersen_graph(), nx.empty_graph(5), nx.full_rary_tree(2, 15)],
    ids=["cycle", "star", "petersen", "empty", "tree"],
)
def test_symmetric_graphs_score_one(graph: nx.Graph) -> None:
    truth = plain(graph)
    order = np.random.default_rng(1).permutation(truth.n)
    np.testing.assert_allclose(_values(gsm(truth, truth.permute(order), SPACE)), 1.0, rtol=0, atol=1e-9)


def test_statistics_keep_isomorphic_graphs_at_one() -> None:
    truth = path(0, 1, 2, 1, 0)
    space = SPACE.fit([truth.x])
    np.testing.assert_allclose(_values(gsm(truth, truth.permute(np.arange(5)[::-1]), space)), 1.0, rtol=0, atol=1e-9)


@given(permuted(7), permuted(7))
@settings(max_examples=30, deadline=None)
def test_node_order_never_matters_and_values_are_bounded(
    first: tuple[Graph, Graph], second: tuple[Graph, Graph]
) -> None:
    one, other = (_values(gsm(first[i], second[i], SPACE)) for i in (0, 1))
    np.testing.assert_allclose(one, other, rtol=0, atol=1e-9)
    assert min(one) >= 0.0 and max(one) <= min(first[0].n, second[0].n) / max(first[0].n, second[0].n) + 1e-12


def test_wrong_colour_by_hand() -> None:
    """Colours 0,0,1,1 read as 0,0,1,2: F1 is 1 for colour 0, 2/3 for colour 1; flag has no ones to find."""
    truth, wrong = (Graph(np.array([(c, 0) for c in cs]), np.zeros((0, 2), int)) for cs in ((0, 0, 1, 1), (0, 0, 1, 2)))
    result = gsm(truth, wrong, SPACE)
    assert result.gsm0 == pytest.approx((2 * 1 + 2 * 2 / 3) / 4)
    assert result.gsm0_recall == pytest.approx((3 * 3 / 4 + 1 * 1) / 4)
    assert 0.0 < result.gsm1 < 1.0


def test_size_penalty() -> None:
    """Without edges a missing node costs exactly the ratio of sizes."""
    truth, part = (Graph(np.zeros((n, 2), int), np.zeros((0, 2), int)) for n in (5, 3))
    np.testing.assert_allclose(_values(gsm(truth, part, SPACE)), 3 / 5)
    np.testing.assert_allclose(_values(gsm(part, truth, SPACE)), 3 / 5)


def test_structure_shows_from_the_first_hop_on() -> None:
    truth, other = plain(nx.star_graph(5)), plain(nx.path_graph(6))
    result = gsm(truth, other, SPACE)
    assert result.gsm0 == 1.0 and result.gsm1 < 1.0 and result.gsm2 < 1.0


def test_refinement_equivalent_graphs_are_beyond_the_metric() -> None:
    """A hexagon and two triangles look alike to any GCN: GSM says 1, ``exact`` tells them apart."""
    hexagon, triangles = plain(nx.cycle_graph(6)), plain(nx.disjoint_union(nx.cycle_graph(3), nx.cycle_graph(3)))
    assert gsm(hexagon, triangles, SPACE).gsm2 == pytest.approx(1.0, abs=1e-9)
    assert not exact(hexagon, triangles)


def test_single_nodes() -> None:
    assert _values(gsm(path(0), path(0), SPACE)) == [1.0] * 4
    assert gsm(path(0), path(1), SPACE).gsm0 == 0.0


def test_real_features_use_r_squared() -> None:
    x = np.array([[1.0, 2.0], [3.0, 5.0], [0.5, -1.0]])
    edges = np.array([(0, 1), (1, 2)])
    near = x + np.array([[0.1, 0.0], [0.0, -0.2], [0.0, 0.1]])
    result = gsm(Graph(x, edges), Graph(near, edges), REAL)
    assert result.gsm0 == pytest.approx(r2_score(x.ravel(), near.ravel()), abs=1e-6)
    assert np.isnan(result.gsm0_recall)
    assert gsm(Graph(x, edges), Graph(x[[2, 1, 0]], edges), REAL).gsm0 == pytest.approx(1.0, abs=1e-9)


def test_r_squared_edge_cases() -> None:
    flat, rising = np.full((3, 2), 7.0), np.arange(6.0).reshape(3, 2)
    assert r_squared(flat, flat) == 1.0
    assert r_squared(flat, flat + 1e-12) == 1.0
    assert r_squared(flat, flat + 1.0) == 0.0
    assert r_squared(rising, -rising) == 0.0
    assert r_squared(np.zeros((2, 2)), np.zeros((2, 2))) == 1.0


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), min_size=1, max_size=12))
@settings(max_examples=20, deadline=None)
def test_weighted_f1_of_one_feature_is_the_textbook_one(codes: list[tuple[int, int]]) -> None:
    truth, found = np.array(codes).T
    expected = f1_score(truth, found, average="weighted")
    assert weighted_f1(np.eye(4)[truth], np.eye(4)[found]) == pytest.approx(expected)


def test_weighted_f1_without_any_ones() -> None:
    nothing, something = np.zeros((2, 3)), np.eye(3)[:2]
    assert weighted_f1(nothing, nothing) == 1.0
    assert weighted_f1(nothing, something) == 0.0


def test_features_outside_the_space_are_refused() -> None:
    with pytest.raises(ValueError, match="outside 0..2"):
        gsm(path(0), path(3), SPACE)


@given(graphs(6))
@settings(max_examples=20, deadline=None)
def test_same_input_same_score(graph: Graph) -> None:
    other = path(0, 1, 2)
    assert gsm(graph, other, SPACE) == gsm(graph, other, SPACE)


@pytest.mark.parametrize("size", [1e-6, 1e6])
def test_the_unit_of_features_does_not_matter(size: float) -> None:
    truth, values = np.random.default_rng(0).random((2, 5, 3))
    values = truth + 0.3 * values
    found = r_squared(truth, values)
    assert 0.0 < found < 1.0 and r_squared(size * truth, size * values) == pytest.approx(found)
    assert r_squared(size * np.ones((5, 3)), size * truth) == 0.0
    assert r_squared(size * truth, size * truth * (1 + 1e-9)) == 1.0
    for one, other in ((truth, truth * (1 + 1e-7)), (truth * (1 + 1e-7), truth)):
        assert r_squared(size * one, size * other) < 1.0


def test_a_number_of_few_values_is_right_or_wrong() -> None:
    """As a class is: F1 over the values, whatever their distance; where features are standardised too."""
    space = FeatureSpace((number("charge", (-2, 0, 1)), binary("flag")))
    truth, found = (
        np.array([(c, f) for c, f in zip(codes, (1, 1, 1, 0), strict=True)]) for codes in ((0, 1, 1, 2), (0, 1, 2, 2))
    )
    truth, found = (Graph(x, path(0, 0, 0, 0).edges) for x in (truth, found))
    expected = (1 * 1.0 + 2 * (2 / 3) + 1 * (2 / 3) + 3 * 1.0) / 7
    for one in (space, space.fit([truth.x])):
        result = gsm(truth, found, one)
        assert result.gsm0 == pytest.approx(expected) and result.gsm0_recall == pytest.approx((3 / 4 + 1) / 2)
