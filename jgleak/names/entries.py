"""A table of names whose objects are imported when somebody asks for them."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator, Mapping, MutableMapping
from functools import partial
from typing import Any, NamedTuple, TypeVar

from jgleak.names.installed import installed, load

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

    Looking up a name imports its module. Looking at the names imports nothing. Others may add entries of their own, and
    so may installed packages, whose names come last; a name of jgleak's own stays jgleak's.

    Args:
      homes: name to ``module:ATTRIBUTE``.
      group: of the entry points by which installed packages add to it (``jgleak.names.installed``); none by default.
      kind: the class of what they add.
    """

    def __init__(self, homes: Mapping[str, str], group: str = "", kind: type[T] | None = None) -> None:
        self._makers: dict[str, Callable[[], T]] = {name: partial(_imported, home) for name, home in homes.items()}
        self._group, self._kind = group, kind

    def __getitem__(self, name: str) -> T:
        if name in self._makers or self._kind is None:
            return self._makers[name]()
        return load(self._group, name, self._kind)

    def __setitem__(self, name: str, entry: T) -> None:
        self._makers[name] = lambda: entry

    def __delitem__(self, name: str) -> None:
        del self._makers[name]

    def __contains__(self, name: object) -> bool:
        return name in self._makers or name in installed(self._group)

    def __iter__(self) -> Iterator[str]:
        return iter({**self._makers, **installed(self._group)})

    def __len__(self) -> int:
        return sum(1 for _ in self)


def _imported(home: str) -> Any:
    module, attribute = home.split(":")
    return getattr(importlib.import_module(module), attribute)
