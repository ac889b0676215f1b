"""Graph similarity metrics GSM-0, 1, 2: how close a reconstruction is, from features to 2-hop structure."""

from __future__ import annotations

import dataclasses

import numpy as np
from jaxtyping import Float, Num

from jgleak.features import FeatureSpace
from jgleak.graph import Graph
from jgleak.metrics.matching import aggregates, match

ROUNDING = 1e-18
"""Squared residuals below this share of the squared signal are float64 rounding, not error."""


@dataclasses.dataclass(frozen=True)
class Gsm:
    """The metrics of one pair of graphs, each in [0, 1], 1 for isomorphic graphs.

    Attributes:
      gsm0: agreement of node features.
      gsm1: agreement of 1-hop neighbourhoods.
      gsm2: agreement of 2-hop neighbourhoods.
      gsm0_recall: what GRAIN's released code reports under the name GSM-0 (a recall, where the paper says F1); only for
        comparison with numbers from that code. NaN in a space with real-valued features, where recall has no meaning.
    """

    gsm0: float
    gsm1: float
    gsm2: float
    gsm0_recall: float


def gsm(truth: Graph, graph: Graph, space: FeatureSpace) -> Gsm:
    """GSM-0, 1, 2 (GRAIN, appendix B), invariant to the order of nodes in either graph.

    Nodes are matched first (``jgleak.metrics.matching``). GSM-0 is the support-weighted F1 over the one-hot and binary
    columns of matched nodes (``R²`` of the encoded features when one of them is real-valued). GSM-k is ``R²`` of the
    ``k``-layer outputs of the random GCN, taken over all entries at once and clipped to [0, 1]. All are multiplied by
    ``min(n, n̂) / max(n, n̂)``. As in any support-weighted F1, a binary column that the truth never sets has no weight.

    Where edges have classes they count from GSM-1 on (``aggregates``).

    We compute the outputs on the whole graphs; the released code first cuts both down to their matched nodes.

    Raises:
      ValueError: a graph has features outside ``space``.
    """
    classes = len(space.edge_classes)
    hops, others = (aggregates(space.encode(g.x), g.adjacency, g.by_class(classes)) for g in (truth, graph))
    pairs = match(hops, others)
    ratio = min(truth.n, graph.n) / max(truth.n, graph.n)
    fits = [r_squared(f[pairs.truth], g[pairs.graph]) for f, g in zip(hops[:3], others[:3], strict=True)]
    recall = np.nan
    if space.discrete:
        x, y = truth.x[pairs.truth], graph.x[pairs.graph]
        features = tuple(dataclasses.replace(f, kind="onehot") if f.kind == "number" else f for f in space.features)
        bare = dataclasses.replace(space, features=features, mean=None, std=None)
        fits[0] = weighted_f1(bare.encode(x).astype(np.float64), bare.encode(y).astype(np.float64))
        recall = weighted_recall(x, y, space)
    return Gsm(*(ratio * fit for fit in fits), gsm0_recall=ratio * recall)


def r_squared(truth: Float[np.ndarray, "p d"], values: Float[np.ndarray, "p d"]) -> float:
    """``1 - Σ(t - v)² / Σ(t - mean(t))²`` over all entries, clipped to [0, 1].

    A constant truth has no variance to explain: the value is then 1 for equal matrices and 0 for others.
    """
    rounding = ROUNDING * (np.sum(truth**2) + np.sum(values**2))
    residual, variance = np.sum((truth - values) ** 2), np.sum((truth - truth.mean()) ** 2)
    if residual <= rounding:
        return 1.0
    if variance <= rounding:
        return 0.0
    return float(np.clip(1.0 - residual / variance, 0.0, 1.0))


def weighted_f1(truth: Float[np.ndarray, "p m"], values: Float[np.ndarray, "p m"]) -> float:
    """F1 of each 0/1 column, averaged with the columns' counts of ones in the truth as weights.

    When the truth has no ones at all the value is 1 if there are none in ``values`` either, and 0 otherwise.
    """
    support, predicted = truth.sum(axis=0), values.sum(axis=0)
    if not support.any():
        return float(not predicted.any())
    live = support > 0
    f1 = 2.0 * np.sum(truth * values, axis=0)[live] / (support + predicted)[live]
    return float(np.average(f1, weights=support[live]))


def weighted_recall(truth: Num[np.ndarray, "p G"], values: Num[np.ndarray, "p G"], space: FeatureSpace) -> float:
    """Share of right codes a feature, averaged with the features' numbers of columns as weights (released code)."""
    return float(np.average(np.mean(truth == values, axis=0), weights=[f.columns for f in space.features]))
