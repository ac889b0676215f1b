"""The check of annotations in tests: the same as jaxtyping's, at a fraction of its time.

``jaxtyping.jaxtyped`` makes two more functions of every function when a module is imported, checks the arguments twice
and binds them to their names each time: a third of the time that the tests took.
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
from collections.abc import Callable
from types import CodeType, FunctionType
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
        return strict_of(part)

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


made: dict[int, tuple[CodeType, dict[str, Any], Callable[..., Any], bool]] = {}
"""For the number of a code object: it, the annotations as they were written, the function that checks, and whether it
names axes."""


def strict_of(part: FunctionType) -> tuple[Callable[..., Any], bool]:
    """The function with its check, and whether that names axes.

    A function inside another one is made anew at each call of that, and compiling its check takes longer than most
    calls: all that have one code share one check, which gets its function as a default value.
    """
    code, written = part.__code__, dict(part.__annotations__)
    if id(code) in made and made[id(code)][1] == written:
        _, _, checks, axes = made[id(code)]
        given = checks.__kwdefaults__ or {}
        if "__beartype_func" not in given:  # nothing to check
            return part, axes
        own = FunctionType(checks.__code__, checks.__globals__, checks.__name__)
        own.__kwdefaults__ = given | {"__beartype_func": part}
        return own, axes
    part.__annotations__ = hints(part)
    checks, axes = typed(part), any(map(names_axes, part.__annotations__.values()))
    made[id(code)] = code, written, checks, axes
    return checks, axes


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
