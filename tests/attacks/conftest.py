"""Small coloured graphs, quick parameters, and the observation of one client."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from models import flat, some_params

from jgleak.features import Feature, FeatureSpace, onehot
from jgleak.federated import Observation, fedsgd
from jgleak.gnn import GNN
from jgleak.graph import Graph

COLOURS = 4


class Lab:
    """Graphs whose nodes have a colour (a weight follows from it) and state their degree."""

    bare = FeatureSpace(
        (
            onehot("colour", range(COLOURS)),
            onehot("degree", range(6)),
            Feature("weight", (1, 2, 3), "onehot", "colour", (0, 1, 2, 2)),
        ),
        degree="degree",
    )

    def __init__(self) -> None:
        rng = np.random.default_rng(0)
        degrees = rng.choice(6, 400, p=[0.05, 0.35, 0.3, 0.2, 0.07, 0.03])
        colours = rng.choice(COLOURS, 400, p=[0.5, 0.3, 0.15, 0.05])
        self.space = self.bare.fit([self.nodes(colours, degrees)])
        self._params: dict[GNN, Any] = {}

    def nodes(self, colours: Any, degrees: Any) -> np.ndarray:
        """Feature codes of nodes."""
        colours = np.asarray(colours)
        return np.stack([colours, np.asarray(degrees), np.minimum(colours, 2)], axis=1).astype(np.int32)

    def graph(self, colours: Sequence[int], edges: Any, y: Any = 1) -> Graph:
        """A graph of coloured nodes."""
        edges = np.asarray(edges, np.int64).reshape(-1, 2)
        return Graph(self.nodes(colours, np.bincount(edges.ravel(), minlength=len(colours))), edges, y)

    def ring(self, colours: Sequence[int], y: Any = 1) -> Graph:
        """A cycle."""
        n = len(colours)
        return self.graph(colours, [(i, (i + 1) % n) for i in range(n)], y)

    def path(self, colours: Sequence[int], y: Any = 1) -> Graph:
        """A path."""
        return self.graph(colours, [(i, i + 1) for i in range(len(colours) - 1)], y)

    def random(self, n: int, seed: int, extra: int = 1) -> Graph:
        """A random connected graph: a tree of small degrees and a few more edges."""
        rng = np.random.default_rng(seed)
        degree, edges = np.zeros(n, int), set()
        for v in range(1, n):
            u = int(rng.choice(np.flatnonzero(degree[:v] < 3)))
            edges.add((u, v))
            degree[[u, v]] += 1
        for _ in range(extra):
            u, v = sorted(rng.choice(n, 2, replace=False).tolist())
            if (u, v) not in edges and max(degree[u], degree[v]) < 4:
                edges.add((u, v))
                degree[[u, v]] += 1
        return self.graph(rng.integers(COLOURS, size=n).tolist(), sorted(edges), int(rng.integers(2)))

    def model(self, **fields: Any) -> GNN:
        """GRAIN's architecture, narrower."""
        return flat(**({"in_features": self.space.width, "hidden": 128, "readout_widths": (64, 16)} | fields))

    def params(self, model: GNN) -> Any:
        """The same ones for all tests."""
        if model not in self._params:
            self._params[model] = some_params(model)
        return self._params[model]

    def observe(self, model: GNN, graph: Graph, loss: str = "bce", space: FeatureSpace | None = None) -> Observation:
        """What the server sees of one client."""
        return fedsgd(model, self.params(model), [graph], space or self.space, loss=loss)


@pytest.fixture(scope="session")
def lab() -> Lab:
    return Lab()
