"""The sparse vector technique as NVFlare's ``SVTPrivacy`` applies it: a few entries at random, cut, with noise."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jax.flatten_util import ravel_pytree

from jgleak.defenses.defense import Kind

FRACTION, EPSILON, NOISE_VAR, TAU = 0.1, 0.1, 0.1, 0.1
"""NVFlare's defaults: share of entries that leave, budget of their choice, budget a released entry, and the threshold
in units of ``gamma`` (1e-6 of 1e-5)."""


class Scales(NamedTuple):
    """Scales of the Laplace noise, and how many entries leave.

    Attributes:
      count: entries that leave, ``ceil(FRACTION d)`` of ``d``.
      threshold: of the noise on the threshold.
      query: of the noise on what is compared with it.
      release: of the noise on what leaves.
    """

    count: int
    threshold: float
    query: float
    release: float


def scales(gamma: float, entries: int) -> Scales:
    """The noise on an update of so many entries that are cut to ``gamma``.

    The budget of the choice is split as ``1 : (2 c)^(2/3)`` between the threshold and the comparisons of ``c`` entries.
    """
    count = min(math.ceil(entries * FRACTION), entries)
    ratio = (2.0 * count) ** (2.0 / 3.0)
    threshold = EPSILON / (1.0 + ratio)
    query = EPSILON - threshold
    return Scales(count, gamma / threshold, 2.0 * gamma * count / query, 2.0 * gamma / NOISE_VAR)


def sparse_vector(gamma: float, key: jax.Array) -> optax.GradientTransformation:
    """Lets a tenth of the entries leave, cut to ``gamma`` and with Laplace noise; the others are zero.

    Entries pass whose size, cut to ``gamma`` and with noise, reaches a noisy threshold. All others are tried again
    until enough have passed; of these those that leave are drawn with replacement. A tensor that is a single number
    without an axis leaves as it is. NVFlare's defaults but for ``gamma``, which all of it is in proportion to. Of an
    update that is not finite all leaves as NaN, which no observation takes.
    """

    def update(updates: Any, state: Any, params: Any = None) -> tuple[Any, Any]:
        now, later = jax.random.split(state)
        flat, unravel = ravel_pytree(updates)
        left = unravel(_released(flat, gamma, now))
        kept = jax.tree.map(lambda leaf, out: leaf if jnp.ndim(leaf) == 0 else out, updates, left)
        return kept, later

    return optax.GradientTransformation(lambda params: key, update)


def _released(flat: jax.Array, gamma: float, key: jax.Array) -> jax.Array:
    noise = scales(gamma, flat.size)
    first, asking, choosing, releasing = jax.random.split(key, 4)
    threshold = TAU * gamma + noise.threshold * jax.random.laplace(first)
    cut = jnp.clip(flat, -gamma, gamma)

    def ask(now: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
        passed, own = now
        own, again = jax.random.split(own)
        answers = jnp.abs(cut) + noise.query * jax.random.laplace(again, flat.shape)
        return passed | (answers >= threshold), own

    # NaN never passes: where most entries are, the questions would have no end.
    finite = jnp.all(jnp.isfinite(flat))
    passed, _ = jax.lax.while_loop(
        lambda now: finite & (jnp.sum(now[0]) < noise.count), ask, (jnp.zeros(flat.shape, bool), asking)
    )
    chosen = jax.random.choice(choosing, flat.size, (noise.count,), p=passed / jnp.sum(passed))
    sent = cut[chosen] + noise.release * jax.random.laplace(releasing, (noise.count,))
    return jnp.zeros_like(flat).at[chosen].set(sent.astype(flat.dtype))


TAIL = 4.0
"""Scales of Laplace noise in the deviation of normal noise that exceeds any bound at least as often, at rates from a
tenth down to 1e-12."""


def _release_noise(gamma: float, update: Any) -> float:
    """Deviation of normal noise that covers the noise on an entry that leaves.

    Attacks and facts test by quantiles of normal noise, which Laplace noise of the same deviation exceeds far more
    often. What is left of an entry, ``gamma`` at most, is a twentieth of the noise's scale, and no test sees it.
    """
    return TAIL * scales(gamma, 1).release


SPARSE_VECTOR = Kind("sparse-vector", sparse_vector, deviation=_release_noise, drops=True)
