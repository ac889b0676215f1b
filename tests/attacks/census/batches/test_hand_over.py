"""How the searches of a batch hand over to each other: knowledge about one graph, what is left, and what is claimed."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from jgleak.attacks.attack import OUT_OF_TIME, Budget, Clock, Reconstruction
from jgleak.attacks.census.assemble import AnonymitySet, ExplainingGraph
from jgleak.attacks.census.attempted import Attempted
from jgleak.attacks.census.batches import batch
from jgleak.attacks.census.batches.answers import OTHERS
from jgleak.attacks.census.batches.members import Member
from jgleak.attacks.census.batches.parts import Part
from jgleak.attacks.census.candidates import Levels
from jgleak.attacks.census.problem import CensusProblem
from jgleak.attacks.census.starts import Start
from jgleak.attacks.certificate import Certificate
from jgleak.attacks.distance import MATCH
from jgleak.attacks.span.hops import Nodes
from jgleak.federated import Knowledge
from jgleak.federated.knowledge import Knowledge as Known
from jgleak.graph import Graph
from tests.clocks import HELD as FOREVER


@pytest.fixture(scope="module")
def problem(lab: Any) -> CensusProblem:
    """An update that is said to be of three graphs."""
    model = lab.model(readout="pooled", readout_widths=(64,), last_act=True)
    seen = lab.observe(model, lab.ring([0, 1, 2]))
    return CensusProblem.of(dataclasses.replace(seen, batch_size=3), Knowledge(lab.space, max_n=9))


def answer(graph: Graph, status: Any = "unique") -> Reconstruction:
    return Reconstruction((graph,), 0.0, "match", certificate=Certificate(status, 1, 9, False, 1e-7))


def test_of_sizes_that_differ_only_the_largest_bounds_one_graph(lab: Any) -> None:
    same, other = Known(lab.space, n=5, sizes=(5, 5)), Known(lab.space, sizes=(4, 7, 5))
    assert batch.of_each(same) is same and batch.of_each(Known(lab.space, max_n=8)).max_n == 8
    one = batch.of_each(other)
    assert (one.n, one.sizes, one.max_n) == (None, (), 7)


@pytest.mark.parametrize(
    ("number", "far", "left", "stop", "reason", "certified", "claimed"),
    [
        (3, MATCH, 1.0, "match", None, True, True),
        (3, 1.01 * MATCH, 1.0, "nothing assembled", None, False, False),
        (3, 1.01 * MATCH, -1.0, "time", None, False, False),
        (2, None, 1.0, "nothing assembled", "2 of 3 graphs were found; the head's gradient has rank 3", False, True),
        (2, None, -1.0, "time", "2 of 3 graphs were found; the head's gradient has rank 3", False, True),
        (4, None, 1.0, "nothing assembled", "4 of 3 graphs were found; the head's gradient has rank 3", False, False),
    ],
    ids=["all", "too far", "too far, late", "one is missing", "one is missing, late", "one too many"],
)
def test_a_batch_is_certified_where_all_graphs_have_its_gradient_together(
    number: int,
    far: float | None,
    left: float,
    stop: str,
    reason: str | None,
    certified: bool,
    claimed: bool,
    problem: CensusProblem,
    lab: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Where some are wrong, and it is not known which, no graph's list is claimed to be whole."""
    graphs = [lab.path([0, 1]), lab.path([1, 2]), lab.path([2, 3]), lab.path([3, 0])]
    answers = [answer(graph) for graph in graphs[:number]]
    monkeypatch.setattr(batch, "checked", lambda _, some: (list(some), far))
    clock = FOREVER if left > 0 else Budget(time_limit=0.0).start()
    made = batch._answered(problem, answers, {"rank": 3}, clock)
    assert (made.stop, made.info.get("reason"), made.gradient_distance) == (stop, reason, far)
    assert made.graphs == tuple(graphs[:number]) and made.info["found"] == number == len(made.members)
    assert (made.certificate is not None) == certified
    statuses = {one.certificate.status for one in made.members if one.certificate is not None}
    assert statuses == {"unique" if claimed else "at_least_k"}


def test_an_open_batch_says_whether_time_ended_it(problem: CensusProblem, lab: Any, monkeypatch: Any) -> None:
    answers = [answer(lab.path([0, k]), status) for k, status in enumerate(("unique", "at_least_k", "unique"))]
    monkeypatch.setattr(batch, "checked", lambda _, some: (list(some), 0.0))
    for clock, reason in ((FOREVER, None), (Budget(time_limit=0.0).start(), OUT_OF_TIME)):
        made = batch._answered(problem, answers, {}, clock)
        assert made.certificate is not None and made.certificate.status == "at_least_k"
        assert made.info.get("reason") == reason and made.stop == "match"
        closed = batch._answered(problem, [answers[0], *answers[:1], answers[2]], {}, clock)
        assert closed.certificate is not None and closed.certificate.status == "unique" and "reason" not in closed.info


