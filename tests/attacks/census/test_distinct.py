"""Graphs whose nodes all differ, against every such graph of five nodes and its whole gradient."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from itertools import chain, combinations
from types import SimpleNamespace
from typing import Any

import jax
import networkx as nx
import numpy as np
import pytest
from models import flat

from jgleak.attacks.attack import Budget, Clock, Reconstruction
from jgleak.attacks.census import census as run_module
from jgleak.attacks.census import distinct as module
from jgleak.attacks.census import one_graph, row_rank
from jgleak.attacks.census.assemble import AnonymitySet, ExplainingGraph
from jgleak.attacks.census.attempted import Attempted
from jgleak.attacks.census.candidates import CensusCandidates, Levels
from jgleak.attacks.census.census import CENSUS
from jgleak.attacks.census.problem import CensusProblem
from jgleak.attacks.census.settings import DEFAULTS
from jgleak.attacks.certificate import Certificate
from jgleak.attacks.span.distinct import Board
from jgleak.attacks.span.hops import Blocks, Nodes
from jgleak.attacks.span.nodes import TooManyCandidates
from jgleak.federated import Knowledge, fedsgd
from jgleak.graph import Graph
from tests.clocks import HELD

from .brute import Population
from .test_anonymity import COLUMNS, forms, seen, typed, weights

FOREVER = Budget(time_limit=1e6)


def distinct_graphs(n: int) -> Iterator[Graph]:
    """Every connected graph of ``n`` nodes of ``n`` kinds with up to three neighbours each."""
    pairs = list(combinations(range(n), 2))
    for edges in chain.from_iterable(combinations(pairs, number) for number in range(n - 1, len(pairs) + 1)):
        degrees = np.bincount(np.array(edges).ravel(), minlength=n)
        if degrees.min() and degrees.max() <= 3 and nx.is_connected(nx.Graph(edges)):
            yield Graph(np.c_[np.arange(n), degrees].astype(np.int32), np.array(edges), 1)


def disagreements(n: int, graphs: int, truths: int) -> list[str]:
    """Truths whose certificate lists other graphs than brute force, of which up to half share a gradient."""
    space, model = typed(n), flat(in_features=COLUMNS, hidden=64, readout_widths=(300, 64))
    params = weights(model, 0)
    population = Population(model, params, space, list(distinct_graphs(n)))
    assert len(population.graphs) == graphs
    alike, order = population.shared(1), np.random.default_rng(0).permutation(graphs).tolist()
    out, known = [], Knowledge(space, distinct_nodes=True)
    for place in list(dict.fromkeys([*alike[: truths // 2], *order]))[:truths]:
        truth = population.graphs[place]
        wanted = forms(population.graphs[i] for i in population.explaining(place, 1).places)
        found = CENSUS(seen(model, params, space, truth), known, key=jax.random.key(0), budget=FOREVER)
        status = found.certificate and found.certificate.status
        assert "notes" not in found.info, "the assumption is used"
        if forms(found.graphs) != wanted or status not in ("unique" if len(wanted) == 1 else "k_graphs", "at_least_k"):
            out.append(f"{truth.edges.tolist()}: {status}, {len(found.graphs)} of {len(wanted)}")
    return out


def test_the_set_is_that_of_brute_force() -> None:
    """There are 38 connected graphs of four numbered nodes (OEIS A001187)."""
    assert not disagreements(4, 38, 12)


@pytest.mark.slow
def test_the_set_is_that_of_brute_force_everywhere() -> None:
    """Of the 728 connected graphs of five numbered nodes, so many have no node of four neighbours."""
    assert not disagreements(5, 472, 472)


CHECKED = "no true 1-hop block fails"


@pytest.fixture
def searched(lab: Any, monkeypatch: pytest.MonkeyPatch) -> Callable[..., tuple[tuple[str, ...], AnonymitySet]]:
    """The search where ``settled`` stands for the checks, one call after another, and every gradient agrees."""
    truth = lab.path([0, 1, 2, 3])
    seen_of_it = lab.observe(lab.model(), truth)

    def one(
        *settled: Callable[[Board], None],
        certain: bool = True,
        listed: int = 9,
        clock: Clock | None = None,
        **known: Any,
    ) -> Any:
        settings = dataclasses.replace(DEFAULTS, limits=dataclasses.replace(DEFAULTS.limits, listed=listed))
        problem = CensusProblem.of(seen_of_it, Knowledge(lab.space, distinct_nodes=True), settings)
        clock = clock or FOREVER.start()
        candidates = CensusCandidates(problem, clock, FOREVER)
        problem = dataclasses.replace(problem, knowledge=dataclasses.replace(problem.knowledge, **known))
        codes = truth.x.astype(int)
        nodes = Nodes(codes, codes.astype(float), truth.degree, certain=certain)
        candidates.start = dataclasses.replace(candidates.start, nodes=nodes)
        steps = iter(settled)
        monkeypatch.setattr(module, "settle", lambda board, *_: next(steps)(board))
        monkeypatch.setattr(module, "_occurring", lambda *_: frozenset(range(4) if certain else [0]))

        def passing(_: Any, graphs: Sequence[Graph], slots: int, _clock: Clock) -> list[ExplainingGraph]:
            assert slots == max(graph.n for graph in graphs)
            return [ExplainingGraph(graph, 0.0, graph.canonical_form()) for graph in graphs]

        monkeypatch.setattr(module, "passing", passing)
        return module.distinct(problem, candidates, clock, FOREVER)

    return one


PATH, PAIR = {0: {1}, 1: {0, 2}, 2: {1, 3}, 3: {2}}, {0: {3}, 3: {0}}


def settles(*nodes: int, around: dict[int, set[int]] = PATH, empty: Sequence[int] = ()) -> Callable[[Board], None]:
    """A step that settles some nodes, and finds nothing around others."""

    def step(board: Board) -> None:
        board.settled.update({v: frozenset(around[v]) for v in nodes})
        board.tried.update({v: (frozenset(around[v]),) for v in nodes} | dict.fromkeys(empty, ()))

    return step


def test_settled_nodes_are_the_only_graph(searched: Any, lab: Any) -> None:
    conditions, found = searched(settles(0, 1, 2, 3))
    assert [one.graph.isomorphic(lab.path([0, 1, 2, 3])) for one in found.graphs] == [True] and found.exhausted
    assert conditions[0] == "no two nodes have the same features" and not any("except" in text for text in conditions)
    assert sum(text.startswith(CHECKED) for text in conditions) == 1 and not any("aggregate" in t for t in conditions)


def test_nodes_around_which_nothing_passes_are_checked_again_by_mixed_rows(searched: Any) -> None:
    conditions, found = searched(settles(1, 2, empty=(0, 3)), settles(0, 3))
    node, mixed = (text for text in conditions if text.startswith(CHECKED))
    assert "node check" in node and node.endswith(", except around 2 nodes, where none passes")
    assert "aggregate check" in mixed and "except" not in mixed and found.exhausted and len(found.graphs) == 1
    conditions, found = searched(settles(1, 2, empty=(0, 3)), settles(0, empty=(3,)))
    assert conditions[-1].endswith(", except around 1 node, where none passes") and found.exhausted


def test_what_stays_open_is_joined_in_every_way(searched: Any) -> None:
    """Ends of one neighbour and middles of two: with the first end's neighbour known, the middles may change places."""
    _, found = searched(settles(), certain=True)
    assert found.exhausted and len(found.graphs) == 2, (
        "the two paths with these ends; an end joined to the other is none"
    )
    assert found.partials == 2, "graphs that are not connected are not compared"


