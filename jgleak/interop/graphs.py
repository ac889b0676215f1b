"""Graphs for other frameworks: the model's input rows and an edge list with both directions."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float, Int, Num

from jgleak.features import FeatureSpace
from jgleak.graph import Graph


def edge_arrays(graph: Graph, space: FeatureSpace) -> tuple[Float[np.ndarray, "n m"], Int[np.ndarray, "2 e"]]:
    """``(x, edge_index)`` as PyTorch Geometric takes them: encoded rows ``(n, m)``, every edge once in each direction.

    Raises:
      ValueError: features outside ``space``.
    """
    edges = np.asarray(graph.edges, np.int64).reshape(-1, 2)
    return space.encode(graph.x), np.concatenate([edges, edges[:, ::-1]]).T.copy()


def edge_rows(graph: Graph, space: FeatureSpace) -> Float[np.ndarray, "e K"]:
    """``edge_attr`` as PyTorch Geometric takes it: the one-hot class of every edge, in the order of ``edge_arrays``.

    Raises:
      ValueError: the space has no edge classes, or the graph's classes are not among them.
    """
    space.check_edges(graph.edge_class, graph.edges.shape[0])
    if graph.edge_class is None:
        raise ValueError("edges: this feature space has no edge classes; use one that has (molecules+bonds)")
    return np.tile(np.eye(len(space.edge_classes), dtype=np.float32)[graph.edge_class], (2, 1))


def by_class(
    edge_index: Int[np.ndarray, "2 e"], rows: Num[np.ndarray, "e ..."], n: int, classes: int
) -> Float[np.ndarray, "n n K"]:
    """The adjacency of an edge list, with one matrix for each class.

    Args:
      edge_index: the edges, both directions.
      rows: the class of every edge: its number, or one-hot.
      n: number of nodes.
      classes: number ``K`` of classes.

    Raises:
      ValueError: as for ``dense``; or rows are not classes, or differ between an edge's directions.
    """
    whole, rows = dense(edge_index, n), np.asarray(rows)
    numbers = rows.ndim == 1 and bool(np.all(np.isin(rows, range(classes))))
    onehot = rows.ndim == 2 and rows.shape[1] == classes and np.array_equal(np.eye(classes)[rows.argmax(axis=1)], rows)
    if rows.shape[0] != np.shape(edge_index)[1] or not (numbers or onehot):
        raise ValueError(
            f"edge_rows: expected the class of each of {np.shape(edge_index)[1]} edges, one-hot of {classes} or a "
            f"number below it, got shape {rows.shape}"
        )
    adjacency = np.zeros((*whole.shape, classes), np.float32)
    adjacency[(*np.asarray(edge_index), rows.astype(np.int64) if numbers else rows.argmax(axis=1))] = 1.0
    if np.any(adjacency != adjacency.transpose(1, 0, 2)):
        raise ValueError("edge_rows: an edge has another class in each direction; the graphs here are undirected")
    return adjacency


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
