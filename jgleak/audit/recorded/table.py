"""The ``[[observation]]`` tables of a grid: the files that they name, and their mistakes."""

from __future__ import annotations

import glob
import json
import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open

from jgleak.audit.recorded.recorded import Recorded
from jgleak.audit.recorded.truth import common_truth
from jgleak.audit.specification import Specification
from jgleak.did_you_mean import did_you_mean
from jgleak.interop.spaces import names_schema
from jgleak.reading import check_file, typed

FIELDS = {"name": str, "files": str, "truth": str, "features": str, "noise": float}
"""The fields of a table; ``files`` may also be a list of texts."""

NAMED = "name molecules, pyg or ogb, or a schema file beside the grid"
"""What ``features`` may be."""

MOST_GRAPHS = 100_000
"""Most graphs behind one update; a file that states more is broken."""

TRAINING = {
    "rate": ("local_rate", "float"),
    "steps": ("local_steps", "int"),
    "momentum": ("local_momentum", "float"),
    "weight_decay": ("local_weight_decay", "float"),
    "loader": ("local_loader", "int"),
}
"""Fields of a file's local training, their names in ``Specification``, and their types."""


def observation_label(entry: Mapping[str, Any]) -> str:
    """The label of a table: its ``name``, or the files."""
    return entry.get("name") or ", ".join(_patterns(entry))


def observation_faults(entry: Mapping[str, Any], folder: Path) -> Iterator[str]:
    """Every mistake of one table, as ``.field: what is wrong``; only the headers of observations are read.

    Args:
      entry: the table.
      folder: the grid's folder, to which its paths are relative.
    """
    for key, value in entry.items():
        if key not in FIELDS:
            yield f".{key}: unknown; {did_you_mean(key, FIELDS)}an [[observation]] table has {', '.join(FIELDS)}"
        elif key == "noise":
            if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < math.inf:
                yield f".noise: expected a standard deviation, 0 or more, got {value!r}"
        elif key == "files" and isinstance(value, list):
            if not value or not all(isinstance(one, str) and one for one in value):
                yield f'.files: expected texts in quotes, as ["a.safetensors"], got {value!r}'
        elif not isinstance(value, str) or not value.strip():
            yield f".{key}: expected text in quotes, got {value!r}"
    if "files" not in entry:
        yield '.files: missing; name observation files, as files = "rounds/*.safetensors"'
        return
    for pattern in _patterns(entry) if isinstance(entry["files"], str | list) else ():
        if isinstance(pattern, str) and pattern and not _matches(pattern, folder):
            wrong = "matches no file; paths begin where the grid is"
            if (folder / pattern).is_dir():
                wrong = f'is a folder; name the files in it, as "{pattern}/*.safetensors"'
            yield f".files: {pattern!r} {wrong}"
    features = entry.get("features")
    if isinstance(features, str) and features.strip() and names_schema(features):
        try:
            check_file(folder / features)
        except ValueError as error:
            yield f".features: {error}; {NAMED}"
    elif features is None and isinstance(entry["files"], str | list):
        yield from _unsaid_columns(entry, folder)
    truth = entry.get("truth")
    if isinstance(truth, str) and truth.strip():
        yield from (f".truth: {fault}" for fault in _truth_faults(truth, entry, folder))


def _unsaid_columns(entry: Mapping[str, Any], folder: Path) -> Iterator[str]:
    """The fault where neither the table nor any of its files states what the input's columns mean. Where only some
    files do, the others fail when they are attacked: a feature space of the table would replace the stated ones.
    """
    patterns = [pattern for pattern in _patterns(entry) if isinstance(pattern, str) and pattern]
    headers = [_header(path) for pattern in patterns for path in _matches(pattern, folder)]
    read = [header for header in headers if header]
    if read and all(header.get("space") is None for header in read):
        yield f".features: missing, and no file says what the columns of its input mean; {NAMED}"


def _header(file: Path) -> dict[str, Any]:
    """A file's header; empty where it cannot be read or has none."""
    try:
        with safe_open(file, framework="numpy") as opened:
            header: Any = json.loads((opened.metadata() or {})["jgleak"])
    except (OSError, SafetensorError, ValueError, KeyError, RecursionError):
        return {}
    return header if isinstance(header, dict) else {}


def _truth_faults(truth: str, entry: Mapping[str, Any], folder: Path) -> Iterator[str]:
    place = folder / truth
    if not (place.is_dir() or place.is_file()):
        what = "is a device or a pipe" if place.exists() else "is not beside the grid"
        yield f"{truth!r} {what}; name a folder of NAME.json, or a file"
        return
    try:
        common = common_truth(place, [path for pattern in _patterns(entry) for path in _matches(pattern, folder)])
    except ValueError as error:
        common = str(error)
    if common is not None:
        yield common


def _patterns(entry: Mapping[str, Any]) -> list[str]:
    files = entry["files"]
    return list(files) if isinstance(files, list) else [files]


def _matches(pattern: str, folder: Path) -> list[Path]:
    """The files that a pattern names, sorted; an existing path is never read as a pattern."""
    found = [pattern] if (folder / pattern).is_file() else glob.glob(pattern, root_dir=folder, recursive=True)
    return sorted((folder / path).absolute() for path in found if (folder / path).is_file())


def recorded_files(entry: Mapping[str, Any], folder: Path) -> list[tuple[str, dict[str, Any]]]:
    """Every file of a valid table once: its label, and its fields of ``Specification``."""
    files = dict.fromkeys(path for pattern in _patterns(entry) for path in _matches(pattern, folder))
    features = entry.get("features")
    if features is not None and names_schema(features):
        features = str((folder / features).absolute())
    truth = entry.get("truth")
    noise = None if entry.get("noise") is None else float(entry["noise"])
    given = None if truth is None else str((folder / truth).absolute()), features, noise
    base = folder.absolute()
    return [
        (str(path.relative_to(base) if path.is_relative_to(base) else path), _fields(Recorded(str(path), *given)))
        for path in files
    ]


def _fields(recorded: Recorded) -> dict[str, Any]:
    """The fields that a file states; a file that cannot be read keeps the defaults, and fails when it is attacked."""
    fields, header = dict[str, Any](recorded=recorded), _header(Path(recorded.file))
    try:
        fields |= {"batch_size": typed(header["batch_size"], "int", "batch_size")}
        fields |= {"protocol": typed(header["protocol"], "str", "protocol")}
        local = header.get("local") or {}
        for theirs, (ours, kind) in TRAINING.items():
            if local.get(theirs) is not None:  # of the loader: all graphs
                fields[ours] = typed(local[theirs], kind, theirs)
        Specification(**fields)
    except (ValueError, KeyError, TypeError, AttributeError):
        return {"recorded": recorded}
    return fields if fields["batch_size"] <= MOST_GRAPHS else {"recorded": recorded}
