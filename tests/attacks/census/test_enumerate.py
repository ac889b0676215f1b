"""All small graphs: each once, none left out, and the gradient decides; what bounds and faint equations may claim."""

from __future__ import annotations

import dataclasses
from collections import Counter
from itertools import combinations_with_replacement
from typing import Any

import jax
import jax.numpy as jnp
import networkx as nx
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree
from models import some_params

from jgleak.attacks.attack import Budget
from jgleak.attacks.census import enumerate as module
from jgleak.attacks.census import screen
from jgleak.attacks.census.assemble import ExplainingGraph
from jgleak.attacks.census.candidates import CensusCandidates, Levels
from jgleak.attacks.census.census import census
from jgleak.attacks.census.enumerate import Stars, _batches, _Looked, _order, _stars, enumerated, may_be_small
from jgleak.attacks.census.equations import equations
from jgleak.attacks.census.problem import CensusProblem
from jgleak.attacks.census.row_rank import shown_rank
from jgleak.attacks.census.screen import passing
from jgleak.attacks.census.settings import DEFAULTS
from jgleak.attacks.census.shares import shares
from jgleak.attacks.census.sketch import signs, sketched
from jgleak.attacks.census.solve import solve
from jgleak.attacks.census.system import Solution
from jgleak.attacks.distance import gradient_distances
from jgleak.attacks.span.hops import Nodes
from jgleak.features import FeatureSpace, binary, onehot
from jgleak.federated import Knowledge, LocalTraining, fedavg, fedsgd
from jgleak.gnn import GNN, standard
from jgleak.graph import Graph, GraphBatch
from tests.clocks import HELD as FOREVER
from tests.clocks import Ticking

from .brute import small_graphs

ALIKE = FeatureSpace((onehot("kind", (0, 1)),))
"""Features that state no degree."""

SMALL = dataclasses.replace(DEFAULTS, limits=dataclasses.replace(DEFAULTS.limits, enumerated_nodes=6))
"""Graphs of up to six nodes are enumerated."""

STATED = FeatureSpace((onehot("kind", (0, 1)), onehot("degree", range(5))), degree="degree")


def observed(space: FeatureSpace, truth: Graph, kind: str = "gcn") -> Any:
    model = standard(space.width, kind, hidden=16)
    return fedsgd(model, some_params(model), [truth], space, loss="bce")


def equal_nodes(plain: nx.Graph) -> Graph:
    return Graph(np.zeros((plain.number_of_nodes(), 1), np.int64), np.array(plain.edges), 1)


@pytest.fixture(scope="module")
def star() -> Graph:
    """Six equal nodes, one with five neighbours: more than blocks are tried with."""
    return equal_nodes(nx.star_graph(5))


@pytest.fixture(scope="module")
def problem(star: Graph) -> CensusProblem:
    return CensusProblem.of(observed(ALIKE, star), Knowledge(ALIKE))


def all_of(problem: CensusProblem, nodes: Nodes, n: int) -> list[Graph]:
    stars, looked = _stars(problem, nodes, None, (n, shown_rank(problem, nodes))), _Looked()
    found = [
        graph for size in _order([n]) for graphs in _batches(looked, problem, stars, size, FOREVER) for graph in graphs
    ]
    assert not looked.cut
    return found


def test_every_connected_graph_of_equal_nodes_once(problem: CensusProblem) -> None:
    """Their numbers are known (OEIS A001349)."""
    nodes = Nodes(np.zeros((1, 1), np.int32), ALIKE.encode(np.zeros((1, 1), np.int32)), np.zeros(1, np.int64))
    for n, number in enumerate((1, 1, 2, 6, 21), start=1):
        found = all_of(problem, nodes, n)
        assert len({graph.canonical_form() for graph in found}) == len(found) == number
        assert all(graph.connected for graph in found)


