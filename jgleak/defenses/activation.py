"""Noise inside the client's forward pass: on every convolution's output."""

from __future__ import annotations

import jax
from jaxtyping import Array, Float

from jgleak.defenses.defense import Kind
from jgleak.defenses.noise import laplace_like


def laplace_states(deviation: float, key: Array, state: Float[Array, "N D"]) -> Float[Array, "N D"]:
    """Node states with Laplace noise of the given standard deviation (GraphDLG's DP-Activations, appendix A.7)."""
    return state + laplace_like(deviation, key, state)


def gaussian_states(deviation: float, key: Array, state: Float[Array, "N D"]) -> Float[Array, "N D"]:
    """Node states with Gaussian noise of the given standard deviation."""
    return state + deviation * jax.random.normal(key, state.shape, state.dtype)


ACTIVATIONS = Kind(
    "activations",
    disturb=laplace_states,
)
ACTIVATIONS_GAUSSIAN = Kind("activations-gaussian", disturb=gaussian_states)
