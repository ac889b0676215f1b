"""Activations by name."""

from __future__ import annotations

from collections.abc import Callable

import jax
from jaxtyping import Array

from jgleak.names import parts
from jgleak.names.entries import Entries

ACTIVATIONS: Entries[Callable[[Array], Array]] = Entries(parts.ACTIVATIONS)


def activation(name: str) -> Callable[[Array], Array]:
    """The activation called ``name``; raises ``ValueError`` listing the known ones."""
    if name not in ACTIVATIONS:
        raise ValueError(f"activation: unknown {name!r}; choose one of {sorted(ACTIVATIONS)}")
    return ACTIVATIONS[name]


def gelu(x: Array) -> Array:
    """GELU by the error function, as PyTorch has it; JAX's default is an approximation by ``tanh``."""
    return jax.nn.gelu(x, approximate=False)


def identity(x: Array) -> Array:
    """No activation."""
    return x
