"""Graph convolution of Kipf and Welling: ``Z = D^-1/2 (A + I) D^-1/2 X W``."""

from __future__ import annotations

from typing import ClassVar

import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Bool, Float

from jgleak.gnn.convolution import Convolution, with_self_loops
from jgleak.gnn.mix import mix
from jgleak.gnn.tap import apply_kernel


class GCNConv(Convolution):
    """GCN layer (Kipf & Welling, ICLR 2017); degrees count the self-loop."""

    aggregate_kernel: ClassVar[str | None] = "kernel"

    def setup(self) -> None:
        self.kernel = self._kernel("kernel", (self.in_features, self.features))
        if self.bias:
            self.offset = self._offset()

    def __call__(
        self, rows: Float[Array, "N F"], adjacency: Float[Array, "N N"], mask: Bool[Array, " N"]
    ) -> Float[Array, "N D"]:
        looped = with_self_loops(adjacency, mask)
        scale = jnp.where(mask, lax.rsqrt(jnp.where(mask, looped.sum(axis=1), 1.0)), 0.0)
        mixed = mix(scale[:, None] * looped * scale[None, :], apply_kernel(self, "kernel", self.kernel, rows))
        return jnp.where(mask[:, None], self._add_bias(mixed), 0.0)

    def project(self, rows: Float[Array, "T F"]) -> Float[Array, "T P"]:
        return rows @ self.kernel

    def star_terms(
        self,
        centre: Float[Array, " P"],
        centre_degree: Float[Array, ""],
        projected: Float[Array, "T P"],
        degrees: Float[Array, " T"],
    ) -> tuple[Float[Array, " E"], Float[Array, "T E"]]:
        scale = lax.rsqrt((centre_degree + 1.0) * (degrees + 1.0))
        return centre / (centre_degree + 1.0), projected * scale[:, None]

    def aggregate_terms(
        self,
        centre: Float[Array, " F"],
        centre_degree: Float[Array, ""],
        rows: Float[Array, "T F"],
        degrees: Float[Array, " T"],
    ) -> tuple[Float[Array, " F"], Float[Array, "T F"]]:
        return self.star_terms(centre, centre_degree, rows, degrees)  # the mixing is linear: with W or without
