"""Graph attention: softmax over a node and its neighbours, several heads, concatenated or averaged."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from jgleak.gnn.convolution import Convolution, with_self_loops
from jgleak.gnn.tap import apply_kernel

NEGATIVE_SLOPE = 0.2
"""Slope of the leaky ReLU in the attention score (Velickovic et al., section 2.1)."""


class GATConv(Convolution):
    """GAT layer (Velickovic et al., ICLR 2018) with self-loops.

    ``z_v = sum_u alpha_vu W x_u`` with ``alpha_vu`` proportional to
    ``A_vu exp(LeakyReLU(a_target . W x_v + a_source . W x_u))``; a relaxed adjacency weighs the exponentials.

    Attributes:
      heads: number of attention heads ``H``.
      concatenate: heads side by side (each ``D / H`` wide) or averaged (each ``D`` wide).
    """

    heads: int = 2
    concatenate: bool = True

    @property
    def head_width(self) -> int:
        """Columns of one head."""
        return self.features // self.heads if self.concatenate else self.features

    def setup(self) -> None:
        if self.concatenate and self.features % self.heads:
            raise ValueError(f"hidden: width {self.features} is not divisible by {self.heads} heads")
        self.kernel = self._kernel("kernel", (self.in_features, self.heads * self.head_width))
        self.target = self._kernel("target", (self.heads, self.head_width))
        self.source = self._kernel("source", (self.heads, self.head_width))
        if self.bias:
            self.offset = self._offset()

    def __call__(
        self, rows: Float[Array, "N F"], adjacency: Float[Array, "N N"], mask: Bool[Array, " N"]
    ) -> Float[Array, "N D"]:
        values, target, source = self._project(rows)
        scores = jax.nn.leaky_relu(target[:, None, :] + source[None, :, :], NEGATIVE_SLOPE)
        looped = with_self_loops(adjacency, mask)[:, :, None]
        top = jax.lax.stop_gradient(jnp.max(jnp.where(looped > 0, scores, -jnp.inf), axis=1, keepdims=True))
        weights = looped * jnp.exp(jnp.minimum(scores - jnp.where(jnp.isfinite(top), top, 0.0), 60.0))
        total = weights.sum(axis=1)
        mixed = jnp.einsum("vuh,uhd->vhd", weights, values) / jnp.where(total > 0, total, 1.0)[:, :, None]
        return jnp.where(mask[:, None], self._add_bias(self._merge(mixed)), 0.0)

    def project(self, rows: Float[Array, "T F"]) -> Float[Array, "T P"]:
        values, target, source = self._project(rows)
        return jnp.concatenate([values.reshape(rows.shape[0], -1), target, source], axis=1)

    def star_terms(
        self,
        centre: Float[Array, " P"],
        centre_degree: Float[Array, ""],
        projected: Float[Array, "T P"],
        degrees: Float[Array, " T"],
    ) -> tuple[Float[Array, " E"], Float[Array, "T E"]]:
        everyone = jnp.concatenate([centre[None], projected])
        values, target, source = jnp.split(everyone, [self.kernel.shape[1], self.kernel.shape[1] + self.heads], axis=1)
        scores = jax.nn.leaky_relu(target[:1] + source, NEGATIVE_SLOPE)
        weights = jnp.exp(scores - scores.max(axis=0))  # one factor for the whole star: it cancels in the ratio
        weighted = weights[:, :, None] * values.reshape(-1, self.heads, self.head_width)
        terms = jnp.concatenate([weighted.reshape(everyone.shape[0], -1), weights], axis=1)
        return terms[0], terms[1:]

    def star_select(self, terms: Float[Array, "T E"], columns: Int[Array, " C"]) -> Float[Array, "A T C"]:
        """Numerators, then denominators, of the one head (concatenated) or all heads (averaged) behind a column."""
        total = self.heads * self.head_width
        if self.concatenate:
            return jnp.stack([terms[:, columns], terms[:, total + columns // self.head_width]])
        heads = jnp.arange(self.heads)[:, None]
        numerators = jnp.moveaxis(terms[:, heads * self.head_width + columns], 1, 0)
        denominators = jnp.moveaxis(terms[:, total + heads + 0 * columns], 1, 0)
        return jnp.concatenate([numerators, denominators])

    def star_combine(self, total: Float[Array, "A ... C"], columns: Int[Array, " C"]) -> Float[Array, "... C"]:
        half = total.shape[0] // 2
        return self._add_bias((total[:half] / total[half:]).mean(axis=0), columns)

    def _project(self, rows: Array) -> tuple[Array, Array, Array]:
        values = apply_kernel(self, "kernel", self.kernel, rows).reshape(-1, self.heads, self.head_width)
        return values, jnp.einsum("nhd,hd->nh", values, self.target), jnp.einsum("nhd,hd->nh", values, self.source)

    def _merge(self, mixed: Float[Array, "... H d"]) -> Float[Array, "... D"]:
        return mixed.reshape(*mixed.shape[:-2], self.features) if self.concatenate else mixed.mean(axis=-2)
