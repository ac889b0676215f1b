"""Graphs and feature spaces that the metric tests share."""

from __future__ import annotations

import networkx as nx
import numpy as np
from hypothesis import strategies as st

from jgleak.features import FeatureSpace, binary, onehot, real
from jgleak.graph import Graph

SPACE = FeatureSpace((onehot("colour", (3, 5, 9)), binary("flag")))
"""Two discrete features, four columns, no statistics."""

REAL = FeatureSpace((real("height"), real("weight")))
"""Two real-valued features."""


def path(*colours: int) -> Graph:
    """A path whose nodes have the given colours and flag 0."""
    edges = np.array([(i, i + 1) for i in range(len(colours) - 1)], int).reshape(-1, 2)
    return Graph(np.array([(c, 0) for c in colours]), edges)


def plain(g: nx.Graph) -> Graph:
    """A networkx graph with nodes 0..n-1, all of colour 0 and flag 0."""
    return Graph(np.zeros((len(g), 2), int), np.array(g.edges, int).reshape(-1, 2))


@st.composite
def graphs(draw: st.DrawFn, largest: int = 9) -> Graph:
    """Any small graph in ``SPACE``; few colours, so that symmetric nodes are common."""
    n = draw(st.integers(1, largest))
    x = draw(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 1)), min_size=n, max_size=n))
    pairs = [(i, j) for i in range(n) for j in range(i + 1, n)]
    edges = draw(st.lists(st.sampled_from(pairs), unique=True)) if pairs else []
    return Graph(np.array(x), np.array(edges, int).reshape(-1, 2))


@st.composite
def permuted(draw: st.DrawFn, largest: int = 9) -> tuple[Graph, Graph]:
    """A graph and the same graph with its nodes in another order."""
    graph = draw(graphs(largest))
    return graph, graph.permute(np.array(draw(st.permutations(range(graph.n)))))
