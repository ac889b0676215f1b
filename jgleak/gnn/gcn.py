"""Graph convolution of Kipf and Welling: ``Z = S X W``, ``S = D^-1/2 (A + I) D^-1/2`` or a part of that."""

from __future__ import annotations

from typing import ClassVar

import jax.numpy as jnp
from flax import linen as nn
from jax import lax
from jaxtyping import Array, Bool, Float

from jgleak.gnn.convolution import FAINT, AnyArray, Convolution, with_self_loops
from jgleak.gnn.mix import mix
from jgleak.gnn.tap import Tap, apply_kernel


class GCNConv(Convolution):
    """GCN layer (Kipf & Welling, ICLR 2017).

    Attributes:
      self_loops: add ``I`` to the adjacency; degrees count it. Without it isolated nodes take nothing from anybody.
      normalise: divide by the square roots of both ends' degrees.
    """

    kind: ClassVar[str] = "gcn"

    self_loops: bool = True
    normalise: bool = True

    peels: ClassVar[bool] = True
    symmetric: ClassVar[bool] = True

    @property
    def taps(self) -> tuple[Tap, ...]:
        return Tap(("kernel",), "own"), Tap(("kernel",), "mixed")

    @property
    def weighs_by_degree(self) -> bool:
        return self.normalise

    @nn.nowrap
    def mixing(self, adjacency: Float[AnyArray, "N N"], mask: Bool[AnyArray, " N"]) -> Float[AnyArray, "N N"]:
        """``S``; rows and columns of padding are 0."""
        xp = adjacency.__array_namespace__()
        looped = with_self_loops(adjacency, mask) if self.self_loops else adjacency
        if not self.normalise:
            return looped
        degree = looped.sum(axis=1)
        some = mask & (degree > FAINT)
        scale = xp.where(some, 1.0 / xp.sqrt(xp.where(some, degree, 1.0)), 0.0)
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
        loop = float(self.self_loops)
        if not self.normalise:
            return loop * centre, projected
        # A neighbour has at least this edge; a table also holds nodes without any, whose values are not used.
        scale = lax.rsqrt(jnp.maximum(centre_degree + loop, 1.0) * jnp.maximum(degrees + loop, 1.0))
        return loop * centre / (centre_degree + 1.0), projected * scale[:, None]

    def aggregate_terms(
        self,
        centre: Float[Array, " F"],
        centre_degree: Float[Array, ""],
        rows: Float[Array, "T F"],
        degrees: Float[Array, " T"],
    ) -> tuple[Float[Array, " F"], Float[Array, "T F"]]:
        return self.star_terms(centre, centre_degree, rows, degrees)  # the mixing is linear: with W or without
