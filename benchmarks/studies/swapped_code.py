"""The functions of a module that was imported, with the code of a changed version of it."""

from __future__ import annotations

import gc
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any

FUNCTION = 0x1
"""The flag of functions' code, which that of a module or of a class lacks (the first of ``inspect``'s code flags)."""


class NotSwapped(Exception):
    """The change is not one of the code of functions that exist: it has to be imported."""


def swap(path: Path, source: str) -> None:
    """Give all functions that were made of a file the code that they have in another version of it.

    Decorators, compiled functions that were not traced yet, and names that other modules imported keep their functions,
    which run the new code from then on. What ran on import stays as it is.

    Args:
      path: the file, as it was imported.
      source: its other version, which changes code inside functions alone.

    Raises:
      NotSwapped: it changes what runs on import, or closures.
    """
    was = path.read_text(encoding="utf-8")
    if source == was:
        return
    old, new = (compile(text, str(path), "exec") for text in (was, source))
    functions = [one for one in gc.get_objects() if isinstance(one, FunctionType)]
    made: dict[str, list[FunctionType]] = {}
    for one in functions:
        if one.__code__.co_filename == str(path):
            made.setdefault(one.__code__.co_qualname, []).append(one)
    names, found = Counter(code.co_qualname for code in _all(old)), False
    for before, after in _changed(old, new):
        # functions with others inside are compiled anew where types are checked, so that their places are not these
        same = made.get(before.co_qualname, ())
        for function in (
            same if names[before.co_qualname] == 1 else [one for one in same if _alike(one.__code__, before)]
        ):
            try:
                function.__code__ = after
            except ValueError as error:  # other free variables
                raise NotSwapped(str(error)) from None
            found = True
    if not found:
        raise NotSwapped("no function was made of what changed")


def _alike(one: CodeType, other: CodeType) -> bool:
    return list(one.co_positions()) == list(other.co_positions())


def _own(code: CodeType) -> tuple[Any, ...]:
    """What code says without the code inside of it."""
    constants = tuple(None if isinstance(one, CodeType) else (type(one), one) for one in code.co_consts)
    names = code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars
    return code.co_code, constants, names


def _inside(code: CodeType) -> list[CodeType]:
    return [one for one in code.co_consts if isinstance(one, CodeType)]


def _all(code: CodeType) -> Iterator[CodeType]:
    for one in _inside(code):
        yield one
        yield from _all(one)


def _changed(old: CodeType, new: CodeType) -> Iterator[tuple[CodeType, CodeType]]:
    """Pairs of code that differ, with those around them."""
    if not old.co_flags & FUNCTION and _own(old) != _own(new):
        raise NotSwapped("it changes what runs on import")
    inside = _inside(old), _inside(new)
    if len(inside[0]) != len(inside[1]):  # of a function, whose own code is another
        return
    for before, after in zip(*inside, strict=True):
        if before != after:
            yield before, after
            yield from _changed(before, after)
