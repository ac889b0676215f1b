"""How the stages of the census hand over to each other: what replaces what, what is claimed, and which limits hold."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest

from jgleak.attacks.attack import MORE_CONDITIONS, OUT_OF_TIME, Budget
from jgleak.attacks.census import answer as answer_module
from jgleak.attacks.census import assemble, attempted, fewer_conditions, receptive_field
from jgleak.attacks.census import candidates as candidates_module
from jgleak.attacks.census.answer import Answer
from jgleak.attacks.census.arithmetic import Exact
from jgleak.attacks.census.assemble import CUT, AnonymitySet, ExplainingGraph, Growing
from jgleak.attacks.census.attempted import Attempted, counted, excludes_others
from jgleak.attacks.census.candidates import CensusCandidates, Levels
from jgleak.attacks.census.certify import Certified
from jgleak.attacks.census.equations import equations
from jgleak.attacks.census.problem import CensusProblem
from jgleak.attacks.census.public_blocks import CONDITION
from jgleak.attacks.census.solve import ROUNDING, solve
from jgleak.attacks.census.starts import Start
from jgleak.attacks.census.system import Equations, Rules, Solution
from jgleak.attacks.certificate import Certificate
from jgleak.attacks.span.hops import next_hop_count, one_hop_count
from jgleak.attacks.span.leak_points import leak_points
from jgleak.federated import Knowledge
from jgleak.graph import Graph
from tests.clocks import HELD as FOREVER

POOLED = {"readout": "pooled", "readout_widths": (64,), "last_act": True}


@pytest.fixture(scope="module")
def problem(lab: Any) -> CensusProblem:
    return CensusProblem.of(lab.observe(lab.model(), lab.path([0, 1, 1, 2, 0])), Knowledge(lab.space, max_n=9))


@pytest.fixture(scope="module")
def candidates(problem: CensusProblem) -> CensusCandidates:
    return CensusCandidates(problem, FOREVER, Budget())


@pytest.fixture(scope="module")
def levels(candidates: CensusCandidates) -> Levels:
    return next(candidates.attempts(FOREVER))


def limited(problem: CensusProblem, **limits: Any) -> CensusProblem:
    settings = dataclasses.replace(problem.settings, limits=dataclasses.replace(problem.limits, **limits))
    return dataclasses.replace(problem, settings=settings)


def of(*graphs: Graph, exhausted: bool = True) -> AnonymitySet:
    return AnonymitySet(tuple(ExplainingGraph(one, 1e-7, one.canonical_form()) for one in graphs), exhausted, 1, 10)


@pytest.mark.parametrize(
    ("again", "listed", "exhausted", "replaced"),
    [
        (("a", "b"), "ab", True, True),
        (("a", "b", "c"), "abc", True, True),
        (("a",), "ab", True, False),
        (("b", "c"), "abc", False, True),
        (("cut", "a", "b"), "ab", True, False),
        (("cut", "a", "b", "c"), "abc", False, True),
        ((), "ab", True, False),
    ],
    ids=["the same", "more", "less", "others", "the same, cut", "more, cut", "none"],
)
def test_an_answer_under_fewer_conditions_replaces_or_refutes_the_first_one(
    again: tuple[str, ...],
    listed: str,
    exhausted: bool,
    replaced: bool,
    problem: CensusProblem,
    levels: Levels,
    lab: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    graphs = {"a": lab.path([0, 1]), "b": lab.path([1, 2]), "c": lab.path([2, 3])}
    first = Attempted(levels, None, of(graphs["a"], graphs["b"]), 9)
    found = of(*(graphs[name] for name in again if name != "cut"), exhausted="cut" not in again)
    weaker = dataclasses.replace(levels, conditions=("weaker",))
    asked = list[Levels]()
    monkeypatch.setattr(
        fewer_conditions, "counted", lambda _, some, __: asked.append(some) or Attempted(some, None, found, 7)
    )
    answer = fewer_conditions._wider(problem, first, weaker, FOREVER)
    assert asked == [weaker]
    names = {graph.canonical_form(): name for name, graph in graphs.items()}
    assert "".join(sorted(names[one.form] for one in answer.found.graphs)) == listed
    assert answer.found.exhausted == exhausted and (answer.levels is weaker) == replaced
    assert (answer is first) != replaced
    assert answer.most == (9 if not exhausted or not replaced else 7), "the larger number was searched by one of both"


def test_what_is_the_same_is_not_counted_again(
    problem: CensusProblem, levels: Levels, lab: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer = Attempted(levels, None, of(lab.path([0, 1])), 9)
    monkeypatch.setattr(fewer_conditions, "counted", lambda *_: pytest.fail("counted again"))
    assert fewer_conditions._wider(problem, answer, None, FOREVER) is answer
    assert fewer_conditions._wider(problem, answer, dataclasses.replace(levels), FOREVER) is answer
    other = dataclasses.replace(levels, nodes=dataclasses.replace(levels.nodes))
    with pytest.raises(pytest.fail.Exception, match="counted again"):
        fewer_conditions._wider(problem, answer, other, FOREVER)


@pytest.mark.parametrize(
    ("exhausted", "late", "again", "reason"),
    [
        (True, False, False, None),
        (True, True, False, None),
        (True, False, True, MORE_CONDITIONS),
        (False, False, False, None),
        (False, True, False, OUT_OF_TIME),
        (False, False, True, OUT_OF_TIME),
    ],
)
def test_who_ran_out_of_time_is_told_what_for(
    exhausted: bool,
    late: bool,
    again: bool,
    reason: str | None,
    problem: CensusProblem,
    lab: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    certificate = Certificate("unique", 1, 9, False, 1e-7)
    graph = lab.path([0, 1])
    monkeypatch.setattr(answer_module, "certify", lambda *_: Certified((graph,), 1e-7, certificate))
    answer = Answer((), of(graph, exhausted=exhausted), 9, late, again)
    made = answer_module.certified(problem, answer, {"attempts": 3}, FOREVER)
    assert made.info.get("reason") == reason and made.info["attempts"] == 3 and made.info["seconds"] >= 0
    assert (made.graphs, made.gradient_distance, made.stop, made.certificate) == ((graph,), 1e-7, "match", certificate)


def test_the_time_that_a_wider_search_lacked_is_noted(
    problem: CensusProblem, levels: Levels, lab: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where there was one at all; the weakest checks are for what is exhausted alone."""
    ended, wider = Budget(time_limit=0.0).start(), dataclasses.replace(levels, conditions=("wider",))
    weaker = dataclasses.replace(levels, conditions=("weaker",))
    monkeypatch.setattr(fewer_conditions, "counted", lambda _, some, __: Attempted(some, None, of(lab.path([0, 1])), 9))

    class Candidates(CensusCandidates):
        def __init__(self, degrees: Levels | None, weakest: Levels | None) -> None:
            self.degrees, self.less, self.hurried = degrees, weakest, False

        def of_all_degrees(self, levels: Levels) -> Levels | None:
            return self.degrees

        def weakest(self, levels: Levels) -> Levels | None:
            return self.less

    def taken(degrees: Levels | None, weakest: Levels | None, clock: Any, exhausted: bool = True) -> tuple[Any, bool]:
        some = Candidates(degrees, weakest)
        first = Attempted(levels, None, of(lab.path([0, 1]), exhausted=exhausted), 9)
        found = fewer_conditions.taken_again(problem, some, first, clock)
        return found.levels.conditions, some.hurried

    assert taken(None, None, ended) == (levels.conditions, False)
    assert taken(wider, None, ended) == (("wider",), True)
    assert taken(None, weaker, ended) == (("weaker",), True)
    assert taken(wider, weaker, FOREVER) == (("weaker",), False)
    assert taken(None, weaker, ended, exhausted=False) == (levels.conditions, False), "of an open set nothing is proved"


