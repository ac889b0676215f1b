"""Graphs: ``Graph`` on the host, ``GraphBatch`` dense and padded on the device, bridges to networkx and jraph."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import igraph
import jax
import jraph
import networkx as nx
import numpy as np
from jaxtyping import Array, Bool, Float, Int, Num

from jgleak.features import FeatureSpace
from jgleak.pytree import pytree

BUCKETS: tuple[int, ...] = (8, 16, 24, 32, 40, 64, 104, 160, 256)
"""Node counts that batches are padded to, so that few shapes compile."""


@dataclasses.dataclass(frozen=True, eq=False)
class Graph:
    """One undirected, simple client graph on the host.

    Attributes:
      x: node features ``(n, G)``, one column a *feature* of the FeatureSpace: integer codes, or numbers for real ones.
      edges: ``(e, 2)`` node pairs, each edge once, without self-loops; stored sorted with the smaller node first.
      y: a class (int), a regression target (float), node classes or targets ``(n,)``, or None when unknown. Of several
        tasks a row ``(1, T)`` of labels, one a task, NaN where it is missing (as PyTorch Geometric has it): the number
        of axes says which of these it is, never a length.
      name: free text for people (a SMILES string, a row number); no code decides by it.
      edge_class: the class of every edge ``(e,)``, a place in the FeatureSpace's ``edge_classes`` (a bond type), in the
        order of ``edges``; None where edges are alike.

    Raises:
      ValueError: naming the field, when an entry is not finite, out of range, a self-loop or a repeated edge.
    """

    x: Num[np.ndarray, "n G"]
    edges: Int[np.ndarray, "e 2"]
    y: int | float | Num[np.ndarray, " n"] | Num[np.ndarray, "1 T"] | None = None
    name: str = ""
    edge_class: Int[np.ndarray, " e"] | None = None

    def __post_init__(self) -> None:
        x, edges = np.asarray(self.x), np.asarray(self.edges)
        if x.ndim != 2 or x.shape[0] == 0:
            raise ValueError(f"x: expected (n, G) with n >= 1, got shape {x.shape}")
        if not np.issubdtype(x.dtype, np.number):
            raise ValueError(f"x: expected numbers, got dtype {x.dtype}")
        if not np.all(np.isfinite(x)):
            raise ValueError("x: contains NaN or infinite entries")
        if edges.size == 0:
            edges = np.zeros((0, 2), np.int64)
        if edges.ndim != 2 or edges.shape[1] != 2 or not np.issubdtype(edges.dtype, np.integer):
            raise ValueError(f"edges: expected integers of shape (e, 2), got {edges.dtype} {edges.shape}")
        if edges.size and (edges.min() < 0 or edges.max() >= x.shape[0]):
            raise ValueError(f"edges: node indices must lie in 0..{x.shape[0] - 1}")
        if np.any(edges[:, 0] == edges[:, 1]):
            raise ValueError("edges: self-loops are not allowed (the convolutions add their own)")
        edges = np.sort(edges.astype(np.int64), axis=1)
        order = np.lexsort((edges[:, 1], edges[:, 0]))
        edges = edges[order]
        if self.edge_class is not None:
            object.__setattr__(self, "edge_class", _checked_classes(self.edge_class, edges.shape[0])[order])
        if edges.shape[0] > 1 and np.any(np.all(edges[1:] == edges[:-1], axis=1)):
            raise ValueError("edges: an edge is listed twice (give each undirected edge once)")
        object.__setattr__(self, "x", x)
        object.__setattr__(self, "edges", edges)
        if self.y is not None:
            object.__setattr__(self, "y", _checked_label(self.y, x.shape[0]))

    @property
    def n(self) -> int:
        """Number of nodes."""
        return self.x.shape[0]

    @property
    def adjacency(self) -> Float[np.ndarray, "n n"]:
        """Dense 0/1 adjacency without self-loops, float32."""
        a = np.zeros((self.n, self.n), np.float32)
        a[self.edges[:, 0], self.edges[:, 1]] = 1.0
        return a + a.T

    def by_class(self, classes: int) -> Float[np.ndarray, "n n K"] | None:
        """The adjacency taken apart by edge class, of so many classes; None for none."""
        if not classes:
            return None
        a = np.zeros((self.n, self.n, classes), np.float32)
        if self.edge_class is not None:
            u, v = self.edges.T
            a[u, v, self.edge_class] = a[v, u, self.edge_class] = 1.0
        return a

    @property
    def degree(self) -> Int[np.ndarray, " n"]:
        """Node degrees."""
        return np.bincount(self.edges.ravel(), minlength=self.n)

    @property
    def neighbours(self) -> list[list[int]]:
        """Neighbour lists."""
        out: list[list[int]] = [[] for _ in range(self.n)]
        for u, v in self.edges.tolist():
            out[u].append(v)
            out[v].append(u)
        return out

    @property
    def connected(self) -> bool:
        """True when there is a path between any two nodes."""
        return nx.is_connected(self.to_networkx())

    def permute(self, order: Int[np.ndarray, " n"]) -> Graph:
        """The same graph with node ``order[i]`` of this graph at place ``i``."""
        order = np.asarray(order)
        if sorted(order.tolist()) != list(range(self.n)):
            raise ValueError(f"order: must be a permutation of 0..{self.n - 1}")
        place = np.argsort(order)
        y = self.y[order] if isinstance(self.y, np.ndarray) and self.y.ndim == 1 else self.y
        return Graph(self.x[order], place[self.edges].reshape(-1, 2), y, self.name, self.edge_class)

    def to_networkx(self) -> nx.Graph:
        """A networkx graph; node attribute ``x`` is the tuple of feature entries, graph attribute ``y`` the label, edge
        attribute ``edge_class`` the class where edges have one."""
        g = nx.Graph(y=self.y, name=self.name)
        g.add_nodes_from((i, {"x": tuple(row)}) for i, row in enumerate(self.x.tolist()))
        g.add_edges_from(self.edges.tolist())
        if self.edge_class is not None:
            classes = zip(self.edges.tolist(), self.edge_class.tolist(), strict=True)
            nx.set_edge_attributes(g, {(u, v): k for (u, v), k in classes}, "edge_class")
        return g

    @staticmethod
    def from_networkx(g: nx.Graph) -> Graph:
        """A Graph from networkx; every node needs an attribute ``x`` of equal length. Direction is dropped.

        Raises:
          ValueError: an attribute that is missing, or edge classes that differ between an edge's directions.
        """
        nodes = list(g.nodes)
        missing = [v for v in nodes if "x" not in g.nodes[v]]
        if missing:
            raise ValueError(f"x: networkx node {missing[0]!r} has no attribute 'x' (a tuple of feature entries)")
        if len({np.shape(g.nodes[v]["x"]) for v in nodes}) > 1:
            raise ValueError("x: networkx nodes have attributes 'x' of unequal length")
        place = {v: i for i, v in enumerate(nodes)}
        pairs: dict[tuple[int, int], int | None] = {}
        for u, v, data in g.edges(data=True):
            pair, along = (min(place[u], place[v]), max(place[u], place[v])), data.get("edge_class")
            if pairs.setdefault(pair, along) != along:
                raise ValueError(f"edge_class: the networkx edge {u!r}, {v!r} has two; an edge has one class")
        edges = np.array(list(pairs), np.int64).reshape(-1, 2)
        classed = [k is not None for k in pairs.values()]
        if any(classed) and not all(classed):
            raise ValueError("edge_class: some networkx edges have the attribute 'edge_class' and some have not")
        classes = np.array(list(pairs.values()), np.int64) if any(classed) else None
        x = np.array([g.nodes[v]["x"] for v in nodes])
        return Graph(x, edges, g.graph.get("y"), g.graph.get("name", ""), classes)

    def to_jraph(self, space: FeatureSpace) -> jraph.GraphsTuple:
        """A one-graph ``GraphsTuple``: encoded nodes, each edge in both directions, no self-loops; edges are one-hot
        rows of their classes where they have one."""
        senders = np.r_[self.edges[:, 0], self.edges[:, 1]]
        receivers = np.r_[self.edges[:, 1], self.edges[:, 0]]
        return jraph.GraphsTuple(
            nodes=space.encode(self.x),
            edges=_both_ways(self, space),
            senders=senders,
            receivers=receivers,
            n_node=np.array([self.n]),  # type: ignore[arg-type]  # jraph takes NumPy arrays too
            n_edge=np.array([senders.size]),  # type: ignore[arg-type]
            globals=None,
        )

    @staticmethod
    def from_jraph(graphs: jraph.GraphsTuple, space: FeatureSpace) -> list[Graph]:
        """Graphs of a ``GraphsTuple`` (encoded nodes are decoded); self-loops and edge direction are dropped.

        Raises:
          ValueError: edge features that are not one column a class, or that differ between an edge's directions.
        """
        out = []
        # Copies on the host: unbatch_np shifts the edge indices in place.
        for g in jraph.unbatch_np(jax.tree.map(np.array, graphs)):
            pairs = np.sort(np.c_[g.senders, g.receivers], axis=1)
            real = pairs[:, 0] != pairs[:, 1]
            pairs, first, which = np.unique(pairs[real], axis=0, return_index=True, return_inverse=True)
            classes = None
            if space.edge_classes and first.size:
                rows = np.empty((0, 0)) if g.edges is None else np.asarray(g.edges)
                if rows.ndim != 2 or rows.shape[1] != len(space.edge_classes):
                    raise ValueError(
                        f"edges: the feature space has {len(space.edge_classes)} edge classes, this GraphsTuple has no "
                        "edge features or others; give one column a class"
                    )
                both = rows.argmax(axis=1)[real]
                classes = both[first]
                if np.any(classes[which.ravel()] != both):
                    raise ValueError("edges: some edge has another class in the other direction; an edge has one class")
            x = space.decode(np.asarray(g.nodes))
            out.append(Graph(x, pairs.astype(np.int64).reshape(-1, 2), edge_class=classes))
        return out

    def canonical_form(self) -> tuple[bytes, bytes]:
        """Equal for two graphs exactly when they are isomorphic with equal features (labels ``y`` are ignored).

        Numbers count, not their type: codes of 32 bits and of 64 are the same.
        """
        x = np.asarray(self.x, np.float64) + 0.0  # no -0
        rows = [tuple(row) for row in x.tolist()]  # `np.unique` of rows takes three times as long
        colour = {row: k for k, row in enumerate(sorted(set(rows)))}
        plain, shown = coloured(self.n, self.edges, np.array([colour[row] for row in rows]), self.edge_class)
        plain.vs["node"] = range(plain.vcount())
        canonical = plain.permute_vertices(plain.canonical_permutation(color=shown.tolist()))
        order = np.array([v for v in canonical.vs["node"] if v < self.n])
        whole = self.permute(order)
        classes = () if whole.edge_class is None else (whole.edge_class,)
        return x[order].tobytes(), np.column_stack([whole.edges, *classes]).tobytes()

    def isomorphic(self, other: Graph) -> bool:
        """True when a relabelling of nodes makes features and edges of both graphs equal (labels ``y`` are ignored)."""
        if self.n != other.n or self.edges.shape != other.edges.shape or self.x.shape[1] != other.x.shape[1]:
            return False
        if sorted(map(tuple, self.x.tolist())) != sorted(map(tuple, other.x.tolist())):
            return False
        nodes = nx.algorithms.isomorphism.categorical_node_match("x", None)
        edges = nx.algorithms.isomorphism.categorical_edge_match("edge_class", None)
        return nx.is_isomorphic(self.to_networkx(), other.to_networkx(), node_match=nodes, edge_match=edges)


class DenseGraph(NamedTuple):
    """One graph as a model is shown it: encoded, padded, its edges possibly relaxed. Several have leading axes.

    Attributes:
      nodes: ``(N, m)`` features; those of padding nodes are zero.
      adjacency: ``(N, N)`` symmetric, zero diagonal, entries in [0, 1]; ``(N, N, K)`` for edges of ``K`` classes.
      mask: ``(N,)`` True for real nodes.
    """

    nodes: Float[Array | np.ndarray, "... N m"]
    adjacency: Float[Array | np.ndarray, "..."]
    mask: Bool[Array | np.ndarray, "... N"]


@pytree
@dataclasses.dataclass(frozen=True)
class GraphBatch:
    """A dense, padded batch: NumPy arrays until a jitted function takes them to the device.

    ``B`` graphs, ``N`` node slots (from ``BUCKETS``), ``m`` encoded columns. Dense because relaxed adjacencies must
    be differentiable. Padding nodes have zero features, no edges and mask 0.

    Attributes:
      nodes: ``(B, N, m)`` encoded features.
      adjacency: ``(B, N, N)`` symmetric, zero diagonal, entries in [0, 1]; ``(B, N, N, K)`` for edges of ``K`` classes,
        of which each edge has a 1 at its own.
      node_mask: ``(B, N)`` True for real nodes.
      labels: ``(B,)`` graph labels, ``(B, N)`` node labels, ``(B, T)`` labels of several tasks, or None.
    """

    nodes: Float[Array | np.ndarray, "B N m"]
    adjacency: Float[Array | np.ndarray, "B N N *K"]
    node_mask: Bool[Array | np.ndarray, "B N"]
    labels: Num[Array | np.ndarray, "B ..."] | None = None

    @property
    def size(self) -> int:
        """Number of graphs."""
        return self.nodes.shape[0]

    @property
    def dense(self) -> DenseGraph:
        """What a model is shown, without the labels."""
        return DenseGraph(self.nodes, self.adjacency, self.node_mask)

    @staticmethod
    def from_graphs(graphs: Sequence[Graph], space: FeatureSpace, *, slots: int | None = None) -> GraphBatch:
        """Pad host graphs to one batch; ``slots`` fixes ``N``, otherwise the smallest bucket that fits is taken.

        Raises:
          ValueError: no graph, one that is too large, or edge classes that are not those of ``space``.
        """
        if not graphs:
            raise ValueError("graphs: a batch needs at least one graph")
        largest = max(g.n for g in graphs)
        size = bucket(largest) if slots is None else slots
        if size < largest:
            raise ValueError(f"slots: {size} node slots cannot hold a graph of {largest} nodes")
        nodes = np.zeros((len(graphs), size, space.width), np.float32)
        classes = (len(space.edge_classes),) if space.edge_classes else ()
        adjacency = np.zeros((len(graphs), size, size, *classes), np.float32)
        mask = np.zeros((len(graphs), size), bool)
        for i, g in enumerate(graphs):
            nodes[i, : g.n], mask[i, : g.n] = space.encode(g.x), True
            space.check_edges(g.edge_class, g.edges.shape[0])
            by_class = g.by_class(len(space.edge_classes))
            adjacency[i, : g.n, : g.n] = g.adjacency if by_class is None else by_class
        return GraphBatch(nodes, adjacency, mask, _labels(graphs, size))


def coloured(
    n: int,
    edges: Int[np.ndarray, "e 2"],
    colours: Int[np.ndarray, " n"],
    edge_class: Int[np.ndarray, " e"] | None = None,
) -> tuple[igraph.Graph, Int[np.ndarray, " V"]]:
    """A graph whose isomorphisms keep node colours and edge classes, for BLISS, which knows colours of nodes alone.

    Every edge with a class gets a node in its middle, coloured by the class: behind the ``n`` nodes, in the order of
    the edges.

    Returns:
      The graph, and the colours of all its nodes (``V = n + e`` with classes).
    """
    if edge_class is None:
        return igraph.Graph(n=n, edges=edges.tolist()), colours
    middle = n + np.arange(edges.shape[0])
    halves = np.concatenate([np.c_[edges[:, 0], middle], np.c_[edges[:, 1], middle]])
    first = int(colours.max(initial=-1)) + 1
    return igraph.Graph(n=n + edges.shape[0], edges=halves.tolist()), np.r_[colours, first + edge_class]


def _both_ways(graph: Graph, space: FeatureSpace) -> Float[np.ndarray, "e2 K"] | None:
    """One-hot rows of the edges' classes, for both directions of every edge."""
    space.check_edges(graph.edge_class, graph.edges.shape[0])
    if graph.edge_class is None:
        return None
    return np.tile(np.eye(len(space.edge_classes), dtype=np.float32)[graph.edge_class], (2, 1))


