"""What every graph convolution offers: the dense layer, and the same layer seen from one node."""

from __future__ import annotations

from typing import ClassVar

import jax.numpy as jnp
from flax import linen as nn
from jaxtyping import Array, Bool, Float, Int

from jgleak.gnn.precise import Precise


class Convolution(Precise):
    """Base of the convolutions; a subclass is one pure map from node rows to pre-activations.

    Attributes:
      in_features: width ``F`` of the incoming node rows.
      features: width ``D`` of the outgoing node rows.
      bias: add a bias to the output.

    Class attributes:
      span_kernel: name of the weight ``W`` (F x D) that is applied to node rows *before* they are mixed, so that
        the columns of its gradient live in the span of the rows (GRAIN, Theorem 5.1).
      aggregate_kernel: name of the weight whose gradient is ``aggregate^T dL/dZ``, with the rows *after* they are
        mixed; None where the mixing depends on the weights (attention).
      hidden_kernel: name of a second weight inside the layer, whose gradient spans the layer's own hidden rows.
    """

    in_features: int
    features: int
    bias: bool = False

    span_kernel: ClassVar[str] = "kernel"
    aggregate_kernel: ClassVar[str | None] = None
    hidden_kernel: ClassVar[str | None] = None

    def __call__(
        self, rows: Float[Array, "N F"], adjacency: Float[Array, "N N"], mask: Bool[Array, " N"]
    ) -> Float[Array, "N D"]:
        """Pre-activations of all nodes. ``adjacency`` may be relaxed (entries in [0, 1]); padding rows come out 0."""
        raise NotImplementedError

    def project(self, rows: Float[Array, "T F"]) -> Float[Array, "T P"]:
        """What the layer computes of a node row on its own, before any mixing."""
        raise NotImplementedError

    def star_terms(
        self,
        centre: Float[Array, " P"],
        centre_degree: Float[Array, ""],
        projected: Float[Array, "T P"],
        degrees: Float[Array, " T"],
    ) -> tuple[Float[Array, " E"], Float[Array, "T E"]]:
        """A node seen from itself: its own term, and the term each possible neighbour would add.

        The pre-activation of a node is ``star_finish(star_combine(.))`` of the *sum* of its own term and its
        neighbours' terms, for every convolution here. So the embeddings of all candidate blocks around a centre are
        sums over one table. Degrees do not count the self-loop. Rows come in projected (``project``).
        """
        raise NotImplementedError

    def aggregate_terms(
        self,
        centre: Float[Array, " F"],
        centre_degree: Float[Array, ""],
        rows: Float[Array, "T F"],
        degrees: Float[Array, " T"],
    ) -> tuple[Float[Array, " F"], Float[Array, "T F"]]:
        """The same for the row that ``aggregate_kernel`` is applied to, from unprojected rows."""
        raise NotImplementedError

    def star_select(self, terms: Float[Array, "T E"], columns: Int[Array, " C"]) -> Float[Array, "A T C"]:
        """What the ``columns`` of the pre-activation depend on: ``A`` numbers for every term and column."""
        return terms[None, :, columns]

    def star_combine(self, total: Float[Array, "A ... C"], columns: Int[Array, " C"]) -> Float[Array, "... C"]:
        """Summed, selected terms to ``columns`` of the pre-activation (of the hidden one, with ``hidden_kernel``)."""
        return self._add_bias(total[0], columns)

    def star_hidden(self, combined: Float[Array, "... D"]) -> Float[Array, "... D"]:
        """The row that ``hidden_kernel`` is applied to, column by column of ``star_combine``'s result."""
        raise NotImplementedError

    def star_finish(self, combined: Float[Array, "... D"]) -> Float[Array, "... D"]:
        """All columns of ``star_combine``'s result to the pre-activation."""
        return combined

    def _add_bias(self, z: Float[Array, "... C"], columns: Int[Array, " C"] | None = None) -> Float[Array, "... C"]:
        if not self.bias:
            return z
        return z + (self.offset if columns is None else jnp.asarray(self.offset)[columns])

    def _kernel(self, name: str, shape: tuple[int, ...]) -> Float[Array, "F D"]:
        return self.param(name, nn.initializers.xavier_uniform(), shape)

    def _offset(self, name: str = "bias") -> Float[Array, " D"]:
        return self.param(name, nn.initializers.zeros_init(), (self.features,))


def with_self_loops(adjacency: Float[Array, "N N"], mask: Bool[Array, " N"]) -> Float[Array, "N N"]:
    """``A + I`` on the real nodes."""
    return adjacency + jnp.diag(mask.astype(adjacency.dtype))
