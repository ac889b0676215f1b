"""Counts that weights and balances allow, against brute force."""

from __future__ import annotations

from itertools import product

import numpy as np

from jgleak.attacks.attack import Budget, Clock
from jgleak.attacks.census.batches.choices import SHARED, UNKNOWN, cheapest, choices
from jgleak.attacks.census.batches.factors import Combinations, Factor
from jgleak.attacks.census.system import Rules
from jgleak.attacks.span.hops import Blocks

FOREVER = Budget(time_limit=1e6).start()


def rules() -> Rules:
    """Of nodes of two classes with one, two or three neighbours."""
    neighbours = ((1,), (0, 1), (1, 1), (0,), (0, 0), (0, 0, 1))
    roots = np.array([0, 0, 0, 1, 1, 1])
    zeros = np.zeros(6)
    return Rules.of(Blocks(roots, roots, neighbours, zeros[:, None], zeros[:, None], zeros, 0), np.arange(6))


def test_the_cheapest_come_first_and_none_is_missing() -> None:
    """Every vector of allowed counts that obeys the rules of a connected graph, in the order of its cost."""
    rng, some, each = np.random.default_rng(0), rules(), np.arange(6)
    allowed = [{count: float(cost) for count, cost in enumerate(rng.uniform(size=3))} for _ in range(6)]
    expected = {}
    for counts in product(range(3), repeat=6):
        if some.hold(np.array(counts), sum(counts)) and sum(counts):
            expected[counts] = sum(costs[count] for costs, count in zip(allowed, counts, strict=True))
    found = [
        None if counts is None else tuple(counts.tolist()) for counts in cheapest(allowed, each, some, 10_000, FOREVER)
    ]
    assert None not in found
    assert len(found) == len(expected) > 5
    np.testing.assert_allclose([expected[counts] for counts in found if counts], sorted(expected.values()), atol=1e-4)
    cut = list(cheapest(allowed, each, some, 2, FOREVER))
    assert [counts is None for counts in cut] == [False, False, True]


def test_blocks_that_are_alike_share_their_counts() -> None:
    """Every way to have the counts of two and three blocks together, once, in the order of their cost."""
    rng, some, alike = np.random.default_rng(1), rules(), np.array([0, 1, 1, 2, 2, 2])
    allowed = [{count: float(cost) for count, cost in enumerate(rng.uniform(size=3))} for _ in range(3)]
    expected = {}
    for counts in product(range(3), repeat=6):
        sums = np.bincount(alike, counts).astype(int)
        if sums.max() < 3 and sum(counts) and some.hold(np.array(counts), sum(counts)):
            expected[counts] = sum(costs[count] for costs, count in zip(allowed, sums.tolist(), strict=True))
    found = [None if way is None else tuple(way.tolist()) for way in cheapest(allowed, alike, some, 10_000, FOREVER)]
    assert None not in found and set(found) == set(expected) and len(found) == len(expected) > 5
    np.testing.assert_allclose([expected[counts] for counts in found if counts], sorted(expected.values()), atol=1e-4)


def test_weights_allow_what_they_are_made_of() -> None:
    """A block of its own, one that is shared, one that nothing known explains, and one of unknown weight."""
    known = Combinations([Factor(np.array([value]), np.array([1e-7])) for value in (0.31, -0.17)])
    errors = np.array([[1e-6], [1e-6], [1e-6], [np.inf]])
    allowed = choices(np.array([[0.62], [0.31 - 0.34], [0.0123], [0.0]]), errors, known, 0)
    assert list(allowed[0]) == [2]
    assert list(allowed[1]) == [1]
    assert allowed[0][2] < 1.0 < allowed[1][1]
    assert allowed[2] == {0: 0.0, **dict.fromkeys(range(1, UNKNOWN + 1), SHARED)}
    assert allowed[3] == allowed[2], "nothing is known of its weight"


def test_a_graph_has_one_node_at_least() -> None:
    assert list(cheapest([{0: 0.0}] * 6, np.arange(6), rules(), 5, FOREVER)) == []


def test_without_time_there_may_be_more() -> None:
    assert list(cheapest([{0: 0.0, 1: 1.0, 2: 1.5}] * 6, np.arange(6), rules(), 5, Clock(0.0, 0.0))) == [None]


def test_of_several_ways_a_count_costs_what_the_cheapest_does() -> None:
    """0.62 is twice the first factor, or once with twice the second; a further graph costs ``SHARED``."""
    known = Combinations([Factor(np.array([value]), np.array([1e-7])) for value in (0.31, 0.155)])
    (allowed,) = choices(np.array([[0.62]]), np.full((1, 1), 1e-6), known, 0)
    assert allowed.keys() == {0, 1, 2}
    assert allowed[0] < 1 and allowed[2] < 1 and SHARED <= allowed[1] < SHARED + 1
