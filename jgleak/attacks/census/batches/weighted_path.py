"""The path of a client's local steps, from the weights of blocks, where all graphs were in every step.

If every block kept the weight that it has in the mean gradient, the client's steps could be repeated without knowing
which graph has which block. Weights do change along the path, but by less than its length, and units switch where they
did for the client. So contributions along this path give better weights, and these a better path.
"""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from jgleak.attacks.census.candidates import Levels
from jgleak.attacks.census.equations import Table, Trees, embed, unfold
from jgleak.attacks.census.followed import BLOCKS
from jgleak.attacks.census.local_path import LocalPath, Point
from jgleak.attacks.census.problem import CensusProblem
from jgleak.attacks.span.kernels import padded
from jgleak.federated.descent import Descended, descended
from jgleak.federated.local_training import Descent
from jgleak.gnn import GNN, Params


def weighted_path(
    problem: CensusProblem, levels: Levels, values: Float[np.ndarray, "K r"], upstream: Float[np.ndarray, "r C"]
) -> LocalPath:
    """The path on which top blocks keep their weights, moved so that it ends where the client's did.

    Args:
      problem: the update of a batch behind a readout per node.
      levels: candidate blocks.
      values: the weight of each in every direction.
      upstream: the directions.
    """
    seen = problem.seen
    assert seen.local is not None
    used = np.flatnonzero(values.any(axis=1))
    size = padded(used.size, BLOCKS)
    trees = unfold(levels.hops).part(used, size)
    along = np.pad(values[used] @ upstream, ((0, size - used.size), (0, 0))).astype(np.float32)
    given = _Weighed(seen.params, seen.local.descent, Table.of(levels.nodes), trees, along)
    made = jax.device_get(_made(seen.model, given))
    far = seen.local.rate * np.r_[0.0, np.cumsum(seen.local.response)[:-1]]

    def at(number: int) -> Params:
        def one(weights: Any, found: Any, update: Any) -> np.ndarray:
            return (weights[number] - far[number] * (np.asarray(update, np.float64) - found)).astype(np.float32)

        return jax.tree.map(one, made.weights, made.update, seen.update)

    readout = seen.model.readout_of(seen.update)
    return tuple(Point(at(number), readout, share) for number, share in enumerate(seen.local.shares.tolist()))


class _Weighed(NamedTuple):
    """The weights to begin with, the steps, the blocks, and what flows back to the root of each ``(K, C)``."""

    params: Params
    how: Descent
    table: Table
    trees: Trees
    along: Float[Array | np.ndarray, "K C"]


@partial(jax.jit, static_argnames="model")
def _made(model: GNN, given: _Weighed) -> Descended:
    rows, degrees = map(jnp.asarray, given.table)

    def total(weights: Params) -> Array:
        def added(tree: Trees) -> Array:
            state, _ = embed(model, weights, rows, degrees, tree)
            out: Any = model.apply({"params": weights}, rows[tree.nodes[:1]], state[None], method="node_hidden")
            return out[1][0]

        return jnp.sum(jax.vmap(added)(given.trees) * given.along)

    def slope(weights: Params, number: Array) -> Params:
        gradient = jax.grad(total)(weights)
        return model.trained(gradient) if model.frozen or model.norms else gradient

    return descended(model, given.params, slope, given.how, along=True)
