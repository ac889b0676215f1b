"""The label of every node that a graph and an update imply."""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Float
from scipy.special import expit, softmax

from jgleak.federated.loss import Loss
from jgleak.federated.observation import Observation
from jgleak.gnn import GNN, Params
from jgleak.gnn.tree import at, put
from jgleak.graph import DenseGraph

ALIKE = 1e-5
"""How far apart outputs of equal nodes may be, relative to the largest output (at least 1): rounding."""

EQUATIONS = 20_000
"""About how many entries of a gradient are used to solve for node labels; decides speed alone."""


def node_labels(observation: Observation, graph: DenseGraph) -> np.ndarray:
    """Most plausible label of every node, from the gradient of the readout's last layer (or of the convolutions).

    A gradient is linear in the output gradients ``D (N, C)``, so ``D`` solves a small least-squares problem, and
    ``D = (probability - onehot) / (n C)`` shows the class (``D = 2 (output - y) / n`` the rating). Nodes with equal
    outputs share their part of ``D``, so only their labels' counts show; rounding gives each count to someone.
    """
    model, loss = observation.model, Loss.of(observation.loss)
    n = int(graph.mask.sum())
    for path in model.nearest_output:
        outputs, slopes = _output_slopes(model, observation.params, graph, path)
        wanted = np.asarray(_some(at(observation.update, path)), np.float64)
        logits = np.asarray(outputs, np.float64)[:n]
        design = np.asarray(slopes, np.float64)[:n].reshape(logits.size, wanted.size)
        told_of = wanted != 0 if observation.pruned else slice(None)  # an entry that was left out is no equation
        solution, _, rank, _ = np.linalg.lstsq(design[:, told_of].T, wanted[told_of], rcond=1e-6)
        place = _alike(logits.reshape(n, -1))
        if rank >= (place.max() + 1) * logits.size // n:
            break  # the last map alone tells all nodes apart that can be
    sums = solution.reshape(logits.shape) * n
    if loss.regression:
        return logits.reshape(n) - sums.reshape(n) / 2
    probability = expit(logits) if loss.name == "bce" else softmax(logits, axis=1)
    votes = loss.by_class(loss.unsmoothed(probability - sums * (model.outputs if loss.name == "bce" else 1)))
    labels = np.zeros(n, np.int32)
    for group in range(place.max() + 1):
        members = np.flatnonzero(place == group)
        counts = _share(votes[members].sum(axis=0), members.size)
        labels[members] = np.repeat(np.arange(counts.size), counts)
    return labels


def _alike(logits: Float[np.ndarray, "n C"]) -> np.ndarray:
    """A number for each node, equal for nodes whose outputs are equal up to rounding."""
    near = np.abs(logits[:, None] - logits[None]).max(axis=2) <= ALIKE * max(1.0, float(np.abs(logits).max()))
    return np.unique(near.argmax(axis=1), return_inverse=True)[1]


def _share(votes: Float[np.ndarray, " C"], count: int) -> np.ndarray:
    """Whole numbers summing to ``count`` nearest to ``votes`` (largest remainders)."""
    floor = np.clip(np.floor(votes + 1e-6), 0, count).astype(int)
    while floor.sum() > count:
        floor[floor.argmax()] -= 1
    for place in np.argsort(floor - votes)[: count - floor.sum()]:
        floor[place] += 1
    floor[votes.argmax()] += count - floor.sum()
    return floor


def _some(tree: Params) -> Float[Array, " P"]:
    """At most ``2 * EQUATIONS`` of a tree's entries, evenly spread."""
    flat = ravel_pytree(tree)[0]
    return flat[:: max(1, flat.size // EQUATIONS)]


@partial(jax.jit, static_argnames=("model", "path"))
def _output_slopes(
    model: GNN, params: Params, graph: DenseGraph, path: tuple[str, ...]
) -> tuple[Float[Array, "N ..."], Float[Array, "N ... P"]]:
    """Every node's outputs, and their derivatives by some of the weights at ``path``."""

    def outputs(weights: Params) -> Any:
        return model.apply({"params": put(params, path, weights)}, *graph)

    values, pull = jax.vjp(outputs, at(params, path))
    units = jnp.eye(values.size, dtype=values.dtype).reshape(-1, *values.shape)
    slopes = jax.lax.map(lambda unit: _some(pull(unit)[0]), units)
    return values, slopes.reshape(*values.shape, -1)