def _checked_classes(classes: Any, edges: int) -> Int[np.ndarray, " e"]:
    found = np.asarray(classes)
    if found.size == 0:
        found = np.zeros(0, np.int64)
    if found.shape != (edges,) or not np.issubdtype(found.dtype, np.integer) or np.any(found < 0):
        raise ValueError(f"edge_class: expected a class from 0 for each of the {edges} edges, got {classes!r}")
    return found.astype(np.int64)


def _checked_label(y: Any, n: int) -> Any:
    labels = np.asarray(y)
    if not np.issubdtype(labels.dtype, np.number) and labels.dtype != bool:
        raise ValueError(f"y: expected a class, a number, node labels ({n},) or a row of tasks (1, T), got {y!r}")
    if labels.ndim == 2:
        return _checked_tasks(labels)
    if not np.all(np.isfinite(labels)):
        raise ValueError(
            "y: contains NaN or infinite entries; a label may be missing (NaN) only in a row of several tasks (1, T)"
        )
    if labels.ndim > 0 and labels.shape != (n,):
        raise ValueError(f"y: node labels must have shape ({n},), got {labels.shape}; several tasks are a row (1, T)")
    return labels if labels.ndim else labels.item()


def _checked_tasks(labels: Num[np.ndarray, "_ T"]) -> Float[np.ndarray, "1 T"]:
    if labels.shape[0] != 1 or labels.shape[1] == 0:
        raise ValueError(f"y: the labels of several tasks are one row (1, T) with T >= 1, got {labels.shape}")
    if np.any(np.isinf(labels)):
        raise ValueError("y: contains infinite entries; a missing label is NaN")
    return labels.astype(np.float64)


