"""Graphs for other frameworks: the model's input rows and an edge list with both directions."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float, Int

from jgleak.features import FeatureSpace
from jgleak.graph import Graph


def edge_arrays(graph: Graph, space: FeatureSpace) -> tuple[Float[np.ndarray, "n m"], Int[np.ndarray, "2 e"]]:
    """``(x, edge_index)`` as PyTorch Geometric wants them: encoded rows, every edge once in each direction.

    Raises:
      ValueError: features outside ``space``.
    """
    edges = np.asarray(graph.edges, np.int64).reshape(-1, 2)
    return space.encode(graph.x), np.concatenate([edges, edges[:, ::-1]]).T.copy()


def dense(edge_index: Int[np.ndarray, "2 e"], n: int) -> Float[np.ndarray, "n n"]:
    """The adjacency of an edge list.

    Raises:
      ValueError: self-loops, repeated edges, or an edge without its reverse.
    """
    edges = np.asarray(edge_index)
    if edges.ndim != 2 or edges.shape[0] != 2 or (edges.size and not 0 <= edges.min() <= edges.max() < n):
        raise ValueError(f"edge_index: expected node numbers below {n} in two rows, got shape {edges.shape}")
    adjacency = np.zeros((n, n), np.float32)
    np.add.at(adjacency, tuple(edges), 1.0)
    if np.any(np.diag(adjacency)) or np.any(adjacency > 1) or np.any(adjacency != adjacency.T):
        raise ValueError(
            "edge_index: the graphs here are simple and undirected; give both directions and no self-loops"
        )
    return adjacency
