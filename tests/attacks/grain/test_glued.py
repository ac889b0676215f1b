"""The paper's search where all nodes differ, against brute force over all graphs of the same degrees."""

from __future__ import annotations

import dataclasses
from itertools import combinations
from typing import Any

import jax
import networkx as nx
import numpy as np
import pytest

from jgleak.attacks.attack import Budget, Clock
from jgleak.attacks.grain import glued as module
from jgleak.attacks.grain.candidates import GrainCandidates
from jgleak.attacks.grain.glued import Gluer, Partial
from jgleak.attacks.grain.grain import GRAIN
from jgleak.attacks.grain.settings import DEFAULTS
from jgleak.attacks.span.hops import Nodes
from jgleak.federated import Knowledge
from jgleak.graph import Graph
from tests.attacks.grain.test_build import blocks, cut
from tests.clocks import HELD as FOREVER
from tests.clocks import Held

GLUED = GRAIN.with_options({"distinct_search": "glued"})

DRAWN = [
    [(0, 1), (1, 2), (2, 3), (3, 4), (4, 5), (0, 5)],
    [(0, 2), (2, 4), (4, 1), (1, 3), (3, 5), (0, 5)],
    [(0, 1), (0, 2), (1, 2), (2, 3), (3, 4), (4, 5)],
    [(0, 4), (0, 2), (4, 2), (2, 3), (3, 1), (1, 5)],
]


def candidates(n: int, drawn: list[list[tuple[int, int]]]) -> GrainCandidates:
    """All blocks of some graphs on the same nodes, which all differ, with the degrees of the first graph."""
    ones, twos = cut([Graph(np.arange(n)[:, None], np.array(edges)) for edges in drawn])
    degrees = np.bincount(np.ravel(drawn[0]), minlength=n)
    return GrainCandidates(Nodes(np.arange(n)[:, None], np.eye(n), degrees), ones, twos, {})


def around(edges: Any, node: int) -> list[int]:
    return sorted({*sum(edges, ())} and {u + v - node for u, v in edges if node in (u, v)})


def block(edges: Any, node: int) -> Any:
    """A node's neighbours, each with its own."""
    return tuple((u, tuple(around(edges, u))) for u in around(edges, node))


@pytest.mark.parametrize("drawn", [DRAWN[:1], DRAWN[:2], DRAWN[2:3], DRAWN[2:]])
def test_every_graph_of_the_blocks_is_found(drawn: list[list[tuple[int, int]]]) -> None:
    found = list(Gluer(candidates(6, drawn), 6, FOREVER).closures())
    degrees = np.bincount(np.ravel(drawn[0]), minlength=6)
    around_each = [{block(edges, v) for edges in drawn if len(around(edges, v)) == degrees[v]} for v in range(6)]
    wanted = set()
    for edges in combinations(combinations(range(6), 2), 6):
        shape = nx.Graph(edges)
        if len(shape) == 6 and nx.is_connected(shape) and all(block(edges, v) in around_each[v] for v in range(6)):
            wanted.add(frozenset(edges))
    assert wanted and wanted <= {closed.edges for closed in found}
    for closed in found:
        assert np.bincount(np.ravel(list(closed.edges)), minlength=6).tolist() == degrees.tolist()
        assert sorted(closed.nodes) == list(range(6))


def test_a_block_that_would_give_a_node_too_many_neighbours_does_not_fit() -> None:
    """Blocks of two rings do not mix: where a node has both neighbours, no other block adds one."""
    gluer = Gluer(candidates(6, DRAWN[:2]), 6, FOREVER)
    assert {closed.edges for closed in gluer.closures()} == {
        frozenset((min(e), max(e)) for e in edges) for edges in DRAWN[:2]
    }
    assert sorted(gluer.largest.nodes) == list(range(6))


def test_no_time_no_graph() -> None:
    gluer = Gluer(candidates(6, DRAWN[:1]), 6, Clock(0.0, 0.0))
    assert not list(gluer.closures()) and len(gluer.largest.nodes) == 5, "a 2-hop block of a ring"


def test_no_larger_graph_than_allowed() -> None:
    gluer = Gluer(candidates(6, DRAWN[:1]), 5, FOREVER)
    assert not list(gluer.closures()) and len(gluer.largest.nodes) == 5


