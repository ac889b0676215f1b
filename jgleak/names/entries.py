"""A table of names whose objects are imported when somebody asks for them."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator, Mapping, MutableMapping
from functools import partial
from typing import Any, NamedTuple, TypeVar

T = TypeVar("T")


class Named(NamedTuple):
    """What a name stands for.

    Attributes:
      home: where it lives, as ``module:ATTRIBUTE``.
      summary: one line for ``jgleak list``: what it does, and the source.
    """

    home: str
    summary: str


class Entries(MutableMapping[str, T]):
    """Names to the objects that they stand for, in the order in which they are listed.

    Looking up a name imports its module. Looking at the names imports nothing. Others may add entries of their own.

    Args:
      homes: name to ``module:ATTRIBUTE``.
    """

    def __init__(self, homes: Mapping[str, str]) -> None:
        self._makers: dict[str, Callable[[], T]] = {name: partial(_imported, home) for name, home in homes.items()}

    def __getitem__(self, name: str) -> T:
        return self._makers[name]()

    def __setitem__(self, name: str, entry: T) -> None:
        self._makers[name] = lambda: entry

    def __delitem__(self, name: str) -> None:
        del self._makers[name]

    def __contains__(self, name: object) -> bool:
        return name in self._makers

    def __iter__(self) -> Iterator[str]:
        return iter(self._makers)

    def __len__(self) -> int:
        return len(self._makers)


def _imported(home: str) -> Any:
    module, attribute = home.split(":")
    return getattr(importlib.import_module(module), attribute)
