"""The search of 1-hop blocks against all blocks that pass a filter, and a step to more hops, on drawn graphs."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from itertools import combinations_with_replacement, product
from math import comb
from typing import Any, NamedTuple, cast

import numpy as np
import pytest

from jgleak.attacks.attack import Budget, Clock
from jgleak.attacks.span import hops, onehop
from jgleak.attacks.span.check import SpanCheck
from jgleak.attacks.span.combinations import total
from jgleak.attacks.span.filter import FoundBlocks, Request
from jgleak.attacks.span.hops import Blocks, Nodes, next_search, one_hop_count, reciprocal, turned
from jgleak.attacks.span.settings import SpanLimits
from tests.clocks import HELD as FOREVER

Block = tuple[int, tuple[int, ...]]
ALL = Budget(candidates=10**6)


class Drawn(NamedTuple):
    """A graph, all of whose nodes differ.

    Attributes:
      nodes: its nodes, and some that do not occur.
      true: its 1-hop blocks.
      passing: blocks that a filter lets pass: these and others.
    """

    nodes: Nodes
    true: set[Block]
    passing: set[Block]


def drawn(seed: int, classes: int, leaf: bool = True) -> Drawn:
    """A connected graph of four nodes with edges of drawn classes, and two nodes more, one of them without neighbours.

    Of all blocks a fourth passes by accident.
    """
    rng, around = np.random.default_rng(seed), [list[int]() for _ in range(6)]
    pairs = [(0, 1), (1, 2), (2, 3), *([] if leaf else [(0, 3)])]
    for u, v in pairs:
        kind = int(rng.integers(classes))
        around[u].append(classes * v + kind)
        around[v].append(classes * u + kind)
    degrees = np.array([len(near) for near in around[:4]] + [0, int(rng.integers(1, 3))])
    true = {(v, tuple(sorted(near))) for v, near in enumerate(around[:4])}
    numbers = [classes * t + k for t in range(6) for k in range(classes)]
    every = [(v, one) for v in range(6) for one in combinations_with_replacement(numbers, int(degrees[v]))]
    passing = {block for block in every if rng.random() < 0.25 and all(degrees[t // classes] for t in block[1])}
    zeros = np.zeros((6, 1))
    return Drawn(Nodes(zeros.astype(np.int32), zeros, degrees, classes=classes), true, passing | true)


class Filter:
    """Lets some blocks pass, looks at no neighbourhood twice, and keeps what it was asked."""

    def __init__(self, passing: set[Block], limits: SpanLimits) -> None:
        self.passing, self.limits = passing, limits
        self.seen, self.asked, self.together = set[Block](), list[Request](), list[int]()

    def __call__(self, *given: Any, fixed: np.ndarray | None = None, classes: int = 1) -> Filter:
        self.given = {"rows": given[2], "degrees": given[3], "checks": given[4], "fixed": fixed, "classes": classes}
        return self

    def blocks(self, requests: Sequence[Request], *, clock: Clock, budget: Budget, limits: SpanLimits) -> FoundBlocks:
        assert (clock, budget, limits) == (FOREVER, ALL, self.limits)
        found, checked = list[Block](), 0
        for centre, slots in requests:
            ways = product(*(combinations_with_replacement(slot.options.tolist(), slot.count) for slot in slots))
            candidates = {(centre, tuple(sorted(t for part in way for t in part))) for way in ways}
            assert not candidates & self.seen and len(candidates) == total(slots)
            self.seen |= candidates
            checked += len(candidates)
            found += sorted(candidates & self.passing)
        self.asked += requests
        self.together.append(len(requests))
        zeros = np.zeros(len(found))
        centres = np.array([centre for centre, _ in found], np.int64)
        return FoundBlocks(centres, tuple(near for _, near in found), zeros[:, None], zeros, checked, ())


def named(blocks: Blocks) -> set[Block]:
    assert blocks.size == blocks.roots.size == blocks.kinds.size == len(blocks.states) == len(blocks.distances)
    assert np.array_equal(blocks.roots, blocks.kinds) and blocks.below.shape == (blocks.size, 0)
    names = set(zip(blocks.roots.tolist(), blocks.neighbours, strict=True))
    assert len(names) == blocks.size
    return names


def mutual(some: set[Block], classes: int) -> set[Block]:
    """The blocks that remain when those are removed, again and again, that a neighbour's blocks contradict."""
    roots, near = zip(*sorted(some), strict=True)
    zeros, root = np.zeros(len(roots)), np.array(roots, np.int64)
    return named(
        reciprocal(Blocks(root, root, near, zeros[:, None], np.zeros((len(roots), 0)), zeros, 0, classes=classes))
    )


