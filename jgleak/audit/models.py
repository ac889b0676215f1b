"""The model that a specification describes, part by part."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from jgleak.audit.specification import ENCODERS, Specification
from jgleak.features import FeatureSpace
from jgleak.gnn import (
    CONVOLUTIONS,
    GNN,
    JUMPS,
    NORMS,
    RESIDUALS,
    Convolution,
    Encoder,
    Layer,
    LinearEncoder,
    Readout,
    Rows,
    standard,
)
from jgleak.gnn.convolution import Stack


def composed(specification: Specification, space: FeatureSpace, readout: Readout) -> GNN:
    """A stack of equal layers with the encoder and the readout.

    Raises:
      ValueError: an unknown part, or one that does not fit the data.
    """
    norm, residual = _named(NORMS, "norm", specification.norm), _named(RESIDUALS, "residual", specification.residual)
    layer = Layer(
        _convolution(specification, space),
        specification.activation,
        None if norm is None else norm.in_mode(specification.norm_mode == "train"),
        None if residual is None else residual(),
        specification.dropout,
    )
    model = standard(space.width, layer, readout, layers=specification.layers, last_act=specification.last_activation)
    _one_of(JUMPS, "jump", specification.jump)
    model = model.clone(encoder=_encoder(specification), jump=specification.jump)
    model = model.clone(layers=_fitting(model), frozen=tuple(specification.frozen))
    model.check()
    return model


def _convolution(specification: Specification, space: FeatureSpace) -> Convolution:
    name, classes = specification.model, len(space.edge_classes)
    stack = Stack(specification.hidden, specification.bias, specification.activation, specification.heads, classes)
    conv = _one_of(CONVOLUTIONS, "model", name).for_stack(stack)
    if conv.edge_classes and not classes:
        raise ValueError(f"model: {name!r} needs edges of several classes; add --bonds")
    if classes and not conv.edge_classes:
        seeing = [other for other, kind in CONVOLUTIONS.items() if kind.for_stack(stack).edge_classes]
        raise ValueError(f"bonds: {name!r} sees no bond types; use {' or '.join(seeing)}, or leave bonds out")
    return conv


def _encoder(specification: Specification) -> Encoder:
    width = specification.hidden
    made = Rows(), LinearEncoder(width), LinearEncoder(width, bias=False)
    return _one_of(dict(zip(ENCODERS, made, strict=True)), "encoder", specification.encoder)


def _fitting(model: GNN) -> tuple[Layer, ...]:
    """The model's layers, without residuals whose widths do not fit."""
    entering = [model.encoder.width(model.in_features), *(layer.features for layer in model.layers)]
    return tuple(
        layer if layer.residual is None or layer.residual.fits(width, layer.features) else layer.clone(residual=None)
        for layer, width in zip(model.layers, entering, strict=False)
    )


def _named(known: Mapping[str, Any], field: str, name: str | None) -> Any:
    return None if name is None else _one_of({"none": None, **known}, field, name)


def _one_of(known: Mapping[str, Any], field: str, name: str) -> Any:
    if name not in known:
        raise ValueError(f"{field}: unknown {name!r}; choose one of {', '.join(known)}")
    return known[name]