def test_graphs_of_nodes_that_state_degrees_are_those_of_the_atlas() -> None:
    truth = dataclasses.replace(small_graphs(4, STATED)[0], y=1)
    problem = CensusProblem.of(observed(STATED, truth), Knowledge(STATED))
    codes = np.array([[kind, degree] for kind in range(2) for degree in range(1, 4)], np.int32)
    nodes = Nodes(codes, STATED.encode(codes), codes[:, 1])
    rank = shown_rank(problem, nodes)
    forms = {graph.canonical_form() for graph in all_of(problem, nodes, 4)}
    expected = [g for g in small_graphs(4, STATED) if np.linalg.matrix_rank(STATED.encode(g.x)) >= rank]
    assert forms == {graph.canonical_form() for graph in expected}


def allowed_multisets(stars: Stars, n: int) -> dict[int, set[frozenset[tuple[int, int]]]]:
    """By the number of ends of edges, those of brute force."""
    expected = dict[int, set[frozenset[tuple[int, int]]]]()
    for chosen in combinations_with_replacement(range(len(stars.edges)), n):
        number = np.bincount(stars.vectors[list(chosen)], minlength=stars.least.size)
        if np.all(stars.least <= number) and np.all(number <= stars.most):
            if np.linalg.matrix_rank(stars.rows[number > 0]) >= stars.rank:
                ends = sum(len(stars.edges[star]) for star in chosen)
                expected.setdefault(ends, set()).add(frozenset(Counter(chosen).items()))
    return expected


def test_multisets_are_all_that_bounds_allow() -> None:
    """Each once, of stars in any order: some vectors have one star and some several, or none, and must occur or not."""
    rng, number = np.random.default_rng(0), 0
    for _ in range(25):
        vectors, kinds = int(rng.integers(1, 4)), rng.integers(3, size=rng.integers(1, 6))
        edges = tuple((0,) * int(degree) for degree in rng.integers(4, size=kinds.size))
        least, n = rng.integers(2, size=vectors) * rng.integers(1, 3, size=vectors), int(rng.integers(1, 5))
        most = least + rng.integers(4, size=vectors)
        codes, rows = np.arange(vectors)[:, None], np.eye(vectors) if rng.integers(2) else np.ones((vectors, 1))
        stars = Stars(codes, rows, kinds % vectors, edges, least, most, int(rng.integers(1, vectors + 1)))
        expected = allowed_multisets(stars, n)
        for ends in range(3 * n + 1):
            found = [frozenset(one.items()) for one in stars.multisets(n, ends, FOREVER) if one is not None]
            assert len(found) == len(set(found)) and set(found) == expected.get(ends, set()), (stars, n, ends)
            number += len(found)
    assert number > 20, number


def test_multisets_that_time_cuts_short_end_with_none() -> None:
    stars = Stars(
        np.zeros((1, 1), int), np.ones((1, 1)), np.zeros(2, int), ((0,), (0, 0)), np.zeros(1, int), np.full(1, 3), 1
    )
    assert list(stars.multisets(3, 4, FOREVER)) == [{0: 2, 1: 1}]
    assert list(stars.multisets(3, 4, Budget(time_limit=0.0).start())) == [None]
    assert list(stars.multisets(3, 9, Budget(time_limit=0.0).start())) == [], "there is none"


def test_simple_graphs_come_first() -> None:
    """By the number of nodes, a cycle counts as two; one node has no cycle, and three nodes have one at most."""
    wanted = [(1, 0), (2, 0), (3, 0), (4, 0), (3, 1), (4, 1), (4, 2), (4, 3)]
    assert _order([1, 2, 3, 4]) == wanted


