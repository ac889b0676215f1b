"""The gradients that can flow back to the nodes of a batch: a few directions, the same for all of its graphs."""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from jgleak.federated.loss import Loss, label_loss
from jgleak.federated.observation import Observation
from jgleak.gnn import GNN, Params

ROUNDING = 1e-6
"""Singular values of the head's gradient below this share of the largest are rounding of float32."""


def unsupported(observation: Observation) -> str | None:
    """Why the graphs of a batch cannot be told apart by their upstream gradients, or None."""
    model, loss = observation.model, Loss.of(observation.loss)
    if model.node_level:
        return "nodes have the labels, so the gradients of graphs are those of their nodes, and add up to one graph's"
    if model.readout.additive is None:
        return "it needs a readout that adds up over nodes: 'node_mlp', or 'pooled' with mean or sum"
    if model.readout.additive == "pooled" and not model.readout.pools:
        return "it needs one pooling (mean or sum), and the readout has several"
    if loss.masked or loss.regression:
        return (
            "a graph's outputs and its gradient must determine the label, as under ce and bce, and under the "
            f"file's loss {str(loss)!r} they do not; if clients minimise one of these, give it (--loss)"
        )
    if observation.scaled:
        return "the update was clipped, and labels show only in its length; let the client send it unclipped"
    if model.returns_statistics:
        return "with batch normalisation in training mode it reads updates of one graph only; record batches of one"
    if model.readout.additive == "pooled" and not model.trains("readout", *model.readout.first_map):
        return "the readout's first map is frozen, whose gradient shows what flows back to the graphs"
    return None


class Upstream(NamedTuple):
    """Directions of the gradient at the rows that the readout adds up, and the sums along them that the readout shows.

    A graph's own gradient is a combination of the directions: its factor. A block's weight is the sum of the factors of
    all nodes that have it.

    Attributes:
      rows: the directions ``(r, C)``: at the logits of a readout per node, at the states of one that pools.
      states: what the states, each with its block's weight, add up to in every direction; None where it does not show
        ``(r, C)``.
      total: what the weights add up to, behind a mean; None where it does not show ``(r,)``.
      sizes: of both, the smaller where a direction is fainter in the gradient ``(r,)``.
    """

    rows: Float[np.ndarray, "r C"]
    states: Float[np.ndarray, "r C"] | None
    total: Float[np.ndarray, " r"] | None
    sizes: Float[np.ndarray, " r"]

    @staticmethod
    def of(observation: Observation) -> Upstream:
        """The upstream of a batch's update.

        With a readout per node every direction of the logits is possible, except that a softmax's gradients add up to
        0. Behind pooling the kernel of the first map has the gradient ``sum_g p_g (x) d_g``: its row space holds all
        ``d_g``, and its columns along a basis of it are sums of last states.
        """
        model = observation.model
        if model.readout.additive == "nodes":
            rows = np.eye(model.outputs)
            if Loss.of(observation.loss).name == "ce":
                rows = np.linalg.svd(np.ones((1, model.outputs)))[2][1:]
            return Upstream(rows, None, None, np.ones(len(rows)))
        first = model.readout.first(model.readout_of(observation.update))
        kernel, bias = (np.asarray(first[name], np.float64) for name in ("kernel", "bias"))
        forward = np.asarray(model.readout.first(model.readout_of(observation.params))["kernel"], np.float64)
        columns, values, across = np.linalg.svd(kernel, full_matrices=False)
        rank = int(np.sum(values > ROUNDING * values[0])) if values[0] > 0 else 0
        sizes, basis = values[:rank] / (values[0] or 1.0), across[:rank]
        rows = sizes[:, None] * (basis @ forward.T)
        # weights are those of the scaled rows: as large in a faint direction
        total = None if model.readout.counts_nodes else basis @ bias / sizes
        return Upstream(rows, values[0] * columns[:, :rank].T, total, sizes)


def own_upstreams(observation: Observation, added: Float[np.ndarray, " C"]) -> Float[np.ndarray, "Y C"]:
    """The gradient of one graph's loss at the mean (or sum) of what its nodes add up, for each class as its label."""
    with jax.enable_x64(True):
        row = np.asarray(added, np.float64)
        return np.asarray(_own_upstreams(observation.model, observation.loss, observation.params, row))


@partial(jax.jit, static_argnames=("model", "loss"))
def _own_upstreams(model: GNN, loss: str, params: Params, row: Float[Array, " C"]) -> Float[Array, "Y C"]:
    def value(row: Array, label: Array) -> Array:
        return label_loss(logits_of(model, params, row), label, loss)

    return jax.vmap(jax.grad(value), (None, 0))(row, jnp.arange(Loss.of(loss).classes(model.outputs)))


def logits_of(model: GNN, params: Params, row: Array) -> Any:
    """A graph's logits from what its nodes add up to ``(D,)``."""
    return model.apply({"params": params}, row, method=lambda bound, own: bound.readout.behind_pooling(own))
