"""What networks learn from public graphs with: one record of settings, one loop, one filter of sizes."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable
from typing import Any

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float

from jgleak.graph import Graph

Params = Any


@dataclasses.dataclass(frozen=True)
class PublicTraining:
    """How a network learns from public graphs.

    Attributes:
      training_steps: of the optimiser.
      training_batch: public graphs in each step.
      training_rate: learning rate of Adam.
      training_nodes: public graphs of more nodes than this (and than every client, where these are looked at) are left
        out where smaller ones remain, for every graph is padded to the largest.
      training_seed: training draws from a key of its own: the same public graphs give the same weights, whoever is
        attacked.
    """

    training_steps: int
    training_batch: int
    training_rate: float
    training_nodes: int
    training_seed: int = dataclasses.field(default=0, metadata={"from_zero": True})


def small(graphs: Iterable[Graph], nodes: int) -> list[Graph]:
    """The graphs of at most ``nodes`` nodes; the first of the smallest ones where there are none."""
    graphs = list(graphs)
    return [g for g in graphs if g.n <= nodes] or [min(graphs, key=lambda g: g.n)]


def fit(
    error: Callable[[Params, Array], Float[Array, ""]],
    params: Params,
    optimiser: optax.GradientTransformation,
    keys: Array,
) -> tuple[Params, Float[Array, " T"]]:
    """Weights after one step for each of ``keys``, and the error before every step; to be compiled by the caller.

    Args:
      error: of weights, under a key that draws whatever is random in it.
      params: where to start.
      optimiser: an optax transformation.
      keys: one a step.
    """

    def step(state: tuple[Params, Any], key: Array) -> tuple[tuple[Params, Any], Float[Array, ""]]:
        params, memory = state
        value, slope = jax.value_and_grad(error)(params, key)
        change, memory = optimiser.update(slope, memory, params)
        return (optax.apply_updates(params, change), memory), value

    (params, _), errors = jax.lax.scan(step, (params, optimiser.init(params)), keys)
    return params, errors


def decaying(training: PublicTraining) -> optax.GradientTransformation:
    """Adam with a cosine decay to zero."""
    return optax.adam(optax.cosine_decay_schedule(training.training_rate, training.training_steps))


def drawn(key: Array, training: PublicTraining, arrays: Any) -> Any:
    """A batch of the public graphs: rows of ``arrays``, with replacement."""
    rows = jax.random.randint(key, (training.training_batch,), 0, jax.tree.leaves(arrays)[0].shape[0])
    return jax.tree.map(lambda leaf: jnp.asarray(leaf)[rows], arrays)
