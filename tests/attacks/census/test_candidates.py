"""What the first stage does with the blocks that it is given: which checks follow, which limits hold, what is said."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from jgleak.attacks.attack import Budget, Clock
from jgleak.attacks.census import candidates as stage
from jgleak.attacks.census.candidates import CensusCandidates, Levels, _name, _screens, _too_many
from jgleak.attacks.census.checks import CONIC, SPARSE, WEAKEST, Attempt, NamedCheck
from jgleak.attacks.census.problem import CensusProblem
from jgleak.attacks.census.settings import DEFAULTS
from jgleak.attacks.census.starts import Start
from jgleak.attacks.span.check import SpanCheck
from jgleak.attacks.span.hops import Blocks, Nodes
from jgleak.attacks.span.ranges import Unsearched
from jgleak.attacks.span.subspace import Subspace
from jgleak.features import FeatureSpace, number, onehot
from jgleak.federated import Knowledge
from jgleak.gnn import GCNConv, GINConv, Layer, LayerNorm
from tests.clocks import HELD

ENDED = Budget(time_limit=0.0).start()
CODES = np.arange(3, dtype=np.int32)[:, None]
NODES = Nodes(CODES, np.eye(3), np.ones(3, np.int64))
START = Start(NODES, ("nodes as they are",), complete=True)
SPAN = Subspace.of_gradient(
    np.random.default_rng(0).normal(size=(12, 4)) @ np.random.default_rng(1).normal(size=(4, 9))
)
CHECK = SpanCheck.of(SPAN, view="aggregate", fixed=2)


def blocks(size: int, ways: int = 1, **fields: Any) -> Blocks:
    """So many blocks, which have so many blocks of one hop more (it stands where the candidates that were checked do)."""
    numbers, blank = np.arange(size), np.zeros((size, 1))
    return dataclasses.replace(Blocks(numbers, numbers, ((),) * size, blank, blank, np.zeros(size), ways), **fields)


def bare(depth: int = 2, noise: float | None = None, **limits: int) -> Any:
    """Candidates of a model of so many layers, with nothing else; at most five of the last hop."""
    some: Any = object.__new__(CensusCandidates)
    some.limits = dataclasses.replace(DEFAULTS.limits, **limits)
    some.clock, some.budget, some.hurried, some.most_top = HELD, Budget(), False, 5
    some.kept, some.spans, some.checks, some.given_up, some.too_many = {}, {}, {}, [], None
    layers = (Layer(GCNConv(4)),) * depth
    model = SimpleNamespace(depth=depth, returns_statistics=False, layers=layers)
    seen = SimpleNamespace(model=model, params="weights")
    some.problem = SimpleNamespace(observation=seen, seen=seen, knowledge=SimpleNamespace(noise=noise))
    return some


@pytest.fixture(autouse=True)
def counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """All blocks have partners, nodes have nine blocks of one hop, and blocks have as many as they say."""
    monkeypatch.setattr(stage, "one_hop_count", lambda _: 9)
    monkeypatch.setattr(stage, "next_hop_count", lambda some: some.checked)
    monkeypatch.setattr(stage, "reciprocal", lambda some: some)


def checks(*names: str) -> tuple[NamedCheck, ...]:
    return tuple(NamedCheck(name, dataclasses.replace(CHECK), f"no block fails {name}") for name in names)


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


def test_a_hop_that_is_cut_or_statistics_leave_nothing_to_compare(monkeypatch: pytest.MonkeyPatch) -> None:
    some = bare(3)
    monkeypatch.setattr(some, "_chosen", lambda *_: iter([[(), (), ()]]))
    monkeypatch.setattr(some, "_grown", lambda *_: [])
    assert some._conic(START, Attempt((), (), conic=True)) is None
    some.problem.observation.model.returns_statistics = True
    monkeypatch.setattr(some, "_grown", lambda *_: pytest.fail("nothing is grown"))
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


@pytest.fixture(scope="module")
def problem(lab: Any) -> CensusProblem:
    return CensusProblem.of(lab.observe(lab.model(), lab.path([0, 1, 1, 2, 0])), Knowledge(lab.space, max_n=9))


def test_a_search_begins_with_the_vectors_that_pass(problem: CensusProblem, monkeypatch: pytest.MonkeyPatch) -> None:
    """It has a share of the time, and says under which condition; known rows are one of their own."""
    asked = list[dict[str, Any]]()

    def begun(complete: bool, left: float, **known: Any) -> CensusCandidates:
        clock = Clock(time.monotonic(), 1e6 * left)
        nodes = dataclasses.replace(NODES, complete=complete)
        monkeypatch.setattr(stage, "find_nodes", lambda *_, **more: asked.append(more) or nodes)
        knowledge = dataclasses.replace(problem.knowledge, **known)
        return CensusCandidates(dataclasses.replace(problem, knowledge=knowledge), clock, Budget(blocks=7))

    some = begun(True, 1.0)
    span = {"tolerances": problem.tolerances.span, "limits": problem.limits.span}
    assert {name: asked[0][name] for name in span} == span
    assert 0 < asked[0]["clock"].seconds < 1e6 and some.clock.seconds == 1e6 and some.budget.blocks == 7
    assert [said[:23] for said in some.start.conditions] == ["no true node fails the "] and some.start.complete
    hurried = {(done, left): begun(done, left).hurried for done in (True, False) for left in (1.0, 0.0, 1e-6)}
    assert [when for when, so in hurried.items() if so] == [(False, 0.0)]
    known = begun(False, 1.0, n=1, features=np.zeros((1, 3), np.int32))
    assert known.start.conditions == (stage.KNOWN_ROWS,) and not known.start.complete


def test_blocks_are_embedded_without_checks(problem: CensusProblem, lab: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    some, codes = bare(), lab.nodes([0, 1], [1, 1])
    some.problem = problem
    nodes = Nodes(codes, lab.space.encode(codes), np.ones(2, np.int64), classes=2)
    search = some._search(nodes, [])
    assert search.layer is problem.observation.model.layers[0] and search.classes == 2 and not search.checks
    assert search.weights is problem.observation.params["layers_0"]
    monkeypatch.setattr(stage, "next_search", lambda *given: (search, given))
    assert some._search(nodes, [blocks(1)]) is search


def chosen(
    some: Any, attempt: Attempt, monkeypatch: pytest.MonkeyPatch, last: int, linear: bool = False
) -> list[list[tuple[str, ...]]]:
    """The names of the checks of every hop, where the model offers all; another gap's have its number."""
    offered = "node", "hidden", "aggregate", "readout"
    points = {hop: [SimpleNamespace(name=name) for name in offered] for hop in range(1, last + 1)}
    monkeypatch.setattr(stage, "leak_points", lambda _, hop: points[hop])
    monkeypatch.setattr(stage.receptive_field, "hops", lambda _: last)
    monkeypatch.setattr(stage.receptive_field, "ends_linear", lambda _: linear)

    def told(sites: Sequence[Any], hop: int, place: int = 0) -> tuple[NamedCheck, ...]:
        return checks(*(f"{hop} {site.name}{place or ''}" for site in sites))

    monkeypatch.setattr(some, "_checks", told)
    return [[tuple(check.name for check in part) for part in one] for one in some._chosen(attempt, NODES)]