def search(
    lab: Any, monkeypatch: pytest.MonkeyPatch, one: Drawn, limits: SpanLimits, **more: Any
) -> tuple[Blocks, Filter]:
    model = lab.model(layers=2, hidden=4, readout_widths=(3,))
    passes = Filter(one.passing, limits)
    monkeypatch.setattr(onehop, "BlockFilter", passes)
    found = onehop.one_hop(model, lab.params(model), one.nodes, [], clock=FOREVER, budget=ALL, limits=limits, **more)
    assert passes.given["classes"] == found.classes == one.nodes.classes
    assert passes.given["fixed"] is not None and np.array_equal(passes.given["fixed"], one.nodes.rows)
    assert found.checked == len(passes.seen) and not found.unsearched
    return found, passes


@pytest.mark.parametrize("classes", [1, 2])
@pytest.mark.parametrize("together", [1, 32])
def test_all_blocks_that_have_partners_are_found(
    classes: int, together: int, lab: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The centres of fewest candidates first; what was found leaves out candidates of others."""
    looked, every = 0, 0
    for seed in range(8):
        one, limits = drawn(seed, classes), SpanLimits(centres_together=together)
        found, passes = search(lab, monkeypatch, one, limits)
        assert named(found) == mutual(one.passing, classes) >= one.true and found.condition is None
        assert sorted(centre for centre, _ in passes.asked) == list(range(6)), "each centre once"
        one_sided, whole = search(lab, monkeypatch, one, limits, mutual=False)
        assert named(one_sided) == one.passing and one_sided.checked == one_hop_count(one.nodes)
        ways = [total(slots) for _, slots in whole.asked]
        assert ways == sorted(ways) and (max(whole.together) > 1) is (together > 1)
        looked, every = looked + found.checked, every + one_sided.checked
    assert looked < 0.8 * every


@pytest.mark.parametrize("classes", [1, 2])
@pytest.mark.parametrize("leaf", [True, False])
@pytest.mark.parametrize(("place", "together"), [(1, 1), (3, 1), (4, 1), (3, 2), (4, 2)])
def test_beside_blocks_found_is_the_rest_of_a_connected_graph(
    place: int, together: int, leaf: bool, classes: int, lab: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only nodes of one neighbour, and others as long as there are few candidates, are searched in full."""
    for seed, below in product(range(3), (0, 1)):
        one = drawn(seed, classes, leaf)
        degrees = one.nodes.degrees
        ways = np.array([comb(5 * classes + d - 1, d) for d in degrees.tolist()])
        most = int(np.sort(ways)[: place + 1].sum()) - below
        limits = SpanLimits(whole_candidates=most, centres_together=together)
        found, _ = search(lab, monkeypatch, one, limits)
        assert named(found) <= mutual(one.passing, classes) and (not leaf or one.true <= named(found))
        one_sided, passes = search(lab, monkeypatch, one, limits, mutual=False)
        assert named(one_sided) <= one.passing and (not leaf or one.true <= named(one_sided))
        full = {centre: total(slots) for centre, slots in passes.asked if len(slots) <= 1}  # not beside a holder
        left = [c for c in range(6) if c not in full]
        assert {c for c in range(6) if degrees[c] <= 1} <= full.keys()
        assert sum(full.values()) <= most or max(degrees[[*full]]) <= 1
        assert not left or sum(full.values()) + together * min(ways[left]) > most
        assert (one_sided.condition is None) is (not left)
        assert not left or one_sided.condition == f"some node has fewer than {min(degrees[left])} neighbours"


@pytest.mark.parametrize("one_sided", [False, True])
def test_blocks_found_beside_others_lead_further(one_sided: bool, lab: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """From one leaf along an edge to a ring, whose nodes have two neighbours or more."""
    edges = [(0, 1), (1, 2), (2, 3), (3, 4), (4, 2)]
    around = [tuple(u + w - v for u, w in edges if v in (u, w)) for v in range(5)]
    true = {(v, tuple(sorted(near))) for v, near in enumerate(around)}
    zeros, degrees = np.zeros((5, 1)), np.array([len(near) for near in around])
    one = Drawn(Nodes(zeros.astype(np.int32), zeros, degrees), true, true)
    found, _ = search(lab, monkeypatch, one, SpanLimits(whole_candidates=1), mutual=not one_sided)
    assert named(found) == true and found.condition == "some node has fewer than 2 neighbours"


@pytest.mark.parametrize("classes", [1, 2])
def test_likely_neighbourhoods_come_before_all_of_every_node(
    classes: int, lab: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They hold a node whose block holds the centre; beside it anything that has a neighbour."""
    one = drawn(1, classes)
    blocks, _ = search(lab, monkeypatch, one, SpanLimits())
    degrees = one.nodes.degrees.tolist()
    others = [classes * t + k for t in range(6) for k in range(classes) if degrees[t]]
    holders = sorted({turned(root, t, classes) for root, near in named(blocks) for t in near})
    wanted = [(c, [([holder], 1), *([(others, degrees[c] - 1)] if degrees[c] > 1 else [])]) for c, holder in holders]
    wanted += [(c, [(others, degree)] if degree else []) for c, degree in enumerate(degrees)]
    requests = onehop.likely(one.nodes, blocks)
    assert [(c, [(slot.options.tolist(), slot.count) for slot in slots]) for c, slots in requests] == wanted


@pytest.mark.parametrize("classes", [1, 2])
def test_listed_neighbourhoods_alone_are_looked_at(classes: int, lab: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    one = drawn(0, classes)
    listed = tuple(sorted(one.true))[:3]
    one = one._replace(nodes=dataclasses.replace(one.nodes, listed=listed))
    found, passes = search(lab, monkeypatch, one, SpanLimits(), mutual=False)
    assert named(found) == set(listed) == passes.seen


@pytest.mark.parametrize("classes", [1, 2])
def test_a_block_of_two_hops_has_a_block_of_one_around_each_neighbour(
    classes: int, lab: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """That of the neighbour holds the root, along an edge of the same class; all such choices are looked at, once."""
    model = lab.model(layers=2, hidden=4, readout_widths=(3,))
    number = 0
    for seed in range(3):
        rng, one = np.random.default_rng(seed), drawn(seed, classes)
        ones, _ = search(lab, monkeypatch, one, SpanLimits(), mutual=False)
        ones = dataclasses.replace(ones, states=rng.normal(size=(ones.size, 4)), below=rng.normal(size=(ones.size, 2)))
        nodes = dataclasses.replace(one.nodes, rows=rng.normal(size=(6, 3)))
        every = set[Block]()
        for entry, (root, near) in enumerate(zip(ones.roots.tolist(), ones.neighbours, strict=True)):
            around = [
                [
                    classes * e + t % classes
                    for e in range(ones.size)
                    if ones.roots[e] == t // classes and classes * root + t % classes in ones.neighbours[e]
                ]
                for t in near
            ]
            every |= {(entry, tuple(sorted(choice))) for choice in product(*around)}
        passing = {block for block in sorted(every) if rng.random() < 0.5}
        passes, checks = Filter(passing, SpanLimits(passing_blocks=7)), list[SpanCheck]()
        monkeypatch.setattr(hops, "next_search", cast(Any, next_search).__wrapped__)  # its types name the filter
        monkeypatch.setattr(hops, "BlockFilter", passes)
        bounds = {"clock": FOREVER, "budget": ALL, "limits": passes.limits}
        twos = hops.next_hop(model, lab.params(model), nodes, [ones], checks, **bounds)
        assert set(zip(twos.roots.tolist(), twos.neighbours, strict=True)) == passing
        assert passes.seen == every and twos.checked == len(every) and twos.classes == classes
        ways = [total(slots) for _, slots in passes.asked]
        assert ways == sorted(ways), "the fewest first"
        np.testing.assert_array_equal(twos.kinds, ones.roots[twos.roots])
        np.testing.assert_array_equal(twos.below, np.c_[ones.below, ones.states][twos.roots])
        assert passes.given["checks"] is checks and passes.given["classes"] == classes
        for name, wanted in (("rows", ones.states), ("degrees", one.nodes.degrees[ones.roots])):
            np.testing.assert_array_equal(passes.given[name], wanted)
        np.testing.assert_array_equal(passes.given["fixed"], nodes.rows[ones.roots])
        number += len(passing)
    assert number > 10
