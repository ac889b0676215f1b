"""Neighbourhoods as index ranges: multisets of table rows, enumerated as prefix x tail without building them."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Sequence

import numpy as np
from jaxtyping import Int

TAIL = 1 << 17
"""Most rows of a tail table; what does not fit is enumerated as prefixes."""


@dataclasses.dataclass(frozen=True)
class Slot:
    """``count`` interchangeable neighbours, each one of ``options`` (rows of a table)."""

    options: Int[np.ndarray, " k"]
    count: int


@dataclasses.dataclass(frozen=True)
class Factor:
    """A table of partial neighbourhoods: each row of ``members`` is a tuple of table rows; ``first`` and ``last`` are
    positions in the slot's option list, for the ordering between the two halves of a split slot (-1 where unused)."""

    members: Int[np.ndarray, "R k"]
    first: Int[np.ndarray, " R"]
    last: Int[np.ndarray, " R"]


@dataclasses.dataclass(frozen=True)
class Neighbourhoods:
    """All neighbourhoods of one centre: every prefix row combined with every tail row, subject to one ordering.

    A pair is valid when ``prefix.last <= tail.first`` (``<`` with distinct neighbours); both are -1 where the two
    halves come from different slots, so that every pair is valid.
    """

    prefixes: tuple[Factor, ...]
    tail: Factor
    strict: bool

    @property
    def prefix_count(self) -> int:
        """Number of prefix rows."""
        return math.prod(f.members.shape[0] for f in self.prefixes)

    @property
    def width(self) -> int:
        """Number of neighbours."""
        return sum(f.members.shape[1] for f in (*self.prefixes, self.tail))

    @property
    def members(self) -> Int[np.ndarray, " U"]:
        """Every table row that occurs, sorted."""
        return np.unique(np.concatenate([f.members.ravel() for f in (*self.prefixes, self.tail)]))

    def begin(self, last: int) -> int:
        """First tail row that a prefix with this ordering key can be combined with (tail rows are sorted by key)."""
        if self.tail.first[-1] < 0 or last < 0:
            return 0
        return int(np.searchsorted(self.tail.first, last + int(self.strict)))

    def all(self) -> Int[np.ndarray, "S k"]:
        """Every neighbourhood, built."""
        rows, last = self.prefix(np.arange(self.prefix_count))
        i, j = np.divmod(np.arange(rows.shape[0] * self.tail.members.shape[0]), self.tail.members.shape[0])
        valid = last[i] + int(self.strict) * (last[i] >= 0) <= self.tail.first[j]
        return np.c_[rows[i], self.tail.members[j]][valid]

    def prefix(self, rows: Int[np.ndarray, " p"]) -> tuple[Int[np.ndarray, "p k"], Int[np.ndarray, " p"]]:
        """Members and ordering key of the given prefix rows (mixed-radix digits over the factors)."""
        members, last = [], np.full(rows.size, -1)
        rest = rows
        for factor in self.prefixes:
            rest, digit = np.divmod(rest, factor.members.shape[0])
            members.append(factor.members[digit])
            last = np.maximum(last, factor.last[digit])
        return np.concatenate(members, axis=1) if members else np.zeros((rows.size, 0), np.int64), last


def neighbourhoods(slots: Sequence[Slot], *, distinct: bool = False) -> Neighbourhoods | None:
    """Plan the enumeration of every way to fill the slots; None when a slot cannot be filled.

    The largest slot is the tail, and smaller ones join it while it stays within ``TAIL`` rows. A largest slot of three
    or more members that does not fit is split into prefixes of ``count - 2`` members and a tail of pairs.
    """
    slots = sorted(slots, key=lambda s: count(s, distinct=distinct))
    if any(count(s, distinct=distinct) == 0 for s in slots):
        return None
    whole: list[Factor] = []
    tail = Factor(np.zeros((1, 0), np.int64), np.array([-1]), np.array([-1]))
    if slots:
        big = slots.pop()
        if count(big, distinct=distinct) > TAIL and big.count > 2:
            tail = _factor(Slot(big.options, 2), distinct, ordered=True)
            whole.append(_factor(Slot(big.options, big.count - 2), distinct, ordered=True))
        else:
            tail = _factor(big, distinct, ordered=False)
    for slot in reversed(slots):
        factor = _factor(slot, distinct, ordered=False)
        if not whole and tail.members.shape[0] * factor.members.shape[0] <= TAIL:
            tail = _product(tail, factor)
        else:
            whole.append(factor)
    return Neighbourhoods(tuple(whole), tail, distinct)


def count(slot: Slot, *, distinct: bool = False) -> int:
    """Number of ways to fill one slot."""
    k = int(slot.options.size)
    return math.comb(k, slot.count) if distinct else math.comb(k + slot.count - 1, slot.count)


def total(slots: Sequence[Slot], *, distinct: bool = False) -> int:
    """Number of ways to fill all slots."""
    return math.prod(count(s, distinct=distinct) for s in slots)


def multisets(k: int, size: int, *, distinct: bool = False) -> Int[np.ndarray, "R size"]:
    """All sorted tuples of ``size`` numbers below ``k`` (strictly sorted when ``distinct``), in lexical order."""
    rows = np.zeros((1, 0), np.int64)
    for place in range(size):
        low = rows[:, -1] + int(distinct) if place else np.zeros(rows.shape[0], np.int64)
        repeat = np.maximum(k - low, 0)
        base = np.repeat(np.arange(rows.shape[0]), repeat)
        step = np.arange(base.size) - np.repeat(np.cumsum(repeat) - repeat, repeat)
        rows = np.c_[rows[base], low[base] + step]
    return rows


def chunks(total_rows: int, size: int) -> Iterator[Int[np.ndarray, " p"]]:
    """Row numbers in consecutive chunks."""
    for start in range(0, total_rows, size):
        yield np.arange(start, min(start + size, total_rows))


def _factor(slot: Slot, distinct: bool, *, ordered: bool) -> Factor:
    places = multisets(slot.options.size, slot.count, distinct=distinct)
    if not ordered:
        unused = np.full(places.shape[0], -1)
        return Factor(slot.options[places], unused, unused)
    places = places[np.argsort(places[:, -1], kind="stable")] if slot.count != 2 else places
    return Factor(slot.options[places], places[:, 0], places[:, -1])


def _product(a: Factor, b: Factor) -> Factor:
    i, j = np.divmod(np.arange(a.members.shape[0] * b.members.shape[0]), b.members.shape[0])
    return Factor(np.c_[a.members[i], b.members[j]], a.first[i], a.last[i])
