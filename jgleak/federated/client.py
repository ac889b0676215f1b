"""What an honest client computes: FedSGD gradients of one graph, of many, or of a batch."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import jax
import numpy as np
from jaxtyping import Array, Float

from jgleak.defenses import Defense
from jgleak.features import FeatureSpace
from jgleak.federated.fits import check_space
from jgleak.federated.loss import MASKED, Loss, check_loss, graph_loss
from jgleak.federated.observation import Observation
from jgleak.federated.statistics import moved
from jgleak.gnn import GNN, Params
from jgleak.graph import DenseGraph, Graph, GraphBatch

UNDEFENDED = Defense()
"""What a client does by default: nothing."""


@partial(jax.jit, static_argnames=("model", "loss", "defense"))
def gradients(
    model: GNN,
    params: Params,
    batch: GraphBatch,
    *,
    loss: str | Loss,
    defense: Defense = UNDEFENDED,
    key: Array | None = None,
) -> Params:
    """Per-graph gradients, whose mean is the batch's: every leaf gains a leading axis ``B``.

    One compilation a batch shape. What a defence does to each graph's gradient is done. A defence inside the forward
    pass and the masks of dropout draw from ``key``, afresh for every graph; without a key nothing is masked. Under a
    masked loss what a label counts may depend on the other graphs of the batch (``Loss.over``).
    """

    def one(p: Params, graph: DenseGraph, y: Array, weights: Array | None, own: Array | None) -> Array:
        disturb = None if own is None else defense.disturb(key=own)
        masks = None if own is None or not model.drops else mask_key(own)
        return graph_loss(model, p, graph, y, loss, weights, disturb=disturb, masks=masks)

    keys = None if key is None else jax.random.split(key, batch.size)
    weights = None if batch.labels is None else Loss.of(loss).entry_weights(batch.labels)
    in_axes = (None, 0, 0, *(None if part is None else 0 for part in (weights, keys)))
    each = jax.vmap(jax.grad(one), in_axes=in_axes)(params, batch.dense, batch.labels, weights, keys)
    return defense.on_graphs(model.trained(each) if model.frozen else each)


def fedsgd(
    model: GNN,
    params: Params,
    graphs: Sequence[Graph],
    space: FeatureSpace,
    *,
    loss: str | Loss,
    defense: Defense = UNDEFENDED,
    key: Array | None = None,
) -> Observation:
    """One client's FedSGD round on a batch of private graphs: the mean of their gradients, as the server sees it.

    Args:
      model: the shared model; ``model.in_features`` must equal ``space.width``.
      params: the round's parameters.
      graphs: the client's private graphs, all labelled (a node task: their nodes; several tasks: a row of labels).
      space: the public feature space.
      loss: a ``Loss``, or its text (``bce``, ``ce``, ``mse``, ``masked_bce``).
      defense: what the client does before anything leaves (``jgleak.defenses.parse``).
      key: for the defence and the masks of dropout; required where there is one or the other.

    Raises:
      ValueError: unlabelled graphs, labels outside the model's classes, an unknown loss, a feature space of another
        width, a defence or dropout without a key, or batch normalisation in training mode over other than one graph.
    """
    check_client(model, graphs, space, loss)
    inside, second = client_keys(model, defense, key)
    batch = GraphBatch.from_graphs(graphs, space, slots=model.readout.slots)
    each = gradients(model, params, batch, loss=loss, defense=defense, key=inside)
    update = jax.tree.map(lambda g: np.asarray(g).mean(axis=0), each)
    sent = defended(model, defense, update, second)
    marks = {"scaled": defense.scales, "pruned": defense.drops, "rounding": defense.rounding(sent)}
    marks |= {"statistics": returned(model, params, batch, inside)}
    return Observation(model, params, sent, str(loss), batch_size=len(graphs), **marks)


def returned(model: GNN, params: Params, batch: GraphBatch, key: Array | None) -> Params | None:
    """The running statistics that a client returns: those of a model in training mode, after a step on its graph.

    ``key`` is what ``gradients`` took: the statistics are those of the same masks.
    """
    if not model.returns_statistics:
        return None
    masks = mask_key(jax.random.split(key, batch.size)[0]) if key is not None and model.drops else None
    return moved(model, params, jax.tree.map(lambda leaf: leaf[0], batch.dense), masks)


def mask_key(own: Array) -> Array:
    """The key of one graph's masks, beside those of a defence inside its forward pass (which are numbered from 0)."""
    return jax.random.fold_in(own, 2**31 - 1)


def client_keys(model: GNN, defense: Defense, key: Array | None) -> tuple[Array | None, Array | None]:
    """Two keys for what a client draws: inside its forward passes (None: nothing), and for its defended update.

    Raises:
      TypeError: ``defense`` is no ``Defense`` but, say, a text.
      ValueError: there is something to draw and no key.
    """
    if not isinstance(defense, Defense):
        raise TypeError(f"defense: expected a Defense, got {defense!r}; jgleak.defenses.parse('clip:1') makes one")
    if not (defense.steps or model.drops):
        return None, None
    if key is None:
        what = f"the defence {defense} is applied" if defense.steps else "the masks of dropout are drawn"
        raise ValueError(f"key: {what} under a key; give key=jax.random.key(...)")
    first, second = jax.random.split(key)
    return first if defense.inside or model.drops else None, second if defense.steps else None