def test_every_hop_has_the_checks_of_its_attempt(monkeypatch: pytest.MonkeyPatch) -> None:
    some, attempt = bare(3), Attempt(("node", "hidden"), ("readout", "node"))
    some.problem.several = False
    below = [("1 node", "1 hidden"), ("2 node", "2 hidden")]
    assert chosen(some, attempt, monkeypatch, 3) == [[*below, ("3 node", "3 readout")]]
    assert chosen(some, attempt, monkeypatch, 3, True) == [[*below, ("3 readout",)]], "its rank is one"
    some.problem.several = True
    assert len(chosen(some, attempt, monkeypatch, 3)) == 1, "the last hop has a check"
    open_top = chosen(some, Attempt(("node",), ()), monkeypatch, 2)
    assert open_top == [[("1 node",), ()], [("1 node1",), ()], [("1 node2",), ()]]
    assert chosen(some, Attempt((), ()), monkeypatch, 2) == [[(), ()]], "without a check there is no gap"
    some.problem.several = False
    assert chosen(some, Attempt(("node",), ()), monkeypatch, 2) == [[("1 node",), ()]]
    normed = Layer(GCNConv(4), norm=LayerNorm())
    some.problem.observation.model.layers = (Layer(GCNConv(4)), normed)
    screened = chosen(some, Attempt(("node",), ("node",)), monkeypatch, 2)
    assert screened == [[("1 node",), ("2 node", "2 aggregate")]]
    weaker = SimpleNamespace(weaker=lambda hops, lacking, _: iter([hops[lacking:]]))
    some.problem.arithmetic = weaker
    assert chosen(some, Attempt(("node",), ("node",), completed=1), monkeypatch, 2) == [[("2 node", "2 aggregate")]]


