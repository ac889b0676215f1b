"""Local extrema convolution: ``Z = X W_self + sum_{u in N(v)} (X_u W_neighbour - X_v W_centre)``."""

from __future__ import annotations

from typing import ClassVar

import jax.numpy as jnp
from flax import linen as nn
from jaxtyping import Array, Bool, Float

from jgleak.gnn.convolution import Convolution
from jgleak.gnn.mix import mix
from jgleak.gnn.tap import Tap, apply_kernel


class LEConv(Convolution):
    """LEConv (Ranjan et al., AAAI 2020; kMoL's default). A centre is compared with each of its neighbours.

    With ``bias`` the maps of neighbours and of the node itself have one: every neighbour adds the first.
    """

    kind: ClassVar[str] = "leconv"

    @property
    def taps(self) -> tuple[Tap, ...]:
        own = (Tap((name,), "own") for name in ("self_kernel", "centre_kernel", "neighbour_kernel"))
        return *own, Tap(("neighbour_kernel",), "mixed")

    @nn.compact
    def __call__(
        self, rows: Float[Array, "N F"], adjacency: Float[Array, "N N"], mask: Bool[Array, " N"]
    ) -> Float[Array, "N D"]:
        shape = (rows.shape[-1], self.features)
        names = ("self_kernel", "centre_kernel", "neighbour_kernel")
        own, centre, neighbour = (apply_kernel(self, name, self._kernel(name, shape), rows) for name in names)
        self._offsets("neighbour_bias", "bias")
        degree = adjacency.sum(axis=1, keepdims=True)
        added = mix(adjacency, self._add_bias(neighbour, name="neighbour_bias"))
        return jnp.where(mask[:, None], self._add_bias(own + added - degree * centre), 0.0)

    def project(self, rows: Float[Array, "T F"]) -> Float[Array, "T P"]:
        own, centre, neighbour = (rows @ self._weight(f"{name}_kernel") for name in ("self", "centre", "neighbour"))
        return jnp.concatenate([own, centre, self._add_bias(neighbour, name="neighbour_bias")], axis=1)

    def star_terms(
        self,
        centre: Float[Array, " P"],
        centre_degree: Float[Array, ""],
        projected: Float[Array, "T P"],
        degrees: Float[Array, " T"],
    ) -> tuple[Float[Array, " E"], Float[Array, "T E"]]:
        width = self.features
        own = centre[:width] - centre_degree * centre[width : 2 * width]
        return own, projected[:, 2 * width :]

    def aggregate_terms(
        self,
        centre: Float[Array, " F"],
        centre_degree: Float[Array, ""],
        rows: Float[Array, "T F"],
        degrees: Float[Array, " T"],
    ) -> tuple[Float[Array, " F"], Float[Array, "T F"]]:
        return jnp.zeros_like(centre), rows
