"""A model whose clients train with dropout, or without."""

from __future__ import annotations

from jgleak.gnn import GNN, NodeMLP, Pooled


def dropping(model: GNN, rate: float) -> GNN:
    """The model with dropout of one rate after the activations of every layer and of the readout.

    Dropout of the input is kept, or removed where the rate is 0.

    Raises:
      ValueError: the rate is not in [0, 1).
    """
    readout = model.readout
    if isinstance(readout, NodeMLP | Pooled):
        readout = readout.clone(mlp=readout.mlp.clone(dropout=rate))
    layers = tuple(layer.clone(dropout=rate) for layer in model.layers)
    changed = model.clone(layers=layers, readout=readout, dropout=model.dropout if rate else 0.0)
    changed.check()
    return changed