def test_attempts_follow_each_other_without_repeating_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """Usual vectors come first where the last gradient's blocks are looked for; too many vectors are left out."""
    plain, conic = Attempt(("node",), ()), Attempt(("node",), (), conic=True)
    start = dataclasses.replace(START, attempts=(plain, conic, plain, Attempt((), ())))
    usual = dataclasses.replace(start, conditions=("usual",))
    some, tried, made = bare(), list[str](), Levels(NODES, (blocks(1),), (), True, start)
    monkeypatch.setattr(Start, "usual", lambda *_: usual)
    monkeypatch.setattr(some, "_starts", lambda: iter([start, dataclasses.replace(start)]))
    monkeypatch.setattr(some, "_chosen", lambda attempt, _: iter([[checks(*attempt.below)]]))
    monkeypatch.setattr(
        some, "_conic", lambda one, _: tried.append(one.conditions[0]) or (made if one is start else None)
    )
    monkeypatch.setattr(some, "_levels", lambda _, hops: tried.append(f"{len(hops[0])} checks") or made)
    assert len(list(some.attempts(HELD))) == 5 and some.too_many is None
    once = ["1 checks", "usual", "nodes as they are", "0 checks"]
    assert tried == 2 * once
    assert list(some.attempts(ENDED)) == [] and tried == 2 * once
    ending = some.attempts(clock := Clock(time.monotonic(), 1e6))
    next(ending)
    object.__setattr__(clock, "seconds", 0.0)
    assert list(ending) == []
    four = Nodes(np.arange(4, dtype=np.int32)[:, None], np.eye(4), np.ones(4, np.int64))
    many = dataclasses.replace(start, nodes=four)
    some.problem.knowledge = Knowledge(FeatureSpace((onehot("a", range(4)),)))
    monkeypatch.setattr(some, "_starts", lambda: iter([many, START]))
    for most, first in ((4, True), (3, False)):
        monkeypatch.setattr(stage, "MOST_NODES", most)
        some.too_many = None
        list(some.attempts(HELD))
        assert (some.too_many is None) is first


def test_wider_candidates_are_those_of_the_first_start(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of all degrees where only few were tried; with the weakest checks where these leave few."""
    some, asked = bare(weak_blocks=9, weak_candidates=6), list[Any]()
    few = dataclasses.replace(START, some_degrees=True)
    some.start = START
    monkeypatch.setattr(some, "_chosen", lambda attempt, _: iter([attempt]))
    monkeypatch.setattr(some, "_levels", lambda *given, **more: asked.append((*given, more)))
    levels = Levels(NODES, (blocks(1), blocks(2)), (), True, few)
    assert levels.top.size == 2
    some.of_all_degrees(levels)
    some.weakest(levels)
    assert asked == [(START, SPARSE[0], {}), (few, WEAKEST, {"most": 6})]
    for other in (dataclasses.replace(levels, start=None), dataclasses.replace(levels, start=START)):
        some.of_all_degrees(other)
    some.weakest(dataclasses.replace(levels, start=None))
    some.limits = dataclasses.replace(some.limits, weak_blocks=8)
    some.weakest(levels)
    assert len(asked) == 2 and not some.hurried
    some.clock, some.limits = ENDED, dataclasses.replace(some.limits, weak_blocks=9)
    some.of_all_degrees(levels)
    assert some.hurried and some.weakest(levels) is None and len(asked) == 2


def test_small_graphs_are_of_nodes_that_span_the_gradient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Or of the hidden ones, if there are any; and of as many as can be tried."""
    other = dataclasses.replace(START, conditions=("hidden",))
    monkeypatch.setattr(stage, "MOST_NODES", 3)
    for spans, hidden, wanted in ((True, (other,), START), (False, (other,), other), (False, (), START)):
        some = bare()
        some.start, some.__dict__["hidden"] = START, hidden
        monkeypatch.setattr(stage, "spanning", lambda *_, spans=spans: spans)
        assert some.enumerable == (wanted,)
    monkeypatch.setattr(stage, "MOST_NODES", 2)
    del some.__dict__["enumerable"]
    assert some.enumerable == ()


def test_vectors_that_are_too_many_to_try_are_counted() -> None:
    codes = np.array([[0, 0], [0, 1], [1, 1], [1, 1]], np.int32)
    nodes = Nodes(codes, np.zeros((4, 2)), np.array([1, 1, 1, 2]))
    plain = FeatureSpace((onehot("a", range(2)), onehot("b", range(2))))
    assert _too_many(Knowledge(plain), nodes).startswith("3 feature vectors pass the checks of nodes: too many")
    measured = FeatureSpace((number("a", (0.0, 0.5, 1.0)), onehot("b", range(2))))
    assert ", as 1 columns of numbers show 1 dimensions at most: too" in _too_many(Knowledge(measured), nodes)


def test_states_that_need_all_columns_have_a_check_before() -> None:
    """Layer norm; a convolution with a hidden row has that, and without any check there is nothing to screen."""
    normed = Layer(GCNConv(4), norm=LayerNorm())
    assert _screens(normed, {"node"}) == {"aggregate"} and _screens(normed, set()) == set()
    assert _screens(Layer(GCNConv(4)), {"node"}) == set()
    assert _screens(Layer(GINConv(4)), {"node"}) == set()


def test_sets_of_vectors_have_different_names() -> None:
    others = (
        NODES,
        dataclasses.replace(NODES, codes=CODES + 1),
        dataclasses.replace(NODES, degrees=np.full(3, 2)),
        dataclasses.replace(NODES, listed=((0, (1,)),)),
    )
    assert len({_name(one) for one in others}) == 4 and _name(dataclasses.replace(NODES)) == _name(NODES)
