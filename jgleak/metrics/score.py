"""The headline numbers of one reconstruction, and of many."""

from __future__ import annotations

import dataclasses
from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np

from jgleak.features import FeatureSpace
from jgleak.graph import Graph
from jgleak.metrics.exact import exact
from jgleak.metrics.gsm import gsm
from jgleak.metrics.intervals import rate


@dataclasses.dataclass(frozen=True)
class Score:
    """One reconstruction beside its truth; everything lies in [0, 1] (see ``jgleak.metrics.gsm.Gsm``).

    Attributes:
      exact: isomorphic with equal features (FULL).
      gsm0: features.
      gsm1: 1-hop neighbourhoods.
      gsm2: 2-hop neighbourhoods.
      gsm0_recall: for comparison with GRAIN's released code only; NaN in a space with real-valued features.
    """

    exact: bool
    gsm0: float
    gsm1: float
    gsm2: float
    gsm0_recall: float


def score(truth: Graph, graph: Graph | None, space: FeatureSpace, *, tolerance: float = 0.0) -> Score:
    """Scores of the top-ranked reconstruction ``graph``; None (nothing was recovered) scores False and zeros.

    Args:
      truth: the client's graph.
      graph: the reconstruction.
      space: the feature space of both.
      tolerance: for ``jgleak.metrics.exact.exact``: how far apart equal real-valued features may lie.

    Raises:
      ValueError: a graph has features outside ``space``.
    """
    if graph is None:
        return Score(False, 0.0, 0.0, 0.0, 0.0 if space.discrete else np.nan)
    similar = gsm(truth, graph, space)
    return Score(exact(truth, graph, tolerance=tolerance), **dataclasses.asdict(similar))


def summarise(
    scores: Sequence[Score],
    *,
    clusters: Sequence[Hashable] | None = None,
    resamples: int = 10_000,
    seed: int = 0,
) -> dict[str, Any]:
    """Means over graphs with 95 % intervals (``rate``), ready for JSON.

    Args:
      scores: of every graph.
      clusters: of every graph its update, where several graphs are behind one; None: every graph has its own.
      resamples: of the bootstrap.
      seed: of the bootstrap.

    Returns:
      ``count``, ``exact_rate`` (a number), and for ``exact`` and each GSM a ``{"mean", "low", "high"}``; a metric that
      is undefined (NaN) for one of the graphs is left out.

    Raises:
      ValueError: no scores.
    """
    if not scores:
        raise ValueError("scores: nothing to summarise; give the score of at least one graph (None counts as one)")
    columns = {f.name: [float(getattr(s, f.name)) for s in scores] for f in dataclasses.fields(Score)}
    intervals = {
        name: dataclasses.asdict(rate(values, clusters=clusters, resamples=resamples, seed=seed))
        for name, values in columns.items()
        if not np.isnan(values).any()
    }
    return {"count": len(scores), "exact_rate": intervals["exact"]["mean"], **intervals}
