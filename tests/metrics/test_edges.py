"""Adjacency metrics against hand-made values, in both orders."""

from __future__ import annotations

import dataclasses

import networkx as nx
import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from jgleak.graph import Graph
from jgleak.metrics.edges import EdgeScore, edge_scores

from .graphs import SPACE, path, permuted, plain


def _isolated(n: int) -> Graph:
    return Graph(np.zeros((n, 2), int), np.zeros((0, 2), int))


def test_soft_matrix_by_hand() -> None:
    """Pairs (0,1), (0,2), (1,2): truth 1, 0, 1; recovered .9, .6, .2."""
    soft = np.array([[0.0, 0.9, 0.6], [0.9, 0.0, 0.2], [0.6, 0.2, 0.0]])
    result = edge_scores(path(0, 1, 2), SPACE, soft).file_order
    expected = EdgeScore(
        accuracy=1 / 3,
        accuracy_all=5 / 9,
        jaccard=1 / 3,
        mse=(0.01 + 0.36 + 0.64) / 3,
        mae=(0.1 + 0.6 + 0.8) / 3,
        mae_thresholded=2 / 3,
        auc=0.5,
        ap=(1 / 1 + 2 / 3) / 2,
        precision=1 / 2,
    )
    assert dataclasses.asdict(result) == pytest.approx(dataclasses.asdict(expected))


@given(permuted())
@settings(max_examples=20, deadline=None)
def test_aligned_is_perfect_for_a_relabelled_truth(pair: tuple[Graph, Graph]) -> None:
    truth, other = pair
    result = edge_scores(truth, SPACE, other.adjacency, nodes=SPACE.encode(other.x)).aligned
    if truth.n == 1:
        assert np.isnan(result.accuracy)
        return
    assert (result.accuracy, result.mse, result.mae, result.mae_thresholded) == (1.0, 0.0, 0.0, 0.0)
    if len(truth.edges):
        assert result.jaccard == result.ap == result.precision == 1.0


def test_file_order_depends_on_the_order_and_aligned_does_not() -> None:
    truth = path(0, 1, 2, 1, 0, 2)
    soft = np.clip(truth.adjacency * 0.6 + 0.1, 0, 1)
    order = np.random.default_rng(0).permutation(truth.n)
    nodes = SPACE.encode(truth.x)
    straight = edge_scores(truth, SPACE, soft, nodes=nodes)
    shuffled = edge_scores(truth, SPACE, soft[np.ix_(order, order)], nodes=nodes[order])
    assert dataclasses.asdict(straight.aligned) == pytest.approx(dataclasses.asdict(shuffled.aligned))
    assert straight.file_order == straight.aligned
    assert shuffled.file_order.auc < 1.0


def test_an_edge_between_other_nodes_is_wrong_where_features_tell_them() -> None:
    """Of four nodes of other features one pair is joined, and the other two are said to be."""
    truth = Graph(np.array([(0, 0), (1, 0), (2, 0), (0, 1)]), np.array([(0, 1)]))
    found = np.zeros((4, 4))
    found[2, 3] = found[3, 2] = 1.0
    assert edge_scores(truth, SPACE, found, nodes=SPACE.encode(truth.x)).aligned.jaccard == 0.0
    assert edge_scores(truth, SPACE, found).aligned.jaccard == 1.0


def test_degenerate_cases_are_nan_and_silent() -> None:
    empty = edge_scores(_isolated(3), SPACE, np.zeros((3, 3))).file_order
    assert np.isnan([empty.jaccard, empty.auc, empty.ap]).all()
    assert (empty.accuracy, empty.mse) == (1.0, 0.0)
    full = edge_scores(plain(nx.complete_graph(3)), SPACE, np.ones((3, 3))).file_order
    assert np.isnan(full.auc) and full.ap == full.jaccard == 1.0
    single = edge_scores(path(0), SPACE, np.zeros((1, 1))).aligned
    assert np.isnan(list(dataclasses.asdict(single).values())).all()


@pytest.mark.parametrize("first, second", [(2, 3), (3, 2)])
def test_smaller_graph_is_filled_up(first: int, second: int) -> None:
    """Two nodes joined, against a path of three: one of three pairs is wrong, in either direction."""
    truth, other = path(*range(first)), path(*range(second))
    result = edge_scores(truth, SPACE, other.adjacency, nodes=SPACE.encode(other.x))
    assert result.aligned.accuracy == pytest.approx(2 / 3)
    assert result.aligned.jaccard == pytest.approx(1 / 2)


