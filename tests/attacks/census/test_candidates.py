"""What the first stage does with the blocks that it is given: which limits hold, and what is said."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from jgleak.attacks.attack import Budget
from jgleak.attacks.census import candidates as stage
from jgleak.attacks.census.checks import CONIC, Attempt
from jgleak.attacks.census.settings import DEFAULTS
from jgleak.attacks.span.check import SpanCheck
from jgleak.attacks.span.hops import Blocks, Nodes
from jgleak.attacks.span.ranges import Unsearched
from jgleak.attacks.span.subspace import Subspace
from jgleak.gnn import GINConv, Layer
from tests.clocks import HELD

from .bare_candidates import CHECK, ENDED, NODES, SPAN, START, bare, blocks, checks


@pytest.fixture(autouse=True)
def counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """All blocks have partners, nodes have nine blocks of one hop, and blocks have as many as they say."""
    monkeypatch.setattr(stage, "one_hop_count", lambda _: 9)
    monkeypatch.setattr(stage, "next_hop_count", lambda some: some.checked)
    monkeypatch.setattr(stage, "reciprocal", lambda some: some)


class Conic:
    """Candidates whose blocks are given, and which of them occur."""

    def __init__(
        self, monkeypatch: pytest.MonkeyPatch, depth: int, hops: int, grown: Sequence[Blocks], used: Any, **more: Any
    ) -> None:
        self.some, self.asked, left = bare(depth, **more), list[Any](), list(grown)
        chosen = [checks(f"hop {hop}") for hop in range(hops)]

        def grow(nodes: Nodes, below: Sequence[Blocks], given: Sequence[SpanCheck], most: int) -> Blocks:
            self.asked.append((len(below), len(given), most))
            return left.pop(0)

        def told(_: Any, states: np.ndarray, roots: np.ndarray, entering: Callable[[str], Any], __: Any) -> Any:
            self.asked.append((states.shape[0], roots.tolist(), entering("own")))
            return used

        def below(_: Nodes, given: Sequence[Any]) -> list[Blocks]:
            return [left.pop(0) for _ in given]

        search = SimpleNamespace(entering=lambda roots, around, kind: (roots.tolist(), around, kind))
        stubs = {"_chosen": lambda *_: iter([chosen]), "_grown": below, "_grow": grow, "_search": lambda *_: search}
        for name, stub in stubs.items():
            monkeypatch.setattr(self.some, name, stub)
        monkeypatch.setattr(stage, "occurring", told)
        self.levels = self.some._conic(START, Attempt(("node",), (), conic=True))


def test_blocks_that_make_up_the_last_gradient_grow_by_one_hop(monkeypatch: pytest.MonkeyPatch) -> None:
    """The last convolution's gradient is made of blocks of as many hops as there are layers before it."""
    used = np.array([True, False, True])
    made = Conic(monkeypatch, 2, 2, [blocks(3, ways=7), blocks(5)], used, conic_blocks=9, hop_blocks=7)
    assert made.asked == [(0, 0, 9), (3, [0, 1, 2], ([0, 1, 2], ((),) * 3, "own")), (1, 0, 7)]
    levels = made.levels
    assert levels is not None and [hop.roots.tolist() for hop in levels.hops] == [[0, 2], [0, 1, 2, 3, 4]]
    assert levels.conditions == ("nodes as they are", CONIC.format(1)) and not levels.complete
    assert levels.start is START and levels.nodes is NODES and not made.some.given_up
    deep = Conic(monkeypatch, 3, 3, [blocks(1, ways=9), blocks(3, ways=7), blocks(5)], used, conic_blocks=9)
    assert deep.levels is not None and [hop.size for hop in deep.levels.hops] == [1, 2, 5]
    assert deep.asked[0] == (1, 0, 9) and deep.asked[2][:2] == (2, 0) and CONIC.format(2) in deep.levels.conditions
    linear = Conic(monkeypatch, 2, 1, [blocks(3)], used)  # whose readout sees the blocks below the last layer
    assert linear.levels is not None and [hop.size for hop in linear.levels.hops] == [2] and len(linear.asked) == 2
    only = Conic(monkeypatch, 3, 2, [blocks(1, ways=1), blocks(3)], np.array([False, True, False]))
    assert only.levels is not None and [hop.size for hop in only.levels.hops] == [1, 1]


USED = np.ones(3, bool)


