"""Dropout: in training mode some entries of activations, drawn at random, are 0 and the others larger."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from flax import linen as nn
from jaxtyping import Array, Float

DROPOUT = "dropout"
"""Name of the random stream: ``apply`` is in training mode where it is given ``rngs={DROPOUT: key}``."""

MASKS = "masks"
"""Collection of masks that take the place of random ones, with entries in [0, 1]; when it is mutable and none are
given, every mask's place gets the probabilities with which its entries are kept."""


def check_rate(rate: float) -> None:
    """Raise ``ValueError`` for what is no share of entries."""
    if not 0 <= rate < 1:
        raise ValueError(f"dropout: expected a share from 0 and below 1, got {rate}")


def dropped(module: nn.Module, rate: float, rows: Float[Array, "*rows"], name: str = "mask") -> Float[Array, "*rows"]:
    """In training mode ``rows`` with a share of entries set to 0 and the others divided by ``1 - rate`` (inverted
    dropout, PyTorch's), by a mask of the module's own under this ``name``; in evaluation mode ``rows``."""
    if not rate:
        return rows
    if module.has_variable(MASKS, name):
        return rows * (module.get_variable(MASKS, name) / (1.0 - rate))
    chance = jnp.full(rows.shape, 1.0 - rate, rows.dtype)
    module.sow(MASKS, name, chance, init_fn=lambda: chance, reduce_fn=lambda _, now: now)
    if not module.has_rng(DROPOUT):
        return rows
    return jnp.where(jax.random.bernoulli(module.make_rng(DROPOUT), chance), rows / (1.0 - rate), 0.0)
