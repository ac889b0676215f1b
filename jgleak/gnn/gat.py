"""Graph attention: softmax over a node and its neighbours, several heads, concatenated or averaged."""

from __future__ import annotations

from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from flax import linen as nn
from jaxtyping import Array, Bool, Float, Int

from jgleak.gnn.convolution import Convolution, at_least_one, with_self_loops
from jgleak.gnn.tap import Tap, apply_kernel

NEGATIVE_SLOPE = 0.2
"""Slope of the leaky ReLU in the attention score (Velickovic et al., section 2.1)."""


class GATConv(Convolution):
    """GAT layer (Velickovic et al., ICLR 2018) with self-loops.

    ``z_v = sum_u alpha_vu W x_u`` with ``alpha_vu`` proportional to
    ``A_vu exp(LeakyReLU(a_target . W x_v + a_source . W x_u))``; a relaxed adjacency weighs the exponentials.

    Attributes:
      heads: number of attention heads ``H``.
      concatenate: heads side by side (each ``D / H`` wide) or averaged (each ``D`` wide).
      negative_slope: of the leaky ReLU in the attention score.
      residual: add ``x_v W_r``, a linear map of the node's own row (Velickovic et al., section 3.3).
    """

    kind: ClassVar[str] = "gat"

    heads: int = 2
    concatenate: bool = True
    negative_slope: float = NEGATIVE_SLOPE
    residual: bool = False

    @nn.nowrap
    def check(self) -> None:
        super().check()
        at_least_one(heads=self.heads)
        if self.concatenate and self.features % self.heads:
            raise ValueError(f"features: width {self.features} is not divisible by {self.heads} heads")

    @property
    def head_width(self) -> int:
        """Columns of one head."""
        return self.features // self.heads if self.concatenate else self.features

    @property
    def taps(self) -> tuple[Tap, ...]:
        own = Tap(("kernel",), "own")
        return (own, Tap(("residual_kernel",), "own")) if self.residual else (own,)

    @nn.compact
    def __call__(
        self, rows: Float[Array, "N F"], adjacency: Float[Array, "N N"], mask: Bool[Array, " N"]
    ) -> Float[Array, "N D"]:
        kernel = self._kernel("kernel", (rows.shape[-1], self.heads * self.head_width))
        for name in ("target", "source"):
            self._kernel(name, (self.heads, self.head_width))
        self._offsets("bias")
        values, target, source = self._scored(apply_kernel(self, "kernel", kernel, rows))
        scores = jax.nn.leaky_relu(target[:, None, :] + source[None, :, :], self.negative_slope)
        looped = with_self_loops(adjacency, mask)[:, :, None]
        top = jax.lax.stop_gradient(jnp.max(jnp.where(looped > 0, scores, -jnp.inf), axis=1, keepdims=True))
        weights = looped * jnp.exp(jnp.minimum(scores - jnp.where(jnp.isfinite(top), top, 0.0), 60.0))
        total = weights.sum(axis=1)
        mixed = jnp.einsum("vuh,uhd->vhd", weights, values) / jnp.where(total > 0, total, 1.0)[:, :, None]
        merged = self._merge(mixed)
        if self.residual:
            beside = self._kernel("residual_kernel", (rows.shape[-1], self.features))
            merged = merged + apply_kernel(self, "residual_kernel", beside, rows)
        return jnp.where(mask[:, None], self._add_bias(merged), 0.0)

    def project(self, rows: Float[Array, "T F"]) -> Float[Array, "T P"]:
        values, target, source = self._scored(rows @ self._weight("kernel"))
        own = [rows @ self._weight("residual_kernel")] if self.residual else []
        return jnp.concatenate([values.reshape(rows.shape[0], -1), target, source, *own], axis=1)

    def star_terms(
        self,
        centre: Float[Array, " P"],
        centre_degree: Float[Array, ""],
        projected: Float[Array, "T P"],
        degrees: Float[Array, " T"],
    ) -> tuple[Float[Array, " E"], Float[Array, "T E"]]:
        everyone = jnp.concatenate([centre[None], projected])
        ends = self.heads * self.head_width + self.heads * np.arange(3)
        values, target, source, own = jnp.split(everyone, ends, axis=1)
        scores = jax.nn.leaky_relu(target[:1] + source, self.negative_slope)
        weights = jnp.exp(scores - scores.max(axis=0))  # one factor for the whole star: it cancels in the ratio
        weighted = weights[:, :, None] * values.reshape(-1, self.heads, self.head_width)
        terms = jnp.concatenate([weighted.reshape(everyone.shape[0], -1), weights, own.at[1:].set(0.0)], axis=1)
        return terms[0], terms[1:]

    def star_select(self, terms: Float[Array, "T E"], columns: Int[Array, " C"]) -> Float[Array, "A T C"]:
        """Numerators, then denominators, of the one head (concatenated) or all heads (averaged) behind a column.

        Where there is a residual map, its column comes last.
        """
        total = self.heads * self.head_width
        heads = (columns // self.head_width)[None] if self.concatenate else jnp.arange(self.heads)[:, None]
        places = columns[None] if self.concatenate else heads * self.head_width + columns
        picked = [places, total + heads + 0 * columns]
        if self.residual:
            picked.append(total + self.heads + columns[None])
        return jnp.moveaxis(terms[:, jnp.concatenate(picked)], 1, 0)

    def star_combine(self, total: Float[Array, "A ... C"], columns: Int[Array, " C"]) -> Float[Array, "... C"]:
        half = total.shape[0] // 2
        mixed = (total[:half] / total[half : 2 * half]).mean(axis=0)
        return self._add_bias(mixed + total[-1] if self.residual else mixed, columns)

    def _scored(self, mapped: Float[Array, "N Hd"]) -> tuple[Array, Array, Array]:
        """Mapped rows by head, and what each adds to the score of an edge as its target and as its source."""
        values = mapped.reshape(-1, self.heads, self.head_width)
        target, source = (jnp.einsum("nhd,hd->nh", values, self._weight(name)) for name in ("target", "source"))
        return values, target, source

    def _merge(self, mixed: Float[Array, "... H d"]) -> Float[Array, "... D"]:
        return mixed.reshape(*mixed.shape[:-2], self.features) if self.concatenate else mixed.mean(axis=-2)
