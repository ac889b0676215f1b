"""Fingerprints of data: whether they are still what they were."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Iterable

import numpy as np

from jgleak.features import FeatureSpace
from jgleak.graph import Graph

DIGITS = 9
"""Of the public statistics: sums of floats may differ in their last digits from machine to machine."""


def digest(space: FeatureSpace, *parts: Iterable[Graph]) -> str:
    """SHA-256 of the feature space with its statistics, and of all graphs' features, edges, edge classes and labels.

    Everything counts but names, which nothing is computed from, and integer types; it is the same on every machine.

    Args:
      space: of all graphs.
      parts: kinds of graphs, as the clients' and the public ones; the order of kinds, graphs and nodes counts.
    """
    statistics = [None if v is None else [f"{x:.{DIGITS}g}" for x in v.tolist()] for v in (space.mean, space.std)]
    schema = [dataclasses.asdict(feature) for feature in space.features]
    edges = [list(space.edge_classes)] if space.edge_classes else []  # digests of spaces without stay what they were
    total = hashlib.sha256(json.dumps([schema, space.degree, statistics, *edges], sort_keys=True).encode())
    for part in parts:
        total.update(b"part")
        for graph in part:
            classes = () if graph.edge_class is None else (graph.edge_class,)
            for values in (graph.x, graph.edges, np.asarray(graph.y), *classes):
                kind = "<i8" if np.issubdtype(values.dtype, np.integer) else "<f8"
                total.update(f"{kind}{values.shape}".encode())
                total.update(np.ascontiguousarray(values, dtype=kind).data)
    return total.hexdigest()
