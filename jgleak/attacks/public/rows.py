"""Public graphs as arrays of a model's input."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float

from jgleak.features import FeatureSpace
from jgleak.graph import DenseGraph, Graph, bucket


def padded(graphs: Sequence[Graph], space: FeatureSpace) -> DenseGraph:
    """Public graphs side by side ``(P, N, ..)``."""
    slots = bucket(max(g.n for g in graphs))
    rows = np.zeros((len(graphs), slots, space.width), np.float32)
    edges = np.zeros((len(graphs), slots, slots), np.float32)
    mask = np.zeros((len(graphs), slots), bool)
    for i, g in enumerate(graphs):
        rows[i, : g.n] = encoded(g, space)
        edges[i, : g.n, : g.n], mask[i, : g.n] = g.adjacency, True
    return DenseGraph(rows, edges, mask)


def encoded(graph: Graph, space: FeatureSpace) -> Float[np.ndarray, "n m"]:
    """The rows of a public graph as the model takes them.

    A graph with as many feature entries as the space has *columns* (where that is more than features) holds such rows
    already: random real-valued features that are no codes of the space (GraphDLG, Table 3).
    """
    return graph.x if graph.x.shape[1] == space.width != len(space.features) else space.encode(graph.x)
