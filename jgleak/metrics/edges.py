"""How well the adjacency matrix was recovered, in file order and aligned, always both."""

from __future__ import annotations

import dataclasses

import numpy as np
from jaxtyping import Bool, Float, Int

from jgleak.features import FeatureSpace
from jgleak.graph import Graph
from jgleak.metrics.alignment import align, symmetric
from jgleak.metrics.ranking import average_precision, roc_auc


@dataclasses.dataclass(frozen=True)
class EdgeScore:
    """Adjacency metrics over the node pairs ``i < j``; NaN where a metric is undefined.

    Attributes:
      accuracy: share of pairs that are right after the threshold.
      accuracy_all: of all ``N²`` entries of the matrix, with a diagonal that is always right. GraphDLG counts all
        entries (its case study of 14 nodes, Table 2, has multiples of 1/196), those of wrong diagonals too.
      jaccard: edges in both over edges in either, after the threshold; NaN when neither graph has an edge.
      mse: mean squared difference of the soft entries.
      mae: mean absolute difference of the soft entries.
      mae_thresholded: mean absolute difference after the threshold.
      auc: area under the ROC curve of the soft entries; NaN when the truth has no edge or every edge.
      ap: average precision of the soft entries; NaN when the truth has no edge.
      precision: share of the recovered edges that are the truth's, after the threshold (GLG's "AP"); NaN without one.
    """

    accuracy: float
    accuracy_all: float
    jaccard: float
    mse: float
    mae: float
    mae_thresholded: float
    auc: float
    ap: float
    precision: float


@dataclasses.dataclass(frozen=True)
class EdgeScores:
    """Adjacency metrics under two orders of the reconstruction's nodes.

    Attributes:
      file_order: nodes as they come. Comparable with papers that compare so (FedGIG, GraphDLG), but not invariant to
        node order: where files list nodes along a skeleton, a constant guess already scores high.
      aligned: nodes reordered by ``jgleak.metrics.alignment.align``.
    """

    file_order: EdgeScore
    aligned: EdgeScore


def edge_scores(
    truth: Graph,
    space: FeatureSpace,
    adjacency: Float[np.ndarray, "k k"],
    *,
    nodes: Float[np.ndarray, "k m"] | None = None,
    threshold: float = 0.5,
    rescale: bool = False,
) -> EdgeScores:
    """Adjacency metrics of FedGIG, GraphDLG (section 5.1) and GLG (section 4, equation 45).

    Only the strict upper triangle counts, but for ``accuracy_all``, so the diagonal cannot flatter: with a right (zero)
    diagonal, GLG's MAE is ours times ``(N - 1) / (N + 1)``.

    Args:
      truth: the client's graph.
      space: its feature space, for the alignment.
      adjacency: soft or hard edges; averaged with the transpose when not symmetric. Where sizes differ, the smaller
        graph is filled up with nodes without edges.
      nodes: recovered encoded features, which help to align; None aligns by structure alone.
      threshold: entries at or above it are edges.
      rescale: stretch the recovered entries to [0, 1] before the threshold (GLG's min-max normalisation).

    Raises:
      ValueError: a matrix has a wrong shape or entries that are not finite.
    """
    soft = symmetric(adjacency)
    cut = threshold
    if rescale:
        entries = soft[np.triu_indices(len(soft), k=1)]
        if entries.size and np.ptp(entries) > 0:
            cut = entries.min() + threshold * np.ptp(entries)
    order = align(truth, space, adjacency=soft, nodes=nodes, threshold=cut)
    return edges_in_order(truth, soft, order, threshold=cut)


def edges_in_order(
    truth: Graph, adjacency: Float[np.ndarray, "k k"], order: Int[np.ndarray, " N"], *, threshold: float = 0.5
) -> EdgeScores:
    """``edge_scores`` where the alignment is known: ``order`` is what ``align`` gives."""
    soft = symmetric(adjacency)
    fill = np.zeros((order.size, order.size))
    fill[: len(soft), : len(soft)] = soft
    known = np.zeros(fill.shape, bool)
    known[: truth.n, : truth.n] = truth.adjacency > 0
    return EdgeScores(_score(known, fill, threshold), _score(known, fill[np.ix_(order, order)], threshold))


def _score(known: Bool[np.ndarray, "N N"], soft: Float[np.ndarray, "N N"], cut: float) -> EdgeScore:
    upper = np.triu_indices(len(known), k=1)
    truth, entries = known[upper], soft[upper]
    if truth.size == 0:
        return EdgeScore(*[np.nan] * len(dataclasses.fields(EdgeScore)))
    hard = entries >= cut
    either, wrong, size = np.sum(truth | hard), np.mean(truth != hard), len(known)
    return EdgeScore(
        accuracy=float(1.0 - wrong),
        accuracy_all=float(1.0 - wrong * (size - 1) / size),
        jaccard=float(np.sum(truth & hard) / either) if either else np.nan,
        mse=float(np.mean((truth - entries) ** 2)),
        mae=float(np.mean(np.abs(truth - entries))),
        mae_thresholded=float(wrong),
        auc=roc_auc(entries[truth], entries[~truth]),
        ap=average_precision(entries[truth], entries[~truth]),
        precision=float(np.mean(truth[hard])) if hard.any() else np.nan,
    )
