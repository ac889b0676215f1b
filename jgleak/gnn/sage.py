"""One map for a node and one for its neighbours' mean or sum: ``Z = X W_self + mean_{u in N(v)} X_u W_neighbour``."""

from __future__ import annotations

from typing import ClassVar

import jax.numpy as jnp
from flax import linen as nn
from jaxtyping import Array, Bool, Float

from jgleak.gnn.convolution import FAINT, AnyArray, Convolution
from jgleak.gnn.mix import mix
from jgleak.gnn.tap import Tap, apply_kernel

AGGREGATIONS = ("mean", "sum")


class SAGEConv(Convolution):
    """GraphSAGE layer (Hamilton et al., NeurIPS 2017; GLG eq. for GraphSAGE). Isolated nodes aggregate zero.

    Attributes:
      aggregation: a name of ``AGGREGATIONS``: what is made of the neighbours' rows.
    """

    kind: ClassVar[str] = "sage"
    peels: ClassVar[bool] = True
    trims: ClassVar[bool] = True

    aggregation: str = "mean"

    @property
    def taps(self) -> tuple[Tap, ...]:
        return Tap(("self_kernel",), "own"), Tap(("neighbour_kernel",), "mixed")

    @nn.nowrap
    def check(self) -> None:
        super().check()
        if self.aggregation not in AGGREGATIONS:
            raise ValueError(f"aggregation: unknown {self.aggregation!r}; choose one of {', '.join(AGGREGATIONS)}")

    @nn.nowrap
    def mixing(self, adjacency: Float[AnyArray, "N N"], mask: Bool[AnyArray, " N"]) -> Float[AnyArray, "N N"]:
        """``D^-1 A``, where rows of isolated nodes are 0; ``A`` for sums."""
        if self.aggregation == "sum":
            return adjacency
        degree = adjacency.sum(axis=1, keepdims=True)
        return adjacency / adjacency.__array_namespace__().where(degree > FAINT, degree, 1.0)

    @nn.compact
    def __call__(
        self, rows: Float[Array, "N F"], adjacency: Float[Array, "M N"], mask: Bool[Array, " M"]
    ) -> Float[Array, "M D"]:
        shape = (rows.shape[-1], self.features)
        self_kernel, neighbour_kernel = (self._kernel(name, shape) for name in ("self_kernel", "neighbour_kernel"))
        self._offsets("bias")
        mixed = mix(adjacency, rows)
        if self.aggregation == "mean":
            degree = adjacency.sum(axis=1, keepdims=True)
            mixed = mixed / jnp.where(degree > FAINT, degree, 1.0)
        own = apply_kernel(self, "self_kernel", self_kernel, rows[: mask.shape[0]])
        others = apply_kernel(self, "neighbour_kernel", neighbour_kernel, mixed)
        return jnp.where(mask[:, None], self._add_bias(own + others), 0.0)

    def project(self, rows: Float[Array, "T F"]) -> Float[Array, "T P"]:
        return rows @ jnp.concatenate([self._weight("self_kernel"), self._weight("neighbour_kernel")], axis=1)

    def star_terms(
        self,
        centre: Float[Array, " P"],
        centre_degree: Float[Array, ""],
        projected: Float[Array, "T P"],
        degrees: Float[Array, " T"],
    ) -> tuple[Float[Array, " E"], Float[Array, "T E"]]:
        width = self.features
        return centre[:width], projected[:, width:] / self._divisor(centre_degree)

    def aggregate_terms(
        self,
        centre: Float[Array, " F"],
        centre_degree: Float[Array, ""],
        rows: Float[Array, "T F"],
        degrees: Float[Array, " T"],
    ) -> tuple[Float[Array, " F"], Float[Array, "T F"]]:
        return jnp.zeros_like(centre), rows / self._divisor(centre_degree)

    def _divisor(self, degree: Float[Array, ""]) -> Float[Array, ""] | float:
        """What the neighbours' sum is divided by."""
        return jnp.maximum(degree, 1.0) if self.aggregation == "mean" else 1.0


class GraphConv(SAGEConv):
    """Layer of Morris et al. (AAAI 2019): a GraphSAGE layer that adds its neighbours up by default."""

    kind: ClassVar[str] = "graph"

    aggregation: str = "sum"
