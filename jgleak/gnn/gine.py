"""GIN with edge features: ``Z = MLP((1 + eps) X_v + sum_{u in N(v)} ReLU(X_u + e_uv W_e + b_e))``."""

from __future__ import annotations

from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from flax import linen as nn
from jaxtyping import Array, Bool, Float, Int

from jgleak.gnn.convolution import Stack
from jgleak.gnn.gin import GINConv
from jgleak.gnn.tap import Tap, apply_kernel


def one_hot_rows(classes: int) -> tuple[tuple[float, ...], ...]:
    """The rows of ``classes`` edge classes that nothing else is known of."""
    return tuple(tuple(row) for row in np.eye(classes).tolist())


class GINEConv(GINConv):
    """GINE layer (Hu et al., ICLR 2020), for edges of finitely many classes (bond types).

    A neighbour's message passes a ReLU before it is added, so that no weight of this layer takes the nodes' own rows.

    Attributes:
      edge_rows: the edge features of every class ``(K, k)``, as the edge map takes them: one-hot rows, or several
        one-hot attributes side by side.
      edge_bias: add ``b_e``. Without it the edge map is a sum of embeddings, one table an attribute (OGB's bond
        encoder): the tables lie under each other in ``W_e``.
    """

    kind: ClassVar[str] = "gine"

    edge_rows: tuple[tuple[float, ...], ...] = one_hot_rows(4)
    edge_bias: bool = True

    @classmethod
    def for_stack(cls, stack: Stack) -> GINEConv:
        made = cls(stack.features, stack.bias, inner=stack.act)
        return made.clone(edge_rows=one_hot_rows(stack.edge_classes)) if stack.edge_classes else made

    @property
    def taps(self) -> tuple[Tap, ...]:
        return tuple(tap for tap in super().taps if tap.rows != "own")

    @property
    def edge_classes(self) -> int:
        return len(self.edge_rows)

    @nn.nowrap
    def check(self) -> None:
        super().check()
        if not self.edge_rows or len({len(row) for row in self.edge_rows}) > 1 or not self.edge_rows[0]:
            raise ValueError("edge_rows: expected one row for each edge class, all of one length")

    @nn.compact
    def __call__(
        self, rows: Float[Array, "N F"], adjacency: Float[Array, "N N K"], mask: Bool[Array, " N"]
    ) -> Float[Array, "N D"]:
        width = rows.shape[-1]
        edge_kernel = self._kernel("edge_kernel", (len(self.edge_rows[0]), width))
        kernel = self._kernel("kernel", (width, self.inside[0]))
        maps = jnp.asarray(self.edge_rows, rows.dtype) @ edge_kernel
        if self.edge_bias:
            maps = maps + self.param("edge_bias", nn.initializers.zeros_init(), (width,))
        messages = jax.nn.relu(rows[:, None] + maps)
        mixed = (1.0 + self.epsilon) * rows + jnp.einsum("vuk,ukf->vf", adjacency, messages, precision="highest")
        return self._mapped(apply_kernel(self, "kernel", kernel, mixed), mask)

    def sent(self, rows: Float[Array, "T F"], classes: Int[Array, " T"]) -> Float[Array, "T S"]:
        maps = jnp.asarray(self.edge_rows, rows.dtype) @ self._weight("edge_kernel")
        maps = maps + self._weight("edge_bias") if self.edge_bias else maps
        return jnp.concatenate([rows, jax.nn.relu(rows + maps[classes])], axis=-1)

    def own(self, sent: Float[Array, "... S"]) -> Float[Array, "... F"]:
        return sent[..., : sent.shape[-1] // 2]

    def project(self, sent: Float[Array, "T S"]) -> Float[Array, "T P"]:
        kernel = self._weight("kernel")
        return jnp.concatenate([half @ kernel for half in jnp.split(sent, 2, axis=-1)], axis=-1)

    def star_terms(
        self,
        centre: Float[Array, " P"],
        centre_degree: Float[Array, ""],
        projected: Float[Array, "T P"],
        degrees: Float[Array, " T"],
    ) -> tuple[Float[Array, " E"], Float[Array, "T E"]]:
        half = centre.shape[-1] // 2
        return (1.0 + self.epsilon) * centre[:half], projected[:, half:]
