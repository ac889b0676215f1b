"""Small coloured graphs, quick parameters, and the observation of one client."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import numpy as np
import pytest
from models import flat

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
        """Uniform weights of the usual size, without compiling an initialiser."""
        if model not in self._params:
            shapes = jax.eval_shape(lambda: model.initial(key=jax.random.key(0)))
            rng = np.random.default_rng(1)
            self._params[model] = jax.tree_util.tree_map_with_path(lambda path, s: _drawn(rng, path, s.shape), shapes)
        return self._params[model]

    def observe(self, model: GNN, graph: Graph, loss: str = "bce", space: FeatureSpace | None = None) -> Observation:
        """What the server sees of one client."""
        return fedsgd(model, self.params(model), [graph], space or self.space, loss=loss)


def _drawn(rng: np.random.Generator, path: tuple[Any, ...], shape: tuple[int, ...]) -> np.ndarray:
    offset = np.float32(path[-1].key in ("variance", "scale"))  # of norms
    return _uniform(rng, shape) + offset


def _uniform(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    bound = np.sqrt(6.0 / sum(shape)) if len(shape) == 2 else 0.1
    return rng.uniform(-bound, bound, shape).astype(np.float32)


@pytest.fixture(scope="session")
def lab() -> Lab:
    return Lab()
