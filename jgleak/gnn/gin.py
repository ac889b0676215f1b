"""Graph isomorphism network: ``Z = MLP((1 + eps) X_v + sum_{u in N(v)} X_u)`` with a two-layer MLP."""

from __future__ import annotations

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from jgleak.gnn.activation import activation
from jgleak.gnn.convolution import Convolution


class GINConv(Convolution):
    """GIN layer (Xu et al., ICLR 2019). The first MLP weight is linear, so it is applied before the sum.

    Attributes:
      epsilon: weight of the centre, fixed.
      inner: activation between the two linear maps.
    """

    epsilon: float = 0.0
    inner: str = "relu"

    def setup(self) -> None:
        self.kernel = self._kernel("kernel", (self.in_features, self.features))
        self.out_kernel = self._kernel("out_kernel", (self.features, self.features))
        if self.bias:
            self.offset = self._offset()

    def __call__(
        self, rows: Float[Array, "N F"], adjacency: Float[Array, "N N"], mask: Bool[Array, " N"]
    ) -> Float[Array, "N D"]:
        mapped = rows @ self.kernel
        total = (1.0 + self.epsilon) * mapped + adjacency @ mapped
        return jnp.where(mask[:, None], self._add_bias(activation(self.inner)(total) @ self.out_kernel), 0.0)

    def project(self, rows: Float[Array, "T F"]) -> Float[Array, "T P"]:
        return rows @ self.kernel

    def star_terms(
        self,
        centre: Float[Array, " P"],
        centre_degree: Float[Array, ""],
        projected: Float[Array, "T P"],
        degrees: Float[Array, " T"],
    ) -> tuple[Float[Array, " E"], Float[Array, "T E"]]:
        return (1.0 + self.epsilon) * centre, projected

    def star_select(self, terms: Float[Array, "T E"], columns: Int[Array, " C"]) -> Float[Array, "A T C"]:
        """Every column depends on every hidden unit of the MLP."""
        return jnp.broadcast_to(terms.T[:, :, None], (*terms.T.shape, columns.shape[0]))

    def star_combine(self, total: Float[Array, "A ... C"], columns: Int[Array, " C"]) -> Float[Array, "... C"]:
        hidden = activation(self.inner)(total)
        return self._add_bias(jnp.einsum("h...c,hc->...c", hidden, jnp.asarray(self.out_kernel)[:, columns]), columns)
