"""Which node of a reconstruction stands for which node of the truth (GRAIN, appendix B)."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int
from scipy.optimize import linear_sum_assignment
from scipy.spatial.distance import cdist

HOPS = 5
"""Largest neighbourhood that is compared."""

WIDTH = 64
"""Outputs of each layer of the random GCN."""

SEED = 2025
"""Seed of the random GCN: part of the metric's definition, so that scores of different runs can be compared."""

TILT = 1e-6
"""Largest relative weight by which columns differ, to break ties between equally distant nodes."""

Aggregates = Sequence[Float[np.ndarray, "n _"]]
"""One matrix a hop: ``F_0`` is the node features ``(n, m)``, ``F_k`` the ``k``-layer output ``(n, WIDTH)``."""


class Matching(NamedTuple):
    """Matched nodes: ``truth[p]`` and ``graph[p]`` are one pair, for ``min(n, n̂)`` pairs."""

    truth: Int[np.ndarray, " p"]
    graph: Int[np.ndarray, " p"]


def aggregates(
    nodes: Float[np.ndarray, "n m"],
    adjacency: Float[np.ndarray, "n n"],
    by_class: Float[np.ndarray, "n n K"] | None = None,
) -> Aggregates:
    """Features of the 0- to 5-hop neighbourhoods of every node: ``F_0 = X``, ``F_k = ReLU(Ã F_{k-1} W_k)``.

    ``Ã = D^{-1/2} (A + I) D^{-1/2}`` and the ``W_k`` are Xavier-uniform with a fixed seed, without bias, in float64.
    A soft adjacency in [0, 1] is allowed. Nodes that colour refinement cannot tell apart get equal rows.

    The paper says "a randomly initialised k-layer GCN"; ReLU after *every* layer is our choice, so that ``F_k`` does
    not depend on how many layers follow. Where edges have classes, ``Ã_k 1 u_k`` is added for every class ``k`` before
    the ReLU, with ``Ã_k`` its part of ``Ã`` (``by_class`` is the adjacency taken apart) and ``u_k`` a random row.
    """
    features = np.asarray(nodes, np.float64)
    first, *later = weights(features.shape[1])
    return [features, *layers(features @ first, later, adjacency, by_class)]


def layers(
    inner: Float[np.ndarray, "n width"],
    later: Sequence[Float[np.ndarray, "width width"]],
    adjacency: Float[np.ndarray, "n n"],
    by_class: Float[np.ndarray, "n n K"] | None = None,
) -> Aggregates:
    """``F_1`` to ``F_HOPS`` of the random GCN, given ``inner = X W_1`` and the ``later`` weights ``W_2, W_3, ...``."""
    looped = np.asarray(adjacency, np.float64) + np.eye(len(adjacency))
    scale = 1.0 / np.sqrt(looped.sum(axis=1))
    propagate = scale[:, None] * looped * scale
    along = 0.0
    if by_class is not None:
        along = np.einsum("uv,uvk->uk", propagate, by_class) @ weights(by_class.shape[2])[0]
    out = [np.maximum(propagate @ inner + along, 0.0)]
    for weight in later:
        out.append(np.maximum(propagate @ out[-1] @ weight + along, 0.0))
    return out


def match(truth: Aggregates, graph: Sequence[Float[np.ndarray, "k _"]]) -> Matching:
    """The assignment of least total ``Σ_k ||F_k(G)_i - F_k(Ĝ)_j||²``, by the Hungarian algorithm.

    Isomorphic graphs always get pairs of equal aggregates. Where nodes are alike up to ``HOPS`` hops, any of the equal
    choices may be taken; ``jgleak.metrics.alignment`` is for uses where that matters.
    """
    return Matching(*linear_sum_assignment(distances(truth, graph)))


def distances(truth: Aggregates, graph: Sequence[Float[np.ndarray, "k _"]]) -> Float[np.ndarray, "n k"]:
    """Squared distance between every two nodes, summed over the hops.

    Columns get weights in ``[1, 1 + TILT]``, fixed by the seed. One-hot rows are full of exact ties (two wrong colours
    are equally wrong), which the Hungarian algorithm would break by node order; the tilt breaks them by content, so
    that every metric built on the matching is the same for any order of the nodes.
    """
    scale = np.sqrt(tilt(sum(hop.shape[1] for hop in truth)))
    return cdist(np.hstack(truth) * scale, np.hstack(graph) * scale, "sqeuclidean")


@functools.lru_cache(maxsize=32)
def tilt(columns: int) -> Float[np.ndarray, " columns"]:
    """The weights of the first ``columns`` columns in ``distances``."""
    return 1.0 + TILT * np.random.default_rng(SEED).random(columns)


@functools.lru_cache(maxsize=32)
def weights(columns: int) -> tuple[Float[np.ndarray, "_ width"], ...]:
    """The random GCN's ``W_1, W_2, ...`` for features of ``columns`` columns."""
    rng = np.random.default_rng(SEED)
    sizes = [columns] + [WIDTH] * HOPS
    bounds = [np.sqrt(6.0 / (rows + WIDTH)) for rows in sizes[:-1]]
    return tuple(rng.uniform(-b, b, (rows, WIDTH)) for rows, b in zip(sizes[:-1], bounds, strict=True))
