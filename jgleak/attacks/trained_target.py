"""The regression target of a client that made several local steps."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

ROUNDS, LONGER = 8, 4.0
"""Most rounds of the secant method, of which a function that is nearly straight needs three, and how many times as long
as the step before a step may be."""

CLOSE = 1e-6
"""A residual of this share of the first one ends the rounds: rounding is not far."""

Residual = Callable[[Float[Array, ""]], Float[Array, ""]]
"""From a target to the mean gradient at the output along the steps with it, less the observed one."""


class _Round(NamedTuple):
    """The two last targets, the residual at the earlier one, and the target of the least residual so far."""

    number: Int[Array, ""]
    before: Float[Array, ""]
    gap: Float[Array, ""]
    now: Float[Array, ""]
    best: Float[Array, ""]
    least: Float[Array, ""]


def trained_target(residual: Residual, first: Float[Array, ""]) -> Float[Array, ""]:
    """A target at which ``residual`` is zero, traced; of those that were tried, the one with the least.

    After one step the gradient at the output is ``2 (output - target)``, with the output of the weights that the client
    got. Later outputs approach the target, so that the one that follows from the first output (``first``) lies too near
    to it. The secant method begins there with a slope of -2, that of one step. Where units switch on or off on the way,
    or steps are long, the residual has bends, jumps or several zeros, and the client's target may be missed. A target
    with which training diverges is taken back by half.
    """
    begun = residual(first)

    def going(state: _Round) -> Array:
        return (state.number < ROUNDS) & (state.now != state.before) & (state.least > CLOSE * jnp.abs(begun))

    def closer(state: _Round) -> _Round:
        number, before, gap, now, best, least = state
        left, moved = residual(now), now - before
        finite, flat = jnp.isfinite(left), left == gap
        step = jnp.where(flat, 0.0, left * moved / jnp.where(flat, 1.0, left - gap))
        following = now - jnp.clip(step, -LONGER * jnp.abs(moved), LONGER * jnp.abs(moved))
        better = jnp.abs(left) < least  # never, where it is no number
        return _Round(
            number + 1,
            jnp.where(finite, now, before),
            jnp.where(finite, left, gap),
            jnp.where(finite, following, before + moved / 2.0),
            jnp.where(better, now, best),
            jnp.where(better, jnp.abs(left), least),
        )

    known = jnp.isfinite(begun)
    second = jnp.where(known, first + begun / 2.0, first)
    start = _Round(jnp.zeros((), int), first, begun, second, first, jnp.where(known, jnp.abs(begun), jnp.inf))
    return jax.lax.while_loop(going, closer, start).best