def test_no_node_is_its_own_neighbour_or_twice_another_s() -> None:
    """The filter lists such blocks too, where the check is weak: here a pair of nodes of degree 2."""
    ones = blocks({(0, (0, 0)), (0, (1, 1)), (1, (0, 0))})
    twos = blocks({(0, (0, 0)), (1, (2, 2)), (2, (1, 1))})
    nodes = Nodes(np.arange(2)[:, None], np.eye(2), np.array([2, 2]))
    assert not list(Gluer(GrainCandidates(nodes, ones, twos, {}), 6, FOREVER).closures())


def test_no_feature_vector_occurs_twice() -> None:
    """Where no feature states the degree, a vector is there once for every degree: here both ends of a path."""
    ones, twos = cut([Graph(np.arange(3)[:, None], np.array([(0, 1), (1, 2)]))])
    for codes, found in (([0, 1, 2], 1), ([0, 1, 0], 0)):
        nodes = Nodes(np.array(codes)[:, None], np.eye(3), np.array([1, 2, 1]))
        closed = {one.edges for one in Gluer(GrainCandidates(nodes, ones, twos, {}), 6, FOREVER).closures()}
        assert len(closed) == found


def test_single_nodes_are_told_apart() -> None:
    ones, twos = blocks({(0, ()), (1, ())}), blocks({(0, ()), (1, ())})
    nodes = Nodes(np.arange(2)[:, None], np.eye(2), np.array([0, 0]))
    closed = list(Gluer(GrainCandidates(nodes, ones, twos, {}), 6, FOREVER).closures())
    assert [one.nodes for one in closed] == [(0,), (1,)]


def test_the_same_graph_as_node_by_node(lab: Any) -> None:
    hub = lab.graph([0, 1, 2, 3, 1], [(0, 1), (0, 2), (0, 3), (1, 2), (2, 4)])
    edges = [(0, 1), (0, 2), (0, 3), (1, 4), (1, 5), (2, 6), (2, 3), (2, 5)]
    knowledge = Knowledge(lab.space, distinct_nodes=True)
    for truth in (lab.path([0, 2]), lab.ring([0, 1, 2]), hub, lab.graph([0, 1, 2, 3, 0, 1, 2], edges)):
        observation = lab.observe(lab.model(), truth)
        for attack in (GRAIN, GLUED):
            found = attack(observation, knowledge, key=jax.random.key(0), budget=Budget(time_limit=60.0))
            assert found.stop == "match" and found.best is not None and found.best.isomorphic(truth)
            assert found.best.y == truth.y and found.info["nodes"] >= truth.n
        assert found.info["options"] == {"distinct_search": "glued"}
        assert found.info["graphs_tested"] >= 1 and found.info["blocks"] >= truth.n
    late = GLUED(observation, knowledge, key=jax.random.key(0), budget=Budget(time_limit=0.0))
    assert late.stop == "time" and not late.graphs


