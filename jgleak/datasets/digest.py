"""Fingerprints of graphs: whether data are still what they were."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

import numpy as np

from jgleak.graph import Graph


def digest(graphs: Iterable[Graph]) -> str:
    """SHA-256 of features, edges and labels, in the order of the graphs and of their nodes; the same on every machine.

    Names are left out: nothing that is computed follows from them.
    """
    total = hashlib.sha256()
    for graph in graphs:
        for part in (graph.x, graph.edges, np.asarray(graph.y)):
            whole = np.issubdtype(part.dtype, np.integer)
            values = np.ascontiguousarray(part, dtype="<i8" if whole else "<f8")
            total.update(f"{values.dtype.str}{values.shape}".encode())
            total.update(values.data)
    return total.hexdigest()
