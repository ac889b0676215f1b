"""The papers' models in one call: one kind of convolution throughout, one width, one activation."""

from __future__ import annotations

from jgleak.gnn.convolution import Convolution
from jgleak.gnn.gat import GATConv
from jgleak.gnn.gin import GINConv
from jgleak.gnn.layer import Layer
from jgleak.gnn.model import GNN
from jgleak.gnn.readout import NodeMLP, Readout
from jgleak.gnn.registry import CONVOLUTIONS


def standard(
    in_features: int,
    conv: str | Convolution = "gcn",
    readout: Readout | None = None,
    *,
    layers: int = 2,
    hidden: int = 300,
    act: str = "relu",
    last_act: bool = False,
    bias: bool = False,
) -> GNN:
    """A stack of equal layers. The defaults are GRAIN's model: two GCN layers of width 300, no bias, ReLU between them.

    On every node stands an MLP ``[X | H]`` -> 300 -> 64 -> 2, whose logits are averaged over nodes.

    Args:
      in_features: width of the encoded node features.
      conv: a name of ``CONVOLUTIONS``; or one convolution, whose options all layers share. Attention heads
        are concatenated in hidden layers and averaged in the last one.
      readout: GRAIN's, where none is given.
      layers: number of convolutions.
      hidden: width of every convolution, where ``conv`` is a name.
      act: activation, also inside GIN.
      last_act: apply it after the last convolution too.
      bias: give the convolutions a bias, where ``conv`` is a name.

    Raises:
      ValueError: an unknown name or an impossible size.
    """
    if layers < 1:
        raise ValueError(f"layers: a model needs at least one, got {layers}")
    if isinstance(conv, str):
        if conv not in CONVOLUTIONS:
            raise ValueError(f"conv: unknown {conv!r}; choose one of {sorted(CONVOLUTIONS)}")
        conv = GINConv(hidden, bias, inner=act) if conv == GINConv.kind else CONVOLUTIONS[conv](hidden, bias)
    readout = readout or NodeMLP()
    convs = [conv.clone(concatenate=i < layers - 1) if isinstance(conv, GATConv) else conv for i in range(layers)]
    if readout.passes_states:
        convs[-1] = convs[-1].clone(features=readout.outputs)
    acts = [act if i < layers - 1 or last_act else "identity" for i in range(layers)]
    model = GNN(
        in_features=in_features,
        layers=tuple(Layer(conv=c, act=a) for c, a in zip(convs, acts, strict=True)),
        readout=readout,
    )
    model.check()
    return model
