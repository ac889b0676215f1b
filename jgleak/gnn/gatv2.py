"""Graph attention whose scores see both ends of an edge together."""

from __future__ import annotations

from typing import ClassVar

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from jgleak.gnn.attention import Attention, Scored
from jgleak.gnn.tap import apply_kernel


class GATv2Conv(Attention):
    """GATv2 layer (Brody et al., ICLR 2022) with self-loops.

    Values are ``W_source x_u + b_source``, scores ``a . LeakyReLU(W_target x_v + b_target + W_source x_u + b_source)``.
    """

    kind: ClassVar[str] = "gatv2"

    @property
    def kernels(self) -> tuple[str, ...]:
        return "source_kernel", "target_kernel"

    def scored(self, rows: Float[Array, "N F"]) -> Scored:
        source, target = (self._mapped(name, rows) for name in ("source", "target"))
        return Scored(source.reshape(-1, self.heads, self.head_width), target, target[:, :0])

    def scores(
        self, target: Float[Array, "*#T t"], source: Float[Array, "*#T s"], values: Float[Array, "*#T H d"]
    ) -> Float[Array, "*T H"]:
        both = target.reshape(*target.shape[:-1], self.heads, self.head_width) + values
        lit = jax.nn.leaky_relu(both, self.negative_slope)
        return jnp.einsum("...hd,hd->...h", lit, self._weight("attention"))

    @property
    def _ends(self) -> tuple[int, int, int]:
        return self.inner_width, 2 * self.inner_width, 2 * self.inner_width

    def _mapped(self, end: str, rows: Float[Array, "N F"]) -> Float[Array, "N Hd"]:
        name = f"{end}_kernel"
        return self._add_bias(apply_kernel(self, name, self._weight(name), rows), name=f"{end}_bias")

    def _make(self, width: int) -> None:
        for name in self.kernels:
            self._kernel(name, (width, self.inner_width))
        self._kernel("attention", (self.heads, self.head_width))
        self._offsets("source_bias", "target_bias", width=self.inner_width)
        super()._make(width)
