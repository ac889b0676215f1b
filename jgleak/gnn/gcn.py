"""Graph convolution of Kipf and Welling: ``Z = D^-1/2 (A + I) D^-1/2 X W``."""

from __future__ import annotations

from typing import ClassVar

import jax.numpy as jnp
from flax import linen as nn
from jax import lax
from jaxtyping import Array, Bool, Float

from jgleak.gnn.convolution import AnyArray, Convolution, with_self_loops
from jgleak.gnn.mix import mix
from jgleak.gnn.tap import Tap, apply_kernel


class GCNConv(Convolution):
    """GCN layer (Kipf & Welling, ICLR 2017); degrees count the self-loop."""

    kind: ClassVar[str] = "gcn"

    peels: ClassVar[bool] = True
    symmetric: ClassVar[bool] = True

    @property
    def taps(self) -> tuple[Tap, ...]:
        return Tap(("kernel",), "own"), Tap(("kernel",), "mixed")

    @staticmethod
    def mixing(adjacency: Float[AnyArray, "N N"], mask: Bool[AnyArray, " N"]) -> Float[AnyArray, "N N"]:
        """``D^-1/2 (A + I) D^-1/2``; rows and columns of padding are 0."""
        xp = adjacency.__array_namespace__()
        looped = with_self_loops(adjacency, mask)
        scale = xp.where(mask, 1.0 / xp.sqrt(xp.where(mask, looped.sum(axis=1), 1.0)), 0.0)
        return scale[:, None] * looped * scale[None, :]

    @nn.compact
    def __call__(
        self, rows: Float[Array, "N F"], adjacency: Float[Array, "N N"], mask: Bool[Array, " N"]
    ) -> Float[Array, "N D"]:
        kernel = self._kernel("kernel", (rows.shape[-1], self.features))
        self._offsets("bias")
        mixed = mix(self.mixing(jnp.asarray(adjacency), mask), apply_kernel(self, "kernel", kernel, rows))
        return jnp.where(mask[:, None], self._add_bias(mixed), 0.0)

    def project(self, rows: Float[Array, "T F"]) -> Float[Array, "T P"]:
        return rows @ self._weight("kernel")

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
