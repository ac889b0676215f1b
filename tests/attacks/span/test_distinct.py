"""What settled neighbourhoods leave open, against every simple graph with the same degrees."""

from __future__ import annotations

import dataclasses
from itertools import combinations, product
from typing import Any, cast

import jax
import numpy as np
import pytest

from jgleak.attacks.attack import Budget, Clock
from jgleak.attacks.span import distinct as module
from jgleak.attacks.span.combinations import Slot, total
from jgleak.attacks.span.distinct import Board, completions, graph_of, narrow
from jgleak.attacks.span.filter import FoundBlocks
from jgleak.attacks.span.hops import Nodes
from jgleak.attacks.span.ranges import Unsearched
from jgleak.attacks.span.settings import LIMITS
from jgleak.federated import Observation
from tests.clocks import HELD as FOREVER
from tests.clocks import Ticking


def board(degrees: tuple[int, ...], settled: dict[int, frozenset[int]]) -> Board:
    """Nodes that certainly occur."""
    codes = np.arange(len(degrees))[:, None]
    return Board(Nodes(codes, codes.astype(float), np.array(degrees), certain=True), settled)


def simple_graphs(degrees: tuple[int, ...]) -> set[frozenset[tuple[int, int]]]:
    """All of them with these degrees."""
    pairs = list(combinations(range(len(degrees)), 2))
    found = set()
    for chosen in combinations(pairs, sum(degrees) // 2):
        ends = [v for edge in chosen for v in edge]
        if all(ends.count(v) == degree for v, degree in enumerate(degrees)):
            found.add(frozenset(chosen))
    return found


@pytest.mark.parametrize("degrees", [(1, 1), (2, 2, 2), (2, 2, 2, 2), (1, 2, 2, 1), (3, 2, 2, 2, 1), (1, 1, 1, 3)])
def test_open_nodes_are_joined_in_every_way_that_their_degrees_allow(degrees: tuple[int, ...]) -> None:
    found = [frozenset(edges) for edges in completions(board(degrees, {}), FOREVER)]
    assert set(found) == simple_graphs(degrees) and len(found) == len(set(found)), "each once"


def test_a_search_without_any_completion_ends_with_the_clock() -> None:
    """Degrees of an odd sum: no graph has them, and the ways to see that are many."""
    clock = Ticking(0.0, 100.0)
    assert list(completions(board((5, 5, 5, *[1] * 16), {}), clock)) == [set()]
    assert 100 <= clock.ticks < 130


def test_settled_neighbourhoods_are_kept() -> None:
    """Node 0 has the neighbours 1 and 2; what is open joins 1, 2 and 3 to their degrees."""
    degrees, known = (2, 2, 2, 2), {0: frozenset({1, 2})}
    wanted = {graph for graph in simple_graphs(degrees) if {edge for edge in graph if 0 in edge} == {(0, 1), (0, 2)}}
    assert {frozenset(edges) for edges in completions(board(degrees, known), FOREVER)} == wanted
    no_way = board((1, 1, 1), {0: frozenset({1})})
    assert list(completions(no_way, FOREVER)) == [{(0, 1)}]


def test_what_the_others_leave_one_candidate_is_settled_and_settles_more() -> None:
    """Three pairs: 1 and 3 are one, so 0 belongs to 2, and 4, which is looked at before 0, to 5."""
    known = board((1,) * 6, {1: frozenset({3}), 3: frozenset({1})})
    known.tried.update({4: (frozenset({0}), frozenset({5})), 0: (frozenset({1}), frozenset({2})), 5: ()})
    narrow(known)
    assert known.settled == {1: {3}, 3: {1}, 0: {2}, 4: {5}}
    assert known.tried == {4: ({5},), 0: ({2},), 5: ()}


def test_mixtures_of_settled_nodes_are_left_out() -> None:
    """3 is 0 with what tells 1 from 2; 4 has a column of its own; 5 is zero. None is, if that is not asked, while
    nothing is settled, or where a settled node has it as a neighbour."""
    rows = np.array([[1, 1, 0, 0, 0], [1, 0, 1, 0, 0], [0, 0, 1, 1, 0], [0, 1, 0, 1, 0], [1, 1, 0, 0, 1], [0] * 5])
    nodes = Nodes(rows, 7.0 * rows, np.full(6, 2))

    def mixed(settled: dict[int, frozenset[int]], **fields: Any) -> Board:
        some = Board(nodes, settled, **{"mixed": frozenset[int](), **fields})
        some.mix()
        return some

    three = {0: frozenset({1}), 1: frozenset({0}), 2: frozenset({4})}
    known = mixed(three)
    assert known.mixed == {3, 5} and known.free.tolist() == [4]
    assert [known.reached(v) for v in (3, 4)] == [False, True]
    assert mixed(three | {2: frozenset({3})}).mixed == {5} and mixed({}).mixed == frozenset()
    assert mixed({0: frozenset({1}), 2: frozenset({4})}).mixed == {5}, "two do not add up to it"
    assert mixed(three, mixed=None).mixed is None
    assert known.restricted and not mixed({}).restricted
    known.tried[3] = (frozenset({1}), frozenset({2}))
    assert not known.real(3) and mixed(three, mixed=None, tried=known.tried).real(3)


def test_several_candidates_that_nothing_contradicts_stay() -> None:
    known = board((1,) * 4, {})
    known.tried[0] = (frozenset({1}), frozenset({2}))
    narrow(known)
    assert not known.settled and known.tried == {0: ({1}, {2})}


def test_slots_are_the_neighbours_that_settled_nodes_leave() -> None:
    """Node 0 is settled with 1 and 2; 3 has one neighbour, 4 two, and 5 none."""
    known = board((2, 1, 2, 1, 2, 0), {0: frozenset({1, 2})})
    assert known.open == [1, 2, 3, 4, 5]
    assert [sorted(known.certain(v)) for v in range(6)] == [[], [0], [0], [], [], []]

    def told(v: int) -> list[tuple[list[int], int]] | None:
        slots = known.slots(v, known.free)
        return None if slots is None else [(slot.options.tolist(), slot.count) for slot in slots]

    assert told(1) == [([0], 1)], "it has its neighbour"
    assert told(2) == [([0], 1), ([3, 4], 1)], "1 has no place left, and 5 never had one"
    assert told(3) == [([2, 4], 1)] and told(4) == [([2, 3], 2)] and told(5) == []
    many = board((1, 1, 1), {0: frozenset({2}), 1: frozenset({2})})
    assert many.slots(2, many.free) is None, "two settled nodes have it, and it has one neighbour"
    few = board((2, 2, 1), {0: frozenset({2})})
    assert few.slots(1, few.free) is None, "nobody is left for it"
    exact = board((1, 1), {})
    assert [(slot.options.tolist(), slot.count) for slot in exact.slots(0, exact.free) or ()] == [([1], 1)]


def test_nodes_are_real_where_all_are_or_a_neighbour_or_a_neighbourhood_of_theirs_is_seen() -> None:
    codes = np.arange(4)[:, None]
    some = Board(Nodes(codes, codes.astype(float), np.array([1, 1, 1, 1])), {0: frozenset({1})})
    some.tried.update({0: (frozenset({1}),), 2: (frozenset({3}), frozenset({1})), 3: ()})
    assert [some.real(v) for v in range(4)] == [True, True, True, False]
    assert all(board((1, 1), {}).real(v) for v in range(2))


def test_a_neighbourhood_agrees_with_settled_nodes_in_both_ways() -> None:
    known = board((1, 2, 2, 1), {0: frozenset({1}), 3: frozenset({2})})
    for v, around, agrees in (
        (1, {0, 2}, True),
        (1, {2}, False),  # 0 says that it is a neighbour
        (1, {0, 3}, False),  # 3 says that it is none
        (2, {3, 1}, True),
        (2, {3}, True),
        (2, {0, 3}, False),
    ):
        assert known.agrees(v, frozenset(around)) is agrees


def test_a_graph_has_the_nodes_that_are_linked_or_real_in_their_order() -> None:
    codes = 10 * np.arange(5)[:, None]
    some = Board(Nodes(codes, codes.astype(float), np.ones(5, int)), {})
    some.tried[4] = (frozenset({1}),)
    found = graph_of(some, {(1, 3)})
    assert found.x.ravel().tolist() == [10, 30, 40] and found.edges.tolist() == [[0, 1]]
    some.tried.clear()
    assert graph_of(some, set()).x.ravel().tolist() == [0, 10, 20, 30, 40], "where none is, all are"


class Spans:
    """A filter that passes the neighbourhoods of a list; of a node that is ``cut`` it leaves candidates out."""

    def __init__(self, known: Board, passing: dict[int, set[frozenset[int]]], cut: int | None = None) -> None:
        self.known, self.passing, self.cut, self.asked = known, passing, cut, dict[int, int]()

    def blocks(self, requests: list[tuple[int, list[Slot]]], **bounds: Any) -> FoundBlocks:
        assert bounds["limits"] is LIMITS and bounds["budget"] == Budget() and bounds["clock"].left > 0
        ((v, slots),) = requests
        ways = product(*(combinations(slot.options.tolist(), slot.count) for slot in slots))
        candidates = [frozenset(u for part in way for u in part) for way in ways]
        self._first(v, len(candidates))
        self.asked[v] = len(candidates)
        found = tuple(tuple(sorted(one)) for one in candidates if one in self.passing[v])
        left = (Unsearched(v, (0, 1), (0, 1), 1),) if v == self.cut else ()
        empty = np.zeros(len(found))
        return FoundBlocks(np.full(len(found), v), found, empty[:, None], empty, len(candidates), left)

    def _first(self, v: int, candidates: int) -> None:
        """No node that waits has fewer candidates."""
        waiting = [u for u in range(len(self.passing)) if u not in self.asked]
        others = [(total(self.known.slots(u, self.known.free) or [], distinct=True), u) for u in waiting]
        assert (candidates, v) == min(one for one in others if self.known.slots(one[1], self.known.free) is not None)


def settled(
    lab: Any, monkeypatch: Any, known: Board, spans: Spans, clock: Clock = FOREVER, checks: tuple[str, ...] = ("node",)
) -> int:
    model = lab.model(layers=2, hidden=4, readout_widths=(3,))
    shapes = jax.eval_shape(lambda: model.initial(key=jax.random.key(0)))
    params = jax.tree.map(lambda leaf: np.ones(leaf.shape, leaf.dtype), shapes)
    monkeypatch.setattr(module, "encoded", lambda *_: np.zeros((known.nodes.degrees.size, 1)))
    first = params["layers_0"]
    fixed = np.zeros((known.nodes.degrees.size, 2))
    monkeypatch.setattr(module, "fixed_rows", lambda *_: fixed)

    def filtering(_: Any, weights: Any, *__: Any, fixed: Any, distinct: bool) -> Spans:
        assert weights is first and distinct and fixed.shape[1] == 2
        return spans

    monkeypatch.setattr(module, "BlockFilter", filtering)
    given = known, Observation(model, params, params, "bce"), checks, LIMITS, clock, Budget()
    return cast(Any, module.settle).__wrapped__(*given)


PETAL = {0: {1, 2, 3}, 1: {0, 2}, 2: {0, 1}, 3: {0, 4}, 4: {3}}
"""A hub, whose candidates are most, with a triangle and a tail."""


def test_the_fewest_candidates_are_looked_at_first_and_settle_the_others(lab: Any, monkeypatch: Any) -> None:
    """Around nodes 1 and 2, which are alike, a wrong neighbourhood passes as well until others are settled."""
    degrees = tuple(len(around) for around in PETAL.values())
    passing = {v: {frozenset(around)} for v, around in PETAL.items()}
    passing[1].add(frozenset({3, 4}))
    known = board(degrees, {})
    spans = Spans(known, passing)
    checked = settled(lab, monkeypatch, known, spans)
    assert known.settled == {v: frozenset(around) for v, around in PETAL.items()}
    assert set(spans.asked) == set(PETAL) and checked == sum(spans.asked.values())
    assert spans.asked[0] == 4 and spans.asked[4] == 1, "a hub of many candidates, and a leaf that is known by then"


def test_a_node_of_two_candidates_is_settled_as_soon_as_the_others_exclude_one(lab: Any, monkeypatch: Any) -> None:
    """The hub, which is asked first, may have the tail's end in the place of its middle, until that end is settled."""
    passing = {v: {frozenset(around)} for v, around in PETAL.items()}
    passing[0].add(frozenset({1, 2, 4}))
    known = board(tuple(len(around) for around in PETAL.values()), {})
    settled(lab, monkeypatch, known, Spans(known, passing))
    assert known.settled == {v: frozenset(around) for v, around in PETAL.items()}
    assert known.tried[0] in ((frozenset({1, 2, 3}),), (frozenset({1, 2, 3}), frozenset({1, 2, 4})))


def test_what_the_filter_did_not_finish_or_the_settled_contradict_is_left_open(lab: Any, monkeypatch: Any) -> None:
    passing = {v: {frozenset(around)} for v, around in PETAL.items()}
    known = board(tuple(len(around) for around in PETAL.values()), {})
    checked = settled(lab, monkeypatch, known, Spans(known, passing, cut=3))
    assert 3 not in known.tried and 3 not in known.settled and set(known.settled) == {0, 1, 2, 4} and checked > 0
    late = board((1, 1), {})
    assert settled(lab, monkeypatch, late, Spans(late, passing), Clock(0.0, 0.0)) == 0 and not late.settled
    torn = board((1, 1, 1, 1), {})  # 0 and 1 both say that 2, which has one neighbour, is theirs
    wrong = {0: {frozenset({2})}, 1: {frozenset({2})}, 2: {frozenset({3})}, 3: {frozenset({2})}}
    spans = Spans(torn, wrong)
    settled(lab, monkeypatch, torn, spans)
    assert torn.settled[0] == {2} and 2 not in torn.settled
    few = board((2, 2, 1), {0: frozenset({2})})  # nobody is left for node 1
    spans = Spans(few, {1: set(), 2: {frozenset({0})}})
    monkeypatch.setattr(Spans, "_first", lambda *_: None)
    settled(lab, monkeypatch, few, spans)
    assert set(spans.asked) == {2}
    assert settled(lab, monkeypatch, few, spans, checks=()) == 0 and set(spans.asked) == {2}


def test_a_node_that_need_not_occur_waits_for_a_settled_neighbour(lab: Any, monkeypatch: Any) -> None:
    """Nodes 3 and 4, an edge of their own that passes by accident, are not looked at: only 0 certainly occurs."""
    around = {0: {1, 2}, 1: {0, 2}, 2: {0, 1}, 3: {4}, 4: {3}}
    passing = {v: {frozenset(one)} for v, one in around.items()}
    known = board((2, 2, 2, 1, 1), {})
    known.nodes, known.occurring = dataclasses.replace(known.nodes, certain=False), frozenset({0})
    asked = list[int]()

    class Asked(Spans):
        def blocks(self, requests: list[tuple[int, list[Slot]]], **_: Any) -> FoundBlocks:
            ((v, _slots),) = requests
            asked.append(v)
            found = tuple(tuple(sorted(one)) for one in passing[v])
            empty = np.zeros(1)
            return FoundBlocks(np.full(1, v), found, empty[:, None], empty, 1, ())

    settled(lab, monkeypatch, known, Asked(known, passing))
    assert asked[0] == 0 and set(known.settled) == {0, 1, 2} and known.open == [3, 4]
    assert [known.real(v) for v in range(5)] == [True, True, True, False, False]
    known.settled.clear()
    known.tried.clear()
    assert known.real(0) and known.reached(0) and not known.reached(1), "it occurs, whatever was found of it"
    known.absent = frozenset({3})
    assert known.open == [0, 1, 2, 4]
    assert [slot.options.tolist() for slot in known.slots(0, known.free) or ()] == [[1, 2, 4]]


def test_nodes_with_candidates_are_not_checked_again(lab: Any, monkeypatch: Any) -> None:
    passing = {v: {frozenset(around)} for v, around in PETAL.items()}
    known = board(tuple(len(around) for around in PETAL.values()), {})
    known.tried.update({1: (frozenset({0, 2}), frozenset({2, 3})), 4: ()})
    spans = Spans(known, passing)
    monkeypatch.setattr(Spans, "_first", lambda *_: None)
    settled(lab, monkeypatch, known, spans)
    assert 1 not in spans.asked and 4 in spans.asked and known.settled[1] == {0, 2}


def test_open_nodes_with_candidates_have_one_of_them() -> None:
    """Of the three rings of four, two give node 0 one of its candidates, and one of these node 1."""
    known = board((2, 2, 2, 2), {})
    known.tried[0] = (frozenset({1, 2}), frozenset({1, 3}))
    rings = {edges for edges in simple_graphs((2, 2, 2, 2)) if (0, 1) in edges}
    assert {frozenset(edges) for edges in completions(known, FOREVER)} == rings and len(rings) == 2
    known.tried.update({1: (frozenset({0, 2}),), 2: ()})
    ((ring,)) = [frozenset(edges) for edges in completions(known, FOREVER)]
    assert ring == {(0, 1), (1, 2), (2, 3), (0, 3)}


def test_nodes_that_may_not_occur_are_not_joined() -> None:
    """Two of four have candidates; the others passed the node filter by accident, as far as is seen."""
    codes = np.arange(4)[:, None]
    some = Board(Nodes(codes, codes.astype(float), np.ones(4, int)), {})
    some.tried.update({0: (frozenset({1}),), 1: (frozenset({0}),)})
    assert list(completions(some, FOREVER)) == [{(0, 1)}]
