"""One ordering of a reconstruction's nodes that fits the truth as a whole, ties between symmetric nodes included."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float, Int

from jgleak.features import FeatureSpace
from jgleak.graph import Graph
from jgleak.metrics.exact import isomorphism
from jgleak.metrics.pinning import pinned


def align(
    truth: Graph,
    space: FeatureSpace,
    *,
    adjacency: Float[np.ndarray, "k k"] | None = None,
    nodes: Float[np.ndarray, "k m"] | None = None,
    threshold: float = 0.5,
) -> Int[np.ndarray, " N"]:
    """The order that puts a (possibly soft) reconstruction beside the truth, ``N = max(n, n̂)``.

    ``order[i]`` is the reconstruction's node for the truth's node ``i``; indices from ``n̂`` (in values) or ``n`` (in
    places) on are the empty nodes that fill up the smaller graph. A reconstruction that is isomorphic to the truth once
    edges are cut at ``threshold`` and features decoded gets that isomorphism; edge classes do not count. Otherwise
    nodes are matched as for the GSM metrics; then, as long as two matched nodes are alike, the best fitting such pair
    is pinned (marked in both graphs) and the rest matched again, so that symmetric branches are not mixed up.

    Args:
      truth: the client's graph.
      space: its feature space.
      adjacency: recovered edges; None compares features alone.
      nodes: recovered encoded features; None compares structure alone.
      threshold: where a soft edge becomes an edge.

    Raises:
      ValueError: neither matrix is given, or one has a wrong shape or entries that are not finite.
    """
    given, features = _check(space, adjacency, nodes)
    size = len(given)
    whole = _isomorphism(truth, space, given, features, threshold) if adjacency is not None else None
    if whole is not None:
        return whole
    edges = np.zeros((truth.n, truth.n)) if adjacency is None else truth.adjacency
    known = np.ones((truth.n, 1)) if features is None else space.encode(truth.x)
    pairs = pinned(known, edges, np.ones((size, 1)) if features is None else features, np.clip(given, 0.0, 1.0))
    order = np.full(max(truth.n, size), -1)
    order[pairs.truth] = pairs.graph
    order[order < 0] = np.setdiff1d(np.arange(order.size), pairs.graph)
    return order


def symmetric(adjacency: Float[np.ndarray, "N N"]) -> Float[np.ndarray, "N N"]:
    """The average of a matrix and its transpose in float64, diagonal zero."""
    adjacency = np.asarray(adjacency, np.float64)
    if adjacency.ndim != 2 or adjacency.shape[0] != adjacency.shape[1] or adjacency.shape[0] == 0:
        raise ValueError(f"adjacency: expected a square matrix with at least one node, got shape {adjacency.shape}")
    if not np.all(np.isfinite(adjacency)):
        raise ValueError("adjacency: contains NaN or infinite entries; score an attack that diverged as None")
    average = (adjacency + adjacency.T) / 2.0
    np.fill_diagonal(average, 0.0)
    return average


def _check(
    space: FeatureSpace, adjacency: np.ndarray | None, nodes: np.ndarray | None
) -> tuple[Float[np.ndarray, "n n"], Float[np.ndarray, "n m"] | None]:
    if adjacency is None and nodes is None:
        raise ValueError("adjacency, nodes: give at least one of them; there is nothing to align otherwise")
    features = None if nodes is None else np.asarray(nodes, np.float64)
    if features is not None:
        if features.ndim != 2 or features.shape[1] != space.width or len(features) == 0:
            raise ValueError(f"nodes: expected encoded features (n, {space.width}), got shape {features.shape}")
        if not np.all(np.isfinite(features)):
            raise ValueError("nodes: contains NaN or infinite entries; score an attack that diverged as None")
        if adjacency is None:
            return np.zeros((len(features), len(features))), features
    given = symmetric(np.asarray(adjacency))
    if features is not None and len(features) != len(given):
        raise ValueError(f"adjacency, nodes: {len(given)} and {len(features)} nodes; they must describe one graph")
    return given, features


def _isomorphism(
    truth: Graph, space: FeatureSpace, adjacency: np.ndarray, nodes: np.ndarray | None, threshold: float
) -> Int[np.ndarray, " n"] | None:
    edges = np.argwhere(np.triu(adjacency >= threshold, k=1))
    if nodes is not None:
        return isomorphism(Graph(truth.x, truth.edges), Graph(space.decode(nodes), edges))
    return isomorphism(Graph(np.zeros((truth.n, 1)), truth.edges), Graph(np.zeros((len(adjacency), 1)), edges))