def defended(model: GNN, defense: Defense, update: Params, key: Array | None) -> Params:
    """The update as it leaves, on the host."""
    if key is None:
        return update
    return jax.tree.map(np.asarray, model.trained(defense.apply(update, key=key)))


def target_gradient(
    model: GNN, params: Params, graphs: Sequence[Graph], space: FeatureSpace, *, loss: str | Loss
) -> Observation:
    """The mean gradient of the loss of node 0 of every graph: a minibatch of target nodes (GLG, node attacker 1).

    Args and errors are those of ``fedsgd``, for a node task; the other nodes' labels do not matter.
    """
    first = [_node_losses(model, params, graph, space, loss, count=1) for graph in graphs]
    update = jax.tree.map(lambda *leaves: np.concatenate(leaves).mean(axis=0), *first)
    return Observation(model, params, update, str(loss), batch_size=len(graphs), protocol="target_node")


def node_gradients(model: GNN, params: Params, graph: Graph, space: FeatureSpace, *, loss: str | Loss) -> Observation:
    """One gradient for each node's own loss, side by side (GLG, node attacker 2).

    Args and errors are those of ``fedsgd``, for a node task.
    """
    update = _node_losses(model, params, graph, space, loss, count=graph.n)
    return Observation(model, params, update, str(loss), protocol="node_losses")


def _node_losses(model: GNN, params: Params, graph: Graph, space: FeatureSpace, loss: str | Loss, count: int) -> Params:
    """Gradients of the losses of the first ``count`` nodes, one after another: every leaf gains a leading axis."""
    check_client(model, [graph], space, loss)
    if model.returns_statistics:
        raise ValueError("model: gradients of single nodes' losses are taken in evaluation mode (training=False)")
    if model.drops:
        raise ValueError("model: gradients of single nodes' losses are taken without dropout; take a rate of 0")
    if not model.node_level:
        raise ValueError("model: it labels graphs, so a node has no loss; take a 'node_scores' readout or fedsgd")
    batch = GraphBatch.from_graphs([graph], space, slots=model.readout.slots)
    shares = np.eye(batch.node_mask.shape[1], dtype=np.float32)
    each = [_one_node(model, params, batch, share, loss=loss) for share in shares[:count]]
    return jax.tree.map(lambda *leaves: np.stack(leaves), *each)


@partial(jax.jit, static_argnames=("model", "loss"))
def _one_node(model: GNN, params: Params, batch: GraphBatch, share: Array, *, loss: str | Loss) -> Params:
    one = jax.tree.map(lambda leaf: leaf[0], batch)
    gradient = jax.grad(lambda p: graph_loss(model, p, one.dense, one.labels, loss, share))(params)
    return model.trained(gradient) if model.frozen else gradient


def check_client(model: GNN, graphs: Sequence[Graph], space: FeatureSpace, loss: str | Loss) -> None:
    """Raise ``ValueError`` where the graphs do not fit the model, its loss or the feature space."""
    loss = Loss.of(loss)
    check_loss(model, loss)
    check_space(model, space)
    if isinstance(graphs, Graph):
        raise ValueError("graphs: expected a sequence of graphs, got one; put it into a list")
    if not graphs:
        raise ValueError("graphs: a client needs at least one graph")
    if model.returns_statistics and (len(graphs) > 1 or graphs[0].n < 2):
        raise ValueError(
            "graphs: batch normalisation in training mode is computed over the nodes of one graph, two at least; give "
            "one graph, or take evaluation mode (training=False)"
        )
    for g in graphs:
        _check_label(model, g, loss)


def _check_label(model: GNN, graph: Graph, loss: Loss) -> None:
    y, name = graph.y, graph.name or "a graph"
    if y is None:
        raise ValueError(f"graphs: {name} has no label y, so it has no gradient")
    axes = 1 if model.node_level else 2 if loss.masked else 0
    if np.ndim(y) != axes:
        found = ("one graph label", "node labels (n,)", "a row of task labels (1, T)")
        losses = f"; of several tasks the loss is one of {', '.join(MASKED)}" if np.ndim(y) == 2 else ""
        raise ValueError(
            f"graphs: {name} needs {found[axes]} for this model's readout and the loss {loss.name!r}, and has "
            f"{found[np.ndim(y)]}{losses}"
        )
    if loss.masked:
        _check_tasks(model, np.asarray(y), loss, name)
    elif not loss.regression and not np.isin(y, np.arange(loss.classes(model.outputs))).all():
        raise ValueError(f"graphs: a label of {name} is not a class 0..{loss.classes(model.outputs) - 1}")


def _check_tasks(model: GNN, labels: Float[np.ndarray, "1 T"], loss: Loss, name: str) -> None:
    if labels.shape[1] != model.outputs:
        raise ValueError(
            f"graphs: {name} has labels of {labels.shape[1]} tasks, this model has {model.outputs} outputs"
        )
    present = labels[~np.isnan(labels)]
    if not present.size:
        raise ValueError(f"graphs: every label of {name} is missing, so it has no gradient; leave it out")
    if not loss.regression and not np.isin(present, (0, 1)).all():
        raise ValueError(f"graphs: a label of {name} is not 0, 1 or NaN (missing), which 'masked_bce' takes")
