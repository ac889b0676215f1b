"""What is learnt from, as a key: equal where all numbers are, so that nothing is learnt twice."""

from __future__ import annotations

import dataclasses
from typing import Any

import jax
import numpy as np


class HashedByContents:
    """Base of frozen dataclasses (``eq=False``) of arrays that a cache of trained weights looks up by value."""

    def __hash__(self) -> int:
        return hash(self._bytes())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, HashedByContents) and type(other) is type(self) and self._bytes() == other._bytes()

    def _bytes(self) -> tuple[Any, ...]:
        fields: Any = self
        leaves = jax.tree.leaves([getattr(self, field.name) for field in dataclasses.fields(fields)])
        return tuple((np.shape(leaf), np.asarray(leaf).tobytes()) for leaf in leaves)