def test_rescaling_moves_the_threshold_only() -> None:
    truth = path(0, 1, 2)
    soft = 0.1 + 0.2 * truth.adjacency
    plain_, stretched = (edge_scores(truth, SPACE, soft, rescale=r).file_order for r in (False, True))
    assert plain_.accuracy == pytest.approx(1 / 3) and stretched.accuracy == 1.0
    assert plain_.mse == stretched.mse and plain_.auc == stretched.auc == 1.0


def test_diagonal_and_asymmetry() -> None:
    """The diagonal never counts; a matrix and its transpose score the same."""
    truth = path(0, 1, 2)
    soft = np.random.default_rng(0).random((3, 3))
    assert edge_scores(truth, SPACE, soft) == edge_scores(truth, SPACE, soft.T + np.eye(3))


def test_published_normalisations() -> None:
    """GLG's MAE (equation 45) by the docstring's conversion, and the accuracy over all N² entries."""
    truth, soft = path(0, 1, 2, 0), np.triu(np.random.default_rng(1).random((4, 4)), 1)
    soft += soft.T
    result = edge_scores(truth, SPACE, soft).file_order
    lower = np.abs(np.tril(truth.adjacency) - np.tril(soft)).sum()
    assert 2 * lower / (4 * 5) == pytest.approx(result.mae * 3 / 5)
    everywhere = np.mean(truth.adjacency == (soft >= 0.5))
    assert everywhere == pytest.approx(result.accuracy_all)


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10**6), st.integers(4, 12), st.floats(0.05, 0.9), st.integers(2, 50))
def test_the_auc_bounds_the_average_precision(seed: int, n: int, share: float, levels: int) -> None:
    """``AP <= 1 - (1 - π)(1 - AUC)``: what a high AP beside a lower AUC says about the share ``π`` of positives."""
    rng = np.random.default_rng(seed)
    pairs = np.argwhere(np.triu(np.ones((n, n)), 1))
    edges = pairs[rng.random(len(pairs)) < share]
    assume(0 < len(edges) < len(pairs))
    truth = Graph(path(*[0] * n).x, edges)
    soft = np.triu(rng.random((n, n)) + truth.adjacency * rng.random(), 1)
    soft = np.round(levels * (soft + soft.T)) / levels  # ties too
    scores = edge_scores(truth, SPACE, soft).file_order
    assert scores.ap <= 1 - (1 - len(edges) / len(pairs)) * (1 - scores.auc) + 1e-9


def test_rescaling_stretches_the_pairs_alone() -> None:
    """From the least of them, not from the diagonal; where all are the same or there is none nothing is stretched."""
    soft = np.array([[0.0, 0.3, 0.17], [0.3, 0.0, 0.1], [0.17, 0.1, 0.0]])
    only = Graph(path(0, 1, 2).x, np.array([(0, 1)]))
    assert edge_scores(only, SPACE, soft, rescale=True).file_order.accuracy == 1.0
    constant = 0.3 * (np.ones((3, 3)) - np.eye(3))
    assert edge_scores(_isolated(3), SPACE, constant, rescale=True).file_order.accuracy == 1.0
    assert np.isnan(edge_scores(path(0), SPACE, np.zeros((1, 1)), rescale=True).file_order.accuracy)


def test_nodes_are_aligned_by_the_edges_above_the_same_threshold() -> None:
    """Two cycles that matching cannot tell apart, and the isomorphism of what is an edge can."""
    truth = plain(nx.disjoint_union(nx.cycle_graph(3), nx.cycle_graph(6)))
    soft = 0.1 + 0.2 * truth.permute(np.random.default_rng(0).permutation(9)).adjacency
    for scores in (edge_scores(truth, SPACE, soft, rescale=True), edge_scores(truth, SPACE, soft, threshold=0.2)):
        assert scores.aligned.accuracy == scores.aligned.auc == 1.0 > scores.file_order.accuracy


def test_an_entry_at_the_threshold_is_an_edge() -> None:
    truth = path(0, 1)
    for threshold in (0.5, 0.25):
        soft = threshold * truth.adjacency
        scores = edge_scores(truth, SPACE, soft, threshold=threshold)
        assert scores.file_order.accuracy == scores.file_order.jaccard == 1.0
