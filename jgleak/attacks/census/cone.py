"""Which columns a non-negative combination uses, found by column generation."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

import numpy as np
from jaxtyping import Bool, Float, Int

from jgleak.attacks.attack import Clock
from jgleak.attacks.census.settings import CensusSettings
from jgleak.attacks.nonnegative import nonnegative

PRICED = 256
"""About how many columns one step adds to those that the solution may use, equally many of each group."""

PREFERRED, AGAIN = 1e-6, 3.0
"""Cost of a column, times a random number: as small as rounding, so that equally good solutions alternate; and the
factor by which the cost grows once the column's block was used."""

STALLED = 0.99
"""A step that leaves more than this share of the residual is the last."""

ROWS = 4096
"""Longer columns are reduced to this many random sums of their entries, which keep lengths to a few percent."""


@runtime_checkable
class Cone(Protocol):
    """All non-negative combinations of many columns of length one; columns are computed on demand.

    Attributes:
      goal: the vector to be explained, of length one ``(M,)``.
      blocks: the block that each column belongs to ``(C,)``.
      groups: the group of each column; columns of a group are similar, so the best of every group are added ``(C,)``.
    """

    goal: Float[np.ndarray, " M"]
    blocks: Int[np.ndarray, " C"]
    groups: Int[np.ndarray, " C"]

    def columns(self, some: Int[np.ndarray, " k"]) -> Float[np.ndarray, "k M"]:
        """Some columns, as rows."""
        ...

    def prices(self, rest: Float[np.ndarray, " M"]) -> Float[np.ndarray, " C"]:
        """The product of every column with what is left to be explained."""
        ...

    def counts(self, some: Int[np.ndarray, " k"], weights: Float[np.ndarray, " k"]) -> Bool[np.ndarray, " k"]:
        """Which weights of some columns are more than rounding."""
        ...


def used_blocks(cone: Cone, settings: CensusSettings, clock: Clock) -> Int[np.ndarray, " k"] | None:
    """Blocks that some combination uses; None where no combination explains the goal. The problem is solved several
    times, every time with other blocks preferred, since nearly equal blocks can replace each other, until no block is
    new.
    """
    rng, used, last = np.random.default_rng(0), np.zeros(0, np.int64), np.zeros(0, np.int64)
    for number in range(settings.limits.conic_rounds):
        costs = PREFERRED * rng.exponential(size=cone.blocks.size) * np.where(np.isin(cone.blocks, used), AGAIN, 1.0)
        found = _solved(cone, last, costs, settings, clock)
        if found is None:
            return None if not number else used
        last, more = found, np.union1d(used, cone.blocks[found])
        if more.size == used.size or clock.left <= 0:
            return more
        used = more
    return used


def _solved(
    cone: Cone, start: Int[np.ndarray, " s"], costs: Float[np.ndarray, " C"], settings: CensusSettings, clock: Clock
) -> Int[np.ndarray, " k"] | None:
    """The columns of one solution, beginning with ``start``; None where no combination explains the goal."""
    folded = Folded(cone.goal.size)
    each = -(-PRICED // (1 + int(cone.groups.max(initial=0))))
    goal, kept = folded(cone.goal[None])[0], folded(cone.columns(start))
    some, weights, rest, best = start, np.zeros(start.size), goal, np.inf
    for _ in range(settings.limits.conic_steps):
        prices = cone.prices(folded.back(rest)) - costs * (costs[some] @ weights)
        prices[some] = 0.0
        paying = paying_most(prices, cone.groups, each)
        if not paying.size or clock.left <= 0:
            break
        chosen, columns = np.r_[some, paying], np.r_[kept, folded(cone.columns(paying))]
        system = np.c_[np.c_[columns, costs[chosen]].T, np.r_[goal, 0.0]]
        triangle = np.asarray(np.linalg.qr(system, mode="r"))
        found = nonnegative(triangle[:, :-1], triangle[:, -1], settings.limits.solver_rounds, clock)
        if found is None:
            break
        alive = found[0] > 0.0
        some, weights, kept = chosen[alive], found[0][alive], columns[alive]
        rest = goal - weights @ kept
        if found[1] > STALLED * best:
            break
        best = found[1]
    if (
        not weights.any()
        or np.linalg.norm(cone.goal - weights @ cone.columns(some)) > settings.tolerances.conic_residual
    ):
        return None
    return some[cone.counts(some, weights)]


def paying_most(prices: Float[np.ndarray, " C"], groups: Int[np.ndarray, " C"], each: int) -> Int[np.ndarray, " k"]:
    """The columns of the highest prices above 0, at most so many of every group."""
    paying = np.flatnonzero(prices > 0.0)
    paying = paying[np.lexsort((-prices[paying], groups[paying]))]
    first = np.searchsorted(groups[paying], groups[paying])
    return paying[np.arange(paying.size) - first < each]


class Folded:
    """Long columns as ``ROWS`` sums of their entries with random signs, every entry in one sum."""

    def __init__(self, size: int) -> None:
        rng = np.random.default_rng(1)
        self.folds = -(-size // ROWS)
        self.signs = rng.choice([-1.0, 1.0], size)
        self.order = rng.permutation(size)

    def __call__(self, columns: Float[np.ndarray, "k M"]) -> Float[np.ndarray, "k R"]:
        if self.folds == 1:
            return columns
        signed = (columns * self.signs)[:, self.order]
        padded = np.pad(signed, ((0, 0), (0, self.folds * ROWS - signed.shape[1])))
        return padded.reshape(columns.shape[0], self.folds, ROWS).sum(axis=1)

    def back(self, sums: Float[np.ndarray, " R"]) -> Float[np.ndarray, " M"]:
        """The transpose: products of ``back(sums)`` with long columns are those of ``sums`` with short ones."""
        if self.folds == 1:
            return sums
        out = np.zeros(self.signs.size)
        out[self.order] = np.tile(sums, self.folds)[: self.signs.size]
        return out * self.signs


def covered(used: Int[np.ndarray, " k"], alike: Int[np.ndarray, " K"]) -> Bool[np.ndarray, " K"]:
    """The blocks whose number in ``alike`` is that of a used one: the gradient does not distinguish them."""
    return np.isin(alike, alike[used])
