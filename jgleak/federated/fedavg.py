"""A FedAvg client: several local steps before anything leaves."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from jgleak.defenses import Defense
from jgleak.features import FeatureSpace
from jgleak.federated.client import UNDEFENDED, check_client, client_keys, defended, gradients, returned
from jgleak.federated.descent import descended
from jgleak.federated.local_training import Descent, LocalTraining
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
    """One client's FedAvg round (McMahan et al. 2017): steps of gradient descent on its graphs.

    The server sees the weights before and after and knows how the client trains, so what is observed is the mean
    gradient along the way (``LocalTraining``), which the defence is applied to.

    Args:
      local: how the client trains.
      key: as for ``fedsgd``; it draws the order of the graphs too, and is required where they are shuffled.

    The other arguments are those of ``fedsgd``.

    Raises:
      ValueError: as for ``fedsgd``; weights that stop being finite on the way; batch normalisation in training mode
        over several steps; steps of Adam; shuffled graphs without a key; a last step of fewer graphs under a masked
        loss.
    """
    check_client(model, graphs, space, loss)
    local = local.among(len(graphs))
    if model.returns_statistics and local.steps > 1:
        raise ValueError("local: batch normalisation in training mode is understood in one step; take steps=1")
    if Loss.of(loss).masked and local.loader is not None and len(graphs) % local.loader:
        raise ValueError(
            f"local: {len(graphs)} graphs do not fill steps of {local.loader}, and a masked loss counts labels by the "
            "step; take a loader that divides the number of graphs"
        )
    inside, second = client_keys(model, defense, key)
    batch = GraphBatch.from_graphs(graphs, space, slots=model.readout.slots)
    loaded = _loaded(local, len(graphs), key)
    mean = _along(model, params, batch, inside, local.descent, loaded, loss=loss, defense=defense)
    if not all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(jax.device_get(mean))):
        raise ValueError(
            f"local_rate: the client's weights are not finite after {local.steps} steps at a rate of {local.rate:g}; "
            f"take a smaller rate or fewer steps"
        )
    first = None if inside is None else jax.random.fold_in(inside, 0)
    update = defended(model, defense, jax.tree.map(np.asarray, mean), second)
    marks = {"scaled": defense.scales, "pruned": defense.drops, "rounding": defense.rounding(update)}
    marks |= {"statistics": returned(model, params, batch, first)}
    return Observation(model, params, update, str(loss), len(graphs), "fedavg", local, **marks)


def _loaded(
    local: LocalTraining, graphs: int, key: Array | None
) -> tuple[Int[np.ndarray, "E b"], Float[np.ndarray, "E b"]]:
    """Of every step the graph at each place, and what it counts in the step's mean.

    Raises:
      ValueError: shuffled graphs and no key.
    """
    if local.shuffled and key is None:
        raise ValueError("key: the order of shuffled graphs is drawn under a key; give key=jax.random.key(...)")
    size = local.loader or graphs
    each, begin = local.passes(graphs), np.arange(graphs)
    order = np.zeros((local.steps, size), np.int64)
    counts = np.zeros((local.steps, size), np.float32)
    for number in range(local.steps):
        number_of_pass, place = divmod(number, each)
        if local.shuffled and key is not None:
            own = jax.random.fold_in(jax.random.fold_in(key, 2**31 - 2), number_of_pass)
            begin = np.asarray(jax.random.permutation(own, graphs))
        some = begin[place * size : (place + 1) * size]
        order[number, : some.size] = some
        counts[number, : some.size] = 1.0 / some.size
    return order, counts


@partial(jax.jit, static_argnames=("model", "loss", "defense"))
def _along(
    model: GNN,
    params: Params,
    batch: GraphBatch,
    key: Array | None,
    how: Descent,
    loaded: tuple[Int[Array, "E b"], Float[Array, "E b"]],
    *,
    loss: str | Loss,
    defense: Defense,
) -> Params:
    """The mean gradient along the local steps."""

    def slope(weights: Params, number: Array) -> Params:
        own = None if key is None else jax.random.fold_in(key, number)
        order, counts = (part[number] for part in loaded)
        some = jax.tree.map(lambda leaf: leaf[order], batch)
        each = gradients(model, weights, some, loss=loss, defense=defense, key=own)
        return jax.tree.map(lambda leaf: jnp.tensordot(counts, leaf, 1, precision="highest"), each)

    return descended(model, params, slope, how).update
