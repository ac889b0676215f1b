"""Nodes that all differ and state no degree: which sets are tried when, what decides, and whole graphs."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain, combinations
from types import SimpleNamespace
from typing import Any, ClassVar

import jax
import networkx as nx
import numpy as np
import pytest
from models import flat, some_params

from jgleak.attacks.attack import Budget, Clock
from jgleak.attacks.grain.candidates import CHECKS
from jgleak.attacks.registry import get_attack
from jgleak.attacks.span import any_degree
from jgleak.attacks.span.any_degree import Passing, Settling, applies, joined, settle_any_degree, vectors
from jgleak.attacks.span.distinct import Board
from jgleak.attacks.span.hops import Nodes
from jgleak.attacks.span.levels import block_checks, find_nodes
from jgleak.attacks.span.settings import LIMITS
from jgleak.features import FeatureSpace, onehot
from jgleak.federated import Knowledge, Observation, fedsgd
from jgleak.graph import Graph
from tests.clocks import HELD

KINDS = 12
SPACE = FeatureSpace((onehot("kind", range(KINDS)),))
KNOWN = Knowledge(SPACE, distinct_nodes=True)
MIXED = [(0, 1), (0, 2), (1, 2), (2, 3), (3, 4), (3, 5), (3, 6), (3, 7), (7, 8)]
"""A triangle, two of whose nodes have no other neighbour; a hub."""
CLIQUE: list[tuple[int, int]] = list(combinations(range(5), 2))


def graph(edges: Sequence[tuple[int, int]], n: int) -> Graph:
    return Graph(np.arange(n, dtype=np.int32)[:, None], np.array(edges, np.int64).reshape(-1, 2), 1)


def observed(one: Graph, conv: str = "gat", **fields: Any) -> Observation:
    model = flat(in_features=KINDS, hidden=128, conv=conv, readout_widths=(300, 64), **fields)
    return fedsgd(model, some_params(model), [one], SPACE, loss="bce")


def empty(n: int) -> Board:
    return Board(Nodes(np.arange(n)[:, None], np.eye(n), np.zeros(n, np.int64)))


def settled_of(edges: list[tuple[int, int]], *nodes: int) -> dict[int, frozenset[int]]:
    return {v: frozenset(u + w - v for u, w in edges if v in (u, w)) for v in nodes}


def test_it_is_for_unstated_degrees_that_no_neighbour_is_weighed_by(lab: Any) -> None:
    one = graph([(0, 1)], 2)
    assert applies(observed(one), KNOWN) and not applies(observed(one, "gcn"), KNOWN)
    assert not applies(lab.observe(lab.model(), lab.path([0, 1])), Knowledge(lab.space, distinct_nodes=True))


def test_every_vector_is_one_node_whatever_degrees_were_tried() -> None:
    one = graph(MIXED, 9)
    nodes = find_nodes(observed(one), KNOWN, clock=HELD)
    assert nodes.degrees.size == 9 * (LIMITS.unknown_degree + 1)
    alone = vectors(nodes, SPACE)
    np.testing.assert_array_equal(alone.codes, one.x)
    np.testing.assert_array_equal(alone.rows, SPACE.encode(one.x))
    assert alone.degrees.tolist() == [0] * 9


def test_slots_are_what_the_settled_nodes_leave() -> None:
    board = empty(5)
    board.settled = {0: frozenset({1, 2})}
    settling = Settling(board, 4, connected=True, same=1e-3)

    def told(v: int, size: int) -> Any:
        slots = settling.slots(v, size)
        return None if slots is None else [(slot.options.tolist(), slot.count) for slot in slots]

    assert told(1, 1) == [([0], 1)] and told(1, 2) == [([0], 1), ([2, 3, 4], 1)]
    assert told(1, 0) is None and told(1, 4) == [([0], 1), ([2, 3, 4], 3)] and told(1, 5) is None
    assert told(3, 1) == [([1, 2, 4], 1)] and told(3, 4) is None


def test_the_fewest_sets_come_first_and_large_ones_last(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of five nodes there are four sets of one and six of two; those of three and four count as six as well."""
    settling = Settling(empty(5), 4, connected=True, same=1e-3)
    assert settling.next(4) == (1, [0, 1, 2, 3, 4]) and settling.next(3) is None
    for v in range(5):
        settling.left[v].discard(1)
    assert settling.next(5) is None and settling.next(6) == (2, [0, 1, 2, 3, 4])
    settling.board.settled = {0: frozenset({1})}  # one of three for 1, two of three for the others
    settling.left = {1: {2, 4}, 2: {2}, 3: {2, 3}, 4: {4}}
    assert settling.next(3) == (2, [1, 2, 3]), "four are too many for 4, and one way is left to 1"
    monkeypatch.setattr(any_degree, "TOGETHER", 2)
    settling.left[1] = {3}
    assert settling.next(3) == (2, [2, 3]) and settling.next(2) is None
    apart = Settling(empty(3), 2, connected=False, same=1e-3)
    assert apart.next(1) == (0, [0, 1, 2]), "of one set each, the empty one"