@pytest.mark.parametrize(
    ("depth", "grown", "used", "more"),
    [
        (1, [blocks(3), blocks(5)], USED, {}),
        (2, [blocks(3), blocks(5)], USED, {"noise": 0.1}),
        (2, [blocks(3), blocks(5)], None, {}),
        (2, [blocks(3), blocks(5)], ~USED, {}),
        (2, [blocks(3), blocks(6)], USED, {}),
        (2, [blocks(3), blocks(0)], USED, {}),
        (2, [blocks(3, ways=8), blocks(5)], USED, {"hop_blocks": 7}),
        (2, [blocks(3), blocks(5)], USED, {"conic_blocks": 8}),
        (3, [blocks(1, ways=0), blocks(3), blocks(5)], USED, {}),
        (3, [blocks(1, ways=8), blocks(3), blocks(5)], USED, {"conic_blocks": 7}),
    ],
    ids=[
        "one layer",
        "noise",
        "unexplained",
        "none used",
        "six",
        "none",
        "too many next",
        "too many",
        "no way",
        "deep",
    ],
)
def test_other_blocks_are_left_out(
    depth: int, grown: list[Blocks], used: Any, more: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where one of these is otherwise, there are levels, as above."""
    made = Conic(monkeypatch, depth, depth, grown, used, **more)
    assert made.levels is None
    assert [said[:22] for said in made.some.given_up] == ["3 feature vectors may "] * ("conic_blocks" in more)


def test_a_hop_that_is_cut_leaves_nothing_to_compare(monkeypatch: pytest.MonkeyPatch) -> None:
    some = bare(3)
    monkeypatch.setattr(some, "_chosen", lambda *_: iter([[(), (), ()]]))
    monkeypatch.setattr(some, "_grown", lambda *_: [])
    assert some._conic(START, Attempt((), (), conic=True)) is None


def completed(some: Any, lacking: int, monkeypatch: pytest.MonkeyPatch, hops: Sequence[Any]) -> list[list[Any]]:
    """The choices of checks, where the blocks of every hop have two completions."""
    monkeypatch.setattr(some, "_grown", lambda _, done: [blocks(1)] * len(done))
    checked = {id(part[0].check): hop for hop, part in enumerate(hops) if part}

    def two(_: int, __: Nodes, grown: Sequence[Blocks], check: SpanCheck) -> list[SpanCheck]:
        assert checked[id(check)] == len(grown), "the check of the hop that is completed"
        return [CHECK, CHECK]

    monkeypatch.setattr(some, "_completions", two)
    return [list(one) for one in some._completed(lacking, NODES, hops, [])]


def test_spans_are_completed_hop_by_hop_and_stay_as_they_are_last(monkeypatch: pytest.MonkeyPatch) -> None:
    hops = [checks("first"), checks("second"), checks("top")]
    some = bare(3)
    found = completed(some, 1, monkeypatch, hops)
    ways = ("completed 1.0", "completed 1.1", None)
    wanted = [(one or "first", other or "second", "top") for one in ways for other in ways]
    assert [tuple(part.name for (part,) in one) for one in found] == wanted
    assert found[0][1][0].condition == (
        "no true 2-hop block fails the node check (its span lacks a dimension that several blocks share)"
    )
    assert found[-1] == hops
    two = completed(some, 2, monkeypatch, hops[:2])
    assert [one[0][0].name for one in two] == ["completed 2.0", "completed 2.1", "first"]
    assert "1-hop block fails the node check (its span lacks 2 dimensions" in two[0][0][0].condition
    monkeypatch.setattr(some, "_completions", lambda *_: pytest.fail("they are kept"))
    assert [one[0][0].name for one in some._completed(2, NODES, hops[:2], [])] == [one[0][0].name for one in two]


def test_a_hop_without_a_check_or_blocks_is_not_completed(monkeypatch: pytest.MonkeyPatch) -> None:
    hops = [checks("first"), checks("second"), checks("top")]
    assert completed(bare(3), 1, monkeypatch, [(), *hops[1:]]) == []
    cut = bare(3)
    monkeypatch.setattr(cut, "_completions", lambda *_: [CHECK])
    monkeypatch.setattr(cut, "_grown", lambda _, done: [])
    assert list(cut._completed(1, NODES, hops, [])) == [], "no blocks of one hop"
    assert [one[0][0].name for one in cut._completed(1, NODES, hops[:2], [])] == ["completed 1.0", "first"]
    cut.problem.observation.model.layers = (Layer(GINConv(4)),)
    assert list(cut._completed(1, NODES, hops[:2], [])) == []


@pytest.mark.parametrize("lacking", [1, 2])
def test_completions_are_those_of_the_check_s_span(lacking: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each dimension gives two spans; blocks of one hop are looked for beside those that pass as it is."""
    some, asked = bare(), list[Any]()
    wide = Subspace.of_gradient(np.eye(12)[:, :6])

    def found(search: str, requests: str, span: Subspace, *_: Any) -> list[Subspace]:
        asked.append((search, requests, span is SPAN))
        return [wide, wide]

    def one_hop(*given: Any, **more: Any) -> Blocks:
        asked.append(([check is CHECK for check in given[3]], more["mutual"], more["budget"] is some.budget))
        return blocks(1)

    monkeypatch.setattr(stage, "completed", found)
    monkeypatch.setattr(stage, "one_hop", one_hop)
    monkeypatch.setattr(stage, "likely", lambda *_: "beside")
    monkeypatch.setattr(stage, "next_search", lambda *_: ("no checks", "above"))
    monkeypatch.setattr(some, "_search", lambda _, hops: f"{len(hops)} hops")
    made = some._completions(lacking, NODES, [], CHECK)
    assert asked[0] == ([True], False, True)
    assert asked[1:] == [("0 hops", "beside", True), *[("0 hops", "beside", False)] * (2 * (lacking - 1))]
    assert [(one.view, one.fixed, one.subspace is wide) for one in made] == [("aggregate", 2, True)] * 2**lacking
    asked.clear()
    assert len(some._completions(lacking, NODES, [blocks(1)], CHECK)) == 2**lacking
    assert asked[0] == ("1 hops", "above", True)


def grower(some: Any, sizes: Sequence[int], ways: int, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Hops have these numbers of blocks; the list gets a number for each that is grown."""
    asked = list[int]()

    def grow(_: Nodes, hops: Sequence[Blocks], checks: Sequence[SpanCheck]) -> Blocks:
        asked.append(len(checks))
        return blocks(sizes[len(hops)], ways)

    monkeypatch.setattr(some, "_grow", grow)
    return asked


def test_hops_are_grown_until_one_is_too_large(monkeypatch: pytest.MonkeyPatch) -> None:
    """By its blocks, or by the candidates that nothing or something checks."""
    some = bare(hop_blocks=9)
    asked, chosen = grower(some, [9, 4], 6, monkeypatch), [checks("a", "b"), checks("c")]
    assert [one.size for one in some._grown(NODES, chosen)] == [9, 4] and asked == [2, 1]
    assert len(some._grown(NODES, chosen)) == 2 and asked == [2, 1], "they are kept"
    assert len(some._grown(dataclasses.replace(NODES, degrees=np.full(3, 2)), chosen)) == 2 and len(asked) == 4
    for most, hops in ((9, 2), (8, 0)):
        assert len(some._grown(NODES, chosen, most)) == hops
    for limit, unchecked, hops in ((9, [(), ()], 2), (8, [(), ()], 0), (8, [checks("a"), ()], 0), (5, chosen, 0)):
        less = bare(hop_blocks=limit)
        grower(less, [9, 4], 6, monkeypatch)
        assert len(less._grown(NODES, unchecked)) == hops
    few = bare(hop_blocks=5)
    grower(few, [5, 4], 6, monkeypatch)
    assert len(few._grown(NODES, chosen)) == 2 and len(few._grown(NODES, [checks("a"), ()])) == 1
    assert len(few._grown(NODES, chosen, 5)) == 0 and some.checked == 24


@pytest.mark.parametrize("sizes", [(1, 5), (1, 1), (1, 0), (1, 6), (10, 5)])
def test_levels_say_what_they_leave_out(sizes: tuple[int, int], monkeypatch: pytest.MonkeyPatch) -> None:
    some, parts = bare(hop_blocks=9), (Unsearched(0, (0, 1), (0, 2), 3), Unsearched(0, (0, 1), (0, 1), 4))
    chosen = [checks("a", "b"), checks("c")]
    monkeypatch.setattr(some, "_grow", lambda _, hops, __: blocks(sizes[len(hops)]))
    whole = some._levels(START, chosen)
    assert (whole is not None) == (sizes in ((1, 5), (1, 1)))
    if whole is None:
        return
    said = ("nodes as they are", "no block fails a", "no block fails b", "no block fails c")
    assert whole.complete and whole.conditions == said and whole.start is START
    some.kept.clear()
    monkeypatch.setattr(
        some, "_grow", lambda _, hops, __: blocks(5, condition="few", unsearched=parts[: 2 * len(hops)])
    )
    cut = some._levels(START, chosen)
    left = "none of 7 candidates of 2-hop blocks that were not looked at occurs"
    assert cut is not None and cut.conditions == (*said[:3], "few", said[3], "few", left) and not cut.complete
    assert [hop.size for hop in cut.hops] == [5, 5] and some._levels(START, chosen, most=8) is None
    some.kept.clear()
    monkeypatch.setattr(some, "_grow", lambda *_: blocks(5))
    assert not some._levels(dataclasses.replace(START, complete=False), chosen).complete


@pytest.mark.parametrize("hops", [0, 1])
def test_what_time_cut_short_is_hurried(hops: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """And what a budget of blocks cut short is not."""
    cut, asked = (Unsearched(0, (0, 1), (0, 2), 3),), list[Any]()
    for unsearched, clock, hurried in ((cut, ENDED, True), ((), ENDED, False), (cut, HELD, False)):
        some = bare(hop_share=1)
        some.clock = clock

        def grown(*given: Any, unsearched: Any = unsearched, **more: Any) -> Blocks:
            asked.append((len(given), more["budget"].blocks, more["limits"] is DEFAULTS.limits.span))
            return blocks(1, unsearched=unsearched)

        monkeypatch.setattr(stage, "one_hop" if not hops else "next_hop", grown)
        some._grow(NODES, [blocks(1)] * hops, [CHECK])
        assert some.hurried is hurried
        some._grow(NODES, [blocks(1)] * hops, [], 11)
        assert some.hurried is hurried, "it stays so"
        assert asked[-2:] == [(4 + hops, Budget().blocks, True), (4 + hops, 11, True)]
        assert some._ended() is (clock is ENDED) and some.hurried is (clock is ENDED)
