"""Every small connected graph of a schema with its whole gradient in float64: what the census must agree with."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from itertools import product
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import networkx as nx
import numpy as np
from jaxtyping import Array, Bool, Float
from networkx.generators.atlas import graph_atlas_g
from threadpoolctl import threadpool_limits

from jgleak.features import FeatureSpace
from jgleak.federated.loss import graph_loss
from jgleak.gnn import GNN, Params
from jgleak.graph import DenseGraph, Graph, GraphBatch

MATCH = 1e-4
"""The census's relative gradient distance that counts as zero."""

NEAR, SKETCH = 0.01, 16
"""Gradients this close in so many random projections are compared whole. Equal ones have equal projections, so none is
missed; a projection does not shorten a distance ten times, so the others differ by more than ``NEAR / 10``."""

BATCH, SLOTS = 16, 8
"""Graphs differentiated at once, and the nodes they are padded to: one compiled function for all sizes."""


def small_graphs(n: int, space: FeatureSpace) -> list[Graph]:
    """Every connected graph of ``n <= 7`` nodes over ``(kind, degree)`` once, from the atlas of all small graphs."""
    kinds = len(space.features[0].values)
    forms: dict[Any, Graph] = {}
    for plain in graph_atlas_g():
        if plain.number_of_nodes() == n and nx.is_connected(plain):
            degrees = [plain.degree[v] for v in range(n)]
            edges = np.array(plain.edges, np.int64).reshape(-1, 2)
            for colours in product(range(kinds), repeat=n):
                graph = Graph(np.column_stack([colours, degrees]).astype(np.int32), edges)
                forms.setdefault(graph.canonical_form(), graph)
    return list(forms.values())


class Explained(NamedTuple):
    """The graphs with one gradient, how far the farthest of them is from it, and a bound on how far all others are."""

    places: tuple[int, ...]
    within: float
    beyond: float


class Population:
    """Graphs of ``n`` nodes, and which of them share a gradient under fixed weights, the label unknown.

    Attributes:
      graphs: the graphs ``G``.
      sketches: random projections of every graph's gradient under every label ``(G, C, S)``.
      live: share of the first convolution's units that are on for some node of some graph.
    """

    def __init__(self, model: GNN, params: Params, space: FeatureSpace, graphs: Sequence[Graph]) -> None:
        self.model, self.params, self.space, self.graphs = model, params, space, tuple(graphs)
        size = sum(int(np.size(leaf)) for leaf in jax.tree.leaves(params))
        projection = np.random.default_rng(0).normal(size=(size, SKETCH)) / np.sqrt(SKETCH)
        sketches, on = [], []
        with threadpool_limits(1, "blas"):
            for gradients, active in self._batches(self.graphs):
                sketches.append((gradients.reshape(-1, size) @ projection).reshape(*gradients.shape[:2], SKETCH))
                on.append(active)
        self.sketches: Float[np.ndarray, "G C S"] = np.concatenate(sketches)
        self.live = float(np.concatenate(on).any(axis=0).mean())

    def shared(self, label: int) -> list[int]:
        """Graphs that have another one's gradient, by the sketches."""
        rows = self.sketches[:, label]
        order = np.argsort(rows[:, 0])
        close = np.linalg.norm(np.diff(rows[order], axis=0), axis=1) <= MATCH * np.linalg.norm(rows[order[1:]], axis=1)
        return sorted({*order[1:][close].tolist(), *order[:-1][close].tolist()})

    def explaining(self, place: int, label: int) -> Explained:
        """The graphs whose gradient, under some label, is that of the graph at ``place`` under ``label``."""
        target = self.sketches[place, label]
        far = np.linalg.norm(self.sketches - target, axis=-1).min(axis=1) / np.linalg.norm(target)
        near = np.flatnonzero(far <= NEAR)
        if near.size == 1:
            return Explained((place,), 0.0, NEAR / 10)
        whole = np.concatenate([gradients for gradients, _ in self._batches([self.graphs[i] for i in near])])
        target = whole[near.tolist().index(place), label]
        distances = np.linalg.norm(whole - target, axis=-1).min(axis=1) / np.linalg.norm(target)
        equal = distances <= MATCH
        beyond = float(np.min(distances[~equal], initial=NEAR / 10))
        return Explained(tuple(near[equal].tolist()), float(distances[equal].max()), beyond)

    def _batches(self, graphs: Sequence[Graph]) -> Iterator[tuple[Float[np.ndarray, "b C P"], Bool[np.ndarray, "b D"]]]:
        """Whole gradients, and which units of the first convolution are on for some node."""
        for start in range(0, len(graphs), BATCH):
            part = graphs[start : start + BATCH]
            batch = GraphBatch.from_graphs([*part, *[part[-1]] * (BATCH - len(part))], self.space, slots=SLOTS)
            with jax.enable_x64(True):
                arrays = (self.params, batch.nodes, batch.adjacency)
                double = jax.tree.map(lambda leaf: jnp.asarray(leaf, jnp.float64), arrays)
                gradients, active = _gradients(self.model, *double, batch.node_mask)
            yield np.asarray(gradients)[: len(part)], np.asarray(active)[: len(part)]


@partial(jax.jit, static_argnames="model")
def _gradients(
    model: GNN,
    params: Params,
    nodes: Float[Array, "B N m"],
    adjacency: Float[Array, "B N N"],
    masks: Bool[Array, "B N"],
) -> tuple[Float[Array, "B C P"], Bool[Array, "B D"]]:
    def one(rows: Array, edges: Array, mask: Array) -> tuple[Array, Array]:
        def loss(weights: Params, label: Array) -> Array:
            return graph_loss(model, weights, DenseGraph(rows, edges, mask), label, "bce")

        trees = jax.vmap(jax.grad(loss), in_axes=(None, 0))(params, jnp.arange(model.outputs))
        flat = jnp.concatenate([leaf.reshape(model.outputs, -1) for leaf in jax.tree.leaves(trees)], axis=1)
        first: Any = model.apply({"params": params}, rows, edges, mask, method="states")
        return flat, (first[1] > 0).any(axis=0)

    return jax.lax.map(lambda graph: one(*graph), (nodes, adjacency, masks))
