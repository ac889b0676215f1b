"""Dataclasses of arrays that JAX looks into."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

import jax

T = TypeVar("T")


def pytree(kind: type[T]) -> type[T]:
    """Register a frozen dataclass, all of whose fields hold arrays or trees of them.

    JAX puts other things in the places of the arrays too: axes, shapes, the arrays of many values in one. The fields'
    annotations do not hold for those, so such a value is made without ``__init__``, which
    ``jax.tree_util.register_dataclass`` would call.
    """
    names = tuple(field.name for field in dataclasses.fields(kind))  # type: ignore[arg-type]
    keys = tuple(jax.tree_util.GetAttrKey(name) for name in names)

    def flatten(value: Any) -> tuple[tuple[Any, ...], None]:
        return tuple(getattr(value, name) for name in names), None

    def flatten_with_keys(value: Any) -> tuple[tuple[tuple[Any, Any], ...], None]:
        return tuple(zip(keys, flatten(value)[0], strict=True)), None

    def unflatten(_: None, parts: Iterable[Any]) -> T:
        return filled(kind, dict(zip(names, parts, strict=True)))

    jax.tree_util.register_pytree_with_keys(kind, flatten_with_keys, unflatten, flatten)
    return kind


def filled(kind: type[T], parts: Mapping[str, Any]) -> T:
    """A value of a ``pytree`` with anything in the places of its arrays, by the fields' names."""
    value = object.__new__(kind)
    for name, part in parts.items():
        object.__setattr__(value, name, part)
    return value
