"""The check of annotations in tests: the same as jaxtyping's, at a fraction of its time.

``jaxtyping.jaxtyped`` makes two more functions of every function when a module is imported, checks the arguments twice
and binds them to their names each time: a third of the time that the tests took.
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
from collections.abc import Callable
from typing import Any, get_args, get_type_hints

import jaxtyping
from beartype import BeartypeConf, beartype

__name__ = "jaxtyping.checked"  # whoever looks for the caller behind jaxtyping's frames looks behind these as well

typed: Any = beartype(conf=BeartypeConf(is_pep484_tower=True, violation_type=jaxtyping.TypeCheckError))
"""An int is a float, as for pyright."""

jaxtyped: Any = jaxtyping.jaxtyped
own_names: Any = jaxtyped("context")
"""In it, an axis of one name has one size."""


def checked(part: Any = None, **_: Any) -> Any:
    """A function that checks its arguments and its result, whose axes of one name have one size; a dataclass that does.

    Annotations are read at the first call. One that then has no value (its name is imported for type checkers alone)
    stands for anything.
    """
    if part is None:
        return checked
    if inspect.isclass(part):
        if dataclasses.is_dataclass(part) and "__init__" in vars(part):
            part.__init__ = checked(part.__init__)  # type: ignore[method-assign]
        return part
    if inspect.isgeneratorfunction(part):  # it would check its arguments at the first item, among others' axes
        return jaxtyped(part, typechecker=typed)

    @functools.cache
    def strict() -> tuple[Callable[..., Any], bool]:
        part.__annotations__ = hints(part)
        return typed(part), any(map(names_axes, part.__annotations__.values()))

    @functools.wraps(part)
    def called(*args: Any, **named: Any) -> Any:
        __tracebackhide__ = True
        if jaxtyping.config.jaxtyping_disable:
            return part(*args, **named)
        function, axes = strict()
        if not axes:
            return function(*args, **named)
        with own_names:
            return function(*args, **named)

    return called


def names_axes(hint: Any) -> bool:
    """Whether a type is one of jaxtyping's, or holds one."""
    return getattr(hint, "__module__", "") == "jaxtyping" or any(map(names_axes, get_args(hint)))


def hints(function: Any) -> dict[str, Any]:
    """The types that a function's annotations name."""
    try:
        return get_type_hints(function, include_extras=True)
    except Exception:  # one that does not resolve, for whatever reason
        found = {}
        for name, hint in function.__annotations__.items():
            try:
                found |= get_type_hints(_Alone({name: hint}), function.__globals__, include_extras=True)
            except Exception:
                found[name] = Any
        return found


class _Alone:
    """Something with one annotation."""

    def __init__(self, annotations: dict[str, Any]) -> None:
        self.__annotations__ = annotations
