"""A small client, and models of few columns."""

from __future__ import annotations

import dataclasses
from typing import Any

import jax
import numpy as np
import optax
import pytest

from jgleak.exposure.clients import Clients
from jgleak.exposure.deployment import Deployment
from jgleak.features import FeatureSpace, onehot
from jgleak.federated import LocalTraining, Observation, fedsgd
from jgleak.gnn import GNN, MLP, GCNConv, Layer, Pooled
from jgleak.graph import Graph

SPACE = FeatureSpace((onehot("colour", "abcde"), onehot("degree", range(5))), degree="degree")
WIDTH, STEPS = 32, 3


def path(colours: str, y: int = 1) -> Graph:
    """A path of nodes of these colours, which state their degrees."""
    n = len(colours)
    edges = np.array([(v, v + 1) for v in range(n - 1)])
    degrees = np.bincount(edges.ravel(), minlength=n)
    return Graph(np.stack([["abcde".index(c) for c in colours], degrees], axis=1).astype(np.int32), edges, y)


GRAPHS = path("abca"), path("bbda", 0)
"""Colour e does not occur, nor do degrees 0, 3 and 4."""


def pooled(space: FeatureSpace = SPACE, pooling: str = "mean", **fields: Any) -> GNN:
    """Two GCN layers and a head."""
    layer = Layer(GCNConv(WIDTH, bias=True))
    return GNN(space.width, (layer, layer), Pooled(pooling, MLP((16, 2))), **fields)


def sent(deployment: Deployment, count: int = 1) -> Observation:
    """The update of a real client of the deployment, on the first of ``GRAPHS``, in one gradient."""
    model, clients, key = deployment.model, deployment.clients, jax.random.key(0)
    fields: dict[str, Any] = {"loss": deployment.loss, "defense": clients.protection, "key": key}
    return fedsgd(model, deployment.params, GRAPHS[:count], deployment.space, **fields)


def trained(deployment: Deployment, optimiser: Any, rate: float, count: int = 1) -> Observation:
    """What a server makes of weights that came back after some steps of an optimiser, dropout and all."""
    model, params = deployment.model, deployment.params
    state, seen = optimiser.init(params), sent(deployment, count)
    for step in range(STEPS):
        key = jax.random.key(step)
        gradient = fedsgd(model, params, GRAPHS[:count], deployment.space, loss=deployment.loss, key=key).update
        change, state = optimiser.update(gradient, state, params)
        params = jax.device_get(optax.apply_updates(params, change))
    length = np.float32(rate * STEPS)
    update = jax.tree.map(lambda a, b: (np.asarray(a) - b) / length, deployment.params, params)
    return dataclasses.replace(seen, update=update, protocol="fedavg", local=LocalTraining(rate, STEPS))


def adam(count: int = 1, **fields: Any) -> Clients:
    """Clients of three steps of Adam."""
    return Clients(batch_size=count, local=LocalTraining(1e-3, STEPS, optimiser="adam", **fields))


@pytest.fixture(scope="session")
def occurring() -> dict[str, set[Any]]:
    """The values of all of ``GRAPHS``."""
    rows = np.concatenate([graph.x for graph in GRAPHS])
    return {f.name: {f.values[code] for code in rows[:, column]} for column, f in enumerate(SPACE.features)}
