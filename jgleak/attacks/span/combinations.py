"""Neighbourhoods as index ranges: multisets of table rows, numbered, so that any range can be built on the device."""

from __future__ import annotations

import dataclasses
import math
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from jax import lax
from jaxtyping import Int

TAIL = 1 << 17
"""Most rows of a tail table; what does not fit is enumerated as prefixes."""

LITTLE = 1 << 10
SPREAD = 64
"""A tail of more rows than ``LITTLE`` leaves at least ``SPREAD`` prefixes: a tile of the device spans several."""

PAIRS = 1 << 20
"""Most rows of a tail of pairs, when a slot is split: candidates share them, so the table pays."""

LARGEST = np.iinfo(np.int32).max
"""Numbers on the device are 32-bit; binomials beyond stop here, and no range reaches them."""


@dataclasses.dataclass(frozen=True)
class Slot:
    """``count`` interchangeable neighbours, each one of ``options`` (rows of a table)."""

    options: Int[np.ndarray, " k"]
    count: int


class Digits(NamedTuple):
    """How a prefix number becomes table rows: one entry a neighbour, a slot's neighbours in descending order.

    Attributes:
      stride: a slot's digit is ``number // stride % size``.
      size: ways to fill the slot.
      start: 1 at a slot's first entry.
      order: the entry's position in its multiset, from the slot's count down to 1; 0 is padding.
      offset: where the slot's options begin in ``options``.
      keyed: 1 where the largest neighbour orders the prefix against the tail.
      options: table rows of all slots, one after another.
      binomials: ``C(c, i)`` for order ``i`` (rows) and ``c`` (columns), cut at ``LARGEST``.
    """

    stride: Int[np.ndarray, " W"]
    size: Int[np.ndarray, " W"]
    start: Int[np.ndarray, " W"]
    order: Int[np.ndarray, " W"]
    offset: Int[np.ndarray, " W"]
    keyed: Int[np.ndarray, " W"]
    options: Int[np.ndarray, " U"]
    binomials: Int[np.ndarray, "I M"]


