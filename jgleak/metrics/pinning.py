"""Nodes matched one pair at a time, so that symmetric branches of a graph are not mixed up."""

from __future__ import annotations

import numpy as np
from jaxtyping import Bool, Float
from scipy.optimize import linear_sum_assignment
from scipy.spatial.distance import cdist

from jgleak.metrics.matching import SEED, Matching, layers, tilt, weights

ALIKE = 1e-9
"""Nodes whose aggregates differ by less than this share of the largest aggregate are alike."""


def pinned(
    known: Float[np.ndarray, "n m"],
    edges: Float[np.ndarray, "n n"],
    nodes: Float[np.ndarray, "k m"],
    adjacency: Float[np.ndarray, "k k"],
) -> Matching:
    """Pairs of a truth's nodes (``known``, ``edges``) and a reconstruction's (``nodes``, ``adjacency``).

    Nodes are matched as for the GSM metrics (``match``). As long as two matched nodes have others like them, the best
    fitting such pair is pinned (the same random row is added to the features of both) and the rest matched again.
    """
    features = _Marked(np.array(known, np.float64), np.array(nodes, np.float64))
    rng = np.random.default_rng(SEED)
    size = np.sqrt(np.mean(features.known**2)) or 1.0
    pairs = Matching(np.arange(0), np.arange(0))
    for _ in range(min(len(known), len(nodes))):
        hops, others = (
            np.hstack(layers(inner, features.later, a))
            for inner, a in zip(features.inner, (edges, adjacency), strict=True)
        )
        pairs = Matching(*linear_sum_assignment(features.distances(hops, others)))
        unclear = _alike(features.within[0], features.known, hops)[pairs.truth]
        unclear |= _alike(features.within[1], features.nodes, others)[pairs.graph]
        if not unclear.any():
            break
        misfit = np.sum((features.known[pairs.truth] - features.nodes[pairs.graph]) ** 2, axis=1)
        misfit += np.sum((hops[pairs.truth] - others[pairs.graph]) ** 2, axis=1)
        best = int(np.argmin(np.where(unclear, misfit, np.inf)))
        features.mark(int(pairs.truth[best]), int(pairs.graph[best]), size * rng.standard_normal(known.shape[1]))
    return pairs


class _Marked:
    """Features of both graphs and what depends on them alone; a mark changes one row of each.

    Features may be thousands of words, and a graph may need a mark for every node: distances and products with the
    random GCN's first weights are therefore computed once, and then for the marked rows only.
    """

    def __init__(self, known: Float[np.ndarray, "n m"], nodes: Float[np.ndarray, "k m"]) -> None:
        self.known, self.nodes = known, nodes
        self.first, *self.later = weights(known.shape[1])
        self.inner = [known @ self.first, nodes @ self.first]
        self.within = [cdist(rows, rows, "sqeuclidean") for rows in (known, nodes)]
        self.across = self._across(known, nodes)

    def distances(self, hops: Float[np.ndarray, "n d"], others: Float[np.ndarray, "k d"]) -> Float[np.ndarray, "n k"]:
        """``jgleak.metrics.matching.distances``: ``d`` outputs of all layers beside the features."""
        scale = np.sqrt(tilt(self.known.shape[1] + hops.shape[1])[self.known.shape[1] :])
        return self.across + cdist(hops * scale, others * scale, "sqeuclidean")

    def mark(self, i: int, j: int, mark: Float[np.ndarray, " m"]) -> None:
        """Add ``mark`` to row ``i`` of the truth and row ``j`` of the reconstruction."""
        for side, (rows, at) in enumerate(((self.known, i), (self.nodes, j))):
            rows[at] += mark
            self.inner[side][at] = rows[at] @ self.first
            self.within[side][at] = self.within[side][:, at] = cdist(rows[at][None], rows, "sqeuclidean")[0]
        self.across[i] = self._across(self.known[i][None], self.nodes)[0]
        self.across[:, j] = self._across(self.known, self.nodes[j][None])[:, 0]

    def _across(self, known: Float[np.ndarray, "_ m"], nodes: Float[np.ndarray, "_ m"]) -> Float[np.ndarray, "_ _"]:
        scale = np.sqrt(tilt(known.shape[1]))
        return cdist(known * scale, nodes * scale, "sqeuclidean")


def _alike(
    within: Float[np.ndarray, "n n"], features: Float[np.ndarray, "n m"], hops: Float[np.ndarray, "n d"]
) -> Bool[np.ndarray, " n"]:
    """Nodes that have an equal one beside them; ``within`` are the squared distances of the features."""
    largest = max(1.0, float(np.abs(features).max()), float(np.abs(hops).max()))
    near = within + cdist(hops, hops, "sqeuclidean") <= (ALIKE * largest) ** 2
    return near.sum(axis=1) > 1
