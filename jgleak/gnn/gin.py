"""Graph isomorphism network: ``Z = MLP((1 + eps) X_v + sum_{u in N(v)} X_u)`` with a two-layer MLP."""

from __future__ import annotations

from typing import ClassVar

import jax.numpy as jnp
from flax import linen as nn
from jaxtyping import Array, Bool, Float, Int

from jgleak.gnn.activation import activation
from jgleak.gnn.convolution import Convolution
from jgleak.gnn.mix import mix
from jgleak.gnn.tap import Tap, apply_kernel


class GINConv(Convolution):
    """GIN layer (Xu et al., ICLR 2019). The first MLP weight is linear, so it is applied before the sum.

    With ``bias`` both linear maps have one; the first is added after the sum.

    Attributes:
      epsilon: weight of the centre, fixed.
      inner: activation between the two linear maps.
    """

    kind: ClassVar[str] = "gin"

    epsilon: float = 0.0
    inner: str = "relu"

    @property
    def taps(self) -> tuple[Tap, ...]:
        return Tap(("kernel",), "own"), Tap(("kernel",), "mixed"), Tap(("out_kernel",), "hidden")

    @classmethod
    def of_width(cls, features: int, bias: bool, act: str) -> GINConv:
        return cls(features, bias, inner=act)

    @nn.nowrap
    def check(self) -> None:
        super().check()
        activation(self.inner)

    @nn.compact
    def __call__(
        self, rows: Float[Array, "N F"], adjacency: Float[Array, "N N"], mask: Bool[Array, " N"]
    ) -> Float[Array, "N D"]:
        kernel = self._kernel("kernel", (rows.shape[-1], self.features))
        out_kernel = self._kernel("out_kernel", (self.features, self.features))
        self._offsets("inner_bias", "bias")
        mapped = apply_kernel(self, "kernel", kernel, rows)
        total = (1.0 + self.epsilon) * mapped + mix(adjacency, mapped)
        out = apply_kernel(self, "out_kernel", out_kernel, activation(self.inner)(self._add_inner(total)))
        return jnp.where(mask[:, None], self._add_bias(out), 0.0)

    def project(self, rows: Float[Array, "T F"]) -> Float[Array, "T P"]:
        return rows @ self._weight("kernel")

    def star_terms(
        self,
        centre: Float[Array, " P"],
        centre_degree: Float[Array, ""],
        projected: Float[Array, "T P"],
        degrees: Float[Array, " T"],
    ) -> tuple[Float[Array, " E"], Float[Array, "T E"]]:
        return (1.0 + self.epsilon) * centre, projected

    def aggregate_terms(
        self,
        centre: Float[Array, " F"],
        centre_degree: Float[Array, ""],
        rows: Float[Array, "T F"],
        degrees: Float[Array, " T"],
    ) -> tuple[Float[Array, " F"], Float[Array, "T F"]]:
        return self.star_terms(centre, centre_degree, rows, degrees)  # the sum is linear: with the kernel or without

    def star_combine(self, total: Float[Array, "A ... C"], columns: Int[Array, " C"]) -> Float[Array, "... C"]:
        return self._add_inner(total[0], columns)

    def star_hidden(self, combined: Float[Array, "... D"]) -> Float[Array, "... D"]:
        return activation(self.inner)(combined)

    def star_finish(self, combined: Float[Array, "... D"]) -> Float[Array, "... D"]:
        return self._add_bias(self.star_hidden(combined) @ self._weight("out_kernel"))

    def _add_inner(self, z: Float[Array, "... C"], columns: Int[Array, " C"] | None = None) -> Float[Array, "... C"]:
        return self._add_bias(z, columns, "inner_bias")