@pytest.mark.parametrize(
    ("listed", "partials", "graphs", "exhausted"), [(2, 2, 2, True), (1, 2, 1, False), (0, 1, 0, False)]
)
def test_a_list_that_is_full_ends_the_search(
    listed: int, partials: int, graphs: int, exhausted: bool, searched: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With one graph more than it may have, of the two paths that there are."""
    monkeypatch.setattr(module, "TOGETHER", 1)
    _, found = searched(settles(), listed=listed, clock=HELD)
    assert (found.partials, len(found.graphs), found.exhausted) == (partials, graphs, exhausted)


def test_vectors_that_no_settled_node_has_as_a_neighbour_are_left_out(searched: Any) -> None:
    """Nodes 1 and 2 need not occur, and the ends are a pair: with nothing open no connected graph has more nodes."""
    _, found = searched(settles(0, 3, around=PAIR), certain=False)
    assert [one.graph.n for one in found.graphs] == [2] and found.exhausted


def test_what_is_open_beside_vectors_that_need_not_occur_leaves_the_set_open(searched: Any) -> None:
    _, found = searched(settles(0, around=PAIR), certain=False)
    assert [one.graph.n for one in found.graphs] == [2] and not found.exhausted, "3 was not settled"
    _, found = searched(settles(0, around=PAIR, empty=(3,)), settles(3, around=PAIR), certain=False)
    assert [one.graph.n for one in found.graphs] == [2] and not found.exhausted, "checked again without 1 and 2"


def test_nodes_occur_where_the_other_rows_do_not_span_the_gradient(lab: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the rows a, b, a + b each may be missing; c may not. A row of zeros is never needed."""
    problem = CensusProblem.of(lab.observe(lab.model(), lab.path([0, 1])), Knowledge(lab.space))
    rows = np.array([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 2.0], [1.0, 1.0, 0.0], [0.0, 0.0, 0.0]])

    def occurring(rank: int, number: int = 5, certain: bool = False) -> frozenset[int]:
        monkeypatch.setattr(row_rank, "_rank_of_gradient", lambda _: rank)
        some = rows[:number]
        return module._occurring(problem, Nodes(some.astype(int), some, np.ones(number, int), certain))

    assert occurring(3) == {2} and occurring(3, number=3) == {0, 1, 2} and occurring(0, number=0) == set()
    assert not occurring(4), "the rows span too little"
    assert not occurring(2), "and here more: some pass by noise, or the gradient was pruned"
    assert occurring(2, certain=True) == set(range(5))


