"""The blocks of public graphs: what to count first where the gradient hardly tells one block from another."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from jgleak.attacks.census.neighbourhood_prior import row_names
from jgleak.attacks.span.hops import Neighbours, Nodes
from jgleak.graph import Graph

CONDITION = "every node has the neighbours of some node of a public graph"


def beside(nodes: Nodes, graphs: Sequence[Graph]) -> Nodes:
    """The same nodes, with the neighbourhoods listed that some node of ``graphs`` has: no others are looked at."""
    pairs = zip(row_names(nodes.codes), nodes.degrees.tolist(), strict=True)
    kinds = {pair: kind for kind, pair in enumerate(pairs)}
    seen: set[tuple[int, Neighbours]] = set()
    for graph in graphs:
        own = [kinds.get(pair, -1) for pair in zip(row_names(graph.x), graph.degree.tolist(), strict=True)]
        for kind, neighbours in zip(own, graph.neighbours, strict=True):
            around = tuple(sorted(own[u] for u in neighbours))
            if all(entry >= 0 for entry in (kind, *around)):
                seen.add((kind, around))
    return dataclasses.replace(nodes, listed=tuple(sorted(seen)))
