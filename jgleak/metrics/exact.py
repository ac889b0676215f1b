"""Exact reconstruction: isomorphic with equal features (the papers' FULL)."""

from __future__ import annotations

import numpy as np
from jaxtyping import Int
from scipy.sparse.csgraph import connected_components
from scipy.spatial.distance import cdist

from jgleak.graph import Graph, coloured


def exact(truth: Graph, graph: Graph, *, tolerance: float = 0.0) -> bool:
    """True when relabelling the nodes of ``graph`` gives the truth: edges, their classes, and features.

    Labels ``y`` are ignored.

    Args:
      truth: the client's graph.
      graph: a reconstruction.
      tolerance: largest difference of two feature entries that still count as equal, in the units of ``x``. Codes need
        none; real-valued features recovered in floating point do.
    """
    return isomorphism(truth, graph, tolerance=tolerance) is not None


def isomorphism(truth: Graph, graph: Graph, *, tolerance: float = 0.0) -> Int[np.ndarray, " n"] | None:
    """An ``order`` such that ``graph.permute(order)`` is the truth, or None when the graphs are not isomorphic.

    Canonical labelling (BLISS) of the graphs coloured by feature rows: large symmetric graphs stay cheap.
    """
    if truth.n != graph.n or truth.edges.shape != graph.edges.shape or truth.x.shape[1] != graph.x.shape[1]:
        return None
    colours, others = _colours(truth, graph, tolerance)
    if not np.array_equal(np.sort(colours), np.sort(others)):
        return None
    if (truth.edge_class is None) != (graph.edge_class is None) and truth.edges.size:
        return None
    first, shown = coloured(truth.n, truth.edges, colours, truth.edge_class)
    second, beside = coloured(graph.n, graph.edges, others, graph.edge_class)
    same, order, _ = first.isomorphic_bliss(
        second, return_mapping_12=True, color1=shown.tolist(), color2=beside.tolist()
    )
    return np.asarray(order, np.int64)[: truth.n] if same else None


def _colours(truth: Graph, graph: Graph, tolerance: float) -> tuple[Int[np.ndarray, " n"], Int[np.ndarray, " n"]]:
    """Colours of nodes: rows within ``tolerance`` of each other, directly or in a chain, share one."""
    rows = np.vstack([truth.x, graph.x]).astype(np.float64)
    _, colours = connected_components(cdist(rows, rows, "chebyshev") <= tolerance, directed=False)
    return colours[: truth.n], colours[truth.n :]
