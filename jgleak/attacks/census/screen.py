"""Which of many small graphs have the observed gradient: whole gradients are compared, whatever the label."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from jgleak.attacks.attack import Clock
from jgleak.attacks.census.assemble import ExplainingGraph
from jgleak.attacks.census.problem import CensusProblem
from jgleak.attacks.distance import gradient_distances
from jgleak.attacks.turned_units import TURNED
from jgleak.gnn import GNN, Params
from jgleak.graph import DenseGraph, Graph, GraphBatch

TOGETHER, BESIDE = 64, 16
"""Graphs of one compiled call, and how many of them are differentiated at once."""

ROOM = 3.0
"""The gradient at the outputs comes from the update with its rounding, so this multiple of the largest distance
passes."""

NEAREST = 4
"""So many of the nearest graphs are compared as well if they are within ``TURNED``, where rounding may have turned a
unit."""


def passing(problem: CensusProblem, graphs: Sequence[Graph], slots: int, clock: Clock) -> list[ExplainingGraph]:
    """Those of ``graphs`` whose gradient is the observed one, with their labels; not all of them where time ends.

    The update has the gradient at a graph's outputs, as that of the last bias, so that one product with the outputs'
    Jacobian replaces one gradient for every label. Where it is not available, and for graphs that pass, labels are
    tried one by one (``gradient_distances``).

    Args:
      problem: the update and what is known.
      graphs: of ``slots`` nodes at most.
      slots: number of nodes that graphs are padded to.
      clock: ends the comparison.
    """
    seen, space, kept = problem.seen, problem.knowledge.space, list(graphs)
    slopes = None if _hidden(problem) else seen.model.output_bias(seen.update)
    if slopes is not None and np.any(slopes):
        far = _distances(problem, graphs, np.asarray(slopes), slots)
        order = np.argsort(far)
        near = ~(far[order] > ROOM * problem.fit.most)  # what is no number stays
        near[:NEAREST] |= far[order][:NEAREST] < TURNED
        kept = [graphs[i] for i in np.sort(order[near]).tolist()]
    found = []
    for graph in kept:
        if clock.left <= 0:
            break
        distance, label = gradient_distances(seen, space, [graph], problem.fit.most)[0]
        if distance <= problem.fit.most:
            labelled = Graph(graph.x, graph.edges, label, edge_class=graph.edge_class)
            found.append(ExplainingGraph(labelled, distance, graph.canonical_form()))
    return found


def _hidden(problem: CensusProblem) -> bool:
    """True where the update does not show the gradient at the outputs as it is, or is no gradient at these weights."""
    model, seen = problem.observation.model, problem.seen
    return model.node_level or seen.pruned or problem.several or problem.knowledge.noise is not None


def _distances(
    problem: CensusProblem, graphs: Sequence[Graph], slopes: Float[np.ndarray, " C"], slots: int
) -> Float[np.ndarray, " G"]:
    seen = problem.seen
    peak = max(float(np.max(np.abs(leaf))) for leaf in jax.tree.leaves(seen.update)) or 1.0
    update = jax.tree.map(lambda leaf: np.asarray(leaf, np.float32) / np.float32(peak), seen.update)
    found = []
    for start in range(0, len(graphs), TOGETHER):
        part = graphs[start : start + TOGETHER]
        padded = [*part, *[part[-1]] * (TOGETHER - len(part))]
        batch = GraphBatch.from_graphs(padded, problem.knowledge.space, slots=slots)
        far = _along(seen.model, seen.params, update, jnp.asarray(slopes / peak, jnp.float32), batch.dense)
        found.append(np.asarray(far, np.float64)[: len(part)])
    return np.concatenate(found)


@partial(jax.jit, static_argnames=("model",))
def _along(
    model: GNN, params: Params, update: Params, slopes: Float[Array, " C"], graphs: DenseGraph
) -> Float[Array, " B"]:
    """Relative distances of the gradients of ``slopes . output`` from the update."""
    size = sum(jnp.sum(jnp.asarray(leaf) ** 2) for leaf in jax.tree.leaves(update))

    def one(graph: DenseGraph) -> Array:
        gradient = jax.grad(lambda weights: jnp.sum(slopes * model.apply({"params": weights}, *graph)))(params)
        gradient = model.trained(gradient) if model.frozen else gradient
        gap = jax.tree.map(lambda g, seen: jnp.sum((g - seen) ** 2), gradient, update)
        return jnp.sqrt(sum(jax.tree.leaves(gap)) / jnp.maximum(size, 1e-30))

    return jax.lax.map(one, graphs, batch_size=BESIDE)
