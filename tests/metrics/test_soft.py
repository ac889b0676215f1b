"""Edges and features together, by hand; means leave out what is undefined."""

from __future__ import annotations

import numpy as np
import pytest

from jgleak.graph import Graph
from jgleak.metrics import mean_scores, soft, soft_score, target_error
from jgleak.metrics.alignment import align
from jgleak.metrics.edges import edge_scores
from jgleak.metrics.features import feature_scores

from .graphs import REAL, SPACE, path


def test_the_graph_stands_in_for_what_is_not_given_soft() -> None:
    truth, found = path(0, 1, 2), path(0, 2, 1)
    edges, rows = 0.7 * found.adjacency, 0.9 * SPACE.encode(found.x)
    given = soft_score(truth, found, SPACE, adjacency=edges, nodes=rows)
    assert given.edges == edge_scores(truth, SPACE, edges, nodes=rows)
    assert given.features == feature_scores(truth, SPACE, rows, adjacency=edges)
    bare = soft_score(truth, found, SPACE)
    assert bare.edges == edge_scores(truth, SPACE, found.adjacency, nodes=SPACE.encode(found.x))
    assert given.edges.file_order.mse == pytest.approx(2 * 0.3**2 / 3) and bare.edges.file_order.mse == 0.0


def test_edges_and_features_are_aligned_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Alignment takes most of the time of a score."""
    asked = list[int]()
    monkeypatch.setattr(soft, "align", lambda *given, **named: asked.append(1) or align(*given, **named))
    soft_score(path(0, 1, 2), path(0, 2, 1), SPACE)
    assert asked == [1]


def test_edges_help_to_align_features() -> None:
    """A leaf and a corner of a triangle, each with the height that the other has: features alone would swap them."""
    edges = np.array([(0, 1), (1, 2), (2, 3), (1, 3)])
    truth = Graph(np.array([[0.0, 1.0], [5.0, 1.0], [6.0, 1.0], [0.5, 1.0]]), edges)
    found = soft_score(truth, Graph(truth.x[[3, 1, 2, 0]], edges), REAL)
    assert found.features.aligned.mse == 2 * 0.5**2 / 8


def test_the_target_is_the_first_node() -> None:
    truth = Graph(np.array([[3.0, 4.0], [9.0, 9.0]]), np.array([(0, 1)]))
    assert target_error(truth, REAL, np.array([[3.0, 3.0], [0.0, 0.0]])) == pytest.approx(1 / 5)
    assert np.isnan(target_error(Graph(np.zeros((1, 2)), np.zeros((0, 2), int)), REAL, np.ones((1, 2))))


def test_means_leave_out_what_is_undefined() -> None:
    records = [{"a": 1.0, "b": {"c": np.nan, "d": None}}, {"a": None, "b": {"c": 4.0, "d": np.nan}}]
    assert mean_scores([*records, {"a": 2.0, "b": {"c": 5.0, "d": None}}]) == {"a": 1.5, "b": {"c": 4.5, "d": None}}
    assert mean_scores([]) == {}
    assert mean_scores([{"a": 3.0, "b": {"c": 1.0}}]) == {"a": 3.0, "b": {"c": 1.0}}
