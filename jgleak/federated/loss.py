"""The losses of the five papers, for graph and node tasks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Bool, Float, Num

from jgleak.gnn import GNN, Params
from jgleak.graph import DenseGraph

LOSSES = ("bce", "ce", "mse")


def label_loss(logits: Float[Array, "... C"], label: Num[Array, "..."], name: str) -> Float[Array, "..."]:
    """Loss of rows of logits against labels.

    ``bce``: BCE-with-logits on one-hot labels, mean over the ``C`` outputs (GRAIN). ``ce``: softmax cross-entropy
    (GLG, FedGIG, GraphDLG). ``mse``: squared error of the single output (FreeSolv) or of a rating (FedGNN).

    A class label may be relaxed to a distribution ``(..., C)``, which stands in the place of the one-hot row.
    """
    if name == "mse":
        outputs = logits if logits.ndim == label.ndim else logits[..., 0]
        return jnp.square(outputs - label)
    relaxed = label.ndim == logits.ndim
    target = label if relaxed else jax.nn.one_hot(label, logits.shape[-1], dtype=logits.dtype)
    if name == "bce":
        return optax.sigmoid_binary_cross_entropy(logits, target).mean(axis=-1)
    if name == "ce":
        return optax.softmax_cross_entropy(logits, target)
    raise ValueError(f"loss: unknown {name!r}; choose one of {LOSSES}")


def graph_loss(
    model: GNN,
    params: Params,
    graph: DenseGraph,
    label: Num[Array, "..."],
    loss: str,
    share: Float[Array, " N"] | None = None,
    disturb: Callable[[int, Array], Array] | None = None,
) -> Float[Array, ""]:
    """Training loss of one padded graph: of its output, or the mean over its nodes for node tasks.

    ``share`` weighs the nodes of a node task otherwise: a 1 for one node gives the loss of that node. ``disturb`` is
    what the client does to each layer's output.
    """
    logits: Any = model.apply({"params": params}, *graph, disturb)
    return output_loss(model, logits, graph.mask, label, loss, share)


def output_loss(
    model: GNN,
    logits: Float[Array, "..."],
    mask: Bool[Array | np.ndarray, " N"],
    label: Num[Array, "..."],
    loss: str,
    share: Float[Array, " N"] | None = None,
) -> Float[Array, ""]:
    """``graph_loss`` from the model's output."""
    if not model.node_level:
        return label_loss(logits, label, loss)
    weight = mask.astype(logits.dtype)
    return ((weight / weight.sum() if share is None else share) * label_loss(logits, label, loss)).sum()