def test_stars_have_the_degrees_and_numbers_that_are_known() -> None:
    """Of feature vectors that state their degree, in the order of their neighbours."""
    truth = dataclasses.replace(small_graphs(4, STATED)[0], y=1)
    seen, codes = observed(STATED, truth), np.array([[0, 1], [1, 2], [0, 3], [1, 4], [0, 0]], np.int32)
    nodes = Nodes(codes, STATED.encode(codes), codes[:, 1])

    def stars(size: int, nodes: Nodes = nodes, bounds: Any = None, **known: Any) -> Stars:
        return _stars(CensusProblem.of(seen, Knowledge(STATED, **known)), nodes, bounds, (size, 2))

    def named(found: Stars) -> list[tuple[int, ...]]:
        return [tuple(found.codes[u].tolist()) for u in found.vectors]

    four = stars(4)
    assert named(four) == [(0, 1), (1, 2), (0, 3)] and four.degrees.tolist() == [1, 2, 3] and four.rank == 2
    assert four.least.tolist() == [0] * 5 and four.most.tolist() == [4] * 5
    assert named(stars(1)) == [(0, 0)], "one node has no neighbour, several have one each"
    assert named(stars(5)) == [(0, 1), (1, 2), (0, 3), (1, 4)]
    assert named(stars(5, max_degree=2)) == [(0, 1), (1, 2)] and named(stars(2, max_degree=2)) == [(0, 1)]
    assert stars(4, dataclasses.replace(nodes, certain=True)).least.tolist() == [1] * 5
    classes = stars(4, dataclasses.replace(nodes, classes=2))
    assert classes.edges == ((0,), (1,), (0, 0), (0, 1), (1, 1), *[(0,) * (3 - k) + (1,) * k for k in range(4)])
    # shares of the nodes in the order of `nodes`; those of the stars' codes, which are sorted
    low, high = np.array([0.26, 0.0, 0.5, 0.0, 0.0]), np.array([0.5, 0.24, 9.0, 1.0, 0.0])
    bounded = stars(4, bounds=(low, high))
    place = {tuple(code): k for k, code in enumerate(bounded.codes.tolist())}
    order = [place[tuple(code)] for code in codes.tolist()]
    assert bounded.least[order].tolist() == [1, 0, 2, 0, 0] and bounded.most[order].tolist() == [2, 1, 4, 4, 0]
    rows = np.array([[0, 1], [0, 1], [1, 2], [0, 3]], np.int32)
    known = stars(4, Nodes(codes[:3], STATED.encode(codes[:3]), codes[:3, 1]), n=4, features=rows)
    assert known.codes.tolist() == [[0, 1], [0, 3], [1, 2]]
    assert known.least.tolist() == known.most.tolist() == [2, 1, 1]


def test_vectors_that_state_no_degree_may_have_any_and_are_not_bounded(problem: CensusProblem) -> None:
    codes = np.zeros((2, 1), np.int32)
    nodes = Nodes(codes, ALIKE.encode(codes), np.array([1, 2]), certain=True)
    found = _stars(problem, nodes, (np.full(2, 0.5), np.full(2, 0.5)), (4, 1))
    assert found.vectors.tolist() == [0, 0, 0] and found.degrees.tolist() == [1, 2, 3]
    assert found.least.tolist() == [0] and found.most.tolist() == [4]


def test_a_list_that_is_full_ends_the_search_and_is_not_all(star: Graph) -> None:
    """The star is a tree of six nodes, and these are looked at first, multiset by multiset of their degrees."""
    full = dataclasses.replace(SMALL, limits=dataclasses.replace(SMALL.limits, listed=1))
    problem = CensusProblem.of(observed(ALIKE, star), Knowledge(ALIKE, n=6), full)
    nodes = CensusCandidates(problem, FOREVER, Budget(time_limit=60)).start.nodes
    found = enumerated(problem, nodes, None, FOREVER)
    assert found.forms == {star.canonical_form()} and not found.exhausted
    degrees = {tuple(sorted(dict(tree.degree).values())) for tree in map(nx.Graph, nx.nonisomorphic_trees(6))}
    assert found.censuses == len(degrees) == 5 and found.partials > found.censuses


def test_the_screen_passes_what_labels_tried_one_by_one_do(problem: CensusProblem) -> None:
    graphs = [
        equal_nodes(plain) for plain in (nx.path_graph(6), nx.star_graph(5), nx.path_graph(2), nx.complete_graph(4))
    ]
    expected = [gradient_distances(problem.seen, ALIKE, [graph])[0] for graph in graphs]
    found = passing(problem, graphs, 6, FOREVER)
    assert [one.form for one in found] == [
        graph.canonical_form() for graph, one in zip(graphs, expected, strict=True) if one[0] <= problem.fit.most
    ]
    assert [one.graph.y for one in found] == [1]


