"""One node feature: its name, its values, and how many columns it takes."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import Literal, get_args

import numpy as np
from jaxtyping import Float

Kind = Literal["onehot", "binary", "number", "real"]


@dataclasses.dataclass(frozen=True)
class Feature:
    """One node feature.

    Attributes:
      name: its name in the schema.
      values: for a discrete feature the values in code order (code ``k`` means ``values[k]``); empty for a real one.
      kind: ``onehot`` takes one column a value, ``binary`` one column holding the code 0 or 1, ``number`` one column
        holding one of the values, which are numbers (OGB's integers, a mass that the element determines), ``real`` one
        column holding any number.
      determined_by: name of a feature that fixes this one (atomic mass follows from the element), or None.
      mapping: for a determined feature, ``mapping[k]`` is its code where the determining feature has code ``k``.
    """

    name: str
    values: tuple[str | int | float, ...] = ()
    kind: Kind = "onehot"
    determined_by: str | None = None
    mapping: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        if self.kind not in get_args(Kind):
            raise ValueError(f"features: {self.name!r} has the unknown kind {self.kind!r}; choose of {get_args(Kind)}")
        plain = tuple(v.item() if isinstance(v, np.generic) else v for v in self.values)
        object.__setattr__(self, "values", plain)

    @property
    def columns(self) -> int:
        """Number of columns this feature takes in the encoded matrix."""
        return len(self.values) if self.kind == "onehot" else 1

    @property
    def numbers(self) -> Float[np.ndarray, " k"]:
        """The values of a ``number``."""
        return np.asarray(self.values, np.float64)


def onehot(name: str, values: Sequence[str | int | float]) -> Feature:
    """A one-hot feature over ``values``."""
    return Feature(name, tuple(values), "onehot")


def real(name: str) -> Feature:
    """A real-valued feature of one column."""
    return Feature(name, (), "real")


def number(name: str, values: Sequence[int | float]) -> Feature:
    """A feature of one column that holds one of ``values``."""
    return Feature(name, tuple(values), "number")


def binary(name: str) -> Feature:
    """A 0/1 feature of one column."""
    return Feature(name, (0, 1), "binary")


def check_values(feature: Feature) -> None:
    """Raise ``ValueError`` where the values are not what the kind asks for."""
    name, values = feature.name, feature.values
    if feature.kind == "onehot" and not values:
        raise ValueError(f"features: {name!r} is one-hot but lists no values")
    if feature.kind == "binary" and len(values) != 2:
        raise ValueError(f"features: {name!r} is binary and must list exactly two values")
    if feature.kind != "number":
        return
    plain = all(isinstance(v, int | float) and math.isfinite(v) for v in values)
    if not values or not plain or len(set(values)) < len(values):
        raise ValueError(f"features: {name!r} is a number and must list its values, finite and each once")


def check_mapping(feature: Feature, by: Feature) -> None:
    """Raise ``ValueError`` where ``by`` cannot determine the feature by its mapping."""
    if by.determined_by is not None or not by.values:
        raise ValueError(f"features: {feature.name!r} must be determined by a free discrete feature, not {by.name!r}")
    if len(feature.mapping) != len(by.values) or not all(0 <= k < len(feature.values) for k in feature.mapping):
        raise ValueError(
            f"features: mapping of {feature.name!r} needs one code in 0..{len(feature.values) - 1} for each of the "
            f"{len(by.values)} values of {by.name!r}"
        )