def passing(around: set[int], *state: float) -> Passing:
    return Passing(frozenset(around), np.array(state))


def of_states(n: int, passed: dict[int, list[Passing]]) -> Settling:
    settling = Settling(empty(n), n - 1, connected=True, same=1e-3)
    settling.passed |= passed
    return settling


def test_a_state_that_other_nodes_may_have_decides_nothing() -> None:
    settling = of_states(
        5,
        {
            0: [passing({1, 2}, 1.0, 0.0)],
            1: [passing({0, 2}, 1.0, 9e-4)],
            3: [passing({2}, 0.0, 1.0)],
            4: [passing({2}, 2.0, 2.0), passing({1, 2}, 2.0, 0.5)],
        },
    )
    assert settling.settle() and settling.board.settled == {3: frozenset({2})} and not settling.settle()
    assert len(settling.board.tried[4]) == 2, "of two clear ones none is chosen"


def test_a_state_of_a_settled_node_is_not_looked_for_again() -> None:
    """0 and 1 are alike: once the state is that of one, nothing says that it is the other's, nor that it is not."""
    settling = of_states(3, {0: [passing({1, 2}, 1.0, 0.0)], 1: [passing({0, 2}, 1.0, 0.0)]})
    settling.board.settled = {0: frozenset({1, 2})}
    assert not settling.settle() and settling.settle_doubtful() and settling.board.settled[1] == {0, 2}
    assert settling.board.tried[1] == (frozenset({0, 2}),) and not settling.settle_doubtful()


def test_what_settled_nodes_exclude_does_not_count() -> None:
    """0 may not have 1, whose neighbour is another; then the state is that of 3."""
    settling = of_states(5, {0: [passing({1}, 1.0, 0.0)], 3: [passing({4}, 1.0, 0.0)]})
    assert not settling.settle()
    settling.board.settled = {1: frozenset({2})}
    assert settling.settle() and settling.board.settled[3] == {4} and 0 not in settling.board.settled


def test_every_state_is_some_node_s() -> None:
    """A hub and its leaves see the same of each other, and all of them may have the hub's neighbourhood: then no node
    would have the states of the pairs."""
    star = frozenset(range(4))
    pairs = {leaf: passing({0}, float(leaf), 0.0) for leaf in (1, 2, 3)}
    hub = {v: passing(set(star - {v}), 0.0, 1.0) for v in star}
    passed = {0: [*(passing({leaf}, float(leaf), 0.0) for leaf in (1, 2, 3)), hub[0]]}
    settling = of_states(4, passed | {leaf: [pairs[leaf], hub[leaf]] for leaf in (1, 2, 3)})
    assert not settling.settle() and settling.settle_doubtful()
    assert settling.board.settled == {0: star - {0}, 1: frozenset({0}), 2: frozenset({0}), 3: frozenset({0})}


def test_too_many_choices_are_left(monkeypatch: pytest.MonkeyPatch) -> None:
    passed = {0: [passing({2}, 1.0, 0.0)], 1: [passing({3}, 1.0, 0.0), passing({4}, 0.0, 1.0)]}
    for steps, settled in ((1, {0}), (3, {0, 1})):
        monkeypatch.setattr(any_degree, "STEPS", steps)
        settling = of_states(5, passed)
        assert settling.settle_doubtful() and set(settling.board.settled) == settled


