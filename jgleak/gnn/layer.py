"""One layer of a model: a convolution and what stands around it; and the same layer seen from one node."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import jax
import jax.numpy as jnp
from flax import linen as nn
from jaxtyping import Array, Bool, Float, Int

from jgleak.gnn.activation import activation
from jgleak.gnn.convolution import Convolution
from jgleak.gnn.dropout import check_rate, dropped
from jgleak.gnn.norm import Norm
from jgleak.gnn.precise import Precise
from jgleak.gnn.residual import Residual
from jgleak.gnn.tap import Tap

View = Literal["state", "hidden", "aggregate"]
"""Which row of a node: the layer's output, its hidden row, or the mixed rows before any weight."""


class Layer(Precise):
    """``H' = dropout(act(norm(conv(H, A)))) + residual(H)``.

    Seen from a node, the layer is a sum over one table (``Convolution.star_terms``). The methods below take it apart
    for all views: ``terms`` makes the table, ``select`` what some columns depend on, ``row`` the columns of the summed
    terms, ``rooted`` does all of it for whole neighbourhoods. The residual rides along as one more number a column, to
    which the centre alone contributes.

    Attributes:
      conv: the convolution.
      act: a name of ``ACTIVATIONS``; ``identity`` for none.
      norm: normalisation of the pre-activations; None: none.
      residual: what passes the layer by; None: nothing.
      dropout: share of entries that are set to 0 while a client trains; 0: none. A client that computes its gradient in
        evaluation mode has none.
    """

    conv: Convolution
    act: str = "relu"
    norm: Norm | None = None
    residual: Residual | None = None
    dropout: float = 0.0

    def __post_init__(self) -> None:
        if self.norm is not None:  # Flax shares the weights of a norm that stands inside the convolution too
            object.__setattr__(self, "norm", self.norm.clone(_deep_clone=True))
        super().__post_init__()

    @property
    def features(self) -> int:
        """Width of the states that come out."""
        return self.conv.features

    @property
    def taps(self) -> tuple[Tap, ...]:
        """The linear maps inside, and which rows enter each."""
        beside = self.residual.taps if self.residual else ()
        return *(tap.inside("conv") for tap in self.conv.taps), *(tap.inside("residual") for tap in beside)

    @property
    def plain(self) -> bool:
        """Nothing but a convolution and an activation."""
        return self.norm is None and self.residual is None

    @property
    def norms(self) -> dict[tuple[str, ...], Norm]:
        """All normalisations, by where their parameters lie, in the order in which rows pass them."""
        inside = {("conv", name): norm for name, norm in self.conv.inner_norms}
        return inside | ({} if self.norm is None else {("norm",): self.norm})

    @nn.nowrap
    def columnwise(self, view: View) -> bool:
        """Some columns of a view's row can be had without the others."""
        inside = [norm for _, norm in self.conv.inner_norms]
        norm = {"aggregate": None, "hidden": inside[0] if inside else None, "state": self.norm}[view]
        alone = view != "state" or self.conv.kernel("hidden") is None
        return alone and (norm is None or norm.columnwise)

    @nn.nowrap
    def columns(self, view: View) -> Int[Array, " C"]:
        """All columns for ``select`` and ``row``, of every view but ``aggregate`` (which has those of the rows)."""
        combined = self.conv.combined_features
        return jnp.arange(combined if view == "hidden" else max(combined, self.features))

    @nn.nowrap
    def check(self) -> None:
        """Raise ``ValueError`` for an unknown name or an impossible size."""
        self.conv.check()
        activation(self.act)
        if self.norm is not None:
            self.norm.check()
        check_rate(self.dropout)

    @nn.compact
    def __call__(
        self, rows: Float[Array, "N F"], adjacency: Float[Array, "M N *K"], mask: Bool[Array, " M"]
    ) -> Float[Array, "M D"]:
        """The next states of all nodes (``M = N``), or of the first ones; those of padding may be anything."""
        if adjacency.ndim == 3 and not self.conv.edge_classes:
            adjacency = adjacency.sum(axis=-1)
        out = self.conv(rows, adjacency, mask)
        out = activation(self.act)(out if self.norm is None else self.norm(out, mask))
        out = dropped(self, self.dropout, out)
        return out if self.residual is None else out + self.residual(rows[: mask.shape[0]], self.features)

    def sent(self, rows: Float[Array, "T F"], classes: Int[Array, " T"]) -> Float[Array, "T S"]:
        """Node rows with what neighbours along edges of the given classes see of them, before any weight."""
        return self.conv.sent(rows, classes)

    def project(self, sent: Float[Array, "T S"]) -> Float[Array, "T P"]:
        """What the layer computes of a node on its own, before any mixing, from ``sent``'s result."""
        mapped = self.conv.project(sent)
        if self.residual is None:
            return mapped
        return jnp.concatenate([mapped, self.residual(self.conv.own(sent), self.features)], axis=-1)

    def terms(
        self,
        view: View,
        centre: Float[Array, " P"],
        centre_degree: Float[Array, ""],
        rows: Float[Array, "T P"],
        degrees: Float[Array, " T"],
    ) -> tuple[Float[Array, " E"], Float[Array, "T E"]]:
        """A centre's own term, and the term of each possible neighbour; rows are projected, but for
        ``aggregate``, which takes those of ``sent``."""
        if view == "aggregate":
            return self.conv.aggregate_terms(centre, centre_degree, rows, degrees)
        if self.residual is None:
            return self.conv.star_terms(centre, centre_degree, rows, degrees)
        end = rows.shape[-1] - self.features
        own, others = self.conv.star_terms(centre[:end], centre_degree, rows[:, :end], degrees)
        nothing = jnp.zeros_like(rows[:, end:])
        return jnp.concatenate([own, centre[end:]]), jnp.concatenate([others, nothing], axis=1)

    def select(self, view: View, terms: Float[Array, "T E"], columns: Int[Array, " C"]) -> Float[Array, "A T C"]:
        """What the ``columns`` of a view's row depend on."""
        if view == "aggregate":
            return terms[None, :, columns]
        inside, beside = (jnp.minimum(columns, width - 1) for width in (self.conv.combined_features, self.features))
        if self.residual is None:
            return self.conv.star_select(terms, inside)
        end = terms.shape[-1] - self.features
        return jnp.concatenate([self.conv.star_select(terms[:, :end], inside), terms[None, :, end + beside]])

    def row(self, view: View, totals: Float[Array, "A ... C"], columns: Int[Array, " C"]) -> Float[Array, "... D"]:
        """Summed, selected terms to ``columns`` of a view's row, or to all where it is not ``columnwise``."""
        if view == "aggregate":
            return totals[0]
        if self.residual is not None:
            totals, beside = totals[:-1], totals[-1]
        else:
            beside = jnp.zeros(1)
        if view == "hidden":
            return self.conv.star_hidden(self.conv.star_combine(totals, columns), columns)
        if not self.columnwise("state"):  # these are all columns, of the hidden row and of the outcome
            inside, columns = columns[: self.conv.combined_features], columns[: self.features]
            totals, beside = totals[..., : inside.size], beside[..., : columns.size]
        else:
            inside = columns
        out = self.conv.star_finish(self.conv.star_combine(totals, inside))
        return activation(self.act)(out if self.norm is None else self.norm.columns(out, columns)) + beside

    def rooted(
        self,
        states: Float[Array, "B W F"],
        degrees: Float[Array, "B W"],
        present: Bool[Array, "B W"],
        classes: Int[Array, "B W"],
    ) -> Float[Array, "B D"]:
        """The next state of each neighbourhood's centre, which comes first.

        Args:
          states: of the centre and its neighbours.
          degrees: numbers of their neighbours.
          present: who is no padding.
          classes: of the edges to the centre; that of the centre itself does not matter.
        """
        sent = self.sent(states.reshape(-1, states.shape[-1]), classes.ravel())
        return self.centred(self.project(sent).reshape(*states.shape[:2], -1), degrees, present)

    def centred(
        self, projected: Float[Array, "B W P"], degrees: Float[Array, "B W"], present: Bool[Array, "B W"]
    ) -> Float[Array, "B D"]:
        """The same from what ``project`` makes of the centre and its neighbours."""
        columns = self.columns("state")

        def star(rows: Array, degree: Array, here: Array) -> Array:
            own, others = self.terms("state", rows[0], degree[0], rows[1:], degree[1:])
            total = own + jnp.where(here[1:, None], others, 0.0).sum(axis=0)
            return self.row("state", self.select("state", total[None], columns)[:, 0], columns)

        return jax.vmap(star)(projected, degrees, present)

    def entering_norms(
        self,
        states: Float[Array, "W F"],
        degrees: Float[Array, " W"],
        present: Bool[Array, " W"],
        classes: Int[Array, " W"],
    ) -> tuple[Float[Array, " _D"], ...]:
        """Of one neighbourhood's centre, as in ``rooted``, the rows that enter ``norms``."""
        projected, columns = self.project(self.sent(states, classes)), jnp.arange(self.conv.combined_features)
        own, others = self.terms("state", projected[0], degrees[0], projected[1:], degrees[1:])
        total = own + jnp.where(present[1:, None], others, 0.0).sum(axis=0)
        selected = self.select("state", total[None], columns)[:, 0]
        combined = self.conv.star_combine(selected if self.residual is None else selected[:-1], columns)
        rows = self.conv.entering_inner_norms(combined)
        return rows if self.norm is None else (*rows, self.conv.star_finish(combined))

    def by(self, weights: Mapping[str, Any], method: str, *arguments: Any) -> Any:
        """A method of this layer under its own weights (``GNN.layer_of``)."""
        return self.apply({"params": weights}, *arguments, method=method)
