"""A graph in words: nodes by the names and values of their features."""

from __future__ import annotations

from typing import Any

from jgleak.features import FeatureSpace
from jgleak.graph import Graph


def describe(graph: Graph, space: FeatureSpace) -> dict[str, Any]:
    """``nodes``: a dict of feature name to value each, binary features only where they are set; ``edges``; ``y``.

    Raises:
      ValueError: features outside ``space``.
    """
    space.check(graph.x)
    nodes = [
        {
            f.name: f.values[int(entry)] if f.values else float(entry)
            for f, entry in zip(space.features, row, strict=True)
            if f.kind != "binary" or entry
        }
        for row in graph.x
    ]
    return {"nodes": nodes, "edges": graph.edges.tolist(), "y": graph.y}
