"""``Ratings``: who gave which item how many stars, on the host."""

from __future__ import annotations

import dataclasses
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int


@dataclasses.dataclass(frozen=True, eq=False)
class Ratings:
    """Ratings of items by users; each pair at most once.

    Attributes:
      users: who rated ``(r,)``, in ``0..n_users-1``.
      items: what was rated ``(r,)``, in ``0..n_items-1``.
      values: the ratings ``(r,)``.
      n_users: number of users, also of those who rated nothing here.
      n_items: number of items.
      levels: the values that a rating can take, ascending; public.

    Raises:
      ValueError: naming the field: unequal lengths, ids out of range, a value that is no level, a pair rated twice.
    """

    users: Int[np.ndarray, " r"]
    items: Int[np.ndarray, " r"]
    values: Float[np.ndarray, " r"]
    n_users: int
    n_items: int
    levels: tuple[float, ...]

    def __post_init__(self) -> None:
        for field, limit in (("users", self.n_users), ("items", self.n_items)):
            ids = np.asarray(getattr(self, field))
            if ids.shape != np.shape(self.values) or ids.ndim != 1:
                raise ValueError(f"{field}: expected one id a rating, {np.shape(self.values)}, got shape {ids.shape}")
            if ids.size and (not np.issubdtype(ids.dtype, np.integer) or ids.min() < 0 or ids.max() >= limit):
                raise ValueError(f"{field}: ids must be integers in 0..{limit - 1}")
        if not np.isin(self.values, np.asarray(self.levels)).all():
            raise ValueError(f"values: every rating must be one of the levels {self.levels[0]:g}..{self.levels[-1]:g}")
        if np.unique(self._pairs()).size != len(self):
            raise ValueError("users, items: a user rated an item twice")

    def __len__(self) -> int:
        return len(self.values)

    def take(self, rows: np.ndarray) -> Ratings:
        """Some of the ratings, by index or mask; users, items and levels stay."""
        return dataclasses.replace(self, users=self.users[rows], items=self.items[rows], values=self.values[rows])

    def validation(self, share: float, rng: np.random.Generator) -> tuple[Ratings, Ratings]:
        """These ratings without a random ``share`` of them, and that share.

        Raises:
          ValueError: ``share`` is outside (0, 1), or takes none or all of the ratings.
        """
        count = round(share * len(self))
        if not 0 < share < 1 or not 0 < count < len(self):
            raise ValueError(f"share: {share} of {len(self)} ratings leaves nothing on one side; take one in (0, 1)")
        held = np.zeros(len(self), bool)
        held[rng.permutation(len(self))[:count]] = True
        return self.take(~held), self.take(held)

    def counts(self) -> Int[np.ndarray, " n_users"]:
        """Number of ratings of every user."""
        return np.bincount(self.users, minlength=self.n_users)

    def _pairs(self) -> Int[np.ndarray, " r"]:
        return self.users.astype(np.int64) * self.n_items + self.items


class RatingSplit(NamedTuple):
    """A data set of ratings, in the split that its publishers or users gave it."""

    name: str
    train: Ratings
    test: Ratings
