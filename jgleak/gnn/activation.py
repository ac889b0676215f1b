"""Activations by name."""

from __future__ import annotations

from collections.abc import Callable

import jax
from jaxtyping import Array

from jgleak.names import parts
from jgleak.names.entries import Entries

ACTIVATIONS: Entries[Callable[[Array], Array]] = Entries(parts.ACTIVATIONS)


CURVED = ("gelu", "gelu_tanh")
"""Activations that fall before they rise, and are steeper than 1 in places."""


def activation(name: str) -> Callable[[Array], Array]:
    """The activation called ``name``; raises ``ValueError`` listing the known ones."""
    if name not in ACTIVATIONS:
        raise ValueError(f"activation: unknown {name!r}; choose one of {sorted(ACTIVATIONS)}")
    return ACTIVATIONS[name]


def gelu(x: Array) -> Array:
    """GELU by the error function, as PyTorch has it."""
    return jax.nn.gelu(x, approximate=False)


def gelu_tanh(x: Array) -> Array:
    """GELU approximated by ``tanh``, the default of ``jax.nn.gelu`` and of flax."""
    return jax.nn.gelu(x, approximate=True)


def identity(x: Array) -> Array:
    """No activation."""
    return x
