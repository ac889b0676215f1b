"""How well node features were recovered, in file order and aligned."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

import numpy as np
from jaxtyping import Float, Int

from jgleak.features import FeatureSpace
from jgleak.graph import Graph
from jgleak.metrics.alignment import align


@dataclasses.dataclass(frozen=True)
class FeatureScore:
    """Feature metrics; NaN where a metric is undefined.

    Attributes:
      mse: mean squared difference of encoded entries; missing and surplus nodes count as rows of zeros.
      rnmse: ``||x_v - x̂_v|| / ||x_v||`` averaged over the truth's nodes with ``x_v ≠ 0``; NaN when there are none.
      classes: discrete feature name to the share of nodes with the right code, out of the larger graph's nodes.
      accuracy: mean of ``classes``; NaN when every feature is real-valued.
    """

    mse: float
    rnmse: float
    classes: Mapping[str, float]
    accuracy: float


@dataclasses.dataclass(frozen=True)
class FeatureScores:
    """Feature metrics with the reconstruction's nodes as they come, and reordered to fit the truth."""

    file_order: FeatureScore
    aligned: FeatureScore


def feature_scores(
    truth: Graph,
    space: FeatureSpace,
    nodes: Float[np.ndarray, "k m"],
    *,
    adjacency: Float[np.ndarray, "k k"] | None = None,
    threshold: float = 0.5,
) -> FeatureScores:
    """Feature metrics of GLG (equation 21, averaged over nodes) and GraphDLG (section 5.1: MSE, class accuracy).

    Args:
      truth: the client's graph.
      space: its feature space; errors are in encoded units (standard deviations when it has statistics).
      nodes: recovered encoded features, possibly soft; decoded for the class accuracies.
      adjacency: recovered edges, which help to align; None aligns by features alone.
      threshold: where a soft edge becomes an edge, for the alignment.

    Raises:
      ValueError: a matrix has a wrong shape or entries that are not finite.
    """
    order = align(truth, space, adjacency=adjacency, nodes=nodes, threshold=threshold)
    return features_in_order(truth, space, nodes, order)


def features_in_order(
    truth: Graph, space: FeatureSpace, nodes: Float[np.ndarray, "k m"], order: Int[np.ndarray, " N"]
) -> FeatureScores:
    """``feature_scores`` where the alignment is known: ``order`` is what ``align`` gives."""
    nodes = np.asarray(nodes, np.float64)
    return FeatureScores(_score(truth, space, nodes, np.arange(order.size)), _score(truth, space, nodes, order))


def _score(
    truth: Graph, space: FeatureSpace, nodes: Float[np.ndarray, "k m"], order: Int[np.ndarray, " N"]
) -> FeatureScore:
    known = np.zeros((order.size, space.width))
    known[: truth.n] = space.encode(truth.x)
    found = np.zeros_like(known)
    found[: len(nodes)] = nodes
    found = found[order]
    norms, errors = np.linalg.norm(known, axis=1), np.linalg.norm(known - found, axis=1)
    live = norms > 0
    both = np.flatnonzero(order[: truth.n] < len(nodes))
    right = np.sum(truth.x[both] == space.decode(nodes)[order[both]], axis=0) / order.size
    classes = {f.name: float(right[g]) for g, f in enumerate(space.features) if f.kind != "real"}
    return FeatureScore(
        mse=float(np.mean((known - found) ** 2)),
        rnmse=float(np.mean(errors[live] / norms[live])) if live.any() else np.nan,
        classes=classes,
        accuracy=float(np.mean(list(classes.values()))) if classes else np.nan,
    )
