"""GRAIN's Figure 3: which nodes' rows the span of a gradient holds, by Theorem 5.1 and Corollary 5.2."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Float

from benchmarks.lib.records import Record
from jgleak.audit.setup import Setup
from jgleak.federated.factors import factored_gradients
from jgleak.gnn import GNN
from jgleak.graph import DenseGraph, Graph, GraphBatch

ZERO = 1e-9
"""Relative singular values, and entries of null vectors, that count as zero in float64."""


def independent(matrix: Float[np.ndarray, "n d"]) -> Bool[np.ndarray, " n"]:
    """Which rows are no combination of the others: those where every null vector from the left is zero."""
    left, values, _ = np.linalg.svd(matrix, full_matrices=True)
    rank = int(np.sum(values > ZERO * values.max(initial=0.0)))
    return np.linalg.norm(left[:, rank:], axis=1) < np.sqrt(ZERO)


def slopes(setup: Setup, graph: Graph) -> list[Float[np.ndarray, "n D"]]:
    """Of every convolution ``dL/dY``, the derivatives by what its kernel makes of each node's row, in float64."""
    batch = GraphBatch.from_graphs([graph], setup.dataset.space)
    label: Any = graph.y
    labels = np.eye(setup.model.outputs)[[int(label)]]
    with jax.enable_x64(True):
        params = jax.tree.map(lambda leaf: jnp.asarray(leaf, jnp.float64), setup.params)
        dense = jax.tree.map(lambda leaf: jnp.asarray(leaf, None if leaf.dtype == bool else jnp.float64), batch.dense)
        found = _slopes(setup.model, setup.loss, params, dense, jnp.asarray(labels))
        return [np.asarray(layer)[: graph.n] for layer in found]


@partial(jax.jit, static_argnames=("model", "loss"))
def _slopes(model: GNN, loss: str, params: Any, dense: DenseGraph, labels: jax.Array) -> list[jax.Array]:
    mask = jnp.asarray(dense.mask)
    shares = mask[None].astype(labels.dtype) / mask.sum()
    found: Any = factored_gradients(model, params, dense, labels, loss, shares)
    return [found[f"layers_{layer}"]["conv"]["kernel"].slopes[0] for layer in range(len(model.layers))]


def of_models(setup: Setup, about: Record) -> Record:
    """Figure 3a: every client's number of nodes, and of those that each convolution's span holds."""
    held = [[int(independent(layer).sum()) for layer in slopes(setup, graph)] for graph in setup.dataset.graphs]
    return about | {"nodes": [graph.n for graph in setup.dataset.graphs], "held": held}


def of_graphs(graphs: Sequence[Graph], about: Record) -> Record:
    """Figure 3b: by number of nodes, how often ``A + I`` has full rank and the share of rows that are independent."""
    return about | _by_size((graph.n, independent(graph.adjacency + np.eye(graph.n))) for graph in graphs)


def of_chance(probability: float, sizes: Sequence[int], times: int, about: Record) -> Record:
    """The same of random symmetric matrices, every two nodes joined with this probability."""
    rng = np.random.default_rng(0)

    def drawn() -> Iterator[tuple[int, Bool[np.ndarray, " n"]]]:
        for n in sizes:
            for _ in range(times):
                upper = np.triu(rng.random((n, n)) < probability, k=1).astype(float)
                yield n, independent(upper + upper.T + np.eye(n))

    return about | _by_size(drawn())


def _by_size(found: Any) -> Record:
    by: dict[int, list[float]] = {}
    for n, rows in found:
        by.setdefault(n, []).append(float(rows.mean()))
    sizes = sorted(by)
    return {
        "nodes": sizes,
        "graphs": [len(by[n]) for n in sizes],
        "full": [float(np.mean(np.array(by[n]) == 1.0)) for n in sizes],
        "held": [float(np.mean(by[n])) for n in sizes],
    }