@pytest.mark.parametrize("conv", ["gat", "sage", "gin"])
@pytest.mark.parametrize(("edges", "n"), [(MIXED, 9), ([(0, 1)], 2), (CLIQUE, 5)])
def test_neighbourhoods_are_settled(edges: list[tuple[int, int]], n: int, conv: str) -> None:
    """Of a graph with a triangle and a hub, a pair, and five nodes that are all neighbours."""
    one = graph(edges, n)
    seen, board = observed(one, conv), empty(n)
    board.nodes = vectors(find_nodes(seen, KNOWN, clock=HELD), SPACE)
    checks = block_checks(seen, KNOWN, 1, CHECKS)
    checked = settle_any_degree(board, seen, KNOWN, checks, LIMITS, HELD, Budget())
    true = settled_of(edges, *range(n))
    assert checked and all(true[v] == around for v, around in board.settled.items())
    assert frozenset(edges) in set(joined(board, HELD, connected=True)), "what spans lost is left open"
    if n == 9:
        assert 3 in board.settled and (conv != "sage" or len(board.settled) == n), "it tells nodes from neighbours"


def test_no_time_no_check_and_no_other_node_settle_nothing() -> None:
    seen = observed(graph(MIXED, 9))
    checks = block_checks(seen, KNOWN, 1, CHECKS)
    for number, some, clock in ((9, checks, Clock(0.0, 0.0)), (9, [], HELD), (1, checks, HELD)):
        board = empty(number)
        assert settle_any_degree(board, seen, KNOWN, some, LIMITS, clock, Budget()) == 0 and not board.settled


class Filter:
    """A filter that passes what it is told, and writes down what it is asked."""

    asked: ClassVar[list[tuple[int, int]]] = []
    passes: ClassVar[dict[int, list[set[int]]]] = {}
    complete = True

    def __init__(self, *_: Any, **__: Any) -> None:
        pass

    def blocks(self, requests: list[Any], **_: Any) -> Any:
        ((v, slots),) = requests
        size = sum(slot.count for slot in slots)
        Filter.asked.append((v, size))
        some = [tuple(sorted(around)) for around in Filter.passes.get(v, []) if len(around) == size]
        states = np.array([[float(v), *around, *([-1] * (9 - size))] for around in some]).reshape(-1, 10)
        return SimpleNamespace(neighbours=tuple(some), states=states, complete=self.complete, checked=1)


def asked_of(
    monkeypatch: pytest.MonkeyPatch, board: Board, complete: bool = True, **known: Any
) -> set[tuple[int, int]]:
    """What is asked around nodes of a graph, of which all neighbourhoods pass."""
    seen = observed(graph(MIXED, 9))
    monkeypatch.setattr(any_degree, "BlockFilter", Filter)
    monkeypatch.setattr(Filter, "asked", [])
    monkeypatch.setattr(Filter, "complete", complete)
    monkeypatch.setattr(Filter, "passes", {v: [set(u)] for v, u in settled_of(MIXED, *range(9)).items()})
    told = Knowledge(SPACE, distinct_nodes=True, **known)
    checks = block_checks(seen, KNOWN, 1, CHECKS)
    assert settle_any_degree(board, seen, told, checks, LIMITS, HELD, Budget()) == len(Filter.asked)
    return set(Filter.asked)


def nine() -> Board:
    board = empty(9)
    board.nodes = vectors(find_nodes(observed(graph(MIXED, 9)), KNOWN, clock=HELD), SPACE)
    return board


