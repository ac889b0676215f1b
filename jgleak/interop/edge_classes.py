"""Classes of edges whose attributes a model embeds: the attributes of each class, and the class of each edge."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from jaxtyping import Int

from jgleak.interop.arrays import Arrays
from jgleak.interop.layers import GINE
from jgleak.interop.take import WeightSlot

Classes = tuple[tuple[int, ...], ...]
"""The attributes of every class."""


def edge_rows_of(slots: Sequence[WeightSlot], state: Arrays) -> dict[str, tuple[tuple[float, ...], ...]]:
    """The attributes of every class, one-hot and side by side, by the name of the layer that adds their embeddings.

    Raises:
      ValueError: attributes without a row in the tables, a repeated class, or layers with different classes.
    """
    found, first = {}, None
    for slot in slots:
        if slot.embeds and isinstance(slot.layer, GINE):
            sizes = [state[name].shape[0] for name in slot.names]
            classes = _checked(slot.layer, sizes)
            first = first or (slot.layer.name, classes)
            if classes != first[1]:
                raise ValueError(
                    f"layers: {slot.layer.name!r} has other edge classes than {first[0]!r}, or in another order; give "
                    "all layers the same classes"
                )
            columns = [np.eye(size)[[row[i] for row in classes]] for i, size in enumerate(sizes)]
            found[slot.layer.name] = tuple(map(tuple, np.concatenate(columns, axis=1).tolist()))
    return found


def class_numbers(rows: Any, slots: Sequence[WeightSlot], state: Arrays) -> Any:
    """The number of every edge's class, where ``rows`` are the attributes that a model embeds; other rows are returned
    unchanged.

    Raises:
      ValueError: an edge of no class.
    """
    slot = next((slot for slot in slots if slot.embeds and isinstance(slot.layer, GINE)), None)
    if slot is None or rows is None or not isinstance(slot.layer, GINE):
        return rows
    classes = _checked(slot.layer, [state[name].shape[0] for name in slot.names])
    given, number = np.asarray(rows), {row: i for i, row in enumerate(classes)}
    if (
        given.shape[1:] not in ((len(slot.names),), () if len(slot.names) == 1 else None)
        or given.dtype.kind not in "iu"
    ):
        raise ValueError(
            f"edge_rows: {slot.layer.name!r} looks {len(slot.names)} integers an edge up, got {given.dtype} of shape "
            f"{given.shape}"
        )
    attributes: Int[np.ndarray, "e t"] = given.reshape(len(given), len(slot.names)).astype(np.int64)
    for row in map(tuple, attributes.tolist()):
        if row not in number:
            raise ValueError(f"edge_rows: an edge has the attributes {row}, which are none of the classes of the layer")
    return np.array([number[row] for row in map(tuple, attributes.tolist())], np.int64)


def _checked(layer: GINE, sizes: Sequence[int]) -> Classes:
    """The layer's classes, or those of its only table."""
    if not len(layer.classes) and len(sizes) == 1:
        return tuple((value,) for value in range(sizes[0]))
    if not len(layer.classes):
        raise ValueError(
            f"layers: {layer.name!r} looks {len(sizes)} attributes of an edge up, in tables of {list(sizes)} rows; say "
            "which occur together: classes=[(0, 0, 0), ..], or jgleak.features.ogb_bonds().values()"
        )
    try:
        classes = tuple(tuple(map(int, row)) for row in layer.classes)
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"layers: {layer.name!r} has edge classes {layer.classes!r:.60}; give the integers of each, as "
            "[(0, 0, 0), (1, 0, 0)], or jgleak.features.ogb_bonds().values()"
        ) from error
    for row in classes:
        if len(row) != len(sizes) or not all(0 <= value < size for value, size in zip(row, sizes, strict=True)):
            raise ValueError(f"layers: {layer.name!r} has the edge class {row}, and tables of {list(sizes)} rows")
    if len(set(classes)) < len(classes):
        raise ValueError(f"layers: {layer.name!r} has an edge class twice; give each combination of attributes once")
    return classes
