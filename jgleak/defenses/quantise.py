"""Fewer bits an entry: stochastic levels, signs, half precision."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, PyTree

from jgleak.defenses.defense import Kind
from jgleak.defenses.keyed import keyed
from jgleak.precision import TINY, rounding_of

MOST = 16
"""Most bits of an entry."""


def quantise(bits: float, key: Array) -> optax.GradientTransformation:
    """Rounds every entry at random to one of ``2**bits - 1`` levels between ``±max`` of its tensor, right on average.

    QSGD (Alistarh et al. 2017) with the largest entry in the place of the norm.
    """
    levels = 2.0 ** (bits - 1) - 1.0

    def one(leaf: Array, own: Array) -> Array:
        largest = jnp.abs(leaf).max()
        unit = jnp.where(largest > 0, largest, 1.0) / levels
        return unit * jnp.floor(leaf / unit + jax.random.uniform(own, leaf.shape, leaf.dtype))

    return keyed(one, key)


def sign(_: float, key: Array) -> optax.GradientTransformation:
    """Every entry's sign times the mean size of its tensor's entries (signSGD, Bernstein et al. 2018; scaled)."""
    return optax.stateless_with_tree_map(lambda leaf, _: jnp.sign(leaf) * jnp.abs(jnp.asarray(leaf)).mean())


def _rounded(dtype: Any) -> optax.GradientTransformation:
    """Every entry rounded to a shorter type, in its old type again."""
    return optax.stateless_with_tree_map(lambda leaf, _: _as(leaf, dtype))


def _as(leaf: Any, dtype: Any) -> Array:
    return jnp.asarray(leaf).astype(dtype).astype(jnp.asarray(leaf).dtype)


def _levels(bits: float, update: PyTree) -> float:
    """Root mean square error of random rounding, a variance of ``unit^2 / 6`` on average over a unit, in the tensor
    where it is largest."""
    largest = max(float(np.abs(leaf).max()) for leaf in jax.tree.leaves(update))
    return largest / (2.0 ** (bits - 1) - 1.0) / float(np.sqrt(6.0))


def _bits(bits: float) -> str | None:
    return None if bits in range(2, MOST + 1) else f"must be a whole number of bits from 2 to {MOST}"


QUANTISE = Kind(
    "quantise",
    quantise,
    fault=_bits,
    deviation=_levels,
)
SIGN = Kind("sign", sign, plain=True)
FLOAT16 = Kind(
    "float16",
    lambda _, key: _rounded(jnp.float16),
    deviation=lambda _, update: TINY["float16"],
    rounding=rounding_of("float16"),
    plain=True,
)
BFLOAT16 = Kind(
    "bfloat16",
    lambda _, key: _rounded(jnp.bfloat16),
    deviation=lambda _, update: TINY["bfloat16"],
    rounding=rounding_of("bfloat16"),
    plain=True,
)
