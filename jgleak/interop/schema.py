"""A feature schema as a JSON file: what the columns of a model's input mean."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, get_args

import numpy as np

from jgleak.did_you_mean import did_you_mean
from jgleak.features import Feature, FeatureSpace, Kind
from jgleak.interop.spaces import NAMES
from jgleak.reading import read_json, typed

FIELDS = ("features", "degree", "mean", "std", "edge_classes", "max_degree")
FEATURE_FIELDS = ("name", "values", "size", "kind", "determined_by", "mapping")

MOST_VALUES = 1_000_000
"""Largest ``size``: larger numbers are a mistake, and would fill the memory."""


def read_schema(path: str | Path) -> FeatureSpace:
    """The feature space that a JSON file describes.

    One object with ``features``, a list in column order. Each has a ``name`` and a ``kind``: ``onehot`` (the default;
    one column for each of ``values``), ``binary`` (one column, ``values`` two, by default 0 and 1), ``number`` (one
    column that holds one of ``values``) or ``real`` (one column that holds any number). ``size`` in place of ``values``
    stands for 0, 1, .. below it. A feature that another one determines may state it (``determined_by``, and
    ``mapping``: for each of the other's values the position of this one's; without it ``values`` has one entry for each
    of the other's).

    Optional fields: ``degree``, the name of a one-hot or number feature whose values are numbers of neighbours;
    ``mean`` and ``std``, one number for each column, where the model's input is ``(column - mean) / std``;
    ``edge_classes``, the names of the edges' classes; ``max_degree``, the largest number of neighbours in public data,
    where no feature states degrees. What ``FeatureSpace.to_json`` writes is such a file.

    Raises:
      ValueError: a field does not fit; the message names the file, the feature and the field.
    """
    try:
        data = read_json(path)
    except ValueError as error:
        hint = did_you_mean(str(path), NAMES)
        raise ValueError(
            f"features: {hint}{error}; give 'molecules', 'pyg' or 'ogb', with '+bonds' behind it where edges have "
            "classes, or a JSON file"
        ) from error
    try:
        return _space(data)
    except ValueError as error:
        raise ValueError(f"features: {path}: {error}") from error


def _space(data: Any) -> FeatureSpace:
    _fields(data, FIELDS, "the schema")
    listed = data.get("features")
    if not isinstance(listed, list) or not listed:
        raise ValueError("'features' must be a list of at least one feature")
    degree = data.get("degree")
    if degree is not None and not isinstance(degree, str):
        raise ValueError(f"'degree' must be the name of a feature, got {degree!r}")
    features = tuple(_feature(item, place) for place, item in enumerate(listed))
    mean, std = (None if data.get(name) is None else _numbers(data[name], name) for name in ("mean", "std"))
    classes, most = data.get("edge_classes", []), typed(data.get("max_degree"), "int | None", "'max_degree'")
    return FeatureSpace(features, degree, mean, std, typed(classes, "tuple[str, ...]", "'edge_classes'"), most)


def _feature(item: Any, place: int) -> Feature:
    where = f"feature {place}"
    _fields(item, FEATURE_FIELDS, where)
    name, kind = item.get("name"), item.get("kind", "onehot")
    if not isinstance(name, str) or not name:
        raise ValueError(f"{where} has no 'name'")
    if kind not in get_args(Kind):
        raise ValueError(f"{name!r} has the kind {kind!r}; choose one of {', '.join(get_args(Kind))}")
    values = item.get("values", [0, 1] if kind == "binary" else [])
    if item.get("size") is not None:
        values = _counted(name, item)
    typed(values, "tuple[str | int | float, ...]", f"{name!r}: 'values'")
    if kind == "real" and values:
        raise ValueError(f"{name!r}: a real feature has no 'values'")
    by, mapping = item.get("determined_by"), item.get("mapping") or []
    if isinstance(by, str) and not mapping:  # one value for each of the other's, some of them perhaps equal
        listed, values = values, list(dict.fromkeys(values))
        mapping = [values.index(value) for value in listed]
    if by is None and len(set(values)) < len(values):
        raise ValueError(f"{name!r}: 'values' names one value twice")
    if by is not None and not isinstance(by, str):
        raise ValueError(f"{name!r}: 'determined_by' must be the name of a feature, got {by!r}")
    typed(mapping, "tuple[int, ...]", f"{name!r}: 'mapping'")
    return Feature(name, tuple(values), kind, by, tuple(mapping))


def _counted(name: str, item: Mapping[str, Any]) -> list[int]:
    size = item["size"]
    if type(size) is not int or not 1 <= size <= MOST_VALUES or "values" in item:
        raise ValueError(
            f"{name!r}: 'size' must be a whole number from 1 to {MOST_VALUES} and stands in the place of 'values'"
        )
    return list(range(size))


def _fields(item: Any, known: tuple[str, ...], where: str) -> None:
    if not isinstance(item, Mapping):
        raise ValueError(f"{where} must be an object with the fields {', '.join(known)}")
    unknown = sorted(set(item) - set(known))
    if unknown:
        raise ValueError(f"{where} has the unknown field {unknown[0]!r}; known are {', '.join(known)}")


def _numbers(values: Any, name: str) -> np.ndarray:
    return np.asarray(typed(values, "tuple[float, ...]", repr(name)), np.float64)
