"""Federated training of the shared model under a defence: what a defence costs."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Float

from jgleak.defenses import Defense
from jgleak.features import FeatureSpace
from jgleak.federated.client import UNDEFENDED, check_client, gradients
from jgleak.federated.loss import Loss
from jgleak.gnn import GNN, Params
from jgleak.graph import Graph, GraphBatch


class TrainingPlan(NamedTuple):
    """How the rounds go.

    Attributes:
      rounds: how many.
      clients: that take part in each, drawn afresh.
      batch: graphs of a client.
      rate: the server's learning rate (Adam on the mean of the clients' updates).
    """

    rounds: int = 300
    clients: int = 16
    batch: int = 1
    rate: float = 1e-3


def federate(
    model: GNN,
    params: Params,
    graphs: Sequence[Graph],
    space: FeatureSpace,
    *,
    loss: str | Loss,
    plan: TrainingPlan,
    key: Array,
    defense: Defense = UNDEFENDED,
) -> Params:
    """FedSGD rounds: clients send defended mean gradients of a few graphs each, the server steps along their mean.

    Every client of a round defends its own update with its own key, side by side; all rounds are one compiled scan.

    Args:
      model: a model for graph tasks.
      params: where to start.
      graphs: all clients' labelled graphs.
      space: their feature space.
      loss: a ``Loss``, or its text.
      plan: rounds, clients, batch and rate.
      key: draws clients and what they draw.
      defense: what every client does before anything leaves.

    Raises:
      ValueError: graphs that do not fit the model, fewer of them than one client holds, or an impossible plan.
    """
    check_client(model, graphs, space, loss)
    if min(plan.rounds, plan.clients, plan.batch) < 1 or not (np.isfinite(plan.rate) and plan.rate > 0):
        raise ValueError(f"plan: rounds, clients and batch from 1 and a rate above 0 are needed, got {plan}")
    if len(graphs) < plan.batch:
        raise ValueError(f"graphs: a client holds {plan.batch}, but there are only {len(graphs)}")
    batch = GraphBatch.from_graphs(graphs, space, slots=model.readout.slots)
    return _rounds(model, loss, defense, plan, params, batch, key)


@partial(jax.jit, static_argnames=("model", "loss", "defense", "plan"))
def _rounds(
    model: GNN, loss: str | Loss, defense: Defense, plan: TrainingPlan, params: Params, graphs: GraphBatch, key: Array
) -> Params:
    optimiser = optax.adam(plan.rate)

    def sent(params: Params, own: Array) -> Params:
        draw, inside, outside = jax.random.split(own, 3)
        rows = jax.random.choice(draw, graphs.nodes.shape[0], (plan.batch,), replace=False)
        batch = jax.tree.map(lambda leaf: leaf[rows], graphs)
        each = gradients(
            model, params, batch, loss=loss, defense=defense, key=inside if defense.inside or model.drops else None
        )
        mean = jax.tree.map(lambda leaf: leaf.mean(axis=0), each)
        return model.trained(defense.apply(mean, key=outside))

    def step(state: tuple[Params, Any], own: Array) -> tuple[tuple[Params, Any], None]:
        params, memory = state
        updates = jax.vmap(sent, (None, 0))(params, jax.random.split(own, plan.clients))
        change, memory = optimiser.update(jax.tree.map(lambda leaf: leaf.mean(axis=0), updates), memory, params)
        return (optax.apply_updates(params, change), memory), None

    (params, _), _ = jax.lax.scan(step, (params, optimiser.init(params)), jax.random.split(key, plan.rounds))
    return params


@partial(jax.jit, static_argnames=("model",))
def outputs(model: GNN, params: Params, graphs: GraphBatch) -> Float[Array, "B C"]:
    """The model's logits of many graphs."""
    return jax.vmap(lambda graph: jnp.asarray(model.apply({"params": params}, *graph)))(graphs.dense)


def accuracy(model: GNN, params: Params, graphs: Sequence[Graph], space: FeatureSpace) -> float:
    """Share of labelled graphs whose class has the largest logit, or, of one output or several binary tasks, the share
    of present labels that their logits' signs tell."""
    batch = GraphBatch.from_graphs(graphs, space, slots=model.readout.slots)
    logits, labels = np.asarray(outputs(model, params, batch)), np.asarray(batch.labels)
    if labels.ndim == 1 and logits.shape[1] > 1:
        return float(np.mean(logits.argmax(axis=1) == labels))
    labels = labels.reshape(logits.shape)
    return float(np.mean(((logits > 0) == labels)[~np.isnan(labels)]))
