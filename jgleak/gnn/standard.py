"""The papers' models in one call: one kind of convolution throughout, one width, one activation."""

from __future__ import annotations

from jgleak.gnn.convolution import Convolution, Stack
from jgleak.gnn.layer import Layer
from jgleak.gnn.model import GNN
from jgleak.gnn.node_mlp import NodeMLP
from jgleak.gnn.readout import Readout
from jgleak.gnn.registry import CONVOLUTIONS


def standard(
    in_features: int,
    layer: str | Convolution | Layer = "gcn",
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
      layer: a name of ``CONVOLUTIONS``; or one convolution or layer, whose options all layers share. Attention heads
        are concatenated in hidden layers, unless it says ``concatenate=False``, and averaged in the last one.
      readout: GRAIN's, where none is given.
      layers: number of convolutions.
      hidden: width of every convolution, where ``layer`` is a name.
      act: activation, also inside GIN, where ``layer`` does not say.
      last_act: apply it after the last convolution too.
      bias: give the convolutions a bias, where ``layer`` is a name.

    Raises:
      ValueError: an unknown name or an impossible size.
    """
    if layers < 1:
        raise ValueError(f"layers: a model needs at least one, got {layers}")
    if isinstance(layer, str):
        if layer not in CONVOLUTIONS:
            raise ValueError(f"layer: unknown {layer!r}; choose one of {sorted(CONVOLUTIONS)}")
        layer = CONVOLUTIONS[layer].for_stack(Stack(hidden, bias, act))
    one = layer if isinstance(layer, Layer) else Layer(layer, act)
    readout = readout or NodeMLP()
    stack = [_placed(one, i == layers - 1, readout, last_act) for i in range(layers)]
    model = GNN(
        in_features=in_features,
        layers=tuple(stack),
        readout=readout,
    )
    model.check()
    return model


def _placed(layer: Layer, last: bool, readout: Readout, last_act: bool) -> Layer:
    """The layer in its place; the last one has an activation, and dropout behind it, only where it is asked for."""
    conv = layer.conv.placed(last)
    if last and readout.passes_states:
        conv = conv.clone(features=readout.outputs)
    active = last_act or not last
    return layer.clone(conv=conv, act=layer.act if active else "identity", dropout=layer.dropout if active else 0.0)
