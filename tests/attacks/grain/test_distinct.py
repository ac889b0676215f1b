"""What settled neighbourhoods leave open, against every simple graph with the same degrees."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

from jgleak.attacks.grain.distinct import _Board, _completions, _narrow
from jgleak.attacks.span.hops import Nodes
from tests.clocks import HELD as FOREVER


def board(degrees: tuple[int, ...], settled: dict[int, frozenset[int]]) -> _Board:
    """Nodes that certainly occur."""
    codes = np.arange(len(degrees))[:, None]
    return _Board(Nodes(codes, codes.astype(float), np.array(degrees), certain=True), settled)


def simple_graphs(degrees: tuple[int, ...]) -> set[frozenset[tuple[int, int]]]:
    """All of them with these degrees."""
    pairs = list(combinations(range(len(degrees)), 2))
    found = set()
    for chosen in combinations(pairs, sum(degrees) // 2):
        ends = [v for edge in chosen for v in edge]
        if all(ends.count(v) == degree for v, degree in enumerate(degrees)):
            found.add(frozenset(chosen))
    return found


@pytest.mark.parametrize("degrees", [(1, 1), (2, 2, 2), (1, 2, 2, 1), (3, 2, 2, 2, 1), (1, 1, 1, 3)])
def test_open_nodes_are_joined_in_every_way_that_their_degrees_allow(degrees: tuple[int, ...]) -> None:
    assert {frozenset(edges) for edges in _completions(board(degrees, {}), FOREVER)} == simple_graphs(degrees)


def test_settled_neighbourhoods_are_kept() -> None:
    """Node 0 has the neighbours 1 and 2; what is open joins 1, 2 and 3 to their degrees."""
    degrees, known = (2, 2, 2, 2), {0: frozenset({1, 2})}
    wanted = {graph for graph in simple_graphs(degrees) if {edge for edge in graph if 0 in edge} == {(0, 1), (0, 2)}}
    assert {frozenset(edges) for edges in _completions(board(degrees, known), FOREVER)} == wanted
    no_way = board((1, 1, 1), {0: frozenset({1})})
    assert list(_completions(no_way, FOREVER)) == [{(0, 1)}]


def test_what_the_others_leave_one_candidate_is_settled_and_settles_more() -> None:
    """Three pairs: 1 and 3 are one, so 0 belongs to 2, and 4, which is looked at before 0, to 5."""
    known = board((1,) * 6, {1: frozenset({3}), 3: frozenset({1})})
    known.tried.update({4: (frozenset({0}), frozenset({5})), 0: (frozenset({1}), frozenset({2})), 5: ()})
    _narrow(known)
    assert known.settled == {1: {3}, 3: {1}, 0: {2}, 4: {5}}
    assert known.tried == {4: ({5},), 0: ({2},), 5: ()}


def test_several_candidates_that_nothing_contradicts_stay() -> None:
    known = board((1,) * 4, {})
    known.tried[0] = (frozenset({1}), frozenset({2}))
    _narrow(known)
    assert not known.settled and known.tried == {0: ({1}, {2})}
