"""What a mark changes is what computing everything anew gives; the matching is that of the GSM metrics."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest

from jgleak.metrics import match
from jgleak.metrics.matching import aggregates, distances
from jgleak.metrics.pinning import _alike, _Marked, pinned


def _sides(seed: int, size: int = 5) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    return rng.random((6, 7)), rng.random((size, 7))


def test_kept_distances_follow_the_marks() -> None:
    known, nodes = _sides(0)
    marked, mark = _Marked(known.copy(), nodes.copy()), np.arange(7.0)
    marked.mark(4, 2, mark)
    known[4] += mark
    nodes[2] += mark
    anew = _Marked(known, nodes)
    np.testing.assert_array_equal(marked.known, known)
    np.testing.assert_array_equal(marked.nodes, nodes)
    np.testing.assert_allclose(marked.across, anew.across, rtol=1e-12)
    for side in range(2):
        np.testing.assert_allclose(marked.inner[side], anew.inner[side], rtol=1e-12)
        np.testing.assert_allclose(marked.within[side], anew.within[side], rtol=1e-12)


@pytest.mark.parametrize("seed", range(4))
def test_where_no_nodes_are_alike_pairs_are_those_of_the_metrics(seed: int) -> None:
    known, nodes = _sides(seed)
    edges, soft = nx.to_numpy_array(nx.cycle_graph(6)), 0.7 * nx.to_numpy_array(nx.path_graph(5))
    pairs, expected = pinned(known, edges, nodes, soft), match(aggregates(known, edges), aggregates(nodes, soft))
    np.testing.assert_array_equal(pairs.truth, expected.truth)
    np.testing.assert_array_equal(pairs.graph, expected.graph)


def test_distances_are_those_of_the_metrics_tilt_included() -> None:
    """The tilt is a millionth at most: equal to it, not near."""
    (known, nodes), none = _sides(1), np.zeros((5, 5))
    hops, others = aggregates(known, np.zeros((6, 6))), aggregates(nodes, none)
    kept = _Marked(known, nodes).distances(np.hstack(hops[1:]), np.hstack(others[1:]))
    np.testing.assert_allclose(kept, distances(hops, others), rtol=1e-12)


def test_what_is_given_stays_as_it_is() -> None:
    known, nodes = np.ones((4, 2)), np.ones((4, 2))
    pinned(known, np.zeros((4, 4)), nodes, np.zeros((4, 4)))
    np.testing.assert_array_equal(known, 1.0)
    np.testing.assert_array_equal(nodes, 1.0)


def test_alike_is_relative_to_the_largest_entry() -> None:
    rows = np.array([[0.0], [1e-8], [100.0]])
    assert _alike((rows - rows.T) ** 2, rows, np.zeros((3, 1))).tolist() == [True, True, False]
    assert _alike((rows - rows.T) ** 2, np.zeros((3, 1)), rows).tolist() == [True, True, False]
    small = rows / 100.0
    assert _alike((small - small.T) ** 2, small, np.zeros((3, 1))).tolist() == [True, True, False]
    apart = np.array([[0.0], [1e-8], [1.0]])
    assert not _alike((apart - apart.T) ** 2, apart, np.zeros((3, 1))).any()
