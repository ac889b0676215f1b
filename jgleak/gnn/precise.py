"""Modules whose matrix products keep all bits of their numbers.

A GPU rounds the factors of a float32 product to about ten bits unless it is told not to. A gradient's rank, and whether
two gradients are the same, would be decided by that rounding; PyTorch's clients do not round either. The derivatives of
a product are as precise as the product.
"""

from __future__ import annotations

from typing import Any

import jax
from flax import linen as nn


class Precise(nn.Module):
    """A Flax module that is applied with full products."""

    @nn.nowrap
    def apply(self, *arguments: Any, **options: Any) -> Any:
        """``flax.linen.Module.apply``."""
        with jax.default_matmul_precision("highest"):
            return super().apply(*arguments, **options)
