"""Normalisation statistics over many graphs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from jgleak.features import FeatureSpace
from jgleak.graph import Graph

NODES = 2048
"""Nodes encoded at a time: enough to save the cost a call, few enough for wide schemas."""


def fit(space: FeatureSpace, graphs: Sequence[Graph]) -> FeatureSpace:
    """``space`` with column means and deviations over all nodes of ``graphs``; the same as ``space.fit``, faster."""
    return space.fit(_chunks(graphs))


def _chunks(graphs: Sequence[Graph]) -> Iterator[np.ndarray]:
    chunk, nodes = [], 0
    for g in graphs:
        if chunk and nodes + g.n > NODES:
            yield np.concatenate(chunk)
            chunk, nodes = [], 0
        chunk.append(g.x)
        nodes += g.n
    if chunk:
        yield np.concatenate(chunk)
