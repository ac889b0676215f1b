"""Why a description's output differs from the model's: single changes without weights that would explain it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import jax
import numpy as np

from jgleak.gnn import (
    ACTIVATIONS,
    GNN,
    JUMPS,
    AddedRow,
    BatchNorm,
    GCNConv,
    GINConv,
    Layer,
    LayerNorm,
    NodeMLP,
    Params,
    Pooled,
    Readout,
)
from jgleak.interop.arrays import STORED


def likely(model: GNN, params: Params, equal: Callable[[GNN, Params], bool]) -> str | None:
    """The first change after which ``equal`` holds, in the words of a forward pass; None where there is none."""
    for changed, weights, what in _changes(model, params):
        try:
            if equal(changed, weights):
                return f"with {what} it would be the same"
        except (ValueError, TypeError):  # a change that does not fit the widths
            continue
    return None


def _changes(model: GNN, params: Params) -> Iterator[tuple[GNN, Params, str]]:
    for number, layer in enumerate(model.layers):
        for changed, what in _layers(layer):
            place = f"{what} after convolution {number + 1}"
            yield model.clone(layers=_replaced(model, number, changed)), params, place
    yield from _transposed(model, params)
    yield from _everywhere(model, params)
    for readout, what in _readouts(model.readout):
        yield model.clone(readout=readout), params, what
    alike = model.jump != "cat" and len({layer.features for layer in model.layers}) == 1
    for jump in JUMPS if alike and model.depth > 1 else ():
        if jump not in (model.jump, "cat"):  # of another width
            yield model.clone(jump=jump), params, f"'jump_{jump}'" if jump != "last" else "no jumping knowledge"
    for number, layer in enumerate(model.layers):
        if layer.norm is None:
            part = params[f"layers_{number}"]
            plain = {"scale": np.ones(layer.features, np.float32), "bias": np.zeros(layer.features, np.float32)}
            weights = {**params, f"layers_{number}": {**part, "norm": plain}}
            changed = model.clone(layers=_replaced(model, number, layer.clone(norm=LayerNorm())))
            yield changed, weights, f"a layer normalisation without weights after convolution {number + 1}"


def _transposed(model: GNN, params: Params) -> Iterator[tuple[GNN, Params, str]]:
    """Square kernels, whose shape does not tell."""
    turned = {}
    for number in range(model.depth):
        name = f"layers_{number}"
        changed = jax.tree_util.tree_map_with_path(_turned, params[name])
        pairs = zip(jax.tree.leaves(changed), jax.tree.leaves(params[name]), strict=True)
        if any(new is not old for new, old in pairs):
            turned[name] = changed
            what = f"the square kernels of convolution {number + 1} transposed ({STORED})"
            yield model, {**params, name: changed}, what
    if len(turned) > 1:
        yield model, {**params, **turned}, f"the square kernels of all convolutions transposed ({STORED})"


def _turned(path: tuple[Any, ...], leaf: Any) -> Any:
    square = leaf.ndim == 2 and len(set(leaf.shape)) == 1
    return leaf.T if square and "kernel" in path[-1].key else leaf


def _everywhere(model: GNN, params: Params) -> Iterator[tuple[GNN, Params, str]]:
    """The same change to every layer that can have it, where several can."""
    width = params["encoder"]["linear"]["kernel"].shape[1] if "encoder" in params else model.in_features
    entering = (width, *(layer.features for layer in model.layers))
    changes = [
        {what: changed for changed, what in _layers(layer) if changed.residual is None or before == layer.features}
        for before, layer in zip(entering, model.layers, strict=False)
    ]
    for what in dict.fromkeys(what for found in changes for what in found):
        layers = tuple(found.get(what, layer) for found, layer in zip(changes, model.layers, strict=True))
        if sum(what in found for found in changes) > 1:
            yield model.clone(layers=layers), params, f"{what} after every convolution"
    norms = {
        f"layers_{i}": {"scale": np.ones(layer.features, np.float32), "bias": np.zeros(layer.features, np.float32)}
        for i, layer in enumerate(model.layers)
        if layer.norm is None
    }
    if len(norms) > 1:
        layers = tuple(layer.clone(norm=layer.norm or LayerNorm()) for layer in model.layers)
        weights = {**params, **{name: {**params[name], "norm": plain} for name, plain in norms.items()}}
        yield model.clone(layers=layers), weights, "a layer normalisation without weights after every convolution"


def _replaced(model: GNN, number: int, layer: Layer) -> tuple[Layer, ...]:
    return (*model.layers[:number], layer, *model.layers[number + 1 :])


def _layers(layer: Layer) -> Iterator[tuple[Layer, str]]:
    if layer.residual is None:
        yield layer.clone(residual=AddedRow()), "'add' (a residual)"
    elif isinstance(layer.residual, AddedRow):
        yield layer.clone(residual=None), "no 'add'"
    for act in ACTIVATIONS:
        if act != layer.act:
            yield layer.clone(act=act), repr(act) if act != "identity" else "no activation"
    conv = layer.conv
    if isinstance(conv, GCNConv):
        for loops, normalise in ((True, True), (False, True), (True, False), (False, False)):
            if (loops, normalise) != (conv.self_loops, conv.normalise):
                changed = conv.clone(self_loops=loops, normalise=normalise)
                yield layer.clone(conv=changed), f"self_loops={loops}, normalise={normalise}"
    if isinstance(conv, GINConv):
        for act in ACTIVATIONS:
            if act != conv.inner:
                yield layer.clone(conv=conv.clone(inner=act)), f"act={act!r} inside"
    if isinstance(layer.norm, LayerNorm | BatchNorm):
        for epsilon in (1e-3, 1e-5, 1e-6):
            if epsilon != layer.norm.epsilon:
                yield layer.clone(norm=layer.norm.clone(epsilon=epsilon)), f"epsilon={epsilon} in the normalisation"


def _readouts(readout: Readout) -> Iterator[tuple[Readout, str]]:
    if isinstance(readout, Pooled):
        for pooling in ("mean", "sum"):
            if pooling != readout.pooling:
                yield readout.clone(pooling=pooling), f"the pool {pooling!r}"
    if isinstance(readout, Pooled | NodeMLP) and len(readout.mlp.widths) > 1:
        for act in ACTIVATIONS:
            if act != readout.mlp.act:
                yield readout.clone(mlp=readout.mlp.clone(act=act)), f"{act!r} between the readout's linear maps"
