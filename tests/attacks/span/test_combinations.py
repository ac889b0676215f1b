"""Numbered neighbourhoods as prefix x tail: the multisets that itertools counts, however the slots are split."""

from __future__ import annotations

import math
from collections import Counter
from itertools import combinations as choose
from itertools import combinations_with_replacement, product

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from jgleak.attacks.span import combinations
from jgleak.attacks.span.combinations import (
    LARGEST,
    Digits,
    Neighbourhoods,
    Slot,
    binomials,
    count,
    multisets,
    neighbourhoods,
    total,
    unrank,
)
from jgleak.attacks.span.ranges import _padded

SLOTS = (
    st.lists(st.tuples(st.integers(0, 5), st.integers(1, 3)), max_size=2)
    | st.lists(st.tuples(st.integers(1, 3), st.integers(1, 2)), min_size=3, max_size=3)
    | st.lists(st.tuples(st.integers(1, 6), st.integers(4, 5)), min_size=1, max_size=1)
)
LIMITS = st.fixed_dictionaries(
    {
        "TAIL": st.sampled_from([1, 4, 12, 1 << 17]),
        "LITTLE": st.sampled_from([1, 3, 10, 1 << 10]),
        "SPREAD": st.sampled_from([1, 2, 64]),
        "PAIRS": st.sampled_from([1, 6, 1 << 19]),
    }
)
SMALL = {"TAIL": 1, "LITTLE": 1, "SPREAD": 64, "PAIRS": 1 << 19}
"""Limits that split every slot of several neighbours."""

NUMBERS = 4096
"""Numbers that the device unranks at once in these tests."""

on_device = jax.jit(lambda number, places, strict: unrank(jnp, number, places, strict, 0))


def made(sizes: list[tuple[int, int]]) -> list[Slot]:
    """Slots of the given numbers of options and counts; no option occurs in two slots."""
    starts = np.cumsum([0, *(k for k, _ in sizes)])
    return [
        Slot(np.arange(start, start + k) * 3 + 1, number) for start, (k, number) in zip(starts, sizes, strict=False)
    ]


def brute(slots: list[Slot], distinct: bool) -> Counter[tuple[int, ...]]:
    """Every neighbourhood as a sorted tuple, with how often it occurs (once)."""
    ways = choose if distinct else combinations_with_replacement
    filled = product(*(list(ways(s.options.tolist(), s.count)) for s in slots))
    return Counter(tuple(sorted(v for part in parts for v in part)) for parts in filled)


def paired(plan: Neighbourhoods) -> Counter[tuple[int, ...]]:
    """Every prefix number with every tail row that the ordering allows."""
    rows, keys = plan.prefix(np.arange(plan.prefix_count))
    out: Counter[tuple[int, ...]] = Counter()
    for row, key in zip(rows.tolist(), keys.tolist(), strict=True):
        for tail, first in zip(plan.tail.tolist(), plan.tail_first.tolist(), strict=True):
            if (key, first) == (-1, -1) or (key < first if plan.strict else key <= first):
                out[tuple(sorted(row + tail))] += 1
    return out


def unranked(plan: Neighbourhoods, numbers: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """What ``Neighbourhoods.prefix`` returns, from the device: in 32 bits, padded, options as places among members."""
    places: Digits = _padded(plan.places, plan.members)
    padded = np.zeros(NUMBERS, np.int32)
    padded[: numbers.size] = numbers
    rows, keys = (np.asarray(part)[: numbers.size] for part in on_device(padded, places, np.int32(plan.strict)))
    width = plan.places.order.size
    assert np.all(places.order[width:] == 0) and not rows[:, width:].any(), "padding stands for the blank row"
    return plan.members[rows[:, :width] - 1], keys


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=80, deadline=None)
@given(SLOTS, st.booleans(), LIMITS)
@example([(4, 2)], True, SMALL)
@example([(5, 3)], True, SMALL)
@example([(4, 3), (2, 1)], False, SMALL)
@pytest.mark.long
def test_the_enumeration_is_itertools(
    monkeypatch: pytest.MonkeyPatch, sizes: list[tuple[int, int]], distinct: bool, limits: dict[str, int]
) -> None:
    for name, value in limits.items():
        monkeypatch.setattr(combinations, name, value)
    slots = made(sizes)
    expected = brute(slots, distinct)
    assert total(slots, distinct=distinct) == expected.total()
    plan = neighbourhoods(slots, distinct=distinct)
    if plan is None:
        assert not expected
        return
    assert plan.width == sum(s.count for s in slots)
    assert np.all(np.diff(plan.tail_first) >= 0)
    assert plan.split == bool(plan.tail_first[0] >= 0)
    assert paired(plan) == expected
    assert Counter(tuple(sorted(row)) for row in plan.all().tolist()) == expected
    parts = list(plan.parts(2 * plan.tail.shape[0]))
    assert len(parts) == -(-plan.prefix_count // 2)
    assert np.array_equal(np.concatenate([*parts, plan.all()[:0]]), plan.all())
    assert set(plan.members.tolist()) == {int(v) for s in slots for v in s.options}


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=80, deadline=None)
@given(SLOTS, st.booleans(), LIMITS)
def test_the_device_counts_as_the_host_does(
    monkeypatch: pytest.MonkeyPatch, sizes: list[tuple[int, int]], distinct: bool, limits: dict[str, int]
) -> None:
    for name, value in limits.items():
        monkeypatch.setattr(combinations, name, value)
    plan = neighbourhoods(made(sizes), distinct=distinct)
    if plan is None:
        return
    numbers = np.arange(plan.prefix_count)
    rows, keys = plan.prefix(numbers)
    assert len({tuple(row) for row in rows.tolist()}) == numbers.size, "no prefix has two numbers"
    again, keys_again = unranked(plan, numbers)
    np.testing.assert_array_equal(again, rows)
    np.testing.assert_array_equal(keys_again, keys)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=80, deadline=None)
