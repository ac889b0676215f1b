"""The released models of GRAIN (Drencheva et al., ICLR 2025) as forward passes of the bridge.

====================================  ===========================================================
name in their state                   what it is here
====================================  ===========================================================
``gcn.W_list.i``                      kernel of convolution ``i``, stored ``(in, out)``; no bias
``gat_net.i.linear_proj.weight``      kernel of convolution ``i``, two heads
``gat_net.i.scoring_fn_source``       the *receiving* node's scores (``target``): rows of the score matrix
``gat_net.i.scoring_fn_target``       the *sending* node's scores (``source``): its columns, which the softmax sums over
``gat_net.i.skip_proj.weight``        residual map, one a head; averaged with the heads in the last layer
``gat_net.i.bias``                    bias
``readout.layers.0, .2, ..``          linear maps on every node, ReLU between
``readout.output``                    the last one; logits are averaged over nodes
====================================  ===========================================================

Their GCN has no bias, the configured activation between convolutions, none after the last, and a readout on
``[X | H]``. Their GAT has ELU between convolutions, skip connections, and a readout on ``H`` alone. Both need dropout
0, the released setting. Their columns are a schema of their own (140 for molecules): describe it in a file, see
``read_schema``.
"""

from __future__ import annotations

from jgleak.interop.layers import GAT, GCN, INPUT, Linear, Step


def grain_gcn(layers: int = 2, *, readout: int = 2, act: str = "relu", per_node: bool = False) -> list[Step]:
    """Their GCN: ``n_layers_backbone`` layers and ``n_layers_readout`` in the readout, ``per_node`` for node tasks."""
    convs = [GCN(f"gcn.W_list.{i}", names={"kernel": f"gcn.W_list.{i}"}) for i in range(layers)]
    return [*_between(convs, act), INPUT, *_readout(readout, act, per_node)]


def grain_gat(layers: int = 2, *, readout: int = 2, per_node: bool = False) -> list[Step]:
    """Their GAT; arguments as for ``grain_gcn``."""
    convs = []
    for i in range(layers):
        name = f"gat_net.{i}"
        names = {
            "kernel": f"{name}.linear_proj.weight",
            "target": f"{name}.scoring_fn_source",
            "source": f"{name}.scoring_fn_target",
            "residual_kernel": f"{name}.skip_proj.weight",
        }
        convs.append(GAT(name, names=names, concat=i < layers - 1))
    return [*_between(convs, "elu"), *_readout(readout, "relu", per_node)]


def _readout(count: int, act: str, per_node: bool) -> list[Step]:
    linears = [Linear(f"readout.layers.{2 * i}") for i in range(count)]
    return [*_between([*linears, Linear("readout.output")], act), *([] if per_node else ["mean"])]


def _between(layers: list, act: str) -> list[Step]:
    return [step for layer in layers for step in (layer, act)][:-1]
