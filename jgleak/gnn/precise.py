"""Modules and functions whose matrix products keep all bits of their numbers.

A GPU rounds the factors of a float32 product to about ten bits unless it is told not to. A gradient's rank, and whether
two gradients are the same, would be decided by that rounding; PyTorch's clients do not round either. The derivatives of
a product are as precise as the product. Models derive from ``Precise``, functions are decorated with ``precise``; where
a function has one such product, it says ``precision="highest"``.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, ParamSpec, TypeVar

import jax
from flax import linen as nn

P = ParamSpec("P")
R = TypeVar("R")


def precise(function: Callable[P, R]) -> Callable[P, R]:
    """The same function, whose products of float32 are not rounded; outside of it the setting is as it was."""

    @wraps(function)
    def run(*arguments: P.args, **options: P.kwargs) -> R:
        with jax.default_matmul_precision("highest"):
            return function(*arguments, **options)

    return run


class Precise(nn.Module):
    """A Flax module whose ``init`` and ``apply`` make full products."""

    @nn.nowrap
    @precise
    def init(self, *arguments: Any, **options: Any) -> Any:
        """``flax.linen.Module.init``."""
        return super().init(*arguments, **options)

    @nn.nowrap
    @precise
    def apply(self, *arguments: Any, **options: Any) -> Any:
        """``flax.linen.Module.apply``."""
        return super().apply(*arguments, **options)
