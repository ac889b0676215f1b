"""A graph in words, nodes by the names and values of their features."""

from __future__ import annotations

from typing import Any

from jgleak.features import FeatureSpace
from jgleak.graph import Graph


def describe(graph: Graph, space: FeatureSpace) -> dict[str, Any]:
    """``nodes``: a dict of feature name to value each, binary features only where they are set; ``edges``; ``y``.

    Where edges have classes, ``edge_classes`` names the class of every edge.

    Raises:
      ValueError: features or edge classes outside ``space``.
    """
    space.check(graph.x)
    space.check_edges(graph.edge_class, len(graph.edges))
    nodes = [
        {
            f.name: f.values[int(entry)] if f.values else float(entry)
            for f, entry in zip(space.features, row, strict=True)
            if f.kind != "binary" or entry
        }
        for row in graph.x
    ]
    named = None if graph.edge_class is None else [space.edge_classes[k] for k in graph.edge_class.tolist()]
    along = {} if named is None else {"edge_classes": named}
    return {"nodes": nodes, "edges": graph.edges.tolist(), **along, "y": graph.y}