def test_rows_are_rounded_to_single_precision(lab: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A column of numbers is not rounded alike at every node: a fourth row that is a combination of two of the others
    is one up to that, and what it hides and shows is the same."""
    numbers = np.array([[0.1], [0.7], [0.3], [0.4]], np.float32) / np.float32(3.0)
    rows = np.hstack([np.array([[1.0, 0, 0], [0, 1, 0], [0, 0, 1], [0.5, 0.5, 0]]), numbers])
    assert np.linalg.matrix_rank(rows) == 4 and abs(float(rows[3, 3] - rows[:2, 3].mean())) < 1e-7
    problem = CensusProblem.of(lab.observe(lab.model(), lab.path([0, 1])), Knowledge(lab.space))
    monkeypatch.setattr(row_rank, "_rank_of_gradient", lambda _: 3)
    nodes = Nodes(np.arange(4)[:, None], rows, np.ones(4, int))
    assert module._occurring(problem, nodes) == {2}


@pytest.fixture
def open_beside(lab: Any, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Reconstruction]:
    """The census where settling gives one open list, and counting another one or an error."""
    monkeypatch.setattr(CensusCandidates, "attempts", lambda *_: iter([None]))

    def one(settled: AnonymitySet, counted: AnonymitySet | Exception) -> Reconstruction:
        none, rows = np.zeros(0, int), np.zeros((0, 1))
        blocks = Blocks(none, none, (), rows, rows, np.zeros(0), checked=0)
        levels = Levels(Nodes(rows.astype(int), rows, none), (blocks,), ("counted",), complete=True)

        def attempted(*_: Any) -> Attempted:
            if isinstance(counted, Exception):
                raise counted
            return Attempted(levels, None, counted, 6)

        monkeypatch.setattr(one_graph, "distinct", lambda *_: ((module.DIFFER, "settled"), settled))
        monkeypatch.setattr(one_graph, "counted", attempted)
        monkeypatch.setattr(one_graph, "taken_again", lambda *args: args[2])
        knowledge = Knowledge(lab.space, distinct_nodes=True, max_n=6)
        update = lab.observe(lab.model(), lab.path([0, 1]))
        census = CENSUS.with_options({"enumerated_nodes": "0"})
        return census(update, knowledge, key=jax.random.key(0), budget=FOREVER)

    return one


def listed(*graphs: Graph, exhausted: bool = False) -> AnonymitySet:
    return AnonymitySet(tuple(ExplainingGraph(g, 0.0, g.canonical_form()) for g in graphs), exhausted)


def test_an_assumption_makes_no_certificate_weaker(open_beside: Any, lab: Any) -> None:
    """Where settling leaves its list open, graphs are counted as without the assumption: of a complete list those stay
    whose nodes differ."""
    differ, alike, other = lab.path([0, 1, 2]), lab.path([0, 1, 0]), lab.path([2, 0, 1])

    def claimed(counted: Any) -> tuple[str, set[str], bool, int]:
        found = open_beside(listed(differ), counted)
        names = {"differ": differ, "alike": alike, "other": other}
        shown = {name for name, graph in names.items() if graph.canonical_form() in forms(found.graphs)}
        said = found.certificate.conditions
        return found.certificate.status, shown, "counted" in said, sum(text == module.DIFFER for text in said)

    assert claimed(listed(differ, alike, exhausted=True)) == ("unique", {"differ"}, True, 1)
    assert claimed(listed(differ, alike, other, exhausted=True)) == ("k_graphs", {"differ", "other"}, True, 1)
    assert claimed(listed(other, exhausted=True)) == ("at_least_k", {"differ", "other"}, False, 1), "they disagree"
    assert claimed(listed(differ, other)) == ("at_least_k", {"differ", "other"}, False, 1)
    assert claimed(listed()) == ("at_least_k", {"differ"}, False, 1), "nothing was counted"
    assert claimed(TooManyCandidates("too many")) == ("at_least_k", {"differ"}, False, 1)


def test_time_that_ends_among_graphs_that_are_not_possible_leaves_the_set_open(
    searched: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A first part of graphs is compared in time, and all others are not connected."""
    real, ended = module.completions, [False]

    def slow(board: Board, clock: Any) -> Iterator[Any]:
        yield from real(board, clock)
        yield frozenset({(0, 1), (2, 3)})
        ended[0] = True

    monkeypatch.setattr(module, "completions", slow)
    monkeypatch.setattr(module, "TOGETHER", 1)
    monkeypatch.setattr(Clock, "left", property(lambda _: -1.0 if ended[0] else 1e6))
    _, found = searched(settles(0, 1, 2, 3))
    assert len(found.graphs) == 1 and not found.exhausted


def test_nodes_have_the_degrees_that_they_state(searched: Any) -> None:
    """The ends say that they have one neighbour."""
    assert not searched(settles(0, 1, 2, 3, around={v: {(v - 1) % 4, (v + 1) % 4} for v in range(4)}))[1].graphs


def test_an_assumption_that_is_left_or_not_used_is_said(lab: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is found under it; no feature states degrees; several graphs. The searches themselves are left out."""
    nothing, census, one = (
        AnonymitySet(exhausted=False),
        CENSUS.with_options({"enumerated_nodes": "0"}),
        lab.path([0, 1]),
    )
    monkeypatch.setattr(one_graph, "distinct", lambda *_: ((), nothing))
    monkeypatch.setattr(run_module, "reconstructed", lambda *_, **__: Reconstruction((), None, "time"))
    monkeypatch.setattr(CensusCandidates, "attempts", lambda *_: ())

    def notes(space: Any, *graphs: Graph, distinct_nodes: bool = True) -> Any:
        model = lab.model()
        update = fedsgd(model, lab.params(model), graphs, space, loss="bce")
        known = Knowledge(space, distinct_nodes=distinct_nodes, max_n=6)
        return census(update, known, key=jax.random.key(0), budget=FOREVER).info.get("notes")

    assert notes(lab.space, one) == [module.DROPPED] and notes(lab.space, one, distinct_nodes=False) is None
    (said,) = notes(dataclasses.replace(lab.space, degree=None), one)
    assert "not used: it needs a feature that states the number of neighbours" in said
    assert notes(lab.space, one, one) == [module.ONE_GRAPH] and notes(lab.space, one, one, distinct_nodes=False) is None
    # the last graph that is left of a batch is searched alone, and may be found under it
    found = Reconstruction((), None, "time", certificate=Certificate("unique", 1, 6, False, 0.0, (module.DIFFER,)))
    monkeypatch.setattr(run_module, "reconstructed", lambda *_, **__: found)
    assert notes(lab.space, one, one) is None


@pytest.mark.parametrize(
    ("classes", "checks", "why"), [(1, (1,), None), (2, (1,), "edges of one class"), (1, (), "a gradient whose span")]
)
def test_it_needs_edges_that_are_alike_and_a_check_of_neighbourhoods(
    classes: int, checks: tuple[int, ...], why: str | None, lab: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(CensusCandidates, "checks_of", lambda _, __, hop: checks if hop == 1 else ())
    problem, candidates = object.__new__(CensusProblem), object.__new__(CensusCandidates)
    problem.__dict__.update(knowledge=Knowledge(lab.space))
    candidates.__dict__.update(start=SimpleNamespace(nodes=SimpleNamespace(classes=classes)))
    said = module.unused(problem, candidates)
    assert said is None if why is None else said is not None and why in said


def test_a_known_number_of_nodes_is_kept(searched: Any) -> None:
    assert searched(settles(0, 1, 2, 3), n=4)[1].graphs and not searched(settles(0, 1, 2, 3), n=5)[1].graphs
    assert searched(settles(0, 1, 2, 3), max_n=4)[1].graphs and not searched(settles(0, 1, 2, 3), max_n=3)[1].graphs


def test_without_a_graph_nodes_are_settled_in_any_order_and_the_set_stays_open(
    searched: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """First only node 0 certainly occurs and nothing passes; then all that passes is settled."""
    orders = list[frozenset[int] | None]()

    def noted(*settled: Callable[[Board], None]) -> list[Callable[[Board], None]]:
        return [lambda board, one=one: (orders.append(board.occurring), one(board)) and None for one in settled]

    _, found = searched(*noted(settles(empty=(0,)), settles(empty=(0,)), settles(0, 1, 2, 3)), certain=False, n=4)
    assert orders == [frozenset({0}), frozenset({0}), None]
    assert [one.graph.n for one in found.graphs] == [4] and not found.exhausted
    orders.clear()
    assert not searched(*noted(settles(0, 1, 2, 3)), n=9)[1].graphs and orders == [frozenset(range(4))], "all occur"
    monkeypatch.setattr(CensusCandidates, "checks_of", lambda *_: ())
    assert searched() == ((), AnonymitySet(exhausted=False)), "without a check nothing can be settled"


def test_one_layer_is_checked_by_the_readout_with_the_node_s_own_row(lab: Any) -> None:
    """The readout sees the rows that come in beside the states, so that its check needs both."""
    truth = lab.path([0, 1, 2, 3])
    seen = lab.observe(lab.model(layers=1), truth)
    known = Knowledge(lab.space, distinct_nodes=True, n=4)
    found = CENSUS(seen, known, key=jax.random.key(0), budget=Budget(time_limit=20))
    assert found.best is not None and found.best.isomorphic(truth)
    assert found.certificate is not None and module.DIFFER in found.certificate.conditions


def test_without_any_vector_no_neighbourhood_of_any_degree_is_looked_for(
    lab: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    problem = CensusProblem.of(lab.observe(lab.model(), lab.path([0, 1])), Knowledge(lab.space, distinct_nodes=True))
    candidates = CensusCandidates(problem, HELD, FOREVER)
    none = np.zeros(0, int)
    candidates.start = dataclasses.replace(candidates.start, nodes=Nodes(np.zeros((0, 3), int), np.zeros((0, 1)), none))
    monkeypatch.setattr(module, "applies", lambda *_: True)
    monkeypatch.setattr(module, "unused", lambda *_: None)
    monkeypatch.setattr(module, "settle_any_degree", lambda *_: pytest.fail("nothing is there"))
    assert module.distinct(problem, candidates, HELD, FOREVER) == ((), AnonymitySet(exhausted=False))
