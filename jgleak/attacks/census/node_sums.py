"""Distances of graphs from an update, by sums over nodes that the readout's gradient shows.

The gradients of the readout's small weights are sums over nodes of what follows from a node's state; a pooled readout
shows the sum of the states themselves. That is far cheaper to compute than a whole gradient.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from jgleak.attacks.census.problem import CensusProblem
from jgleak.attacks.census.rooted_states import BATCH, RootedStates, Rows
from jgleak.attacks.census.sketch import sketch, sketched
from jgleak.attacks.closed_form.pooled_embedding import pooled_embedding
from jgleak.gnn import GNN, Params
from jgleak.gnn.tree import over

SMALL = 3_000
"""Most entries of a weight whose gradient is computed for every neighbourhood."""

REMEMBERED = 100_000
"""Most neighbourhoods in the cache; then it is emptied."""


class NodeSums:
    """Compares graphs with an update.

    Args:
      problem: the update.
      codes: the feature vectors that nodes may have ``(T, G)``; they do not state degrees.
      most: most neighbours of a node.
    """

    def __init__(self, problem: CensusProblem, codes: Int[np.ndarray, "T G"], most: int) -> None:
        observation = problem.observation
        self.model, self.most, self.absolute = observation.model, most, problem.absolute
        self.params, update = (jax.tree.map(np.asarray, tree) for tree in (observation.params, observation.update))
        self.inputs = problem.knowledge.space.encode(np.repeat(codes, most + 1, axis=0))
        self.degrees = np.tile(np.arange(most + 1), codes.shape[0])
        readout, shown = self.model.readout, self.model.readout_of(update)
        self.upstream = readout.upstream(self.model.readout_of(self.params), shown).astype(np.float32)
        self.vectors: Params = {}
        if readout.additive == "pooled":
            seen = readout.summed(pooled_embedding(self.model, update))
            self.scale = np.ones(seen.size)
        else:
            used = _small(self.model, update)
            self.vectors = problem.arithmetic.vectors(used, 1)
            seen, sizes = sketched(used, self.vectors, problem.tolerances)
            self.scale = problem.arithmetic.scales(sizes)
        self.seen = np.asarray(seen, np.float64) / self.scale
        self._forget()

    def misfits(self, adjacency: Bool[np.ndarray, "P N N"], kinds: Int[np.ndarray, "P N"]) -> Float[np.ndarray, "P M"]:
        """For each graph ``(sum over nodes - seen) / |seen|``, one entry for each equation.

        Args:
          adjacency: without self-loops; no node has more than ``most`` neighbours.
          kinds: which of ``codes`` each node has; -1 for padding, which has no edges.
        """
        if self.columns.size > REMEMBERED:
            self._forget()
        entries = np.maximum(kinds, 0) * (self.most + 1) + adjacency.sum(axis=-1)
        numbers, there = self.states.numbers(adjacency, entries), kinds >= 0
        for inputs, states in self.states.taken():
            for start in range(0, inputs.shape[0], BATCH):
                self.columns.add(self._columns(inputs[start : start + BATCH], states[start : start + BATCH]))
        sums = np.where(there[..., None], self.columns.array[numbers], 0.0).sum(axis=1, dtype=np.float64)
        if not self.absolute:
            sums /= there.sum(axis=1)[:, None]
        return (sums - self.seen) / (np.linalg.norm(self.seen) or 1.0)

    def _forget(self) -> None:
        self.states = RootedStates(self.model, self.params, self.inputs, self.degrees, self.most)
        self.columns = Rows(np.zeros((0, self.seen.size), np.float32))

    def _columns(self, inputs: Float[np.ndarray, "K m"], states: Float[np.ndarray, "K D"]) -> Float[np.ndarray, "K M"]:
        """What nodes with these rows and states add."""
        if not self.vectors:
            return (states / self.scale).astype(np.float32)
        number = inputs.shape[0]
        inputs, states = (np.pad(part, ((0, BATCH - number), (0, 0))) for part in (inputs, states))
        found = _gradients(self.model, self.params, self.upstream, self.vectors, inputs, states)
        return (np.asarray(found)[:number] / self.scale).astype(np.float32)


def _small(model: GNN, tree: Params) -> Params:
    """The readout's small trained weights in a tree shaped like the parameters, at least the smallest one."""
    leaves = jax.tree_util.tree_leaves_with_path({"readout": model.evidence(tree)["readout"]})
    least = min(np.size(leaf) for _, leaf in leaves)
    found: Any = {}
    for path, leaf in leaves:
        if np.size(leaf) <= max(SMALL, least):
            place = found
            for key in path[:-1]:
                place = place.setdefault(key.key, {})
            place[path[-1].key] = leaf
    return found


@partial(jax.jit, static_argnames=("model",))
def _gradients(
    model: GNN,
    params: Params,
    upstream: Float[Array, " C"],
    vectors: Params,
    inputs: Float[Array, "B m"],
    states: Float[Array, "B D"],
) -> Float[Array, "B M"]:
    """Of each node the sketched gradient of its output along ``upstream``, at the weights that are sketched."""

    def value(weights: Params, row: Array, state: Array) -> Array:
        out: Any = model.apply({"params": over(params, weights)}, row[None], state[None], method="node_hidden")
        return jnp.matmul(upstream, out[1][0], precision="highest")

    weights = _small(model, params)
    return jax.vmap(lambda row, state: sketch(jax.grad(value)(weights, row, state), vectors))(inputs, states)
