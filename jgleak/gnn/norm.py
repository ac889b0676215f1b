"""Normalisations of a layer's pre-activations, of all nodes and of one."""

from __future__ import annotations

from typing import ClassVar

import jax.numpy as jnp
from flax import linen as nn
from jax import lax
from jaxtyping import Array, Float, Int

EPSILON = 1e-5
"""Added to variances, as in the papers' framework."""


class Norm(nn.Module):
    """Base of the normalisations: a map of every node's row.

    Attributes:
      epsilon: added to the variance.

    Class attributes:
      kind: what users type.
      columnwise: a column of the outcome depends on the same column of the row alone.
      statistics: of its parameters those that no gradient trains.
    """

    epsilon: float = EPSILON

    kind: ClassVar[str] = ""
    columnwise: ClassVar[bool] = False
    statistics: ClassVar[tuple[str, ...]] = ()

    def __call__(self, rows: Float[Array, "... D"]) -> Float[Array, "... D"]:
        raise NotImplementedError

    def columns(self, rows: Float[Array, "... C"], columns: Int[Array, " C"]) -> Float[Array, "... C"]:
        """The same of the given columns alone; of all of them, where the norm is not ``columnwise``."""
        raise NotImplementedError

    def _scaled(self, rows: Float[Array, "... C"], columns: Int[Array, " C"]) -> Float[Array, "... C"]:
        scale, bias = (jnp.asarray(self.get_variable("params", name))[columns] for name in ("scale", "bias"))
        return rows * scale + bias

    def _affine(self, width: int) -> Int[Array, " D"]:
        """The trained scale and offset, made in ``__call__``; all columns."""
        self.param("scale", nn.initializers.ones_init(), (width,))
        self.param("bias", nn.initializers.zeros_init(), (width,))
        return jnp.arange(width)


class LayerNorm(Norm):
    """Every row to mean 0 and variance 1 over its own columns, then scaled and moved (Ba et al., 2016)."""

    kind: ClassVar[str] = "layer"

    @nn.compact
    def __call__(self, rows: Float[Array, "... D"]) -> Float[Array, "... D"]:
        return self.columns(rows, self._affine(rows.shape[-1]))

    def columns(self, rows: Float[Array, "... C"], columns: Int[Array, " C"]) -> Float[Array, "... C"]:
        centred = rows - rows.mean(axis=-1, keepdims=True)
        variance = jnp.square(centred).mean(axis=-1, keepdims=True)
        return self._scaled(centred * lax.rsqrt(variance + self.epsilon), columns)


class BatchNorm(Norm):
    """Every column by a running mean and variance, then scaled and moved (Ioffe and Szegedy, 2015), in evaluation mode.

    The running statistics lie beside the parameters as ``mean`` and ``variance``. No gradient reaches them: an update
    has zeros in their places.
    """

    kind: ClassVar[str] = "batch"
    columnwise: ClassVar[bool] = True
    statistics: ClassVar[tuple[str, ...]] = ("mean", "variance")

    @nn.compact
    def __call__(self, rows: Float[Array, "... D"]) -> Float[Array, "... D"]:
        width = rows.shape[-1]
        self.param("mean", nn.initializers.zeros_init(), (width,))
        self.param("variance", nn.initializers.ones_init(), (width,))
        return self.columns(rows, self._affine(width))

    def columns(self, rows: Float[Array, "... C"], columns: Int[Array, " C"]) -> Float[Array, "... C"]:
        statistics = (self.get_variable("params", name) for name in ("mean", "variance"))
        mean, variance = (lax.stop_gradient(jnp.asarray(one))[columns] for one in statistics)
        return self._scaled((rows - mean) * lax.rsqrt(variance + self.epsilon), columns)