def _labels(graphs: Sequence[Graph], size: int) -> Any:
    ys: list[Any] = [g.y for g in graphs]
    if any(y is None for y in ys):
        return None
    if all(isinstance(y, np.ndarray) and y.ndim == 1 for y in ys):
        whole = all(y.dtype.kind in "biu" for y in ys)
        out = np.zeros((len(ys), size), np.int32 if whole else np.float32)
        for i, y in enumerate(ys):
            out[i, : np.size(y)] = y
        return out
    if all(isinstance(y, np.ndarray) and y.ndim == 2 for y in ys):
        tasks = sorted({y.shape[1] for y in ys})
        if len(tasks) > 1:
            raise ValueError(f"y: the graphs of the batch have different numbers of tasks, {tasks}")
        return np.concatenate(ys).astype(np.float32)
    if any(isinstance(y, np.ndarray) for y in ys):
        raise ValueError("y: the graphs of the batch have labels of different kinds: of graphs, of nodes, of tasks")
    if all(isinstance(y, (int, np.integer)) for y in ys):
        return np.array(ys, np.int32)
    return np.array(ys, np.float32)


def distinct(graphs: Iterable[Graph]) -> list[Graph]:
    """The graphs without those that are isomorphic to an earlier one with equal features (labels are ignored)."""
    seen: dict[tuple[bytes, bytes], Graph] = {}
    for graph in graphs:
        seen.setdefault(graph.canonical_form(), graph)
    return list(seen.values())


def bucket(n: int) -> int:
    """The smallest entry of ``BUCKETS`` that holds ``n`` nodes (multiples of 128 beyond the last)."""
    return next((size for size in BUCKETS if n <= size), -(-n // 128) * 128)
