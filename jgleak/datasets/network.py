"""A large sparse graph from which client subgraphs are cut."""

from __future__ import annotations

import dataclasses

import numpy as np
import scipy.sparse as sp
from jaxtyping import Int

from jgleak.datasets.dataset import LoadReport
from jgleak.features import Feature, FeatureSpace, onehot
from jgleak.graph import Graph

DEGREE = onehot("degree", range(100))
"""The degree feature of client subgraphs (GRAIN, section 6.1: citation networks), good for up to 100 nodes."""


@dataclasses.dataclass(frozen=True, eq=False)
class Network:
    """One undirected, simple graph of ``V`` nodes, kept sparse.

    Attributes:
      name: the catalogue name.
      x: feature entries ``(V, F)`` as a sparse matrix, without the degree.
      adjacency: ``(V, V)`` symmetric 0/1, no self-loops.
      y: node classes ``(V,)``; -1 where unknown.
      space: the schema of *client subgraphs*, without statistics: the ``F`` features, then, where the attack needs it,
        the node's degree inside the subgraph (``space.degree``).
      classes: number of classes ``C``.
      report: rows of the source that are not nodes here.

    Raises:
      ValueError: naming the field, when shapes disagree or the adjacency is not that of a simple undirected graph.
    """

    name: str
    x: sp.csr_array
    adjacency: sp.csr_array
    y: Int[np.ndarray, " V"]
    space: FeatureSpace
    classes: int
    report: LoadReport

    def __post_init__(self) -> None:
        nodes, features = self.n, len(self.space.features) - (self.space.degree is not None)
        if self.x.shape != (nodes, features):
            raise ValueError(f"x: expected shape ({nodes}, {features}), got {self.x.shape}")
        if self.adjacency.shape != (nodes, nodes):
            raise ValueError(f"adjacency: expected shape ({nodes}, {nodes}), got {self.adjacency.shape}")
        if self.adjacency.diagonal().any() or (self.adjacency != self.adjacency.T).nnz:
            raise ValueError("adjacency: must be symmetric with a zero diagonal")
        if nodes and (self.y.min() < -1 or self.y.max() >= self.classes):
            raise ValueError(f"y: classes must lie in -1..{self.classes - 1}")

    @property
    def n(self) -> int:
        """Number of nodes ``V``."""
        return self.y.shape[0]

    def neighbours(self, node: int) -> Int[np.ndarray, " k"]:
        """Neighbours of a node."""
        return self.adjacency.indices[self.adjacency.indptr[node] : self.adjacency.indptr[node + 1]]

    def subgraph(self, nodes: Int[np.ndarray, " n"]) -> Graph:
        """The induced subgraph, in the order of ``nodes``, with int16 codes and node classes ``y`` (-1 where unknown).

        Raises:
          ValueError: a degree inside the subgraph has no value in the schema.
        """
        nodes = np.asarray(nodes)
        block = sp.triu(self.adjacency[nodes][:, nodes], k=1).tocoo()
        edges = np.stack([block.row, block.col], axis=1).astype(np.int64)
        x = self.x[nodes].toarray()
        if self.space.degree is not None:
            degree = np.bincount(edges.ravel(), minlength=nodes.size)
            largest = len(self.space.features[-1].values) - 1
            if degree.max() > largest:
                raise ValueError(f"nodes: a degree of {degree.max()} exceeds the schema's largest, {largest}")
            x = np.concatenate([x, degree[:, None]], axis=1)
        return Graph(x.astype(np.int16), edges, self.y[nodes])


def client_space(features: tuple[Feature, ...], degree: bool) -> FeatureSpace:
    """The schema of client subgraphs: ``features``, then ``DEGREE`` where wanted."""
    return FeatureSpace(features + (DEGREE,), DEGREE.name) if degree else FeatureSpace(features)


def undirected(pairs: Int[np.ndarray, "e 2"], nodes: int) -> sp.csr_array:
    """Symmetric 0/1 adjacency ``(V, V)`` of node pairs; repeats, direction and self-loops are dropped."""
    pairs = pairs[pairs[:, 0] != pairs[:, 1]]
    rows, columns = np.r_[pairs[:, 0], pairs[:, 1]], np.r_[pairs[:, 1], pairs[:, 0]]
    adjacency = sp.csr_array((np.ones(rows.size, np.int64), (rows, columns)), shape=(nodes, nodes))
    adjacency.sum_duplicates()
    adjacency.data = np.ones(adjacency.nnz, np.int8)
    return adjacency