def test_what_others_leave_is_one_graph_or_a_smaller_batch(problem: CensusProblem, lab: Any, monkeypatch: Any) -> None:
    graphs = [lab.ring([0, 1, 2]), lab.path([0, 1, 2])]
    asked = list[tuple[str, int]]()

    def single(left: Any, clock: Clock) -> Reconstruction:
        asked.append(("one", left.batch_size))
        return answer(graphs[0])

    def several(rest: CensusProblem, clock: Clock, budget: Budget, one: Any) -> Reconstruction:
        asked.append(("several", rest.observation.batch_size))
        return Reconstruction((graphs[0],), 0.0, "match", members=(answer(graphs[0]), answer(graphs[1])))

    monkeypatch.setattr(batch, "reconstructed", several)
    two = batch._others(problem, [answer(graphs[0]), answer(graphs[1])], FOREVER, Budget(), single)
    one = batch._others(problem, [answer(graphs[1])], FOREVER, Budget(), single)
    assert asked == [("one", 1), ("several", 2)] and (len(two), len(one)) == (1, 2)
    assert all(some.certificate is not None and some.certificate.conditions == (OTHERS,) for some in (*two, *one))
    masked = dataclasses.replace(problem, observation=dataclasses.replace(problem.observation, loss="masked_bce"))
    assert batch._others(masked, [answer(graphs[1])], FOREVER, Budget(), single) == [] and len(asked) == 2


def test_a_member_that_was_not_found_is_enumerated_where_it_may_be_small(
    problem: CensusProblem, lab: Any, monkeypatch: Any
) -> None:
    """All vectors occur in the batch, and need not in one of its graphs; the largest number is that of either bound."""
    graph, codes = lab.ring([0, 1, 2]), np.array([[0, 2, 0], [1, 2, 1]], np.int32)
    nodes = Nodes(codes, lab.space.encode(codes), np.array([2, 2]), certain=True)
    start, row = Start(nodes, ("said",), complete=True), np.zeros(128)
    found = AnonymitySet((ExplainingGraph(graph, 1e-7, graph.canonical_form()),), exhausted=True)
    asked = list[Nodes]()

    def enumerated(_: Any, some: Nodes, bounds: Any, clock: Clock) -> AnonymitySet:
        asked.append(some)
        assert bounds is None
        return found

    monkeypatch.setattr(batch, "enumerated", enumerated)
    monkeypatch.setattr(batch, "may_be_small", lambda _, some: some.degrees.size == 2)
    single = dataclasses.replace(problem, observation=dataclasses.replace(problem.observation, batch_size=1))
    rows: Any = object.__new__(batch._Rows)
    member = Member(single, Part(row, (1,), single.observation))
    taken = Member(single, Part(row, (0,), single.observation), Attempted(Levels(nodes, (), (), True), None, found, 9))
    rows.problem, rows.members, rows.known = problem, [member, taken], {}

    def certified(_: Any, one: Member, clock: Clock) -> Iterator[Reconstruction]:
        yield answer(one.found.graphs[0].graph)

    monkeypatch.setattr(batch, "certified", certified)
    assert len(rows.enumerated(start, FOREVER)) == 2 and len(asked) == 1
    assert not asked[0].certain and asked[0].codes is codes
    first, second = rows.members
    assert second is taken and first.answer is not None
    assert first.answer.levels == Levels(asked[0], (), ("said",), True) and first.answer.found is found
    assert first.answer.most == 9 and first.answer.solution is None
    assert problem.limits.enumerated_nodes == 12
    few = dataclasses.replace(nodes, codes=codes[:1], rows=nodes.rows[:1], degrees=nodes.degrees[:1])
    assert batch._enumerated(member, dataclasses.replace(start, nodes=few), FOREVER) is member


def test_each_row_gets_as_much_time_as_any_other_and_what_is_found_is_not_searched_again(
    problem: CensusProblem, lab: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A quarter of the time for each of three, and the last one for what follows; rows that masks show are not looked
    for along rays."""
    graphs, now, spent = [lab.path([0, 1]), lab.path([1, 2]), lab.path([2, 3])], [0.0], list[tuple[int, float]]()
    rows = object.__new__(batch._Rows)
    rows.problem, rows.known = problem, {}
    rows.members = [Member.of(problem, Part(np.full(1, float(k)), (1,), problem.observation)) for k in range(3)]
    monkeypatch.setattr("jgleak.attacks.attack.time", SimpleNamespace(monotonic=lambda: now[0]))

    def taken(member: Member, levels: Levels, _: Any, clock: Clock) -> Member:
        place = int(member.part.row[0])
        spent.append((place, clock.left))
        now[0] += clock.left
        found = ExplainingGraph(graphs[place], 0.0, graphs[place].canonical_form())
        return dataclasses.replace(member, answer=Attempted(levels, None, AnonymitySet((found,) * (place == 1)), 2))

    monkeypatch.setattr(batch, "root_states", lambda *_: np.zeros((0, 1)))
    monkeypatch.setattr(batch, "taken", taken)
    monkeypatch.setattr(batch, "certified", lambda _, member, __: iter([answer(member.found.graphs[0].graph)]))
    levels = Levels(Nodes(np.zeros((1, 1), int), np.zeros((1, 1)), np.zeros(1, int)), (), (), complete=True)
    for places in ((0, 1, 2), (0, 2)):
        spent.clear()
        now[0] = 0.0
        found = rows.answers(levels, Clock(0.0, 100.0))
        assert [one.graphs for one in found] == [(graphs[1],)]
        assert tuple(place for place, _ in spent) == places
        if len(places) == 3:
            np.testing.assert_allclose([share for _, share in spent], 25.0)
    monkeypatch.setattr(batch, "root_states", lambda *_: None)
    assert rows.answers(levels, Clock(0.0, 100.0)) == []
