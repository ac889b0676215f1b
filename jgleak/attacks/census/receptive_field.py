"""How many hops around a node determine what it contributes to the gradient."""

from __future__ import annotations

from jgleak.gnn import GNN


def ends_linear(model: GNN) -> bool:
    """True where the last layer mixes by a symmetric ``S`` (GCN) without an activation, added up over nodes.

    Then ``1ᵀ S H W = (S 1)ᵀ H W`` (``S`` is symmetric): a node of state ``h`` adds ``c h W`` to the pooled state, and
    ``c``, its row sum in ``S``, follows from its degree and its neighbours'. The nodes at distance ``L`` do not matter:
    graphs with the same blocks of ``L - 1`` hops have the same gradient.
    """
    last = model.layers[-1]
    linear = last.plain and last.act == "identity" and last.conv.peels and last.conv.symmetric
    alone = model.readout.additive == "pooled" and model.jumping.keeps == "last"
    return alone and linear and model.depth > 1


def hops(model: GNN) -> int:
    """Number of hops of the blocks that determine what a node contributes."""
    return model.depth - ends_linear(model)
