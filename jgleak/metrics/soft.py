"""Edges and features of one reconstruction beside the truth, soft where the attack gives them so."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from jaxtyping import Float

from jgleak.features import FeatureSpace
from jgleak.graph import Graph
from jgleak.metrics.alignment import align
from jgleak.metrics.edges import EdgeScores, edges_in_order
from jgleak.metrics.features import FeatureScores, features_in_order


@dataclasses.dataclass(frozen=True)
class SoftScore:
    """Metrics of edges and features, in file order and aligned."""

    edges: EdgeScores
    features: FeatureScores


def soft_score(
    truth: Graph,
    graph: Graph,
    space: FeatureSpace,
    *,
    adjacency: Float[np.ndarray, "n n"] | None = None,
    nodes: Float[np.ndarray, "n m"] | None = None,
) -> SoftScore:
    """Scores of a reconstruction; ``graph`` stands in for what is not given soft.

    Args:
      truth: the client's graph.
      graph: the top-ranked reconstruction.
      space: the feature space of both.
      adjacency: its soft edges, where the attack has them.
      nodes: its soft encoded features, where the attack has them.
    """
    edges = graph.adjacency if adjacency is None else adjacency
    rows = space.encode(graph.x) if nodes is None else nodes
    order = align(truth, space, adjacency=edges, nodes=rows)
    return SoftScore(edges_in_order(truth, edges, order), features_in_order(truth, space, rows, order))


def target_error(truth: Graph, space: FeatureSpace, nodes: Float[np.ndarray, "k m"]) -> float:
    """RNMSE of node 0, the target of a ``target_node`` round (GLG, equation 21); NaN where its features are zero."""
    wanted = space.encode(truth.x)[0]
    size = float(np.linalg.norm(wanted))
    return float(np.linalg.norm(np.asarray(nodes)[0] - wanted) / size) if size else np.nan


def mean_scores(records: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Means over the clients of the numbers in equally nested records; undefined ones (NaN or None) are left out."""
    means: dict[str, Any] = {}
    for name, value in records[0].items() if records else ():
        column = [record[name] for record in records]
        if isinstance(value, Mapping):
            means[name] = mean_scores(column)
        else:
            live = [v for v in column if v is not None and not np.isnan(v)]
            means[name] = float(np.mean(live)) if live else None
    return means
