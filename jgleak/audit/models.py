"""The model that a specification describes, part by part."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from jgleak.audit.specification import Specification
from jgleak.features import FeatureSpace
from jgleak.gnn import (
    CONVOLUTIONS,
    GNN,
    JUMPS,
    NORMS,
    RESIDUALS,
    AddedRow,
    Convolution,
    Encoder,
    Layer,
    LinearEncoder,
    Readout,
    Rows,
    standard,
)
from jgleak.gnn.gine import one_hot_rows

ENCODERS = ("rows", "linear", "embedding")
"""What may stand before the first layer."""


def composed(specification: Specification, space: FeatureSpace, readout: Readout) -> GNN:
    """A stack of equal layers with what stands around them.

    Raises:
      ValueError: an unknown part, or one that does not fit the data.
    """
    norm, residual = _named(NORMS, "norm", specification.norm), _named(RESIDUALS, "residual", specification.residual)
    layer = Layer(
        _convolution(specification, space),
        specification.activation,
        None if norm is None else norm(**({"training": True} if specification.norm_mode == "train" else {})),
        None if residual is None else residual(),
    )
    model = standard(space.width, layer, readout, layers=specification.layers, last_act=specification.last_activation)
    _one_of(JUMPS, "jump", specification.jump)
    model = model.clone(encoder=_encoder(specification), jump=specification.jump)
    model = model.clone(layers=_fitting(model))
    model.check()
    return model


def _convolution(specification: Specification, space: FeatureSpace) -> Convolution:
    kind = _one_of(CONVOLUTIONS, "model", specification.model)
    fields = {field.name for field in dataclasses.fields(kind)}  # type: ignore[arg-type]  # flax makes them dataclasses
    given: dict[str, Any] = {"heads": specification.heads} if "heads" in fields else {}
    if "inner" in fields:
        given["inner"] = specification.activation
    if "edge_rows" in fields:
        if not space.edge_classes:
            raise ValueError(f"model: {specification.model!r} needs edges of several classes; add --bonds")
        given["edge_rows"] = one_hot_rows(len(space.edge_classes))
    elif space.edge_classes:
        seeing = [name for name, conv in CONVOLUTIONS.items() if "edge_rows" in getattr(conv, "__annotations__", {})]
        raise ValueError(f"bonds: {specification.model!r} sees no bond types; take {' or '.join(seeing)}, or no bonds")
    return kind(specification.hidden, specification.bias, **given)


def _encoder(specification: Specification) -> Encoder:
    width = specification.hidden
    made = Rows(), LinearEncoder(width), LinearEncoder(width, bias=False)
    return _one_of(dict(zip(ENCODERS, made, strict=True)), "encoder", specification.encoder)


def _fitting(model: GNN) -> tuple[Layer, ...]:
    """Its layers; those that change the width go without an added row."""
    encoded = model.encoder.features if isinstance(model.encoder, LinearEncoder) else model.in_features
    entering = [encoded, *(layer.features for layer in model.layers)]
    return tuple(
        layer.clone(residual=None) if isinstance(layer.residual, AddedRow) and layer.features != width else layer
        for layer, width in zip(model.layers, entering, strict=False)
    )


def _named(known: Mapping[str, Any], field: str, name: str | None) -> Any:
    return None if name is None or name == "none" else _one_of(known, field, name)


def _one_of(known: Mapping[str, Any], field: str, name: str) -> Any:
    if name not in known:
        raise ValueError(f"{field}: unknown {name!r}; choose one of {', '.join(known)}")
    return known[name]
