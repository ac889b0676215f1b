"""Factors of the graphs of a batch, from the weights of blocks that only one graph has.

Such a block's weight is an integer multiple of its graph's factor. So every weight, divided by a small integer, is a
candidate factor, and each weight that is an integer multiple of it is a vote. The weight of a block that several graphs
have is an integer combination of factors (``Combinations``).
"""

from __future__ import annotations

from itertools import combinations, product
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int

TIMES = 12
"""A block that decides on a factor occurs at most so often in its graph."""

OFTEN = (60, 16, 8, 6, 4, 3, 2, 2)
"""How often a block may occur in every one of 1, 2, .. graphs that share it."""

SUMS = 1_000_000
"""Most combinations of factors that are listed."""


class Factor(NamedTuple):
    """What one node of a graph adds to the weight of its block ``(r,)``, and how far it may be off ``(r,)``."""

    value: Float[np.ndarray, " r"]
    error: Float[np.ndarray, " r"]


def factors(values: Float[np.ndarray, "k r"], errors: Float[np.ndarray, "k r"], least: int = 2) -> list[Factor]:
    """Factors with at least ``least`` multiples among the weights, not counting multiples of an earlier factor.

    Those come first whose multiples are least likely by chance. A factor's own whole parts have its multiples too, and
    now and then one more by chance. One that is a whole combination of others is left out.
    """
    divisors = np.arange(1, TIMES + 1)[:, None, None]
    ones, off = (values / divisors).reshape(-1, values.shape[1]), (errors / divisors).reshape(-1, values.shape[1])
    multiples = np.stack([_multiples(one, e, values, errors) for one, e in zip(ones, off, strict=True)])
    reach = errors + multiples[:, :, None] * off[:, None]
    # a weight that has nothing to do with a factor comes so near to a multiple of it with probability 2 reach / factor
    surprise = np.log(np.maximum(np.abs(ones)[:, None] / (2.0 * reach), 1.0)).sum(axis=2) * (multiples > 0)
    uncovered, found = np.ones(len(values), bool), list[Factor]()
    while uncovered.any():
        votes = ((multiples > 0) & uncovered).sum(axis=1)
        score = np.where(votes >= least, surprise @ uncovered, 0.0)
        best = int(score.argmax())
        if score[best] <= 0.0:
            break
        found.append(_refined(multiples[best], values, errors))
        uncovered &= multiples[best] == 0
    return _independent(found)


def _multiples(
    one: Float[np.ndarray, " r"],
    off: Float[np.ndarray, " r"],
    values: Float[np.ndarray, "k r"],
    errors: Float[np.ndarray, "k r"],
) -> Int[np.ndarray, " k"]:
    """The multiple that each weight is of a factor, 0 where it is not an integer multiple."""
    # least squares, in which an entry counts by how well both sides of it are known
    times = np.maximum(np.round(values / errors @ (one / off) / np.maximum((one / errors) @ (one / off), 1e-300)), 0)
    near = np.all(np.abs(values - times[:, None] * one) <= errors + times[:, None] * off, axis=1)
    return np.where(near, times, 0).astype(np.int64)


def _refined(
    multiples: Int[np.ndarray, " k"], values: Float[np.ndarray, "k r"], errors: Float[np.ndarray, "k r"]
) -> Factor:
    """The factor from all of its multiples."""
    members = multiples > 0
    times, weight = multiples[members, None], 1.0 / errors[members] ** 2
    total = (times**2 * weight).sum(axis=0)
    # rounding does not average out: the mean is taken to be as good as the best of them
    return Factor((times * weight * values[members]).sum(axis=0) / total, (errors[members] / times).min(axis=0))


def _independent(found: list[Factor]) -> list[Factor]:
    """Without those that are whole combinations of the others, where these are two or more."""
    kept = list(found)
    for one in sorted(found, key=lambda factor: -float(np.linalg.norm(factor.value))):
        others = [other for other in kept if other is not one]
        if len(others) > 1 and len(Combinations(others).of(one.value, one.error)[0]):
            kept = others
    return kept


class Combinations:
    """Small whole combinations of factors.

    Attributes:
      complete: they are all that ``OFTEN`` allows; the limit ``SUMS`` left none out.
    """

    def __init__(self, found: list[Factor]) -> None:
        self.number = len(found)
        self.values, self.errors = (np.array([factor[i] for factor in found]) for i in range(2))
        tables, total = list[Int[np.ndarray, "T B"]](), 0  # small: there may be a million rows
        for several, most in enumerate(OFTEN[: self.number], start=1):
            each = np.array(list(product(range(1, most + 1), repeat=several)), np.int8)
            for chosen in combinations(range(self.number), several):
                total += len(each)
                if total > SUMS:
                    break
                table = np.zeros((len(each), self.number), np.int8)
                table[:, chosen] = each
                tables.append(table)
        self.complete, table = total <= SUMS, np.concatenate(tables)
        sums = table @ self.values
        self.along = int(np.ptp(sums / np.maximum(self.errors.max(axis=0), 1e-300), axis=0).argmax())
        order = np.argsort(sums[:, self.along])
        self.table, self.sums, self.blur = table[order], sums[order], (table @ self.errors)[order]
        self.loosest = float(self.blur[:, self.along].max(initial=0.0))

    def of(
        self, value: Float[np.ndarray, " r"], error: Float[np.ndarray, " r"]
    ) -> tuple[Int[np.ndarray, "o B"], Float[np.ndarray, " o"]]:
        """How often each factor may be in a weight, and how much of what it may be off each way needs."""
        reach = float(error[self.along]) + self.loosest
        first, last = np.searchsorted(self.sums[:, self.along], value[self.along] + np.array([-reach, reach]))
        part = slice(first, last)
        misfit = (np.abs(self.sums[part] - value) / (error + self.blur[part])).max(axis=1)
        near: Bool[np.ndarray, " p"] = misfit <= 1.0
        return self.table[part][near], misfit[near]