@given(SLOTS, st.booleans(), LIMITS, st.data())
def test_pairs_in_order_are_counted(
    monkeypatch: pytest.MonkeyPatch,
    sizes: list[tuple[int, int]],
    distinct: bool,
    limits: dict[str, int],
    data: st.DataObject,
) -> None:
    """In any rectangle of prefixes and tail rows; and a budget is used up as far as whole prefixes go."""
    for name, value in limits.items():
        monkeypatch.setattr(combinations, name, value)
    plan = neighbourhoods(made(sizes), distinct=distinct)
    if plan is None:
        return
    number, rows = plan.prefix_count, plan.tail.shape[0]
    keys = plan.prefix(np.arange(number))[1]
    valid = (keys + int(distinct) * (keys >= 0))[:, None] <= plan.tail_first[None, :]
    low, high = sorted(data.draw(st.tuples(st.integers(0, number), st.integers(0, number))))
    begin, end = sorted(data.draw(st.tuples(st.integers(0, rows), st.integers(0, rows))))
    assert plan.ordered((low, high), (begin, end)) == valid[low:high, begin:end].sum()
    candidates = data.draw(st.integers(1, number * rows + 1))
    stop, width = plan.within(candidates)
    if width == rows:
        assert valid[:stop].sum() <= candidates and (stop == number or valid[: stop + 1].sum() > candidates)
    else:
        assert (stop, width) == (1, candidates) and valid[0].sum() > candidates


