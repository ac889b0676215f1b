"""Files that users name: what is no file is refused before anything waits for it, and every complaint says which."""

from __future__ import annotations

import json
import math
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any


def check_file(path: str | Path) -> None:
    """Refuse what cannot be read to an end: a folder, a device, a pipe to which nothing may ever be written.

    Raises:
      ValueError: naming the path; also where there is none.
    """
    path = Path(path)
    if path.is_file():
        return
    if path.is_dir():
        raise ValueError(f"{path}: is a folder")
    if path.exists():
        raise ValueError(f"{path}: is a device or a pipe, which is not read; save its content as a file")
    raise ValueError(f"{path}: no such file")


def namesakes(files: Sequence[Path]) -> tuple[Path, Path] | None:
    """The first two that are called the same but for folder and ending: a result under that name would stand for
    both."""
    names: dict[str, Path] = {}
    return next(((first, file) for file in files if (first := names.setdefault(file.stem, file)) is not file), None)


def read_text(path: str | Path) -> str:
    """A file's text, in UTF-8 with or without a byte order mark; every end of a line is a newline.

    Raises:
      ValueError: naming the file, where it is none, cannot be read, or is no such text.
    """
    check_file(path)
    try:
        return Path(path).read_text(encoding="utf-8-sig")
    except OSError as error:
        raise ValueError(f"{path}: cannot be read ({error.strerror})") from error
    except UnicodeDecodeError as error:
        raise ValueError(f"{path}: not text in UTF-8 ({error.reason} at byte {error.start})") from error


def read_json(path: str | Path) -> Any:
    """The document in a JSON file.

    Raises:
      ValueError: as ``read_text``, and where it is not JSON.
    """
    text = read_text(path)
    try:
        return parsed_json(text)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error


def parsed_json(text: str) -> Any:
    """The document in a JSON text; raises ``ValueError`` where it is none."""
    try:
        return json.loads(text)
    except RecursionError as error:
        raise ValueError("not JSON that can be read: too many brackets within each other") from error
    except json.JSONDecodeError as error:
        raise ValueError(f"not JSON ({error})") from error
    except ValueError as error:  # Python converts no more than 4,300 digits
        raise ValueError("not JSON that can be read: a number has thousands of digits") from error


def parsed_toml(text: str) -> dict[str, Any]:
    """The document in a TOML text, whose whole numbers have 64 bits at most, as its standard says.

    Raises:
      ValueError: it is none.
    """
    try:
        document = tomllib.loads(text)
        wide = next(_beyond(document, ""), None)
    except RecursionError as error:
        raise ValueError("not TOML that can be read: too many brackets within each other") from error
    except tomllib.TOMLDecodeError as error:
        raise ValueError(f"not TOML: {error}") from error
    except ValueError as error:  # Python converts no more than 4,300 digits
        raise ValueError("not TOML: a number has thousands of digits") from error
    if wide is not None:
        raise ValueError(f"not TOML: {wide} has a whole number of more than 64 bits")
    return document


def _beyond(value: Any, place: str) -> Iterator[str]:
    """Places of whole numbers that 64 bits do not hold."""
    if isinstance(value, dict):
        for key, part in value.items():
            yield from _beyond(part, f"{place}.{key}" if place else key)
    elif isinstance(value, list):
        for number, part in enumerate(value):
            yield from _beyond(part, f"{place}[{number}]")
    elif isinstance(value, int) and not -(2**63) <= value < 2**63:
        yield place


SCALARS: dict[str, tuple[tuple[type, ...], str]] = {
    "int": ((int,), "a whole number"),
    "float": ((int, float), "a number"),
    "bool": ((bool,), "true or false"),
    "str": ((str,), "a word"),
    "str | int | float": ((str, int, float), "a word or a number"),
}
"""What a field of a file may hold, by its annotation."""


def typed(value: Any, annotation: str, place: str) -> Any:
    """A value from JSON for a field that is annotated so: lists become tuples.

    Args:
      value: any.
      annotation: of ``SCALARS``, or ``tuple[..., ...]`` or ``.. | None`` of one.
      place: what the message calls the field.

    Raises:
      ValueError: another type, NaN, infinite, or a whole number of more than 64 bits.
    """
    if value is None and annotation.endswith(" | None"):
        return None
    annotation = annotation.removesuffix(" | None")
    if annotation.startswith("tuple["):
        if not isinstance(value, list | tuple):
            raise ValueError(f"{place}: expected a list, got {shortened(value)}")
        one = annotation.removeprefix("tuple[").removesuffix(", ...]")
        return tuple(typed(part, one, f"{place}[{i}]") for i, part in enumerate(value))
    classes, said = SCALARS[annotation]
    if not isinstance(value, classes) or (isinstance(value, bool) and annotation != "bool"):
        raise ValueError(f"{place}: expected {said}, got {shortened(value)}")
    if isinstance(value, int) and not -(2**63) <= value < 2**63:
        raise ValueError(f"{place}: expected {said} of at most 64 bits, got {shortened(value)}")
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError(f"{place}: expected {said} that is finite, got {value}")
    return value


def typed_fields(data: Any, fields: Mapping[str, str], place: str = "", *, others: bool = False) -> dict[str, Any]:
    """Of an object with these fields those that are there, each ``typed``; ``others``: it may have more.

    Raises:
      ValueError: no object, an unknown field, or as ``typed``.
    """
    lead = f"{place}." if place else ""
    if not isinstance(data, Mapping):
        raise ValueError(f"{lead[:-1] or 'file'}: expected fields by name, got {shortened(data)}")
    unknown = sorted(set(data) - set(fields))
    if unknown and not others:
        raise ValueError(f"{lead}{unknown[0]}: unknown field; known ones are {', '.join(fields)}")
    return {name: typed(data[name], kind, lead + name) for name, kind in fields.items() if name in data}


def shortened(value: Any) -> str:
    """A value as a message shows it: of a long one the beginning."""
    text = str(value) if isinstance(value, int) and not isinstance(value, bool) else repr(value)
    return text if len(text) <= 60 else f"{text[:40]}.. ({len(text)} characters)"
