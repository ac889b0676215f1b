"""A FedAvg client: several local steps before anything leaves."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import jax
import numpy as np
from jaxtyping import Array

from jgleak.defenses import Defense
from jgleak.features import FeatureSpace
from jgleak.federated.client import UNDEFENDED, check_client, client_keys, defended, gradients, returned
from jgleak.federated.local_training import LocalTraining
from jgleak.federated.loss import Loss
from jgleak.federated.observation import Observation
from jgleak.gnn import GNN, Params
from jgleak.graph import Graph, GraphBatch


def fedavg(
    model: GNN,
    params: Params,
    graphs: Sequence[Graph],
    space: FeatureSpace,
    *,
    loss: str | Loss,
    local: LocalTraining,
    defense: Defense = UNDEFENDED,
    key: Array | None = None,
) -> Observation:
    """One client's FedAvg round (McMahan et al. 2017): steps of gradient descent on all its graphs.

    The server sees ``w_before - w_after`` and knows rate and steps, so what is observed is their quotient
    ``(w_before - w_after) / (rate * steps)``, the mean gradient along the way, which the defence is applied to.

    Args:
      local: how the client trains.

    The other arguments are those of ``fedsgd``.

    Raises:
      ValueError: as for ``fedsgd``; weights that stop being finite on the way; batch normalisation in training mode
        over several steps.
    """
    check_client(model, graphs, space, loss)
    if model.returns_statistics and local.steps > 1:
        raise ValueError("local: batch normalisation in training mode is understood in one step; take steps=1")
    inside, second = client_keys(model, defense, key)
    batch = GraphBatch.from_graphs(graphs, space, slots=model.readout.slots)
    mean = _along(model, params, batch, inside, np.float32(local.rate), loss=loss, defense=defense, steps=local.steps)
    if not all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(jax.device_get(mean))):
        raise ValueError(
            f"local_rate: the client's weights are not finite after {local.steps} steps at a rate of {local.rate:g}; "
            f"take a smaller rate or fewer steps"
        )
    first = None if inside is None else jax.random.fold_in(inside, 0)
    update = defended(model, defense, jax.tree.map(np.asarray, mean), second)
    marks = {"scaled": defense.scales, "pruned": defense.drops, "statistics": returned(model, params, batch, first)}
    return Observation(model, params, update, str(loss), len(graphs), "fedavg", local, **marks)


@partial(jax.jit, static_argnames=("model", "loss", "defense", "steps"))
def _along(
    model: GNN,
    params: Params,
    batch: GraphBatch,
    key: Array | None,
    rate: Array,
    *,
    loss: str | Loss,
    defense: Defense,
    steps: int,
) -> Params:
    """The mean gradient along the local steps."""

    def step(state: tuple[Params, Params], number: Array) -> tuple[tuple[Params, Params], None]:
        weights, total = state
        own = None if key is None else jax.random.fold_in(key, number)
        each = gradients(model, weights, batch, loss=loss, defense=defense, key=own)
        slope = jax.tree.map(lambda leaf: leaf.mean(axis=0), each)
        weights = jax.tree.map(lambda w, g: w - rate * g, weights, slope)
        return (weights, jax.tree.map(jax.numpy.add, total, slope)), None

    zero = jax.tree.map(jax.numpy.zeros_like, params)
    (_, total), _ = jax.lax.scan(step, (params, zero), jax.numpy.arange(steps))
    return jax.tree.map(lambda leaf: leaf / steps, total)