@pytest.mark.parametrize(
    ("known", "least", "most"),
    [({}, 1, 5), ({"max_degree": 2}, 1, 2), ({"n": 4}, 1, 3), ({"max_n": 3}, 1, 2), ({"connected": False}, 0, 5)],
)
def test_sizes_are_those_that_are_known_to_be_possible(
    known: dict[str, Any], least: int, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    board = nine()
    sizes = {size for _, size in asked_of(monkeypatch, board, **known)}
    assert min(sizes) == least and (most in sizes if most == 5 else max(sizes) == most)
    assert (3 in board.settled) == (most == 5) and board.settled[4] == {3}


def test_what_the_filter_did_not_finish_settles_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    board = nine()
    assert asked_of(monkeypatch, board, complete=False) and not board.settled


def test_checks_that_exclude_too_little_settle_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Too many vectors, of which no pairs are joined either; or too many passes, after which no more is checked."""
    monkeypatch.setattr(any_degree, "MOST_VECTORS", 8)
    board = nine()
    assert not asked_of(monkeypatch, board) and list(joined(board, HELD, connected=False)) == [frozenset()]
    monkeypatch.setattr(any_degree, "MOST_VECTORS", 9)
    monkeypatch.setattr(any_degree, "MOST_PASSES", 3)
    assert {size for _, size in asked_of(monkeypatch, nine())} == {1}, "five of them passed"


def test_states_are_alike_within_the_checks_tolerance_but_never_all(monkeypatch: pytest.MonkeyPatch) -> None:
    made = list[float]()
    plain = Settling.__init__

    def kept(settling: Settling, board: Board, most: int, connected: bool, same: float) -> None:
        made.append(same)
        plain(settling, board, most, connected, same)

    monkeypatch.setattr(Settling, "__init__", kept)
    seen = observed(graph(MIXED, 9))
    (tolerance,) = (check.subspace.tolerance for check in block_checks(seen, KNOWN, 1, CHECKS))
    asked_of(monkeypatch, nine())
    monkeypatch.setattr(any_degree, "SAME", 1e9)
    asked_of(monkeypatch, nine())
    assert made == [pytest.approx(2 * tolerance), 0.1]


def all_graphs(must: set[tuple[int, int]], pairs: list[tuple[int, int]]) -> set[frozenset[tuple[int, int]]]:
    some = chain.from_iterable(combinations(pairs, k) for k in range(len(pairs) + 1))
    return {frozenset(must.union(more)) for more in some}


def test_open_nodes_are_joined_in_every_way() -> None:
    """The smallest sets first; where the graph is connected, only those in which it is."""
    board = empty(5)
    board.settled = {0: frozenset({1, 2}), 4: frozenset({3})}
    must, pairs = {(0, 1), (0, 2), (3, 4)}, [(1, 2), (1, 3), (2, 3)]
    found = list(joined(board, HELD, connected=False))
    assert len(found) == len(set(found)) and set(found) == all_graphs(must, pairs)
    assert [len(edges) for edges in found] == sorted(len(edges) for edges in found)
    whole = set(joined(board, HELD, connected=True))
    assert whole == {edges for edges in found if nx.is_connected(nx.Graph(list(edges)))} and len(whole) == 6


def test_the_settled_edges_are_joined_where_nothing_else_is() -> None:
    """No connected graph, no time, or no edge at all."""
    board = empty(4)
    board.settled = {v: frozenset({v ^ 1}) for v in range(4)}
    apart = frozenset({(0, 1), (2, 3)})
    assert list(joined(board, HELD, connected=True)) == [apart]
    assert list(joined(board, Clock(0.0, 0.0), connected=False)) == [apart]
    assert list(joined(empty(1), HELD, connected=True)) == [frozenset()]


def random_graph(seed: int) -> Graph:
    """A random tree of nodes that all differ, with a few more edges."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(2, 10))
    edges = {(int(rng.integers(v)), v) for v in range(1, n)}
    edges |= {tuple(sorted(rng.choice(n, 2, replace=False).tolist())) for _ in range(int(rng.integers(3)))}
    return Graph(rng.permutation(KINDS)[:n].astype(np.int32)[:, None], np.array(sorted(edges), np.int64), 1)


@pytest.mark.parametrize("attack", ["grain", pytest.param("census", marks=pytest.mark.long)])
@pytest.mark.parametrize("seed", range(4))
def test_graphs_are_found_without_degrees(seed: int, attack: str) -> None:
    one = random_graph(seed)
    seen = observed(one)
    found = get_attack(attack)(seen, KNOWN, key=jax.random.key(0), budget=Budget(time_limit=10.0))
    assert found.best is not None and any(member.isomorphic(one) for member in found.graphs)
    if attack == "census":
        assert found.certificate is not None and found.certificate.status in ("unique", "at_least_k")
        assert "no two nodes have the same features" in found.certificate.conditions
