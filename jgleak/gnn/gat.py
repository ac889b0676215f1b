"""Graph attention: an edge's score is a sum of what its two ends add to it."""

from __future__ import annotations

from typing import ClassVar

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from jgleak.gnn.attention import Attention, Scored
from jgleak.gnn.tap import apply_kernel


class GATConv(Attention):
    """GAT layer (Velickovic et al., ICLR 2018) with self-loops.

    Values are ``W x_u``, scores ``LeakyReLU(a_target . W x_v + a_source . W x_u)``.
    """

    kind: ClassVar[str] = "gat"

    @property
    def kernels(self) -> tuple[str, ...]:
        return ("kernel",)

    def scored(self, rows: Float[Array, "N F"]) -> Scored:
        mapped = apply_kernel(self, "kernel", self._weight("kernel"), rows)
        values = mapped.reshape(-1, self.heads, self.head_width)
        return Scored(values, *(jnp.einsum("nhd,hd->nh", values, self._weight(name)) for name in ("target", "source")))

    def scores(
        self, target: Float[Array, "*#T t"], source: Float[Array, "*#T s"], values: Float[Array, "*#T H d"]
    ) -> Float[Array, "*T H"]:
        return jax.nn.leaky_relu(target + source, self.negative_slope)

    @property
    def _ends(self) -> tuple[int, int, int]:
        return self.inner_width, self.inner_width + self.heads, self.inner_width + 2 * self.heads

    def _make(self, width: int) -> None:
        self._kernel("kernel", (width, self.inner_width))
        for name in ("target", "source"):
            self._kernel(name, (self.heads, self.head_width))
        super()._make(width)
