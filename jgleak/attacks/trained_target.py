"""The regression target of a client that made several local steps."""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

ROUNDS, LONGER = 8, 4.0
"""Rounds of the secant method, of which a function that is nearly straight needs four, and how many times as long as
the step before a step may be."""

Residual = Callable[[Float[Array, ""]], Float[Array, ""]]
"""From a target to the mean gradient at the output along the steps with it, less the observed one."""


def trained_target(residual: Residual, first: Float[Array, ""]) -> Float[Array, ""]:
    """The target that makes ``residual`` zero, traced.

    After one step the gradient at the output is ``2 (output - target)``, with the output of the weights that the client
    got. Later outputs approach the target, so that the one that follows from the first output (``first``) lies too near
    to it. The secant method begins there with a slope of -2, that of one step. It finds the client's target where a
    target decides the path smoothly, not where steps overshoot so far that several targets lead to one gradient.
    """

    def closer(state: tuple[Array, Array, Array], _: None) -> tuple[tuple[Array, Array, Array], None]:
        before, gap, now = state
        left, moved = residual(now), now - before
        flat = left == gap
        step = jnp.where(flat, 0.0, left * moved / jnp.where(flat, 1.0, left - gap))
        return (now, left, now - jnp.clip(step, -LONGER * jnp.abs(moved), LONGER * jnp.abs(moved))), None

    gap = residual(first)
    (*_, found), _ = jax.lax.scan(closer, (first, gap, first + gap / 2.0), length=ROUNDS)
    return found
