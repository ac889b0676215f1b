"""Linear maps with activations between them."""

from __future__ import annotations

import math

import jax
import jax.numpy as jnp
from flax import linen as nn
from jaxtyping import Array, Float

from jgleak.gnn.activation import activation
from jgleak.gnn.convolution import check_sizes
from jgleak.gnn.dropout import check_rate, dropped
from jgleak.gnn.precise import Precise
from jgleak.gnn.tap import apply_kernel


class LinearMap(nn.Module):
    """Linear map with weights and bias uniform in ±1/sqrt(fan_in), the usual default of the papers' framework.

    Attributes:
      features: width ``D`` of the outgoing rows.
      bias: add a bias.
    """

    features: int
    bias: bool = True

    @nn.compact
    def __call__(self, x: Float[Array, "... F"]) -> Float[Array, "... D"]:
        start = _uniform(x.shape[-1])
        kernel = self.param("kernel", start, (x.shape[-1], self.features))
        out = apply_kernel(self, "kernel", kernel, x)
        return out + self.param("bias", start, (self.features,)) if self.bias else out


class MLP(Precise):
    """Linear maps, with an activation after each but the last.

    Attributes:
      widths: of every map's output; the last is the MLP's own.
      act: a name of ``ACTIVATIONS``.
      dropout: share of entries that are set to 0 after each activation while a client trains.
    """

    widths: tuple[int, ...]
    act: str = "relu"
    dropout: float = 0.0

    @nn.nowrap
    def check(self) -> None:
        """Raise ``ValueError`` for an unknown name or an impossible size."""
        check_sizes(widths=self.widths)
        activation(self.act)
        check_rate(self.dropout)

    def setup(self) -> None:
        self.linears = [LinearMap(width) for width in self.widths]

    @property
    def first(self) -> str:
        """The name of the first map's parameters."""
        return "linears_0"

    @property
    def last(self) -> str:
        """The name of the last map's parameters."""
        return f"linears_{len(self.widths) - 1}"

    def __call__(self, x: Float[Array, "... F"]) -> Float[Array, "... C"]:
        return self.hidden(x)[1]

    def hidden(self, x: Float[Array, "... F"]) -> tuple[Float[Array, "... h"], Float[Array, "... C"]]:
        """What enters the last map, and what leaves it."""
        for number, linear in enumerate(self.linears[:-1]):
            x = dropped(self, self.dropout, activation(self.act)(linear(x)), f"mask_{number}")
        return x, self.linears[-1](x)

    def behind_first(self, x: Float[Array, "... F"]) -> Float[Array, "... C"]:
        """The output, from what leaves the first map; without dropout."""
        for linear in self.linears[1:]:
            x = linear(activation(self.act)(x))
        return x


def _uniform(fan_in: int) -> nn.initializers.Initializer:
    bound = 1.0 / math.sqrt(fan_in)
    return lambda key, shape, dtype=jnp.float32: jax.random.uniform(key, shape, dtype, -bound, bound)