def test_the_screen_ends_with_the_time_and_the_set_is_open_then(star: Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    """Behind noise every graph is differentiated. Time that ends in the last comparison leaves graphs out as well."""
    problem = CensusProblem.of(observed(ALIKE, star), Knowledge(ALIKE, n=6, noise=1e-9))
    graphs = [star, equal_nodes(nx.path_graph(6)), star]
    assert [len(passing(problem, graphs, 6, Ticking(0.0, looks + 0.5))) for looks in (0, 1, 2, 3)] == [0, 1, 1, 2]
    nodes, clock = CensusCandidates(problem, FOREVER, Budget(time_limit=60)).start.nodes, Ticking(0.0, 1e6)
    monkeypatch.setattr(module, "_batches", lambda *_: iter([[star]]))
    assert enumerated(problem, nodes, None, clock).exhausted

    def compared(*_: Any) -> list[ExplainingGraph]:
        object.__setattr__(clock, "ticks", 10**6)
        return []

    monkeypatch.setattr(module, "passing", compared)
    assert not enumerated(problem, nodes, None, clock).exhausted


def test_the_nearest_few_are_compared_where_a_unit_may_have_turned(
    problem: CensusProblem, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The screen's own gradient of the true graph is off by some percent, as where a unit's input rounds to zero."""
    true, other = equal_nodes(nx.star_graph(5)), equal_nodes(nx.path_graph(6))
    for far, passes in ((0.05, True), (0.2, False), (np.nan, True)):
        monkeypatch.setattr(screen, "_distances", lambda *_, far=far: np.array([0.3, far]))
        assert [one.form for one in passing(problem, [other, true], 6, FOREVER)] == [true.canonical_form()] * passes
    monkeypatch.setattr(screen, "_distances", lambda *_: np.array([0.01, 0.02, 0.03, 0.04, 0.05]))
    assert not passing(problem, [other, other, other, other, true], 6, FOREVER), "no more than four"
    assert [one.graph.isomorphic(true) for one in passing(problem, [other, true, other, other, true], 6, FOREVER)] == [
        True
    ]


@pytest.mark.parametrize("unit", [1.0, 1e-25, 0.0])
def test_the_screen_measures_whole_gradients_in_any_unit(problem: CensusProblem, unit: float) -> None:
    """Of the outputs along what flows back to them, from graphs that stand alone."""
    seen, graphs = (
        problem.seen,
        [equal_nodes(plain) for plain in (nx.star_graph(5), nx.path_graph(3), nx.path_graph(6))],
    )
    slopes = np.asarray(seen.model.output_bias(seen.update), np.float64)
    update = jax.tree.map(lambda leaf: np.float32(unit) * np.asarray(leaf), seen.update)
    scaled = dataclasses.replace(problem, seen=dataclasses.replace(seen, update=update))
    whole, wanted = ravel_pytree(seen.update)[0], list[float]()
    for graph in graphs:
        one = jax.tree.map(lambda leaf: jnp.asarray(leaf[0]), GraphBatch.from_graphs([graph], ALIKE).dense)
        own = jax.grad(lambda weights, one=one: seen.model.apply({"params": weights}, *one) @ slopes)(seen.params)
        wanted.append(float(np.linalg.norm(ravel_pytree(own)[0] - whole) / np.linalg.norm(whole)))
    found = screen._distances(scaled, graphs, unit * slopes, 6)
    assert max(wanted[1:]) > 0.1
    np.testing.assert_allclose(found, wanted if unit else 0.0, rtol=1e-3, atol=1e-5)


def test_labels_are_tried_where_the_update_is_no_gradient_along_one_output(
    problem: CensusProblem, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert not screen._hidden(problem)
    noisy = dataclasses.replace(problem, knowledge=dataclasses.replace(problem.knowledge, noise=1e-6))
    pruned = dataclasses.replace(problem, seen=dataclasses.replace(problem.seen, pruned=True))
    assert screen._hidden(noisy) and screen._hidden(pruned)
    for owner, name in ((CensusProblem, "several"), (GNN, "node_level")):
        with monkeypatch.context() as patch:
            patch.setattr(owner, name, property(lambda _: True))
            assert screen._hidden(problem)


def test_the_update_of_several_steps_is_no_gradient_of_the_outputs() -> None:
    """Labels are tried one by one: along the last bias the true graph would be off by a third."""
    true, other = equal_nodes(nx.star_graph(5)), equal_nodes(nx.path_graph(6))
    model = standard(ALIKE.width, "gcn", hidden=16)
    params, local = some_params(model), LocalTraining(1.0, 3)
    seen = fedavg(model, params, [true], ALIKE, loss="bce", local=local)
    found = passing(CensusProblem.of(seen, Knowledge(ALIKE, n=6)), [other, true], 6, FOREVER)
    assert [one.form for one in found] == [true.canonical_form()]


def test_a_star_with_more_neighbours_than_blocks_are_tried_with(star: Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(CensusCandidates, "attempts", lambda *given: iter(()))  # nothing can be counted
    seen = observed(ALIKE, star)
    found = census(SMALL)(seen, Knowledge(ALIKE, n=6), key=jax.random.key(0), budget=Budget(time_limit=60))
    assert found.best is not None and found.best.isomorphic(star)
    certificate = found.certificate
    assert certificate is not None and certificate.status == "unique"
    assert not any("neighbours" in condition for condition in certificate.conditions)


@pytest.mark.long
def test_larger_graphs_leave_the_set_open(star: Graph) -> None:
    for most in (6, 7):
        problem = CensusProblem.of(observed(ALIKE, star), Knowledge(ALIKE, max_n=most), SMALL)
        nodes = CensusCandidates(problem, FOREVER, Budget(time_limit=60)).start.nodes
        found = enumerated(problem, nodes, None, FOREVER)
        assert found.forms == {star.canonical_form()}
        assert found.exhausted == (most == 6)


def test_nodes_that_were_not_all_looked_for_leave_the_set_open(star: Graph) -> None:
    problem = CensusProblem.of(observed(ALIKE, star), Knowledge(ALIKE, max_n=6), SMALL)
    nodes = CensusCandidates(problem, FOREVER, Budget(time_limit=60)).start.nodes
    found = enumerated(problem, dataclasses.replace(nodes, complete=False), None, FOREVER)
    assert found.forms == {star.canonical_form()} and not found.exhausted


def test_no_time_no_claim(star: Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor is anything begun: of a batch's many graphs each would take its share beyond the time."""
    problem = CensusProblem.of(observed(ALIKE, star), Knowledge(ALIKE, n=6))
    nodes = CensusCandidates(problem, FOREVER, Budget(time_limit=60)).start.nodes
    monkeypatch.delattr(module, "_stars")
    found = enumerated(problem, nodes, None, Budget(time_limit=0.0).start())
    assert not found.exhausted and not found.graphs


def test_more_certain_feature_vectors_than_nodes_are_no_small_graph(problem: CensusProblem) -> None:
    codes = np.arange(13, dtype=np.int32)[:, None]
    nodes = Nodes(codes, np.eye(13), np.ones(13, np.int64), certain=True)
    assert not may_be_small(problem, nodes)
    assert may_be_small(problem, Nodes(codes[:12], np.eye(12), np.ones(12, np.int64), certain=True))


@pytest.fixture(scope="module")
def sigmoid(lab: Any) -> tuple[CensusProblem, Levels, Solution, Graph]:
    """A path behind a smooth activation, what its equations say, and the path."""
    truth = lab.path([0, 0, 1, 0, 0])
    problem = CensusProblem.of(lab.observe(lab.model(act="sigmoid"), truth), Knowledge(lab.space))
    candidates = CensusCandidates(problem, FOREVER, Budget(time_limit=60))
    levels = candidates.weakest(next(candidates.attempts(FOREVER)))
    assert levels is not None
    system = equations(problem, levels, FOREVER)
    assert system is not None
    return problem, levels, solve(problem, levels, system, problem.rounds[0], FOREVER), truth


def test_shares_hold_those_of_the_truth(sigmoid: Any) -> None:
    """A sigmoid leaves counts of blocks open, and hardly those of feature vectors."""
    problem, levels, solution, truth = sigmoid
    least, most = shares(problem, levels, solution, FOREVER)
    own = np.array([np.mean(np.all(truth.x == code, axis=1)) for code in levels.nodes.codes])
    assert np.all(least <= own + 1e-6) and np.all(own <= most + 1e-6)
    assert np.all(most - least < 0.05)


def test_shares_are_bounded_by_what_stands_above_rounding(sigmoid: Any) -> None:
    """Three blocks that add up to one, and the difference of two of them: in a loud equation or a faint one."""
    problem, levels, solution, _ = sigmoid
    entries, columns = np.unique(levels.top.kinds[solution.equations.blocks], return_index=True)
    for size, wanted in ((1.0, ((0.4, 0.7), (0.0, 0.3), (0.0, 0.6))), (1e-3, ((0.0, 1.0),) * 3)):
        rows, goal = np.array([[100.0, 100.0, 100.0], [size, -size, 0.0]]), np.array([100.0, 0.4 * size])
        made = dataclasses.replace(solution, columns=columns[:3], system=rows, goal=goal, residual=0.0)
        found = np.stack(shares(problem, levels, made, FOREVER), axis=1)
        np.testing.assert_allclose(found[entries[:3]], wanted, atol=1e-3)


def test_faint_weights_are_compared_with_the_rounding_of_their_layer() -> None:
    """What cancels in a softmax keeps the rounding of what was added."""
    kernel, tolerances = np.full((40, 4), 5e-4, np.float32), DEFAULTS.tolerances
    kernel[0] = 0.5
    tree = {"conv": {"kernel": kernel, "target": np.full((40, 4), 1e-9, np.float32)}}
    _, sizes = sketched(tree, signs(tree), tolerances)
    assert np.allclose(sizes[:40], [1.0, *[1e-3] * 39])  # the length of each row
    assert np.allclose(sizes[40:], tolerances.equation_cancelled / tolerances.missing_residual)


def test_weights_without_gradient_are_compared_with_the_rest_of_their_layer_and_else_with_one() -> None:
    tolerances, few = DEFAULTS.tolerances, np.zeros(40, np.float32)
    few[:10] = 3.0
    still = np.zeros((40, 4), np.float32)
    tree = {"live": {"few": few, "still": still}, "still": {"kernel": still}}
    _, sizes = sketched(tree, signs(tree), tolerances)
    assert np.allclose(sizes[:10], 3.0)
    usual, cancelled = tolerances.equation_floor, tolerances.equation_cancelled / tolerances.missing_residual
    assert np.allclose(sizes[10:40], 3.0 * max(usual, tolerances.equation_faint)), "of entries that are not zero"
    assert np.allclose(sizes[40:80], 3.0 * max(tolerances.equation_faint, cancelled))
    assert np.allclose(sizes[80:], 1.0)


def test_a_row_of_zeros_is_a_candidate_where_there_is_one() -> None:
    words = FeatureSpace(tuple(binary(f"word {i}") for i in range(4)))
    rows = np.array([[0, 0, 0, 0], [1, 0, 0, 1], [0, 1, 1, 0]])
    truth = Graph(rows, np.array([[0, 1], [1, 2]]), 1)
    problem = CensusProblem.of(observed(words, truth), Knowledge(words))
    codes = CensusCandidates(problem, FOREVER, Budget(time_limit=60)).start.nodes.codes
    assert any(np.array_equal(code, rows[0]) for code in codes)
    lab_space = CensusCandidates(
        CensusProblem.of(observed(ALIKE, equal_nodes(nx.path_graph(2))), Knowledge(ALIKE)),
        FOREVER,
        Budget(time_limit=60),
    )
    assert np.all(np.any(ALIKE.encode(lab_space.start.nodes.codes), axis=1))
