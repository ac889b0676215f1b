"""Noise on every entry of the update: Gaussian or Laplace."""

from __future__ import annotations

import math
from typing import cast

import jax
import optax
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, PyTree

from jgleak.defenses.defense import Kind
from jgleak.defenses.keyed import keyed


def gaussian(deviation: float, key: Array) -> optax.GradientTransformation:
    """Adds independent Gaussian noise of the given standard deviation."""
    return optax.add_noise(deviation**2, 0.0, key)


def laplace(deviation: float, key: Array) -> optax.GradientTransformation:
    """Adds independent Laplace noise of the given standard deviation, hence of scale ``deviation / sqrt(2)``.

    The tensors draw together: a draw takes about a second to compile, and an update has many tensors.
    """
    noisy = keyed(lambda leaf, own: leaf + laplace_like(deviation, own, leaf), key)

    def update(updates: PyTree, state: PyTree, params: PyTree = None) -> tuple[PyTree, PyTree]:
        flat, unravel = ravel_pytree(updates)
        changed, state = noisy.update(flat, state)
        return unravel(cast(Array, changed)), state

    return optax.GradientTransformation(noisy.init, update)


def laplace_like(deviation: float, key: Array, like: Array) -> Array:
    """Laplace noise in the shape and type of ``like``."""
    return deviation / math.sqrt(2.0) * jax.random.laplace(key, like.shape, like.dtype)


def _itself(deviation: float, update: PyTree) -> float:
    return deviation


GAUSSIAN = Kind("gaussian", gaussian, deviation=_itself)
LAPLACE = Kind(
    "laplace",
    laplace,
    deviation=_itself,
)
