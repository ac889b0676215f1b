"""What settled neighbourhoods leave open, against every simple graph with the same degrees."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

from jgleak.attacks.attack import Budget
from jgleak.attacks.grain.distinct import _Board, _completions
from jgleak.attacks.span.hops import Nodes

FOREVER = Budget(time_limit=1e6).start()


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