def solution(residual: float, limit: float, free: int = 0) -> Solution:
    """Of one column."""
    one = np.ones((1, 1))
    rules = Rules(np.zeros(1, np.int64), *(np.zeros((0, 1), np.int64) for _ in range(3)))
    equations = Equations(one, np.ones(1), np.zeros(1, np.int64))
    columns = np.zeros(1, np.int64)
    return Solution(equations, rules, False, residual, limit, columns, one, np.ones(1), np.ones(1), np.zeros((1, free)))


def test_what_was_examined_is_said(levels: Levels, lab: Any) -> None:
    found = of(lab.path([0, 1]))
    whole = Attempted(levels, solution(1e-7, 1e-3, 2), found, 9)
    facts = {"nodes": levels.nodes.degrees.size, "blocks": levels.top.size, "censuses": 1, "partials": 10}
    assert whole.facts == {**facts, "residual": 1e-7, "null": 2} and whole.explained
    assert not dataclasses.replace(whole, solution=solution(2e-3, 1e-3)).explained
    late = dataclasses.replace(whole, solution=None)
    assert late.facts == {**facts, "residual": None, "null": 0} and not late.explained


@pytest.mark.parametrize(
    ("made", "noise", "followed", "alone"),
    [
        (solution(1e-5, 1e-3), None, True, True),
        (solution(1.1e-5, 1e-3), None, True, False),
        (solution(1e-6, 1e-3, 1), None, True, False),
        (solution(1e-6, 1e-3), 1e-6, True, False),
        (solution(1e-6, 1e-3), None, False, False),
    ],
    ids=["settled", "not settled", "other shares", "noise", "no path"],
)
def test_a_path_is_that_of_one_census_where_it_agrees_with_its_shares_alone(
    made: Solution, noise: float | None, followed: bool, alone: bool, problem: CensusProblem, monkeypatch: Any
) -> None:
    monkeypatch.setattr(attempted, "followable", lambda _: followed)
    known = dataclasses.replace(problem, knowledge=dataclasses.replace(problem.knowledge, noise=noise))
    assert problem.tolerances.path_settled == 1e-5
    assert excludes_others(known, made) is alone


