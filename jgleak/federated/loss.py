"""The losses of the five papers, for graph and node tasks."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Bool, Float, Num

from jgleak.gnn import GNN, Params

LOSSES = ("bce", "ce", "mse")


def label_loss(logits: Float[Array, "... C"], label: Num[Array, "..."], name: str) -> Float[Array, "..."]:
    """Loss of rows of logits against labels.

    ``bce``: BCE-with-logits on one-hot labels, mean over the ``C`` outputs (GRAIN). ``ce``: softmax cross-entropy
    (GLG, FedGIG, GraphDLG). ``mse``: squared error of the single output (FreeSolv) or of a rating (FedGNN).
    """
    if name == "bce":
        onehot = jax.nn.one_hot(label, logits.shape[-1], dtype=logits.dtype)
        return optax.sigmoid_binary_cross_entropy(logits, onehot).mean(axis=-1)
    if name == "ce":
        return optax.softmax_cross_entropy_with_integer_labels(logits, label.astype(jnp.int32))
    if name == "mse":
        outputs = logits if logits.ndim == label.ndim else logits[..., 0]
        return jnp.square(outputs - label)
    raise ValueError(f"loss: unknown {name!r}; choose one of {LOSSES}")


def graph_loss(
    model: GNN,
    params: Params,
    nodes: Float[Array, "N m"],
    adjacency: Float[Array, "N N"],
    mask: Bool[Array, " N"],
    label: Num[Array, "..."],
    loss: str,
) -> Float[Array, ""]:
    """Training loss of one padded graph: of its output, or the mean over its nodes for node tasks."""
    logits: Any = model.apply({"params": params}, nodes, adjacency, mask)
    if not model.node_level:
        return label_loss(logits, label, loss)
    weight = mask.astype(nodes.dtype)
    return (weight * label_loss(logits, label, loss)).sum() / weight.sum()
