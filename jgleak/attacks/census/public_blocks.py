"""The blocks of public graphs, which are counted first where the gradient hardly distinguishes blocks."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np

from jgleak.attacks.census.neighbourhood_prior import row_names
from jgleak.attacks.span.hops import Neighbours, Nodes
from jgleak.graph import Graph

CONDITION = "every node has the neighbours of some node of a public graph"


def beside(nodes: Nodes, graphs: Sequence[Graph]) -> Nodes:
    """The same nodes with a list of the neighbourhoods that occur in ``graphs``; no others are tried."""
    pairs = zip(row_names(nodes.codes), nodes.degrees.tolist(), strict=True)
    kinds = {pair: kind for kind, pair in enumerate(pairs)}
    seen: set[tuple[int, Neighbours]] = set()
    for graph in graphs:
        own = [kinds.get(pair, -1) for pair in zip(row_names(graph.x), graph.degree.tolist(), strict=True)]
        around: list[list[int]] = [[] for _ in own]
        classes = np.zeros(len(graph.edges), int) if graph.edge_class is None else graph.edge_class
        for (u, v), k in zip(graph.edges.tolist(), classes.tolist(), strict=True):
            around[u].append(nodes.classes * own[v] + k)
            around[v].append(nodes.classes * own[u] + k)
        for kind, neighbours in zip(own, around, strict=True):
            if all(entry >= 0 for entry in (kind, *neighbours)):
                seen.add((kind, tuple(sorted(neighbours))))
    return dataclasses.replace(nodes, listed=tuple(sorted(seen)))