def test_missing_blocks_leave_the_largest_piece(lab: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where no graph closes, what was glued so far comes back, with its distance: here a leaf's block alone."""
    truth = lab.graph([0, 1, 2, 3, 1], [(0, 1), (0, 2), (0, 3), (1, 2), (2, 4)])
    observation, knowledge = lab.observe(lab.model(), truth), Knowledge(lab.space, distinct_nodes=True)

    def leaves(*given: Any, **bounds: Any) -> Any:
        found = find_candidates(*given, **bounds)
        assert found is not None
        return dataclasses.replace(found, twos=found.twos.keep(found.nodes.degrees[found.twos.kinds] == 1))

    find_candidates = module.find_candidates
    monkeypatch.setattr(module, "find_candidates", leaves)
    found = GLUED(observation, knowledge, key=jax.random.key(0))
    assert found.stop == "exhausted" and found.best is not None and found.best.n == 4
    assert found.gradient_distance is not None and found.gradient_distance > 1e-3


@pytest.mark.parametrize(
    ("distances", "known", "stop", "tests", "chosen"),
    [
        ([0.5, 0.4, 0.4], None, "exhausted", 3, 1),
        ([0.5, 0.0, 0.3], None, "match", 2, 1),
        ([0.3, 0.4, 0.0], 3, "exhausted", 2, 0),
        ([0.3, 0.4, 0.0], 2, "match", 1, 2),
    ],
)
def test_finished_graphs_are_tested_once_until_one_matches(
    distances: list[float],
    known: int | None,
    stop: str,
    tests: int,
    chosen: int,
    lab: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Those of another number of nodes are left out; the nearest comes back, the first of equals."""
    closed = [
        Partial((0, 1, 2), frozenset({(0, 1), (1, 2)})),
        Partial((2, 1, 0), frozenset({(0, 2), (1, 2)})),
        Partial((0, 3), frozenset({(0, 3)})),
    ]
    found = candidates(4, [[(0, 1), (1, 2), (2, 3)]])
    bounds = list[dict[str, Any]]()
    monkeypatch.setattr(module, "find_nodes", lambda *_, **given: bounds.append(given) or found.nodes)
    monkeypatch.setattr(module, "find_candidates", lambda *_, **given: bounds.append(given) or found)
    monkeypatch.setattr(Gluer, "closures", lambda _: iter([closed[0], closed[0], *closed[1:]]))
    asked = list[Graph]()

    def compared(observation: Any, space: Any, graphs: list[Graph], most: float) -> list[tuple[float, int]]:
        asked.extend(graphs)
        pairs = {frozenset(map(frozenset, g.edges.tolist())) for g in graphs}
        (place,) = [i for i, one in enumerate(closed) if pairs == {_placed(one)} and graphs[0].n == len(one.nodes)]
        return [(distances[place], place)]

    monkeypatch.setattr(module, "gradient_distances", compared)
    observation = lab.observe(lab.model(), lab.path([0, 1, 2]))
    knowledge = Knowledge(lab.space, n=known, distinct_nodes=True)
    answer = module.reconstruct_glued(observation, knowledge, DEFAULTS, clock=FOREVER, budget=Budget())
    assert answer.stop == stop and answer.info["graphs_tested"] == len(asked) == tests and "seconds" in answer.info
    assert answer.best is not None and answer.best.y == chosen and answer.gradient_distance == distances[chosen]
    np.testing.assert_array_equal(answer.best.x, found.nodes.codes[list(closed[chosen].nodes)])
    tolerances, limits = DEFAULTS.tolerances.span, DEFAULTS.limits.span
    assert bounds[0] == {"clock": FOREVER, "tolerances": tolerances, "limits": limits}
    assert bounds[1]["levels"] == (1, 2)


def _placed(partial: Partial) -> frozenset[frozenset[int]]:
    """Its edges between the places of its nodes."""
    place = {node: i for i, node in enumerate(partial.nodes)}
    return frozenset(frozenset({place[u], place[v]}) for u, v in partial.edges)


def test_where_nothing_is_found_the_reason_is_time_or_candidates(lab: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    found = candidates(3, [[(0, 1), (1, 2)]])
    empty = dataclasses.replace(found, twos=found.twos.keep(np.zeros(found.twos.size, bool)))
    monkeypatch.setattr(module, "find_nodes", lambda *_, **__: found.nodes)
    observation, knowledge = lab.observe(lab.model(), lab.path([0, 1])), Knowledge(lab.space, distinct_nodes=True)
    for none, clock, stop in (
        (None, FOREVER, "no candidates"),
        (empty, FOREVER, "no candidates"),
        (empty, Clock(0.0, 0.0), "time"),
        (None, Held(0.0, 0.5), "no candidates"),
    ):
        monkeypatch.setattr(module, "find_candidates", lambda *_, none=none, **__: none)
        answer = module.reconstruct_glued(observation, knowledge, DEFAULTS, clock=clock, budget=Budget())
        assert (answer.stop, answer.graphs) == (stop, ()) and "seconds" in answer.info
    one = dataclasses.replace(found, twos=found.twos.keep(np.arange(found.twos.size) == 0))
    monkeypatch.setattr(module, "find_candidates", lambda *_, **__: one)
    monkeypatch.setattr(Gluer, "closures", lambda _: iter(()))
    answer = module.reconstruct_glued(observation, knowledge, DEFAULTS, clock=FOREVER, budget=Budget())
    assert answer.stop == "exhausted" and answer.graphs == () and answer.info["graphs_tested"] == 0
    late = module.reconstruct_glued(observation, knowledge, DEFAULTS, clock=Clock(0.0, 0.0), budget=Budget())
    assert late.stop == "time"
