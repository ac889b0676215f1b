"""Local steps of gradient descent, as a client makes them and as an attacker makes them again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Int

from jgleak.federated.local_training import Descent
from jgleak.gnn import GNN, Params

Slope = Callable[[Params, Int[Array, ""]], Params]
"""The gradient at some weights, in the step of some number (from 0)."""


class Descended(NamedTuple):
    """What local steps did.

    Attributes:
      update: the mean gradient as the server reads it off (``LocalTraining``).
      weights: those before each step, every leaf with a leading axis ``E``; None unless asked for.
      slopes: the gradients there, likewise.
    """

    update: Params
    weights: Any = None
    slopes: Any = None


def stepped(model: GNN, how: Descent, weights: Params, speed: Params, gradient: Params) -> tuple[Params, Params]:
    """Weights and speed after one step; frozen parts and running statistics do not decay."""
    decaying = model.trained(weights) if model.frozen or model.norms else weights
    speed = jax.tree.map(lambda v, g, w: how.momentum * v + g + how.weight_decay * w, speed, gradient, decaying)
    return jax.tree.map(lambda w, v: w - how.rate * v, weights, speed), speed


def descended(model: GNN, params: Params, slope: Slope, how: Descent, *, along: bool = False) -> Descended:
    """Steps from some weights, traced.

    Args:
      model: the shared model.
      params: the weights to begin with.
      slope: the gradient of every step.
      how: rate, momentum, weight decay, and the shares of the steps, which say how many there are.
      along: keep weights and gradients of every step.
    """
    zero = jax.tree.map(jnp.zeros_like, params)

    def step(state: tuple[Params, Params, Params], now: tuple[Array, Array]) -> tuple[tuple[Params, ...], Any]:
        (weights, speed, total), (number, share) = state, now
        gradient = slope(weights, number)
        total = jax.tree.map(lambda t, g: t + share * g, total, gradient)
        moved = stepped(model, how, weights, speed, gradient)
        return (*moved, total), (weights, gradient) if along else None

    shares = jnp.asarray(how.shares)
    (_, _, total), kept = jax.lax.scan(step, (params, zero, zero), (jnp.arange(shares.size), shares))
    return Descended(total, *kept) if along else Descended(total)