@pytest.mark.parametrize("distinct", [False, True])
def test_numbers_up_to_the_largest_are_ranks(distinct: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Prefixes of two slots, one of them split, far more than there are 32-bit numbers."""
    monkeypatch.setattr(combinations, "PAIRS", 100)
    small, large = Slot(np.arange(1000, 1040), 2), Slot(np.arange(150) * 2, 6)
    plan = neighbourhoods([large, small], distinct=distinct)
    assert plan is not None and plan.split and [s.count for s in plan.prefixes] == [2, 5]
    assert plan.prefix_count > LARGEST
    numbers = np.r_[0, 1, LARGEST - 1, np.random.default_rng(0).integers(LARGEST, size=500)]
    rows, keys = plan.prefix(numbers)
    size = count(small, distinct=distinct)

    def rank(members: list[int]) -> int:
        """Colexicographic: how many multisets come before this one."""
        shift = int(not distinct)
        return sum(math.comb(p + shift * (i - 1), i) for i, p in enumerate(sorted(members), start=1))

    for number, (*first, a, b, c, d, e), key in zip(numbers.tolist(), rows.tolist(), keys.tolist(), strict=True):
        split = [v // 2 for v in (a, b, c, d, e)]
        assert number == rank([v - 1000 for v in first]) + size * rank(split)
        assert key == max(split)
    again, keys_again = unranked(plan, numbers)
    np.testing.assert_array_equal(again, rows)
    np.testing.assert_array_equal(keys_again, keys)


@given(st.integers(0, 9), st.integers(0, 5), st.booleans())
def test_counts_are_binomial(k: int, size: int, distinct: bool) -> None:
    expected = math.comb(k, size) if distinct else math.comb(k + size - 1, size) if k + size else 1
    rows = multisets(k, size, distinct=distinct)
    assert rows.shape == (expected, size)
    listed = [tuple(row) for row in rows.tolist()]
    assert listed == sorted(set(listed))
    if size:
        assert count(Slot(np.arange(k), size), distinct=distinct) == expected


@pytest.mark.parametrize(("orders", "most"), [(0, 0), (1, 5), (4, 3), (7, 300), (30, 90)])
def test_the_table_of_binomials_stops_at_the_largest(orders: int, most: int) -> None:
    table = binomials(orders, most)
    assert table.shape == (orders + 1, most + 1) and not table[0].any()
    for i in range(1, orders + 1):
        assert table[i].tolist() == [min(math.comb(c, i), LARGEST) for c in range(most + 1)]


def test_a_large_slot_is_split_and_nothing_is_built_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its tail holds pairs, where these are few enough, and single neighbours where a pair would be all of it."""
    slot = Slot(np.arange(200), 5)
    assert total([slot]) == math.comb(204, 5)
    pairs = neighbourhoods([slot])
    assert pairs is not None and pairs.split
    assert pairs.tail.shape == (math.comb(201, 2), 2)
    assert pairs.prefix_count == math.comb(202, 3)
    monkeypatch.setattr(combinations, "PAIRS", math.comb(201, 2) - 1)
    singles = neighbourhoods([slot])
    assert singles is not None and singles.split
    np.testing.assert_array_equal(singles.tail, np.arange(200)[:, None])
    assert singles.prefix_count == math.comb(203, 4)


@pytest.mark.parametrize("distinct", [False, True])
@pytest.mark.parametrize(("members", "spare", "width"), [(2, 0, 1), (3, 0, 2), (5, 0, 2), (3, -1, 1)])
def test_pairs_are_split_off_slots_of_more_than_two(
    members: int, spare: int, width: int, distinct: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    slot = Slot(np.arange(90), members)
    monkeypatch.setattr(combinations, "PAIRS", count(Slot(slot.options, 2), distinct=distinct) + spare)
    plan = neighbourhoods([slot], distinct=distinct)
    assert plan is not None and plan.split and plan.tail.shape[1] == width
    assert [one.count for one in plan.prefixes] == [members - width]


@pytest.mark.parametrize(
    ("little", "tail", "spread", "rows"),
    [
        (30, 1000, 12, 10),
        (30, 1000, 10, 100),
        (30, 100, 10, 100),
        (30, 99, 10, 10),
        (99, 1000, 12, 10),
        (100, 1000, 12, 100),
    ],
)
def test_a_tail_leaves_prefixes_to_fill_a_tile(
    little: int, tail: int, spread: int, rows: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A tail beyond ``LITTLE`` takes a slot in only while ``SPREAD`` prefixes remain, and up to ``TAIL`` rows."""
    for name, value in {"LITTLE": little, "TAIL": tail, "SPREAD": spread}.items():
        monkeypatch.setattr(combinations, name, value)
    slots = [Slot(np.arange(start, start + 10), 1) for start in (0, 10, 20)]
    plan = neighbourhoods(slots)
    assert plan is not None and (plan.tail.shape[0], plan.prefix_count) == (rows, 1000 // rows)
    assert len(list(plan.parts(1))) == plan.prefix_count, "a part holds at least one"
    assert np.all(plan.prefix(np.arange(3))[1] == -1) and np.all(plan.tail_first == -1), "nothing is ordered"


def test_distinct_neighbours_have_fewer_ways_which_decide_the_tail(monkeypatch: pytest.MonkeyPatch) -> None:
    """Four of four are one way, and two of four are six."""
    monkeypatch.setattr(combinations, "LITTLE", 4)
    one_way, five = Slot(np.arange(4), 4), Slot(np.arange(4, 9), 1)
    plan = neighbourhoods([one_way, five], distinct=True)
    assert plan is not None and (plan.tail.tolist(), plan.prefix_count) == ([[4], [5], [6], [7], [8]], 1)
    monkeypatch.setattr(combinations, "SPREAD", 4)
    six, three = Slot(np.arange(4), 2), Slot(np.arange(4, 7), 1)
    for distinct, rows in ((True, 4), (False, 4)):
        plan = neighbourhoods([six, three], distinct=distinct)
        assert plan is not None and plan.split and plan.tail.shape[0] == rows
    monkeypatch.setattr(combinations, "SPREAD", 3)
    plan = neighbourhoods([six, three], distinct=True)
    assert plan is not None and not plan.split and plan.tail.shape[0] == 6


def test_no_slot_is_one_empty_neighbourhood() -> None:
    plan = neighbourhoods([])
    assert plan is not None
    assert (plan.prefix_count, plan.tail.shape, plan.all().shape) == (1, (1, 0), (1, 0))
    assert total([]) == 1 and plan.members.size == 0 and plan.prefix(np.zeros(1, np.int64))[1].tolist() == [-1]
