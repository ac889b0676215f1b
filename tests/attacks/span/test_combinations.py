"""Neighbourhoods as prefix x tail: the same multisets that itertools counts, however the slots are split."""

from __future__ import annotations

import math
from collections import Counter
from itertools import combinations as choose
from itertools import combinations_with_replacement, product

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from jgleak.attacks.span import combinations
from jgleak.attacks.span.combinations import Neighbourhoods, Slot, chunks, count, multisets, neighbourhoods, total

SLOTS = st.lists(st.tuples(st.integers(0, 5), st.integers(1, 3)), max_size=2) | st.lists(
    st.tuples(st.integers(1, 3), st.integers(1, 2)), min_size=3, max_size=3
)


def made(sizes: list[tuple[int, int]]) -> list[Slot]:
    """Slots of the given numbers of options and counts; no option occurs in two slots."""
    starts = np.cumsum([0, *(k for k, _ in sizes)])
    return [
        Slot(np.arange(start, start + k) * 3 + 1, number) for start, (k, number) in zip(starts, sizes, strict=False)
    ]


def brute(slots: list[Slot], distinct: bool) -> Counter[tuple[int, ...]]:
    ways = choose if distinct else combinations_with_replacement
    filled = product(*(list(ways(s.options.tolist(), s.count)) for s in slots))
    return Counter(tuple(sorted(v for part in parts for v in part)) for parts in filled)


def paired(plan: Neighbourhoods, size: int) -> Counter[tuple[int, ...]]:
    """What the search enumerates: chunks of prefixes, each with the tail rows from ``begin`` on, then the ordering."""
    out: Counter[tuple[int, ...]] = Counter()
    for number in chunks(plan.prefix_count, size):
        members, last = plan.prefix(number)
        begin = plan.begin(int(last.min()))
        for row, key in zip(members.tolist(), last.tolist(), strict=True):
            for tail, first in zip(plan.tail.members[begin:].tolist(), plan.tail.first[begin:].tolist(), strict=True):
                if key + (plan.strict and key >= 0) <= first:
                    out[tuple(sorted(row + tail))] += 1
    return out


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60, deadline=None)
@given(SLOTS, st.booleans(), st.sampled_from([1, 4, 12, 1 << 17]), st.integers(1, 5))
def test_the_enumeration_is_itertools(
    monkeypatch: pytest.MonkeyPatch, sizes: list[tuple[int, int]], distinct: bool, tail: int, chunk: int
) -> None:
    monkeypatch.setattr(combinations, "TAIL", tail)
    slots = made(sizes)
    expected = brute(slots, distinct)
    assert total(slots, distinct=distinct) == expected.total()
    plan = neighbourhoods(slots, distinct=distinct)
    if plan is None:
        assert not expected
        return
    assert plan.width == sum(s.count for s in slots)
    assert paired(plan, chunk) == expected
    built = plan.all()
    assert Counter(tuple(sorted(row)) for row in built.tolist()) == expected
    assert set(plan.members.tolist()) >= {v for row in expected for v in row}


@given(st.integers(0, 9), st.integers(0, 5), st.booleans())
def test_counts_are_binomial(k: int, size: int, distinct: bool) -> None:
    expected = math.comb(k, size) if distinct else math.comb(k + size - 1, size) if k + size else 1
    rows = multisets(k, size, distinct=distinct)
    assert rows.shape == (expected, size)
    listed = [tuple(row) for row in rows.tolist()]
    assert listed == sorted(set(listed))
    if size:
        assert count(Slot(np.arange(k), size), distinct=distinct) == expected


def test_a_large_slot_is_split_and_nothing_is_built_whole() -> None:
    slot = Slot(np.arange(200), 5)
    plan = neighbourhoods([slot])
    assert plan is not None
    assert plan.tail.members.shape == (math.comb(201, 2), 2)
    assert plan.prefix_count == math.comb(202, 3)
    assert total([slot]) == math.comb(204, 5)
    ends = [plan.begin(v) for v in range(200)]
    assert ends == sorted(ends)
    np.testing.assert_array_equal(plan.tail.first[ends], np.arange(200))


def test_no_slot_is_one_empty_neighbourhood() -> None:
    plan = neighbourhoods([])
    assert plan is not None
    assert plan.all().shape == (1, 0)
    assert total([]) == 1
