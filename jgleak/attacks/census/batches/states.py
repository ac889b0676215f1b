"""What the root of every top block adds to the pooled row."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from jgleak.attacks.attack import Clock
from jgleak.attacks.census.candidates import Levels
from jgleak.attacks.census.equations import Table, Trees, embed, unfold
from jgleak.gnn import GNN, Params

BATCH = 256
"""Blocks embedded at once; a compiled shape."""


def root_states(model: GNN, params: Params, levels: Levels, clock: Clock) -> Float[np.ndarray, "K D"] | None:
    """The row of every top block's root that the readout adds up, in block order; None if time runs out."""
    table, trees, found = Table.of(levels.nodes), unfold(levels.hops), list[np.ndarray]()
    for start in range(0, levels.top.size, BATCH):
        if clock.left <= 0:
            return None
        rows = np.arange(start, min(start + BATCH, levels.top.size))
        states = _states(model, params, table, trees.part(rows, BATCH))
        found.append(np.asarray(states, np.float64)[: rows.size])
    return np.concatenate(found)


@jax.jit(static_argnames="model")
def _states(model: GNN, params: Params, table: Table, trees: Trees) -> Float[Array, "B D"]:
    def one(tree: Trees) -> Array:
        return embed(model, params, jnp.asarray(table.rows), jnp.asarray(table.degrees), tree)[0]

    return jax.vmap(one)(trees)
