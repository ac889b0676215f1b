"""Clients of a federation that is not jgleak's: a GIN with batch normalisation in training mode, written in JAX by edge
lists and trained by plain gradient descent, in arrays called as PyTorch Geometric calls them."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jgleak.features import FeatureSpace
from jgleak.graph import Graph
from jgleak.interop import GIN, BatchNorm, Linear, edge_arrays
from jgleak.interop.layers import Step

INSIDE = [Linear("nn.0"), BatchNorm("nn.1", training=True, momentum=0.1), "relu", Linear("nn.3")]
LAYERS: list[Step] = [GIN("conv1", inside=INSIDE), "relu", GIN("conv2", inside=INSIDE), "relu", "mean", Linear("out")]
"""The forward pass of ``logits``."""

Weights = dict[str, Any]


def initial(space: FeatureSpace, width: int, seed: int = 0) -> Weights:
    """Random weights, and buffers as a client would find them after some rounds."""
    rng = np.random.default_rng(seed)
    found: Weights = {}
    for conv, entering in (("conv1", space.width), ("conv2", width)):
        for name, columns in ((f"{conv}.nn.0", entering), (f"{conv}.nn.3", width)):
            found[f"{name}.weight"] = rng.normal(size=(width, columns)) / np.sqrt(columns)
            found[f"{name}.bias"] = rng.normal(size=width) / 10
        found[f"{conv}.nn.1.weight"] = rng.uniform(0.5, 1.5, width)
        found[f"{conv}.nn.1.bias"] = rng.normal(size=width) / 10
        found[f"{conv}.nn.1.running_mean"] = rng.normal(size=width)
        found[f"{conv}.nn.1.running_var"] = rng.uniform(0.5, 1.5, width)
        found[f"{conv}.nn.1.num_batches_tracked"] = np.asarray(7)
    found |= {"out.weight": rng.normal(size=(1, width)) / np.sqrt(width), "out.bias": np.zeros(1)}
    return {name: a if a.dtype.kind == "i" else a.astype(np.float32) for name, a in found.items()}


@partial(jax.jit, static_argnames="graphs")
def logits(weights: Weights, x: Any, edges: Any, batch: Any, graphs: int) -> tuple[jax.Array, Weights]:
    """One output a graph, and the batch's mean and unbiased variance at every norm."""
    states, statistics = jnp.asarray(x), {}
    for conv in ("conv1", "conv2"):
        mixed = states.at[edges[1]].add(states[edges[0]])
        rows = mixed @ weights[f"{conv}.nn.0.weight"].T + weights[f"{conv}.nn.0.bias"]
        mean, variance = rows.mean(axis=0), rows.var(axis=0)
        statistics[f"{conv}.nn.1.running_mean"] = mean
        statistics[f"{conv}.nn.1.running_var"] = variance * len(x) / (len(x) - 1)
        rows = (rows - mean) / jnp.sqrt(variance + 1e-5) * weights[f"{conv}.nn.1.weight"] + weights[f"{conv}.nn.1.bias"]
        rows = jax.nn.relu(rows) @ weights[f"{conv}.nn.3.weight"].T + weights[f"{conv}.nn.3.bias"]
        states = jax.nn.relu(rows)
    sums = jax.ops.segment_sum(states, batch, graphs)
    pooled = sums / jax.ops.segment_sum(jnp.ones(len(x)), batch, graphs)[:, None]
    return (pooled @ weights["out.weight"].T + weights["out.bias"])[:, 0], statistics


def joined(graphs: Sequence[Graph], space: FeatureSpace) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Rows, edge list, the graph of every node, and labels of a mini-batch."""
    pairs = [edge_arrays(graph, space) for graph in graphs]
    starts = np.cumsum([0, *(len(x) for x, _ in pairs)])
    edges = np.concatenate([e + start for (_, e), start in zip(pairs, starts, strict=False)], axis=1)
    batch = np.repeat(np.arange(len(graphs)), [len(x) for x, _ in pairs])
    labels = np.array([float(np.asarray(graph.y)) for graph in graphs], np.float32)
    return np.concatenate([x for x, _ in pairs]), edges, batch, labels


def step(weights: Weights, graphs: Sequence[Graph], space: FeatureSpace, rate: float) -> Weights:
    """Weights and buffers after one step on a mini-batch, as PyTorch's."""
    x, edges, batch, y = joined(graphs, space)
    still = {name: a for name, a in weights.items() if "running" in name or a.dtype.kind == "i"}
    trained = {name: a for name, a in weights.items() if name not in still}
    slopes, statistics = jax.tree.map(np.asarray, _slopes(trained, x, edges, batch, y))
    moved = {name: np.asarray(a - np.float32(rate) * slopes[name]) for name, a in trained.items()}
    for name, a in still.items():
        counts = a.dtype.kind == "i"
        moved[name] = a + 1 if counts else np.asarray(0.9 * a + 0.1 * statistics[name], np.float32)
    return moved


@jax.jit
def _slopes(trained: Weights, x: Any, edges: Any, batch: Any, y: Any) -> tuple[Weights, Weights]:
    def loss(trained: Weights) -> tuple[jax.Array, Weights]:
        z, statistics = logits(trained, x, edges, batch, len(y))
        return jnp.mean(jax.nn.softplus(z) - y * z), statistics

    return jax.grad(loss, has_aux=True)(trained)


def trained(
    weights: Weights, graphs: Sequence[Graph], space: FeatureSpace, *, rate: float, loader: int, epochs: int
) -> Weights:
    """What a client returns after passes over its graphs."""
    for _ in range(epochs):
        for start in range(0, len(graphs), loader):
            weights = step(weights, graphs[start : start + loader], space, rate)
    return weights