@pytest.mark.parametrize(
    ("found", "residuals", "searched"),
    [
        ({40: 0, 80: 1, 160: 2}, [0.0] * 4, [40, 80]),
        ({}, [0.0] * 4, [40, 80, 160, 256]),
        ({80: 1}, [1.0] * 4, [40]),
        ({40: 2}, [0.0] * 4, [40]),
    ],
    ids=["the second round", "none", "not explained", "the first"],
)
def test_larger_graphs_are_looked_for_while_there_is_none_and_blocks_explain_the_gradient(
    found: dict[int, int],
    residuals: list[float],
    searched: list[int],
    problem: CensusProblem,
    levels: Levels,
    lab: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    tried, left = list[int](), list(residuals)
    free = dataclasses.replace(problem, knowledge=dataclasses.replace(problem.knowledge, max_n=None))
    graphs = [lab.path([0, 1]), lab.path([1, 2])]

    def made(_: Any, __: Any, ___: Any, sizes: range, ____: Any) -> AnonymitySet:
        tried.append(sizes[-1])
        return of(*graphs[: found.get(sizes[-1], 0)])

    monkeypatch.setattr(attempted, "solve", lambda *_: solution(left.pop(0), 1e-3))
    monkeypatch.setattr(attempted, "assemble", made)
    answer = counted(free, dataclasses.replace(levels, complete=True), FOREVER)
    assert tried == searched and answer.most == searched[-1]
    assert len(answer.found.graphs) == found.get(searched[-1], 0)
    assert answer.found.exhausted and answer.found.censuses == len(searched)
    assert answer.explained == (residuals[0] == 0.0)
    left[:] = residuals
    assert not counted(free, dataclasses.replace(levels, complete=False), FOREVER).found.exhausted
    monkeypatch.setattr(attempted, "equations", lambda *_: None)
    late = counted(free, levels, FOREVER)
    assert (late.found, late.solution, late.explained) == (CUT, None, False)


def test_rounding_moves_a_count_of_all_nodes_as_much_as_their_share(
    problem: CensusProblem, candidates: CensusCandidates, levels: Levels, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of up to nine nodes one is a ninth, and rounding of shares is nine times that."""
    whole = candidates.weakest(levels)
    system = None if whole is None else equations(problem, whole, FOREVER)
    assert whole is not None and system is not None
    real, asked = Exact.real, list[float]()

    def told(self: Exact, reduced: Any, blur: float) -> Any:
        asked.append(blur)
        return real(self, reduced, blur)

    monkeypatch.setattr(Exact, "real", told)
    found = solve(problem, whole, system, range(2, 10), FOREVER)
    assert found.explained and found.residual < 1e-5
    assert asked == [pytest.approx(9 * max(found.residual, ROUNDING))]


def assembled(
    problem: CensusProblem,
    levels: Levels,
    counts: list[int | None],
    vast: set[int],
    monkeypatch: pytest.MonkeyPatch,
    graphs: dict[int, Graph],
    residual: float = 0.0,
) -> tuple[AnonymitySet, list[tuple[str, int, int]]]:
    """The graphs of some censuses, which are named by their numbers; and in which way, in how many steps, they were
    looked for. Of vast ones nothing is exhausted, and their graphs come in the second way."""
    asked = list[tuple[str, int, int]]()

    def some(_: Growing, found: AnonymitySet, own: np.ndarray) -> AnonymitySet:
        asked.append(("some", int(own[0]), 0))
        return of(exhausted=int(own[0]) not in vast)

    def every(_: Growing, found: AnonymitySet, own: np.ndarray, steps: int) -> AnonymitySet:
        asked.append(("every", int(own[0]), steps))
        there = [graphs[int(own[0])]] if int(own[0]) in graphs else []
        return of(*there, exhausted=int(own[0]) not in vast)

    given = [None if one is None else np.array([one]) for one in counts]
    monkeypatch.setattr(assemble, "_counts", lambda *_: iter(given))
    monkeypatch.setattr(Growing, "some", some)
    monkeypatch.setattr(Growing, "every", every)
    complete = dataclasses.replace(levels, complete=True)
    return assemble.assemble(problem, complete, solution(residual, 1e-3), range(2, 10), FOREVER), asked


def test_every_census_has_its_turn(
    problem: CensusProblem, levels: Levels, lab: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After one that is too vast the others get fewer steps; what was cut off leaves the set open, and a list that is
    full ends it."""
    few, graphs = limited(problem, partial_graphs=90, more_partial_graphs=7), {2: lab.path([0, 1]), 3: lab.path([1, 2])}
    found, asked = assembled(few, levels, [1, 2, 3], set(), monkeypatch, graphs)
    assert asked == [("every", 1, 90), ("every", 2, 90), ("every", 3, 90)] and found.exhausted
    assert (len(found.graphs), found.censuses, found.partials) == (2, 3, 30)
    found, asked = assembled(few, levels, [1, 2, 3], {1}, monkeypatch, graphs)
    assert asked == [("every", 1, 90), ("every", 2, 7), ("every", 3, 7)] and not found.exhausted
    found, asked = assembled(few, levels, [1, None, 3], set(), monkeypatch, graphs)
    assert asked == [("every", 1, 90), ("every", 3, 90)] and not found.exhausted and found.censuses == 2
    full = limited(few, listed=1)
    found, asked = assembled(full, levels, [1, 2, 3], set(), monkeypatch, graphs)
    assert asked == [("every", 1, 90), ("every", 2, 90)] and not found.exhausted and len(found.graphs) == 1
    found, asked = assembled(few, levels, [1], set(), monkeypatch, graphs, residual=2e-3)
    assert not asked and found == AnonymitySet(), "a true block is missing"


def test_beside_public_graphs_what_is_likely_is_looked_for_first(
    problem: CensusProblem, levels: Levels, lab: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And the rest of those censuses that it did not exhaust after that, the first of them with most steps."""
    known = dataclasses.replace(problem.knowledge, auxiliary=(lab.path([0, 1]),))
    public = dataclasses.replace(limited(problem, partial_graphs=90, more_partial_graphs=7), knowledge=known)
    graphs = {2: lab.path([0, 1]), 3: lab.path([1, 2])}
    found, asked = assembled(public, levels, [1, 2, 3], {1, 2}, monkeypatch, graphs)
    assert asked == [*((("some", k, 0)) for k in (1, 2, 3)), ("every", 1, 90), ("every", 2, 7)]
    assert not found.exhausted and len(found.graphs) == 1 and found.censuses == 5
    found, asked = assembled(public, levels, [1, 2, 3], set(), monkeypatch, graphs)
    assert asked == [("some", k, 0) for k in (1, 2, 3)] and found.exhausted


def test_larger_graphs_than_one_that_was_found_get_fewer_steps(
    problem: CensusProblem, levels: Levels, lab: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where nothing comes of them, a beam is tried; what is there, or all of it, needs none."""
    asked, made = list[tuple[int, int | None]](), list[AnonymitySet]()

    def graphs(_: Growing, found: AnonymitySet, counts: np.ndarray, steps: int, beam: int | None) -> AnonymitySet:
        asked.append((steps, beam))
        return made.pop(0)

    monkeypatch.setattr(Growing, "_graphs", graphs)
    few = limited(problem, partial_graphs=90, more_partial_graphs=7, beam=5)
    growing, three, none = Growing(few, levels, FOREVER), of(lab.path([0, 1, 2])), of()
    for found, nodes, results, wanted in (
        (none, 9, [of()], [(50, None)]),
        (three, 3, [of()], [(50, None)]),
        (three, 4, [of()], [(7, None)]),
        (none, 9, [of(lab.path([0, 1]), exhausted=False)], [(50, None)]),
        (none, 9, [of(exhausted=False), of(lab.path([0, 1]), exhausted=False)], [(50, None), (50, 5)]),
        (three, 4, [of(exhausted=False), of(exhausted=False)], [(7, None), (7, 5)]),
    ):
        made[:], asked[:] = results, []
        whole = growing.every(found, np.array([nodes]), 50)
        assert asked == wanted and whole.partials == 10 * len(wanted)
        assert len(whole.graphs) == len(results[-1].graphs)
    made[:], asked[:] = [of()], []
    growing.some(none, np.array([3]))
    assert asked == [(90, 5)]


def named(start: Start, name: str) -> Start:
    return dataclasses.replace(start, conditions=(name,))


@pytest.mark.parametrize(
    ("limits", "known", "linear", "order"),
    [
        ({}, {}, False, "all hidden"),
        ({"usual_first": -1}, {}, False, "usual all hidden"),
        ({"usual_first": 0}, {}, False, "all hidden"),
        ({"blocks_counted": -1}, {"public": True}, True, "public all hidden"),
        ({"blocks_counted": 0}, {"public": True}, True, "all hidden"),
        ({"blocks_counted": -1}, {"public": True}, False, "all hidden"),
        ({"blocks_counted": -1}, {}, True, "all hidden"),
        ({}, {"degree": None}, False, "sparse scattered all hidden"),
        (
            {"blocks_counted": -1, "usual_first": -1},
            {"public": True, "degree": None},
            False,
            "public usual sparse scattered all hidden",
        ),
    ],
)
def test_a_search_begins_with_what_is_likely_and_ends_with_what_is_hidden(
    limits: dict[str, int],
    known: dict[str, Any],
    linear: bool,
    order: str,
    problem: CensusProblem,
    levels: Levels,
    lab: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Limits on 1-hop candidates are here those beside their number: a limit is the most that are tried all at once."""
    start = levels.start
    assert start is not None
    whole, asked = named(start, "all"), list[tuple[int, ...]]()
    number = one_hop_count(start.nodes)
    space = dataclasses.replace(lab.space, degree=known.get("degree", lab.space.degree))
    public = (lab.path([0, 1, 1, 2, 0]),) if "public" in known else ()
    some: Any = object.__new__(CensusCandidates)
    made = dataclasses.replace(problem, knowledge=dataclasses.replace(problem.knowledge, space=space, auxiliary=public))
    some.problem = limited(made, **{name: number + more for name, more in limits.items()})
    some.limits, some.start = some.problem.limits, whole
    some.__dict__["hidden"] = (named(start, "hidden"),)
    monkeypatch.setattr(receptive_field, "ends_linear", lambda _: linear)
    monkeypatch.setattr(Start, "usual", lambda *_: named(start, "usual"))
    monkeypatch.setattr(Start, "sparse", lambda _, *given: asked.append(given) or named(start, "sparse"))
    monkeypatch.setattr(Start, "scattered", lambda _, *given: asked.append(given) or named(start, "scattered"))
    found = list(some._starts())
    names = ["public" if one.conditions[0] == CONDITION else one.conditions[0] for one in found]
    assert " ".join(names) == order
    assert asked == ([(3,), (3, 20_000)] if "sparse" in order else [])
    if names[0] == "public":
        assert not found[0].complete and found[0].conditions == (CONDITION, "all") and found[0].nodes.listed


def test_more_vectors_than_can_be_paired_are_not_begun_with(
    problem: CensusProblem, levels: Levels, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And it is said how many they are."""
    assert levels.start is not None
    size = levels.start.nodes.degrees.size
    for most, there in ((size, True), (size - 1, False)):
        monkeypatch.setattr(candidates_module, "MOST_NODES", most)
        some = CensusCandidates(problem, FOREVER, Budget())
        monkeypatch.setattr(some, "_starts", lambda: iter([levels.start]))
        assert (next(some.attempts(FOREVER), None) is not None) is there
        assert (some.too_many is None) is there and (some.start in some.enumerable) is there
        assert there or (some.too_many or "").startswith(f"{size} feature vectors pass the checks of nodes: too many")


def test_a_limit_on_blocks_is_the_most_that_are_counted(problem: CensusProblem, levels: Levels) -> None:
    size, start = levels.top.size, levels.start
    assert start is not None
    for most, there in ((size, True), (size - 1, False)):
        some = CensusCandidates(limited(problem, blocks_counted=most), FOREVER, Budget())
        found = some._levels(start, next(some._chosen(start.attempts[1], start.nodes)))
        assert (found is not None) is there and (found is None or found.conditions == levels.conditions)
    assert list(CensusCandidates(problem, FOREVER, Budget()).attempts(Budget(time_limit=0.0).start())) == []


@pytest.mark.parametrize(
    ("fields", "size", "limit"),
    [({}, 1, "blocks_counted"), ({}, 2, "blocks_counted"), (POOLED, 1, "blocks_counted"), (POOLED, 2, "batch_blocks")],
)
def test_a_batch_behind_pooling_may_have_more_blocks(fields: dict[str, Any], size: int, limit: str, lab: Any) -> None:
    """Since its graphs' pooled rows say which of them each may have."""
    seen = dataclasses.replace(lab.observe(lab.model(**fields), lab.ring([0, 1, 2])), batch_size=size)
    problem = CensusProblem.of(seen, Knowledge(lab.space))
    most = CensusCandidates(problem, FOREVER, Budget()).most_top
    assert most == getattr(problem.limits, limit) and problem.limits.blocks_counted < problem.limits.batch_blocks


def test_the_weakest_checks_are_for_few_candidates(problem: CensusProblem, levels: Levels) -> None:
    """Of 1-hop blocks and of candidates of any hop as many as the limits say."""
    start = levels.start
    assert start is not None
    ways = one_hop_count(start.nodes)
    first = CensusCandidates(problem, FOREVER, Budget()).weakest(levels)
    assert first is not None and len(first.hops) == 2
    more = max(ways, next_hop_count(first.hops[0]))
    for limits, there in (
        ({"weak_blocks": ways}, True),
        ({"weak_blocks": ways - 1}, False),
        ({"weak_candidates": more}, True),
        ({"weak_candidates": more - 1}, False),
    ):
        some = CensusCandidates(limited(problem, **limits), FOREVER, Budget())
        assert (some.weakest(levels) is not None) is there and not some.hurried
    assert CensusCandidates(problem, FOREVER, Budget()).weakest(dataclasses.replace(levels, start=None)) is None
    same = CensusCandidates(problem, FOREVER, Budget())
    assert same.of_all_degrees(levels) is None, "all degrees were there"
    assert same.of_all_degrees(dataclasses.replace(levels, start=None)) is None
    late = CensusCandidates(problem, FOREVER, Budget())
    late.clock = Budget(time_limit=0.0).start()
    assert late.weakest(levels) is None and late.hurried


def test_a_hop_has_as_many_unchecked_blocks_as_the_limit(problem: CensusProblem, levels: Levels) -> None:
    start = levels.start
    assert start is not None
    ways, asked = one_hop_count(start.nodes), [(), ()]
    for most, hops in ((ways, 1), (ways - 1, 0)):
        some = CensusCandidates(limited(problem, hop_blocks=most), FOREVER, Budget())
        assert len(some._grown(start.nodes, asked)) == hops, "two hops without a check have too many"


def test_a_check_of_another_rank_is_named_and_leaves_the_set_open(candidates: CensusCandidates, levels: Levels) -> None:
    sites = [site for site in leak_points(candidates.problem.seen, 2) if site.name == "readout"]
    (first,) = candidates._checks(sites, 2)
    assert candidates._checks(sites, 2, 1) == (), "its rank is clear: another says nothing"
    candidates.checks[2, "readout", 1] = first.check
    (second,) = candidates._checks(sites, 2, 1)
    assert (first.name, first.likeliest) == ("readout", True)
    assert (second.name, second.likeliest) == ("readout, its rank at gap 2 by size", False)
    assert second.condition.endswith("its rank at gap 2 by size")
    assert levels.start is not None
    whole = candidates._levels(levels.start, [(), (first,)])
    other = candidates._levels(levels.start, [(), (first._replace(likeliest=False),)])
    assert whole is not None and other is not None and whole.complete and not other.complete
