"""The activations of the five papers, and ELU (usual under attention), by name."""

from __future__ import annotations

from collections.abc import Callable

import jax
from jaxtyping import Array

ACTIVATIONS: dict[str, Callable[[Array], Array]] = {
    "relu": jax.nn.relu,
    "gelu": lambda x: jax.nn.gelu(x, approximate=False),
    "sigmoid": jax.nn.sigmoid,
    "tanh": jax.numpy.tanh,
    "elu": jax.nn.elu,
    "identity": lambda x: x,
}


def activation(name: str) -> Callable[[Array], Array]:
    """The activation called ``name``; raises ``ValueError`` listing the known ones."""
    if name not in ACTIVATIONS:
        raise ValueError(f"activation: unknown {name!r}; choose one of {sorted(ACTIVATIONS)}")
    return ACTIVATIONS[name]
