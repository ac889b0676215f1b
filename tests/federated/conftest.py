"""A small schema, random graphs in it, and random parameters without compiling an initialiser."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
import pytest
from models import flat

from jgleak.features import FeatureSpace, binary, onehot
from jgleak.federated.observation import Observation
from jgleak.gnn import GNN
from jgleak.graph import Graph


class World:
    """What the tests of this folder share."""

    space = FeatureSpace(
        (onehot("colour", ("red", "green", "blue")), binary("ring"), onehot("degree", range(9))), degree="degree"
    )

    def graph(self, n: int, seed: int, *, node_labels: bool = False, classes: int = 2) -> Graph:
        rng = np.random.default_rng([n, seed])
        edges = np.argwhere(np.triu(rng.random((n, n)) < 0.4, 1))
        x = np.c_[rng.integers(3, size=n), rng.integers(2, size=n), np.bincount(edges.ravel(), minlength=n)]
        return Graph(x, edges, rng.integers(classes, size=n) if node_labels else int(rng.integers(classes)))

    def fitted(self) -> FeatureSpace:
        return self.space.fit([self.graph(8, seed).x for seed in range(20)])

    def model(self, **fields: Any) -> GNN:
        return flat(**({"in_features": self.space.width, "hidden": 4, "readout_widths": (5, 3)} | fields))

    def params(self, model: GNN, seed: int = 0) -> Any:
        shapes = jax.eval_shape(lambda: model.initial(key=jax.random.key(0)))
        rng = np.random.default_rng(seed)
        return jax.tree.map(lambda s: rng.normal(scale=0.5, size=s.shape).astype(np.float32), shapes)

    def observation(self, **fields: Any) -> Observation:
        """Random parameters and a random update: nothing is compiled."""
        model = self.model()
        return Observation(
            **(
                {"model": model, "params": self.params(model, 1), "update": self.params(model, 2), "loss": "bce"}
                | fields
            )
        )


@pytest.fixture(scope="session")
def world() -> World:
    return World()
