"""Local steps whose gradients stay products of thin matrices: the update of a guessed client, to be differentiated."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Num

from jgleak.federated.descent import stepped
from jgleak.federated.factors import Outer, factored_gradients
from jgleak.federated.local_training import Descent
from jgleak.federated.loss import Loss
from jgleak.gnn import GNN, Params
from jgleak.graph import DenseGraph


def factored_descent(
    model: GNN,
    params: Params,
    graphs: DenseGraph,
    labels: Num[Array, "G ..."],
    loss: str | Loss,
    shares: Float[Array, "T G N"],
    how: Descent,
    masks: Any = None,
) -> Params:
    """The mean gradient along local steps on all graphs, as ``factored_gradients`` has one (``T = 1``): the rows and
    slopes of all steps one below the other, each step's slopes times what it counts.

    Args:
      how: the steps.

    The other arguments are those of ``factored_gradients``; masks of dropout are the same at every step.
    """

    def step(state: tuple[Params, Params], share: Array) -> tuple[tuple[Params, Params], Params]:
        weights, speed = state
        found = factored_gradients(model, weights, graphs, labels, loss, shares, masks)
        gradient = jax.tree.map(_dense, found, is_leaf=_is_outer)
        gradient = model.trained(gradient) if model.frozen else gradient
        return stepped(model, how, weights, speed, gradient), jax.tree.map(
            lambda leaf: _times(leaf, share), found, is_leaf=_is_outer
        )

    start = jax.tree.map(jnp.asarray, params)
    _, found = jax.lax.scan(step, (start, jax.tree.map(jnp.zeros_like, start)), jnp.asarray(how.shares))
    return jax.tree.map(_together, found, is_leaf=_is_outer)


def _is_outer(leaf: Any) -> bool:
    return isinstance(leaf, Outer)


def _dense(leaf: Any) -> Array:
    return jnp.matmul(leaf.rows.T, leaf.slopes[0], precision="highest") if _is_outer(leaf) else leaf[0]


def _times(leaf: Any, share: Array) -> Any:
    return Outer(leaf.rows, share * leaf.slopes) if _is_outer(leaf) else share * leaf


def _together(leaf: Any) -> Any:
    if not _is_outer(leaf):
        return leaf.sum(axis=0)
    rows, slopes = leaf.rows, leaf.slopes[:, 0]
    return Outer(rows.reshape(-1, rows.shape[-1]), slopes.reshape(-1, slopes.shape[-1])[None])
