"""Feature metrics against hand-made values, in both orders."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings

from jgleak.graph import Graph
from jgleak.metrics.features import feature_scores

from .graphs import REAL, SPACE, path, permuted


def test_real_features_by_hand() -> None:
    truth = Graph(np.array([[3.0, 4.0], [0.0, 0.0], [1.0, 0.0]]), np.array([(0, 1), (1, 2)]))
    found = np.array([[3.0, 1.0], [0.0, 1.0], [1.0, 0.5]])
    result = feature_scores(truth, REAL, found).file_order
    assert result.mse == pytest.approx((9 + 1 + 0.25) / 6)
    assert result.rnmse == pytest.approx((3 / 5 + 0.5) / 2)
    assert result.classes == {} and np.isnan(result.accuracy)


def test_classes_by_hand() -> None:
    truth = path(0, 1, 2, 2)
    found = SPACE.encode(np.array([(0, 0), (1, 1), (1, 0), (2, 0)])) * 0.9
    result = feature_scores(truth, SPACE, found, adjacency=truth.adjacency)
    assert result.file_order.classes == {"colour": 3 / 4, "flag": 3 / 4}
    assert result.file_order.accuracy == 3 / 4


@given(permuted())
@settings(max_examples=20, deadline=None)
def test_aligned_is_perfect_for_a_relabelled_truth(pair: tuple[Graph, Graph]) -> None:
    truth, other = pair
    for adjacency in (None, other.adjacency):
        result = feature_scores(truth, SPACE, SPACE.encode(other.x), adjacency=adjacency).aligned
        assert (result.mse, result.rnmse, result.accuracy) == (0.0, 0.0, 1.0)


def test_file_order_differs_after_shuffling() -> None:
    truth = path(0, 1, 2)
    result = feature_scores(truth, SPACE, SPACE.encode(truth.x[[1, 2, 0]]))
    assert result.file_order.classes == {"colour": 0.0, "flag": 1.0}
    assert result.aligned.classes == {"colour": 1.0, "flag": 1.0}


def test_edges_tell_nodes_apart_that_features_would_swap() -> None:
    """A leaf and a corner of a triangle, each with the height that the other has."""
    edges = np.array([(0, 1), (1, 2), (2, 3), (1, 3)])
    truth = Graph(np.array([[0.0, 1.0], [5.0, 1.0], [6.0, 1.0], [0.5, 1.0]]), edges)
    found = truth.x[[3, 1, 2, 0]]
    assert feature_scores(truth, REAL, found).aligned.mse == 0.0
    result = feature_scores(truth, REAL, found, adjacency=truth.adjacency)
    assert result.aligned.mse == result.file_order.mse == 2 * 0.5**2 / 8


def test_soft_edges_tell_nodes_apart_as_edges_from_the_threshold_on() -> None:
    """Those of a leaf are as strong as those of a corner together, which misleads a matching of soft edges."""
    edges = np.array([(0, 1), (1, 2), (2, 3), (1, 3)])
    truth = Graph(np.array([[0.0, 1.0], [5.0, 1.0], [6.0, 1.0], [0.5, 1.0]]), edges)
    soft = 0.25 * truth.adjacency
    soft[0, 1:3] = soft[1:3, 0] = [1.0, 0.19]
    assert feature_scores(truth, REAL, truth.x, adjacency=soft, threshold=0.2).aligned.mse < 1e-12
    assert feature_scores(truth, REAL, truth.x, adjacency=soft).aligned.mse == pytest.approx(2 * 0.5**2 / 8)


def test_missing_and_surplus_nodes_count() -> None:
    three, two = path(0, 1, 2), path(0, 1)
    missing = feature_scores(three, SPACE, SPACE.encode(two.x)).aligned
    assert missing.classes["colour"] == pytest.approx(2 / 3)
    assert missing.mse == pytest.approx(1 / 12) and missing.rnmse == pytest.approx(1 / 3)
    surplus = feature_scores(two, SPACE, SPACE.encode(three.x)).aligned
    assert surplus.classes["colour"] == pytest.approx(2 / 3)
    assert surplus.mse == pytest.approx(1 / 12) and surplus.rnmse == 0.0


def test_truth_without_signal_has_no_relative_error() -> None:
    truth = Graph(np.zeros((2, 2)), np.array([(0, 1)]))
    assert np.isnan(feature_scores(truth, REAL, np.ones((2, 2))).aligned.rnmse)
