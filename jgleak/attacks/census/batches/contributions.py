"""What one node with a given block adds to a batch's gradient, along several upstream gradients at once."""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from jgleak.attacks.attack import Clock
from jgleak.attacks.census.candidates import Levels
from jgleak.attacks.census.equations import BATCH, Table, Trees, embed, root_value, unfold, used_parts
from jgleak.attacks.census.problem import CensusProblem
from jgleak.attacks.census.sketch import sketch
from jgleak.gnn import GNN, Params
from jgleak.gnn.tree import over


def contributions(
    problem: CensusProblem, levels: Levels, upstream: Float[np.ndarray, "r C"], vectors: Params, clock: Clock
) -> tuple[Float[np.ndarray, "K r M"], Float[np.ndarray, "K C"]] | None:
    """Of every top block the sketched gradient along each upstream, and what its root adds up, both as their means
    along local steps; None if time runs out.

    Args:
      problem: the update and what is known.
      levels: candidate blocks.
      upstream: gradients at what adds up over nodes (``Readout.additive``), as rows.
      vectors: what weight rows are multiplied with (``sketch``).
      clock: ends it.
    """
    model, path = problem.observation.model, problem.path
    table, trees, given = Table.of(levels.nodes), unfold(levels.hops), upstream.astype(np.float32)
    found = list[tuple[Float[np.ndarray, "b r M"], Float[np.ndarray, "b C"]]]()
    for start in range(0, levels.top.size, BATCH):
        some = np.arange(start, min(start + BATCH, levels.top.size))
        gradients, added, part = np.zeros(()), np.zeros(()), trees.part(some, BATCH)
        for point in path:
            if clock.left <= 0:
                return None
            out = _along(model, point.params, given, vectors, table, part)
            here = [np.asarray(leaf, np.float64)[: some.size] for leaf in out]
            gradients, added = gradients + point.share * here[0], added + point.share * here[1]
        found.append((gradients, added))
    gradients, added = (np.concatenate(parts) for parts in zip(*found, strict=True))
    return gradients, added


@partial(jax.jit, static_argnames=("model",))
def _along(
    model: GNN, params: Params, upstream: Float[Array, "r C"], vectors: Params, table: Table, trees: Trees
) -> tuple[Float[Array, "B r M"], Float[Array, "B C"]]:
    rows, degrees = map(jnp.asarray, table)
    weights = used_parts(model, params)

    def one(tree: Trees) -> tuple[Array, Array]:
        def added(weights: Params) -> Array:
            """What the root adds up: its last state, or its logits."""
            full = over(params, weights)
            state, _ = embed(model, full, rows, degrees, tree)
            if root_value(model) == "pooled":
                return state
            out: Any = model.apply({"params": full}, rows[tree.nodes[:1]], state[None], method="node_hidden")
            return out[1][0]

        value, back = jax.vjp(added, weights)
        return jax.vmap(lambda along: sketch(back(along)[0], vectors))(upstream), value

    return jax.vmap(one)(trees)
