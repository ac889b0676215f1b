"""A graph in words, nodes by the names and values of their features; and a model in a line."""

from __future__ import annotations

from typing import Any

from jgleak.features import FeatureSpace
from jgleak.gnn import GNN
from jgleak.graph import Graph


def describe(graph: Graph, space: FeatureSpace) -> dict[str, Any]:
    """``nodes``: a dict of feature name to value each, binary features only where they are set; ``edges``; ``y``.

    Where edges have classes, ``edge_classes`` names that of every edge.

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


def model_words(model: GNN) -> str:
    """The parts of a model by the names of their classes, with widths."""
    norms = {type(layer.norm).__name__ for layer in model.layers if layer.norm is not None}
    words = [
        " and ".join(dict.fromkeys(f"{type(layer.conv).__name__} {layer.features}" for layer in model.layers)),
        f"{model.depth} layer{'s' * (model.depth > 1)}",
        " and ".join(dict.fromkeys(layer.act for layer in model.layers)),
        *sorted(norms),
        f"readout {type(model.readout).__name__}",
        f"{model.in_features} columns in, {model.outputs} out",
    ]
    encoder = type(model.encoder).__name__ if model.encoder.taps else ""
    return ", ".join(word for word in (encoder, *words) if word)
