"""How far one sees from a node to know what it contributes to the gradient."""

from __future__ import annotations

from jgleak.gnn import GNN


def ends_linear(model: GNN) -> bool:
    """True where the last convolution is a GCN's without an activation, added up over nodes.

    Then ``1ᵀ S H W = (S 1)ᵀ H W`` (``S`` is symmetric): a node of state ``h`` adds ``c h W`` to the pooled state, and
    ``c``, its row sum in ``S``, follows from its degree and its neighbours'. The nodes at distance ``L`` do not matter:
    graphs with the same blocks of ``L - 1`` hops have the same gradient.
    """
    additive = model.readout == "pooled" and model.pooling in ("mean", "sum")
    return additive and model.conv == "gcn" and not model.last_act and model.layers > 1


def hops(model: GNN) -> int:
    """Hops of the blocks that decide what a node contributes."""
    return model.layers - ends_linear(model)
