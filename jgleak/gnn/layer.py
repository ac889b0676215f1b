"""One layer of a model: a convolution and what follows it; and the same layer seen from one node."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import jax
import jax.numpy as jnp
from flax import linen as nn
from jaxtyping import Array, Bool, Float, Int

from jgleak.gnn.activation import activation
from jgleak.gnn.convolution import Convolution
from jgleak.gnn.precise import Precise

View = Literal["state", "hidden", "aggregate"]
"""Which row of a node: the layer's output, its hidden row, or the mixed rows before any weight."""


class Layer(Precise):
    """``H' = act(conv(H, A))``.

    Seen from a node, the layer is a sum over one table (``Convolution.star_terms``). The methods below take it apart
    for all views: ``terms`` makes the table, ``select`` what some columns depend on, ``row`` the columns of the summed
    terms, ``rooted`` does all of it for whole neighbourhoods.

    Attributes:
      conv: the convolution.
      act: a name of ``ACTIVATIONS``; ``identity`` for none.
    """

    conv: Convolution
    act: str = "relu"

    @property
    def features(self) -> int:
        """Width of the states that come out."""
        return self.conv.features

    @nn.nowrap
    def check(self) -> None:
        """Raise ``ValueError`` for an unknown name or an impossible size."""
        self.conv.check()
        activation(self.act)

    def __call__(
        self, rows: Float[Array, "N F"], adjacency: Float[Array, "N N"], mask: Bool[Array, " N"]
    ) -> Float[Array, "N D"]:
        """The next states of all nodes; those of padding may be anything."""
        return activation(self.act)(self.conv(rows, adjacency, mask))

    def project(self, rows: Float[Array, "T F"]) -> Float[Array, "T P"]:
        """What the layer computes of a node row on its own, before any mixing."""
        return self.conv.project(rows)

    def terms(
        self,
        view: View,
        centre: Float[Array, " P"],
        centre_degree: Float[Array, ""],
        rows: Float[Array, "T P"],
        degrees: Float[Array, " T"],
    ) -> tuple[Float[Array, " E"], Float[Array, "T E"]]:
        """A centre's own term, and the term of each possible neighbour; rows are projected but for ``aggregate``."""
        table = self.conv.aggregate_terms if view == "aggregate" else self.conv.star_terms
        return table(centre, centre_degree, rows, degrees)

    def select(self, view: View, terms: Float[Array, "T E"], columns: Int[Array, " C"]) -> Float[Array, "A T C"]:
        """What the ``columns`` of a view's row depend on."""
        return terms[None, :, columns] if view == "aggregate" else self.conv.star_select(terms, columns)

    def row(self, view: View, totals: Float[Array, "A ... C"], columns: Int[Array, " C"]) -> Float[Array, "... C"]:
        """Summed, selected terms to ``columns`` of a view's row; a state behind a ``hidden_kernel`` needs all."""
        if view == "aggregate":
            return totals[0]
        combined = self.conv.star_combine(totals, columns)
        if view == "hidden":
            return self.conv.star_hidden(combined)
        return activation(self.act)(self.conv.star_finish(combined))

    def rooted(
        self, states: Float[Array, "B W F"], degrees: Float[Array, "B W"], present: Bool[Array, "B W"]
    ) -> Float[Array, "B D"]:
        """The next state of each neighbourhood's centre, which comes first; ``present`` says who is no padding."""
        projected = self.project(states.reshape(-1, states.shape[-1])).reshape(*states.shape[:2], -1)
        columns = jnp.arange(self.features)

        def star(rows: Array, degree: Array, here: Array) -> Array:
            own, others = self.terms("state", rows[0], degree[0], rows[1:], degree[1:])
            total = own + jnp.where(here[1:, None], others, 0.0).sum(axis=0)
            return self.row("state", self.select("state", total[None], columns)[:, 0], columns)

        return jax.vmap(star)(projected, degrees, present)

    def by(self, weights: Mapping[str, Any], method: str, *arguments: Any) -> Any:
        """A method of this layer under its own weights (``GNN.layer_of``)."""
        return self.apply({"params": weights}, *arguments, method=method)