def unrank(xp: Any, number: Any, places: Digits, strict: Any, blank: Any) -> tuple[Any, Any]:
    """Prefix numbers to table rows, by the combinatorial number system (colexicographic order).

    A multiset ``p_1 <= .. <= p_k`` is the combination ``p_i + i - 1``, numbered ``sum_i C(p_i + i - 1, i)``.

    Args:
      xp: ``numpy`` on the host, ``jax.numpy`` on the device: one function for both.
      number: prefix numbers ``(R,)``.
      places: the plan's.
      strict: 1 where the neighbours of a slot are distinct.
      blank: the row that padding stands for.

    Returns:
      Rows ``(R, W)`` and each prefix's ordering key ``(R,)``, -1 without one.
    """

    def entered(state: tuple[Any, Any], entry: tuple[Any, ...]) -> tuple[tuple[Any, Any], Any]:
        (rest, key), (stride, size, start, order, offset, keyed) = state, entry
        rest = xp.where(start == 1, number // stride % size, rest)
        table = places.binomials[order]
        item = xp.searchsorted(table, rest, side="right") - 1
        rest = xp.where(order > 0, rest - table[item], rest)
        place = item - xp.where(strict == 1, 0, order - 1)
        row = places.options[xp.clip(offset + place, 0, places.options.shape[0] - 1)]
        return (rest, xp.where(keyed == 1, place, key)), xp.where(order > 0, row, blank)

    # on the device one loop: written out for each entry the program would take several times as long to compile
    walk = _walk if xp is np else lax.scan
    (_, key), rows = walk(entered, (xp.zeros_like(number), xp.full_like(number, -1)), places[:6])
    return rows.T, key


def _walk(step: Callable[..., Any], state: Any, entries: tuple[Int[np.ndarray, " W"], ...]) -> tuple[Any, Any]:
    """``lax.scan`` on the host."""
    rows = []
    for entry in zip(*entries, strict=True):
        state, row = step(state, entry)
        rows.append(row)
    return state, np.stack(rows)


@dataclasses.dataclass(frozen=True)
class Neighbourhoods:
    """All neighbourhoods of one centre: every numbered prefix combined with every tail row, subject to one ordering.

    A pair is valid when ``key <= tail_first`` (``<`` with distinct neighbours). Where the two halves come from
    different slots both are -1 and every pair is valid.

    Attributes:
      prefixes: slots enumerated by number, the fastest first.
      split: the last of them is the larger half of a slot whose smaller half is the tail.
      tail: table rows of each partial neighbourhood in the tail ``(Q, k)``.
      tail_first: ordering key of each tail row, ascending ``(Q,)``.
      strict: the neighbours of a slot are distinct.
    """

    prefixes: tuple[Slot, ...]
    split: bool
    tail: Int[np.ndarray, "Q k"]
    tail_first: Int[np.ndarray, " Q"]
    strict: bool

    @property
    def prefix_count(self) -> int:
        """Number of prefixes."""
        return total(self.prefixes, distinct=self.strict)

    @property
    def width(self) -> int:
        """Number of neighbours."""
        return sum(s.count for s in self.prefixes) + self.tail.shape[1]

    @cached_property
    def members(self) -> Int[np.ndarray, " U"]:
        """Every table row that occurs, sorted."""
        parts = [*(s.options for s in self.prefixes), *self.tail.T]
        occurs = np.zeros(1 + max((part.max() for part in parts), default=-1), bool)
        for part in parts:
            occurs[part] = True
        return np.flatnonzero(occurs)

    @property
    def places(self) -> Digits:
        """The plan for ``unrank``."""
        entries, options, stride = [], [], 1
        for i, slot in enumerate(self.prefixes):
            size = count(slot, distinct=self.strict)
            keyed = self.split and i == len(self.prefixes) - 1
            offset = sum(o.size for o in options)
            for order in range(slot.count, 0, -1):
                first = order == slot.count
                entries.append((min(stride, LARGEST), min(size, LARGEST), first, order, offset, keyed and first))
            options.append(slot.options)
            stride *= size
        table = np.array(entries, np.int64).reshape(-1, 6).T
        most = max((s.count for s in self.prefixes), default=0)
        widest = max((s.options.size for s in self.prefixes), default=0) + most
        chosen = np.concatenate(options) if options else np.zeros(1, np.int64)
        return Digits(*(column for column in table), options=chosen, binomials=binomials(most, widest))

    def prefix(self, numbers: Int[np.ndarray, " R"]) -> tuple[Int[np.ndarray, "R k"], Int[np.ndarray, " R"]]:
        """Members and ordering keys of the given prefixes."""
        if not self.prefixes:
            return np.zeros((numbers.size, 0), np.int64), np.full(numbers.size, -1)
        return unrank(np, numbers.astype(np.int64), self.places, int(self.strict), -1)

    def ordered(self, prefixes: tuple[int, int], tails: tuple[int, int]) -> int:
        """Number of valid pairs of a range of prefixes and a range of tail rows."""
        (low, high), (begin, end) = prefixes, tails
        if high <= low or end <= begin:
            return 0
        if not self.split:
            return (high - low) * (end - begin)
        pairs, before = 0, 0
        for until, first in self._keys:
            pairs += max(min(until, high) - max(before, low), 0) * max(end - max(first, begin), 0)
            before = until
        return pairs

    @cached_property
    def _keys(self) -> list[tuple[int, int]]:
        """For each ordering key how many prefixes have it or a smaller one, and the first tail row it goes with."""
        slot = self.prefixes[-1]
        rest = total(self.prefixes[:-1], distinct=self.strict)
        keys = np.arange(slot.options.size)
        firsts = np.searchsorted(self.tail_first, keys + int(self.strict)).tolist()
        ways = [count(Slot(slot.options[: key + 1], slot.count), distinct=self.strict) for key in keys.tolist()]
        return [(rest * number, first) for number, first in zip(ways, firsts, strict=True)]

    def within(self, candidates: int) -> tuple[int, int]:
        """How many prefixes hold at most ``candidates`` candidates, and how many tail rows to take of each: all, or
        fewer of a single prefix that holds more."""
        rows, most = self.tail.shape[0], min(self.prefix_count, LARGEST)
        if self.ordered((0, most), (0, rows)) <= candidates:
            return most, rows
        stop = bisect_right(range(1, most + 1), candidates, key=lambda n: self.ordered((0, n), (0, rows)))
        return (stop, rows) if stop else (1, min(candidates, rows))

    def all(self) -> Int[np.ndarray, "S k"]:
        """Every neighbourhood, built."""
        return self.of(0, self.prefix_count)

    def parts(self, most: int) -> Iterator[Int[np.ndarray, "_S k"]]:
        """Every neighbourhood, built in parts of about ``most``; a part holds at least one prefix."""
        step = max(1, most // self.tail.shape[0])
        for first in range(0, self.prefix_count, step):
            yield self.of(first, min(first + step, self.prefix_count))

    def of(self, first: int, stop: int) -> Int[np.ndarray, "S k"]:
        """The neighbourhoods of the prefixes from ``first`` to before ``stop``, built."""
        rows, key = self.prefix(np.arange(first, stop))
        i, j = np.divmod(np.arange(rows.shape[0] * self.tail.shape[0]), self.tail.shape[0])
        valid = key[i] + int(self.strict) * (key[i] >= 0) <= self.tail_first[j]
        return np.c_[rows[i], self.tail[j]][valid]


def neighbourhoods(slots: Sequence[Slot], *, distinct: bool = False) -> Neighbourhoods | None:
    """Plan the enumeration of every way to fill the slots; None when a slot cannot be filled.

    The tail is the largest slot, with smaller ones while it stays within ``TAIL`` rows and ``SPREAD`` prefixes are
    left. A largest slot for which this does not hold is split: the tail holds its pairs (single neighbours beyond
    ``PAIRS``), the prefixes the others.
    """
    slots = sorted(slots, key=lambda s: count(s, distinct=distinct))
    if any(count(s, distinct=distinct) == 0 for s in slots):
        return None
    whole: list[Slot] = []
    split: list[Slot] = []
    tail, first = np.zeros((1, 0), np.int64), np.full(1, -1)
    left = total(slots, distinct=distinct)

    def fits(rows: int) -> bool:
        return rows <= LITTLE or (rows <= TAIL and left >= SPREAD * rows)

    if slots:
        big = slots.pop()
        size = count(big, distinct=distinct)
        if fits(size) or big.count == 1:
            tail = big.options[multisets(big.options.size, big.count, distinct=distinct)]
            first = np.full(size, -1)
        else:
            pair = Slot(big.options, 2)
            half = 2 if big.count > 2 and count(pair, distinct=distinct) <= PAIRS else 1
            places = multisets(big.options.size, half, distinct=distinct)
            tail, first = big.options[places], places[:, 0]
            split = [Slot(big.options, big.count - half)]
    for slot in reversed(slots):
        size = count(slot, distinct=distinct)
        if not split and fits(tail.shape[0] * size):
            more = slot.options[multisets(slot.options.size, slot.count, distinct=distinct)]
            i, j = np.divmod(np.arange(tail.shape[0] * size), size)
            tail, first = np.c_[tail[i], more[j]], first[i]
        else:
            whole.append(slot)
    return Neighbourhoods((*whole, *split), bool(split), tail, first, distinct)


def count(slot: Slot, *, distinct: bool) -> int:
    """Number of ways to fill one slot."""
    k = int(slot.options.size)
    return math.comb(k, slot.count) if distinct else math.comb(k + slot.count - 1, slot.count)


def total(slots: Sequence[Slot], *, distinct: bool = False) -> int:
    """Number of ways to fill all slots."""
    return math.prod(count(s, distinct=distinct) for s in slots)


def multisets(k: int, size: int, *, distinct: bool) -> Int[np.ndarray, "R size"]:
    """All sorted tuples of ``size`` numbers below ``k`` (strictly sorted when ``distinct``), in lexical order."""
    rows = np.zeros((1, 0), np.int64)
    for place in range(size):
        low = rows[:, -1] + int(distinct) if place else np.zeros(rows.shape[0], np.int64)
        repeat = np.maximum(k - low, 0)
        base = np.repeat(np.arange(rows.shape[0]), repeat)
        step = np.arange(base.size) - np.repeat(np.cumsum(repeat) - repeat, repeat)
        rows = np.concatenate([rows[base], (low[base] + step)[:, None]], axis=1)
    return rows


def binomials(orders: int, most: int) -> Int[np.ndarray, "I M"]:
    """``C(c, i)`` for ``i <= orders`` and ``c <= most``, cut at ``LARGEST``; row 0 is unused and holds zeros."""
    table = np.zeros((orders + 1, most + 1), np.int64)
    if orders:
        table[1] = np.arange(most + 1)
    for i in range(2, orders + 1):
        table[i, 1:] = np.minimum(np.cumsum(table[i - 1, :-1]), LARGEST)
    return table
