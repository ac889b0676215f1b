"""What is known of several graphs, taken apart; answers for several, put together."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest

from jgleak.attacks.side_information import apart, graph_labels, size, together
from jgleak.federated import Knowledge, Observation, fedsgd


@pytest.fixture(scope="module")
def observation(lab: Any) -> Observation:
    """Of two graphs."""
    model = lab.model()
    return fedsgd(model, lab.params(model), [lab.path([0, 1]), lab.path([1, 2, 0])], lab.space, loss="bce")


def test_the_size_is_that_of_edges_then_of_rows_then_the_number(lab: Any, observation: Observation) -> None:
    rows = lab.path([0, 1, 2]).x
    assert size(observation, Knowledge(lab.space)) is None
    assert size(observation, Knowledge(lab.space, n=5)) == 5
    assert size(observation, Knowledge(lab.space, features=rows)) == 3
    assert size(observation, Knowledge(lab.space, adjacency=np.zeros((4, 4)))) == 4
    several = Knowledge(lab.space, adjacency=np.zeros((2, 6, 6)), sizes=(4, 6))
    assert size(observation, several) == 6, "the matrices of several are padded to the largest"


def test_one_matrix_is_that_of_every_graph(lab: Any, observation: Observation) -> None:
    edges = lab.path([0, 1, 2]).adjacency
    first, second = apart(observation, Knowledge(lab.space, adjacency=edges))
    for one in (first, second):
        assert one.n == 3 and one.sizes == () and one.features is None
        np.testing.assert_array_equal(one.adjacency, edges)
    assert [one.n for one in apart(observation, Knowledge(lab.space))] == [None, None]


def test_padding_is_no_node(lab: Any, observation: Observation) -> None:
    graphs = [lab.path([0, 1]), lab.path([1, 2, 0])]
    edges, rows = np.zeros((2, 3, 3)), np.zeros((2, 3, 3), np.int32)
    for g, graph in enumerate(graphs):
        edges[g, : graph.n, : graph.n], rows[g, : graph.n] = graph.adjacency, graph.x
    found = apart(observation, Knowledge(lab.space, adjacency=edges, features=rows, sizes=(2, 3)))
    for one, graph in zip(found, graphs, strict=True):
        assert one.n == graph.n and one.sizes == ()
        np.testing.assert_array_equal(one.adjacency, graph.adjacency)
        np.testing.assert_array_equal(one.features, graph.x)


def test_labels_of_a_batch_are_one_a_graph(observation: Observation) -> None:
    assert graph_labels(observation, np.array([1, 0])) == [1, 0]
    assert graph_labels(observation, np.array([[1], [0], [1]])) == [1, 0], "of as many graphs as there are"
    assert graph_labels(dataclasses.replace(observation, batch_size=1), np.array(1)) == [1]


def test_rows_of_tasks_are_one_a_graph(lab: Any, observation: Observation) -> None:
    tasks = dataclasses.replace(observation, loss="masked_bce")
    rows = np.array([[1.0, np.nan], [0.0, 1.0], [1.0, 1.0]])
    found = graph_labels(tasks, rows)
    assert [np.shape(row) for row in found] == [(1, 2), (1, 2)]
    np.testing.assert_array_equal(np.concatenate(found), rows[:2])
    for wrong in (np.array(1.0), np.ones((2, 3)), np.ones(1)):
        with pytest.raises(ValueError, match="expected a row of 2 tasks for each graph"):
            graph_labels(tasks, wrong)


def test_answers_are_padded_to_the_largest_or_one_graphs_alone() -> None:
    small, large = np.full((1, 2), 2.0), np.full((3, 1), 3.0)
    both = together([small, large])
    assert both.shape == (2, 3, 2) and both.dtype == np.float32
    assert both.sum() == small.sum() + large.sum()
    np.testing.assert_array_equal(both[0, :1, :2], small)
    np.testing.assert_array_equal(both[1, :3, :1], large)
    np.testing.assert_array_equal(together([large]), large)
