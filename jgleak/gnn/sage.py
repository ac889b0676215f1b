"""GraphSAGE with mean aggregation: ``Z = X W_self + mean_{u in N(v)} X_u W_neighbour``."""

from __future__ import annotations

from typing import ClassVar

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from jgleak.gnn.convolution import Convolution
from jgleak.gnn.mix import mix
from jgleak.gnn.tap import apply_kernel

FAINT = 1e-6
"""A relaxed degree below this counts as none: its inverse square, in a derivative, would overflow."""


class SAGEConv(Convolution):
    """GraphSAGE-mean layer (Hamilton et al., NeurIPS 2017; GLG eq. for GraphSAGE). Isolated nodes aggregate zero."""

    span_kernel: ClassVar[str] = "self_kernel"
    aggregate_kernel: ClassVar[str | None] = "neighbour_kernel"

    def setup(self) -> None:
        self.self_kernel = self._kernel("self_kernel", (self.in_features, self.features))
        self.neighbour_kernel = self._kernel("neighbour_kernel", (self.in_features, self.features))
        if self.bias:
            self.offset = self._offset()

    def __call__(
        self, rows: Float[Array, "N F"], adjacency: Float[Array, "N N"], mask: Bool[Array, " N"]
    ) -> Float[Array, "N D"]:
        degree = adjacency.sum(axis=1, keepdims=True)
        mean = mix(adjacency, rows) / jnp.where(degree > FAINT, degree, 1.0)
        own = apply_kernel(self, "self_kernel", self.self_kernel, rows)
        others = apply_kernel(self, "neighbour_kernel", self.neighbour_kernel, mean)
        return jnp.where(mask[:, None], self._add_bias(own + others), 0.0)

    def project(self, rows: Float[Array, "T F"]) -> Float[Array, "T P"]:
        return rows @ jnp.concatenate([self.self_kernel, self.neighbour_kernel], axis=1)

    def star_terms(
        self,
        centre: Float[Array, " P"],
        centre_degree: Float[Array, ""],
        projected: Float[Array, "T P"],
        degrees: Float[Array, " T"],
    ) -> tuple[Float[Array, " E"], Float[Array, "T E"]]:
        width = self.features
        return centre[:width], projected[:, width:] / jnp.maximum(centre_degree, 1.0)

    def aggregate_terms(
        self,
        centre: Float[Array, " F"],
        centre_degree: Float[Array, ""],
        rows: Float[Array, "T F"],
        degrees: Float[Array, " T"],
    ) -> tuple[Float[Array, " F"], Float[Array, "T F"]]:
        return jnp.zeros_like(centre), rows / jnp.maximum(centre_degree, 1.0)
