"""Models as plain data, and back: every part by its kind and its fields."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from flax import linen as nn

from jgleak.gnn.layer import Layer
from jgleak.gnn.mlp import MLP
from jgleak.gnn.model import GNN
from jgleak.gnn.registry import CONVOLUTIONS, ENCODERS, NORMS, READOUTS, RESIDUALS
from jgleak.reading import SCALARS, typed

PARTS: Mapping[str, Mapping[str, type[nn.Module]]] = {
    "layers": {"layer": Layer},
    "encoder": ENCODERS,
    "conv": CONVOLUTIONS,
    "norm": NORMS,
    "residual": RESIDUALS,
    "readout": READOUTS,
    "mlp": {"mlp": MLP},
}
"""What may stand in a field that holds parts: classes by kind."""


def model_to_json(model: GNN) -> dict[str, Any]:
    """The model's fields by name; of parts, their fields and their ``kind``."""
    return _fields(model)


def model_from_json(data: Any) -> GNN:
    """Inverse of ``model_to_json``.

    Raises:
      ValueError: not such data; the message names the field.
    """
    if not isinstance(data, Mapping):
        raise ValueError(f"model: expected fields by name, got {data!r}")
    return _made(GNN, data, "model")


def _fields(part: nn.Module) -> dict[str, Any]:
    return {name: _plain(name, getattr(part, name)) for name in _types(type(part))}


def _types(part: type[nn.Module]) -> dict[str, str]:
    """A part's fields, and what each holds as its annotation says it."""
    fields = dataclasses.fields(part)  # type: ignore[arg-type]
    return {f.name: str(f.type) for f in fields if f.name not in ("parent", "name")}


def _plain(field: str, value: Any) -> Any:
    if isinstance(value, nn.Module):
        kind = next(name for name, made in PARTS[field].items() if made is type(value))
        return {"kind": kind, **_fields(value)}
    return [_plain(field, one) for one in value] if isinstance(value, tuple) else value


def _made(part: type[Any], data: Mapping[str, Any], place: str) -> Any:
    types = _types(part)
    unknown = sorted(set(data) - set(types))
    if unknown:
        raise ValueError(f"{place}: unknown field {unknown[0]!r}; known ones are {', '.join(types)}")
    fields = {name: _value(name, types[name], value, f"{place}.{name}") for name, value in data.items()}
    try:
        return part(**fields)
    except TypeError as error:  # a field that has no default is not there
        raise ValueError(f"{place}: {error}") from error


def _value(field: str, annotation: str, value: Any, place: str) -> Any:
    if annotation.startswith("tuple["):
        if not isinstance(value, list):
            raise ValueError(f"{place}: expected a list, got {value!r}")
        one = annotation.removeprefix("tuple[").removesuffix(", ...]")
        return tuple(_value(field, one, part, f"{place}[{i}]") for i, part in enumerate(value))
    if value is None and annotation.endswith(" | None"):
        return None
    if field in PARTS and annotation not in SCALARS:
        if not isinstance(value, Mapping) or value.get("kind") not in list(PARTS[field]):
            got = value.get("kind") if isinstance(value, Mapping) else value
            raise ValueError(f"{place}: expected a part of the kind {', '.join(PARTS[field])}, got {got!r}")
        return _made(PARTS[field][value["kind"]], {k: v for k, v in value.items() if k != "kind"}, place)
    return typed(value, annotation, place)
