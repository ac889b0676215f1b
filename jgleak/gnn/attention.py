"""What attention layers share: softmax over a node and its neighbours, several heads, concatenated or averaged."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
from flax import linen as nn
from jaxtyping import Array, Bool, Float, Int

from jgleak.gnn.convolution import Convolution, Stack, check_sizes, with_self_loops
from jgleak.gnn.tap import Tap, apply_kernel

NEGATIVE_SLOPE = 0.2
"""Slope of the leaky ReLU in the attention score (Velickovic et al., section 2.1)."""


class Scored(NamedTuple):
    """What a layer makes of every node row on its own.

    Attributes:
      values: what is averaged ``(N, H, d)``.
      target: a node's part in the score of an edge as its target ``(N, t)``.
      source: the same as its source ``(N, s)``; empty where that follows from the values.
    """

    values: Float[Array, "N H d"]
    target: Float[Array, "N t"]
    source: Float[Array, "N s"]


class Attention(Convolution):
    """``z_v = sum_u alpha_vu value(x_u)``, ``u`` a neighbour or ``v`` itself.

    ``alpha_vu`` is proportional to ``A_vu exp(score(x_v, x_u))``; a relaxed adjacency weighs the exponentials.

    Attributes:
      heads: number of attention heads ``H``.
      concatenate: heads side by side (each ``D / H`` wide) or averaged (each ``D`` wide).
      negative_slope: of the leaky ReLU in the attention score.
      residual: add ``x_v W_r``, a linear map of the node's own row, before any norm or activation.
    """

    heads: int = 2
    concatenate: bool = True
    negative_slope: float = NEGATIVE_SLOPE
    residual: bool = False

    @nn.nowrap
    def placed(self, last: bool) -> Attention:
        """The last layer averages its heads."""
        return self.clone(concatenate=self.concatenate and not last)

    @classmethod
    def for_stack(cls, stack: Stack) -> Attention:
        made = cls(stack.features, stack.bias)
        return made if stack.heads is None else made.clone(heads=stack.heads)

    @nn.nowrap
    def check(self) -> None:
        super().check()
        check_sizes(heads=self.heads)
        if self.concatenate and self.features % self.heads:
            raise ValueError(f"features: width {self.features} is not divisible by {self.heads} heads")

    @property
    def head_width(self) -> int:
        """Columns of one head."""
        return self.features // self.heads if self.concatenate else self.features

    @property
    def inner_width(self) -> int:
        """Columns of all heads side by side."""
        return self.heads * self.head_width

    @property
    def kernels(self) -> tuple[str, ...]:
        """The weights that node rows enter for their values and scores."""
        raise NotImplementedError

    @property
    def taps(self) -> tuple[Tap, ...]:
        return tuple(Tap((name,), "own") for name in (*self.kernels, *(["residual_kernel"] if self.residual else [])))

    def scored(self, rows: Float[Array, "N F"]) -> Scored:
        """Values and parts of scores; makes the weights in ``__call__``."""
        raise NotImplementedError

    def scores(
        self, target: Float[Array, "*#T t"], source: Float[Array, "*#T s"], values: Float[Array, "*#T H d"]
    ) -> Float[Array, "*T H"]:
        """The scores of edges, from their targets' and sources' parts and their sources' values."""
        raise NotImplementedError

    @nn.compact
    def __call__(
        self, rows: Float[Array, "N F"], adjacency: Float[Array, "N N"], mask: Bool[Array, " N"]
    ) -> Float[Array, "N D"]:
        self._make(rows.shape[-1])
        values, target, source = self.scored(rows)
        scores = self.scores(target[:, None], source[None], values[None])
        looped = with_self_loops(adjacency, mask)[:, :, None]
        # Without a node's largest score, which cancels in the ratio, ``exp`` could overflow. A pair without an edge may
        # have a larger score still: it is bounded, since 0 times infinity is no number.
        top = jax.lax.stop_gradient(jnp.max(jnp.where(looped > 0, scores, -jnp.inf), axis=1, keepdims=True))
        weights = looped * jnp.exp(jnp.minimum(scores - jnp.where(jnp.isfinite(top), top, 0.0), 60.0))
        total = weights.sum(axis=1)
        mixed = jnp.einsum("vuh,uhd->vhd", weights, values) / jnp.where(total > 0, total, 1.0)[:, :, None]
        merged = mixed.reshape(*mixed.shape[:-2], self.features) if self.concatenate else mixed.mean(axis=-2)
        if self.residual:
            merged = merged + apply_kernel(self, "residual_kernel", self._weight("residual_kernel"), rows)
        return jnp.where(mask[:, None], self._add_bias(merged), 0.0)

    def project(self, rows: Float[Array, "T F"]) -> Float[Array, "T P"]:
        values, target, source = self.scored(rows)
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
        flat, target, source, own = jnp.split(everyone, self._ends, axis=1)
        values = flat.reshape(-1, self.heads, self.head_width)
        scores = self.scores(target[:1], source, values)
        weights = jnp.exp(scores - scores.max(axis=0))  # one factor for the whole star: it cancels in the ratio
        weighted = (weights[:, :, None] * values).reshape(everyone.shape[0], -1)
        terms = jnp.concatenate([weighted, weights, own.at[1:].set(0.0)], axis=1)
        return terms[0], terms[1:]

    def star_select(self, terms: Float[Array, "T E"], columns: Int[Array, " C"]) -> Float[Array, "A T C"]:
        """Numerators, then denominators, of the one head (concatenated) or all heads (averaged) behind a column.

        Where there is a residual map, its column comes last.
        """
        total = self.inner_width
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

    @property
    def _ends(self) -> tuple[int, int, int]:
        """Where values, targets' and sources' parts end in a projected row."""
        raise NotImplementedError

    def _make(self, width: int) -> None:
        """The weights of a layer whose rows have ``width`` columns."""
        self._offsets("bias")
        if self.residual:
            self._kernel("residual_kernel", (width, self.features))
