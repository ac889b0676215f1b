"""Fields under the names that they had: taken and read for one minor version more, with a warning."""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar

T = TypeVar("T")


def renamed(**names: str) -> Callable[[type[T]], type[T]]:
    """A decorator of a dataclass: old names of fields are arguments and attributes still.

    A call with a field's old and new name raises ``TypeError``, where it does not give all fields by name:
    ``dataclasses.replace`` does, and there the old name is the change.

    Args:
      names: the new name of every old one.

    Warns:
      DeprecationWarning: an old name is used.
    """

    def decorated(cls: type[T]) -> type[T]:
        made = cls.__init__
        fields = {field.name for field in dataclasses.fields(cls) if field.init}  # pyright: ignore[reportArgumentType]

        @wraps(made)
        def init(self: T, *args: Any, **given: Any) -> None:
            for old in names.keys() & given.keys():
                _warn(cls, old, names[old])
                if names[old] in given and not fields <= given.keys():
                    raise TypeError(f"{cls.__name__}: {old} and {names[old]} are one field; give {names[old]} alone")
                given[names[old]] = given.pop(old)
            made(self, *args, **given)

        cls.__init__ = init
        for old, new in names.items():
            setattr(cls, old, _read(cls, old, new))
        return cls

    return decorated


def _read(cls: type[Any], old: str, new: str) -> property:
    def value(self: Any) -> Any:
        _warn(cls, old, new)
        return getattr(self, new)

    return property(value, doc=f"Old name of ``{new}``, until version 0.3.")


def _warn(cls: type[Any], old: str, new: str) -> None:
    said = f"{cls.__name__}.{old} is called {new} since version 0.2; version 0.3 takes that alone"
    warnings.warn(said, DeprecationWarning, stacklevel=3)
