"""Assignments on the device are the best ones, and batches are matched whatever their order."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jgleak.features import FeatureSpace, onehot
from jgleak.graph import Graph
from jgleak.metrics.batch import assign, match_batch, match_graphs


@given(st.integers(0, 1000))
@settings(max_examples=20, deadline=None)
def test_the_assignment_is_the_best_of_all(seed: int) -> None:
    costs = np.random.default_rng(seed).random((3, 5, 5)).astype(np.float32)
    for matrix, columns in zip(costs, np.asarray(assign(costs)), strict=True):
        assert sorted(columns) == list(range(5))
        best = min(matrix[np.arange(5), list(order)].sum() for order in permutations(range(5)))
        assert matrix[np.arange(5), columns].sum() == pytest.approx(best, rel=1e-6)


def test_a_shuffled_batch_is_found_again() -> None:
    rng = np.random.default_rng(0)
    truth = rng.normal(size=(6, 4, 3)).astype(np.float32)
    truth[2, 3] = 0.0
    shuffled = rng.permutation(6)
    noise = 0.01 * rng.normal(size=truth.shape).astype(np.float32)
    found = (truth + noise)[shuffled]
    order, errors = match_batch(truth, found)
    np.testing.assert_array_equal(shuffled[np.asarray(order)], np.arange(6))
    for i in range(6):
        live = np.linalg.norm(truth[i], axis=1) > 0
        by_node = np.linalg.norm(noise[i], axis=1)[live] / np.linalg.norm(truth[i], axis=1)[live]
        assert float(errors[i]) == pytest.approx(by_node.mean(), rel=1e-4)


def test_the_mean_is_over_the_rows_that_are_there() -> None:
    """Of one row its own error; of padding alone nothing, which is 0 and no division by zero."""
    truth = np.zeros((2, 3, 2), np.float32)
    truth[1, 0] = 1.0
    order, errors = match_batch(truth, np.stack([0.5 * truth[1], truth[0]]))
    np.testing.assert_array_equal(np.asarray(order), [1, 0])
    np.testing.assert_allclose(np.asarray(errors), [0.0, 0.5], rtol=1e-6)


def test_graphs_meet_those_of_their_own_size_first() -> None:
    """However unlike it is; among graphs of one size the likeness decides."""
    space = FeatureSpace((onehot("kind", ("a", "b")),))

    def graph(kinds: list[int], edges: list[tuple[int, int]]) -> Graph:
        return Graph(np.array(kinds)[:, None], np.array(edges))

    path = graph([0] * 5, [(0, 1), (1, 2), (2, 3), (3, 4)])
    short = graph([0] * 4, [(0, 1), (1, 2), (2, 3)])
    star = graph([1] * 4, [(0, 1), (0, 2), (0, 3)])
    np.testing.assert_array_equal(match_graphs([short, path], [graph([0] * 5, [(0, 1)]), star], space), [1, 0])
    np.testing.assert_array_equal(match_graphs([short, star], [star, short], space), [1, 0])
    np.testing.assert_array_equal(match_graphs([star, short], [short], space), [1, 0])
