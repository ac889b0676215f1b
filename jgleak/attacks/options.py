"""Settings of an attack that users may change (``--option name=value``): the fields of its frozen dataclasses."""

from __future__ import annotations

import dataclasses
import difflib
import math
import typing
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

from jgleak.reading import shortened

Settings = TypeVar("Settings")

LISTED, NEAREST = 30, 6
"""Most options that a message lists, and how many of more."""


def from_zero(default: float) -> Any:
    """A field whose value may be 0, which others may not."""
    return dataclasses.field(default=default, metadata={"from_zero": True})


def choice(names: Iterable[str], default: Any = dataclasses.MISSING) -> Any:
    """A field whose value is one of ``names``."""
    return dataclasses.field(default=default, metadata={"choices": tuple(names)})


def with_options(settings: Settings, options: Mapping[str, str | float]) -> Settings:
    """``settings`` with some fields set from text (or numbers); the others stay as they are.

    Options are the fields of ``settings`` and of settings inside it (None holds none), each under the name of its own
    field alone. Whole numbers are 1 or more, others positive and finite, several ones stand between commas.

    Raises:
      ValueError: an unknown option or a value that does not fit it; the message names both.
    """
    known = dict(_leaves(settings))
    for name in options:
        if name not in known:
            raise ValueError(f"option {name!r}: unknown; {_choices(name, list(known), settings)}")
    return _replaced(settings, {name: _value(known[name], str(text)) for name, text in options.items()})


def _choices(name: str, known: Sequence[str], settings: Any) -> str:
    """What may be meant: all options, or of many the nearest, and where the others are described."""
    close = difflib.get_close_matches(name, known)
    hint = f"did you mean {close[0]!r}? " if close else ""
    if len(known) <= LISTED:
        return f"{hint}choose from {', '.join(known)}"
    near = difflib.get_close_matches(name, known, n=NEAREST, cutoff=0.0)
    where = type(settings).__module__
    return f"{hint}the nearest of {len(known)} are {', '.join(near)}; `python -m pydoc {where}` describes them"


def changed_options(settings: Settings, defaults: Settings) -> dict[str, Any]:
    """The options whose values differ from those of ``defaults``."""
    before = dict(values(defaults))
    return {name: value for name, value in values(settings) if value != before[name]}


def values(settings: Any) -> Iterator[tuple[str, Any]]:
    """Every option and its value; of a field that holds no settings (None), its own name and None."""
    for field in dataclasses.fields(settings):
        value = getattr(settings, field.name)
        yield from values(value) if dataclasses.is_dataclass(value) else [(field.name, value)]


def _leaves(settings: Any) -> Iterator[tuple[str, tuple[dataclasses.Field[Any], Any]]]:
    """Every option's name, with its field and that field's type."""
    types = typing.get_type_hints(type(settings))
    for field in dataclasses.fields(settings):
        value = getattr(settings, field.name)
        if dataclasses.is_dataclass(value):
            yield from _leaves(value)
        elif value is not None:
            yield field.name, (field, types[field.name])


def _replaced(settings: Any, changes: Mapping[str, Any]) -> Any:
    values = {}
    for field in dataclasses.fields(settings):
        value = getattr(settings, field.name)
        if dataclasses.is_dataclass(value):
            values[field.name] = _replaced(value, changes)
        elif field.name in changes:
            values[field.name] = changes[field.name]
    return dataclasses.replace(settings, **values)


def _value(known: tuple[dataclasses.Field[Any], Any], text: str) -> Any:
    field, kind = known
    if kind is str:
        choices = field.metadata.get("choices")
        if choices is not None and text not in choices:
            raise ValueError(f"option {field.name!r}: unknown {text!r}; choose one of {', '.join(choices)}")
        return text
    several = typing.get_args(kind)
    if several:
        return tuple(_number(field, several[0], part) for part in text.split(","))
    return _number(field, kind, text)


def _number(field: dataclasses.Field[Any], kind: type, text: str) -> int | float:
    least = " from 0" if field.metadata.get("from_zero") else " from 1" if kind is int else ""
    said = f"a whole number{least}" if kind is int else f"a number{least}" if least else "a positive number"
    try:
        value = kind(text)
    except ValueError:
        value = -1
    if kind is int and value >= 2**31:
        said, value = f"{said}, below 2**31", -1
    if not math.isfinite(value) or value < 0 or (value == 0 and not field.metadata.get("from_zero")):
        raise ValueError(f"option {field.name!r}: expected {said}, got {shortened(text)}")
    return value
