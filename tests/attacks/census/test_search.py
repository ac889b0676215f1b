"""The search among graphs, where few feature vectors state no degree."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import networkx as nx
import numpy as np
import pytest
from models import flat, some_params

from jgleak import Budget, Knowledge, get_attack
from jgleak.attacks.census import search
from jgleak.attacks.census.assemble import AnonymitySet, ExplainingGraph, Growing
from jgleak.attacks.census.growth import Assembly
from jgleak.attacks.census.moves import Linked, Moves
from jgleak.attacks.census.node_sums import NodeSums
from jgleak.attacks.census.problem import CensusProblem
from jgleak.attacks.census.rooted_states import BATCH, RootedStates, Rows
from jgleak.attacks.census.search import SEARCHED, levels_of, searchable
from jgleak.attacks.census.sketch import sketch
from jgleak.attacks.census.tempering import FLOOR, Near, _energies
from jgleak.attacks.distance import gradient_distances
from jgleak.attacks.span.hops import Nodes
from jgleak.features import FeatureSpace, onehot
from jgleak.federated import LocalTraining, Observation, fedsgd
from jgleak.gnn import GNN
from jgleak.gnn.tree import over
from jgleak.graph import Graph, GraphBatch
from tests.clocks import Ticking

KINDS, MOST = 2, 4
SPACE = FeatureSpace((onehot("kind", range(KINDS)),)).fit([np.array([[0], [0], [1]])])
CODES = np.arange(KINDS)[:, None]
MODELS: Mapping[str, dict[str, Any]] = {
    "gcn, one MLP for every node": {},
    "gin, sum, wider than a batch": {"conv": "gin", "readout": "pooled", "pooling": "sum", "hidden": BATCH + 2},
    "sage, mean, three layers": {"conv": "sage", "readout": "pooled", "layers": 3},
}


def drawn(rng: np.random.Generator, n: int) -> Graph:
    """A random path with a ring and a branch."""
    edges = [*((i, i + 1) for i in range(n - 2)), (int(rng.integers(n - 1)), n - 1), (0, 3)]
    return Graph(rng.integers(KINDS, size=(n, 1)).astype(np.int32), np.array(edges), 1)


def observed(graph: Graph, jump: str = "last", **fields: Any) -> Observation:
    model = flat(in_features=SPACE.width, **({"hidden": 32, "readout_widths": (24, 8)} | fields)).clone(jump=jump)
    params = some_params(model)
    return fedsgd(model, params, [graph], SPACE, loss="bce")


def padded(graphs: list[Graph]) -> tuple[np.ndarray, np.ndarray]:
    """Adjacency and kinds of several graphs side by side."""
    n = max(graph.n for graph in graphs)
    adjacency = np.stack([np.pad(graph.adjacency > 0, (0, n - graph.n)) for graph in graphs])
    return adjacency, np.stack([np.pad(graph.x[:, 0], (0, n - graph.n), constant_values=-1) for graph in graphs])


def shown(sums: NodeSums, graph: Graph) -> np.ndarray:
    """What the readout would show of a graph under the observed upstream gradient, from the whole model at once."""
    model, batch = sums.model, GraphBatch.from_graphs([graph], SPACE)
    whole = [jnp.asarray(leaf[0]) for leaf in (batch.nodes, batch.adjacency, batch.node_mask)]
    if model.readout.additive == "pooled":
        return np.asarray(model.apply({"params": sums.params}, *whole, method="embed"))

    def along(weights: Any) -> Any:
        logits: Any = model.apply({"params": over(sums.params, weights)}, *whole)
        return sums.upstream @ logits

    return np.asarray(sketch(jax.grad(along)({"readout": sums.params["readout"]}), sums.vectors))


@pytest.mark.parametrize("name", MODELS)
def test_misfits_are_those_of_whole_models(name: str) -> None:
    rng = np.random.default_rng(0)
    truth, *others = drawn(rng, 8), drawn(rng, 8), drawn(rng, 6)
    seen = observed(truth, jump="cat" if "three" in name else "last", **MODELS[name])
    sums = NodeSums(CensusProblem.of(seen, Knowledge(SPACE)), CODES, MOST)
    graphs = [truth, *others]
    found = sums.misfits(*padded(graphs))
    wanted = [(shown(sums, one) / sums.scale - sums.seen) / np.linalg.norm(sums.seen) for one in graphs]
    np.testing.assert_allclose(found, wanted, atol=1e-5)
    lengths = np.linalg.norm(found, axis=1)
    assert lengths[0] < 1e-5 < 1e-2 < lengths[1:].min()
    np.testing.assert_array_equal(found, sums.misfits(*padded(graphs)))  # remembered neighbourhoods


def test_rooted_neighbourhoods_are_named_and_embedded_once() -> None:
    """Two nodes have one number where all that two layers see of them is equal, degrees included, in one graph or two;
    its row and state are those of the whole model. There are more than are embedded at once."""
    rng = np.random.default_rng(1)
    graphs = [drawn(rng, int(rng.integers(6, 11))) for _ in range(40)]
    sums = NodeSums(CensusProblem.of(observed(graphs[0]), Knowledge(SPACE)), CODES, MOST)
    states = RootedStates(sums.model, sums.params, sums.inputs, sums.degrees, MOST)
    adjacency, kinds = padded(graphs)
    entries = np.maximum(kinds, 0) * (MOST + 1) + adjacency.sum(axis=2)
    first = states.numbers(adjacency[:5], entries[:5])
    (more,) = states.taken()
    numbers = states.numbers(adjacency, entries)
    assert np.array_equal(numbers[:5], first), "what is known keeps its number"
    inputs, found = (np.concatenate(parts) for parts in zip(more, *states.taken(), strict=True))
    assert not states.taken() and np.array_equal(states.numbers(adjacency, entries), numbers) and not states.taken()
    name = np.array([f"{graph.x[v, 0]} of {graph.degree[v]}" for graph in graphs for v in range(graph.n)], object)
    starts = np.cumsum([0, *(graph.n for graph in graphs)])
    for _ in range(2):
        around = [
            [start + u for u in graph.neighbours[v]]
            for start, graph in zip(starts, graphs, strict=False)
            for v in range(graph.n)
        ]
        name = np.array([f"({name[v]}: {' '.join(sorted(name[beside]))})" for v, beside in enumerate(around)], object)
    there = numbers[kinds >= 0]
    pairs = set(zip(there.tolist(), name.tolist(), strict=True))
    assert len(pairs) == len(set(there.tolist())) == len(set(name.tolist())) > BATCH
    alone = kinds < 0
    assert found.shape[0] == numbers.max() + 1 == len(pairs) + len(set(numbers[alone].tolist()) - set(there.tolist()))
    batch = GraphBatch.from_graphs(graphs, SPACE)
    whole = jax.vmap(lambda *one: sums.model.apply({"params": sums.params}, *one, method="states")[-1])
    wanted = np.asarray(whole(batch.nodes, batch.adjacency, batch.node_mask))[:, : kinds.shape[1]][~alone]
    np.testing.assert_allclose(found[there], wanted, atol=1e-5)
    np.testing.assert_allclose(inputs[there], np.asarray(batch.nodes)[:, : kinds.shape[1]][~alone])


def test_many_small_parts_are_added_up_in_double_precision() -> None:
    """A part so large that single precision loses the others."""
    graphs = [drawn(np.random.default_rng(seed), 8) for seed in range(3)]
    sums = NodeSums(CensusProblem.of(observed(graphs[0]), Knowledge(SPACE)), CODES, MOST)
    adjacency, kinds = padded(graphs)
    sums.misfits(adjacency, kinds)
    sums.columns.array[:] = 1.0
    sums.columns.array[0] = 2.0**26
    numbers = sums.states.numbers(adjacency, kinds * (MOST + 1) + adjacency.sum(axis=-1))
    assert (numbers == 0).any()
    mean = np.where(numbers == 0, 2.0**26, 1.0).mean(axis=1)
    whole = sums.misfits(adjacency, kinds) * np.linalg.norm(sums.seen) + sums.seen
    np.testing.assert_allclose(whole, np.repeat(mean[:, None], sums.seen.size, axis=1), rtol=1e-9)


def test_an_array_of_rows_grows_by_doubling() -> None:
    rows = Rows(np.arange(6).reshape(3, 2))
    rows.add(np.full((1, 2), 7))
    assert (rows.size, rows.array.shape, rows.array.dtype) == (4, (8, 2), np.int64)
    whole = rows.array
    rows.add(np.full((4, 2), 8))
    assert rows.array is whole and rows.size == 8
    rows.add(np.full((1, 2), 9))
    assert rows.array.shape == (18, 2)
    assert rows.array[: rows.size, 0].tolist() == [0, 2, 4, 7, 8, 8, 8, 8, 9]


def walk(moves: Moves, graph: Linked, steps: int) -> list[Linked]:
    rng, found = np.random.default_rng(0), [graph]
    for _ in range(steps):
        found.append(moves.changed(found[-1], rng) or found[-1])
    return found


def test_moves_reach_every_connected_graph_of_known_nodes_and_no_other() -> None:
    moves = Moves(KINDS, MOST, range(5, 6), fixed=np.array([0, 0, 0, 0, 1]))
    seen = walk(moves, moves.start(np.random.default_rng(1)), 3_000)
    for graph in seen:
        assert nx.is_connected(nx.Graph(graph.adjacency)) and not np.diag(graph.adjacency).any()
        assert (graph.adjacency == graph.adjacency.T).all() and graph.adjacency.sum(axis=1).max() <= MOST
        assert sorted(graph.kinds.tolist()) == [0, 0, 0, 0, 1]
    forms = {Graph(g.kinds[:, None], np.argwhere(np.triu(g.adjacency))).canonical_form() for g in seen}
    assert len(forms) == 58  # connected graphs of 5 nodes with one of them marked (OEIS A126100)


def test_moves_change_numbers_and_kinds_of_nodes_where_they_are_not_known() -> None:
    moves = Moves(3, 3, range(2, 7))
    seen = walk(moves, moves.start(np.random.default_rng(1)), 1_000)
    assert {graph.kinds.size for graph in seen} == {2, 3, 4, 5, 6}
    assert {kind for graph in seen for kind in graph.kinds.tolist()} == {0, 1, 2}
    assert all(nx.is_connected(nx.Graph(g.adjacency)) and g.adjacency.sum(axis=1).max() <= 3 for g in seen)


def test_blocks_of_a_graph_assemble_to_it() -> None:
    graph = drawn(np.random.default_rng(3), 9)
    problem = CensusProblem.of(observed(graph), Knowledge(SPACE))
    levels, counts = levels_of(problem, Linked(graph.adjacency > 0, graph.x[:, 0]), CODES, MOST)
    assert (levels.top.checked, levels.complete, levels.conditions) == (0, False, (SEARCHED,)), "no check was made"
    for blocks in levels.hops:
        assert np.array_equal(levels.nodes.degrees[blocks.kinds], blocks.degrees)
    assembly = Assembly(levels.top, counts, clock=Budget(time_limit=60).start(), most=100_000)
    found = [
        Graph(levels.nodes.codes[levels.top.kinds[list(one.blocks)]], np.array(one.edges)) for one in assembly.graphs()
    ]
    assert any(one.isomorphic(graph) for one in found)
    assert all(sorted(one.degree.tolist()) == sorted(graph.degree.tolist()) for one in found)


@pytest.mark.parametrize(
    ("fields", "sizes"),
    [({"n": 7}, range(7, 8)), ({"max_n": 6}, range(2, 7)), ({}, range(2, 41)), ({"max_n": 1}, None)],
    ids=["known", "bounded", "the first round", "one node"],
)
def test_graphs_are_searched_among_the_numbers_of_nodes_that_are_tried_first(
    fields: dict[str, Any], sizes: range | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked, clock = list[Moves](), Budget(time_limit=60).start()

    def tempered(sums: NodeSums, moves: Moves, **how: Any) -> Iterator[None]:
        assert how == {"replicas": problem.limits.replicas, "most": problem.fit.most, "clock": clock}
        asked.append(moves)
        yield from (None, None)

    monkeypatch.setattr(search, "tempered", tempered)
    problem = CensusProblem.of(observed(drawn(np.random.default_rng(5), 7)), Knowledge(SPACE, **fields))
    codes, degrees = np.repeat(CODES, 3, axis=0), np.array([1, 2, 3] * 2)
    nodes = Nodes(codes, SPACE.encode(codes), degrees)
    levels, found, info = search.searched(problem, nodes, clock)
    assert (levels, found.graphs, found.exhausted) == (None, (), False), "a search excludes nothing"
    if sizes is None:
        assert not asked and not info
        return
    (moves,) = asked
    assert (moves.sizes, moves.kinds, moves.most, moves.fixed) == (sizes, KINDS, 3, None)
    assert info == {"rounds": 2, "censuses": 0, "partials": 0}
    none = Nodes(codes[:0], SPACE.encode(codes[:0]), degrees[:0])
    levels, found, _ = search.searched(problem, none, clock)
    assert levels is None and not found.exhausted and len(asked) == 1


@pytest.mark.parametrize(
    ("graphs", "residual", "listed", "rounds"),
    [(True, 1e-6, 9, 2), (True, 1e-4, 9, 6), (False, 1e-6, 9, 6), (True, 1e-4, 1, 0)],
    ids=["found", "not near enough", "nothing assembled", "a full list"],
)
def test_a_search_goes_on_for_four_times_as_long_as_its_first_graph_took(
    graphs: bool, residual: float, listed: int, rounds: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    truth = drawn(np.random.default_rng(5), 7)
    near = Near(Linked(truth.adjacency > 0, truth.x[:, 0]), residual)
    one = AnonymitySet((ExplainingGraph(truth, residual, truth.canonical_form()),) if graphs else ())
    monkeypatch.setattr(search, "tempered", lambda *_, **__: iter([near, near, *[None] * 6]))
    monkeypatch.setattr(Growing, "every", lambda *_: one)
    problem = CensusProblem.of(observed(truth), Knowledge(SPACE, n=7))
    limits = dataclasses.replace(problem.limits, listed=listed)
    problem = dataclasses.replace(problem, settings=dataclasses.replace(problem.settings, limits=limits))
    nodes = Nodes(CODES, SPACE.encode(CODES), np.array([3, 3]))
    levels, found, info = search.searched(problem, nodes, Ticking(0.0, 1e9))
    assert info["rounds"] == rounds and found.censuses == 1 and not found.exhausted, "no census is looked at twice"
    assert (levels is not None) == graphs == bool(found.graphs)


def test_graphs_that_differ_only_in_their_last_hop_are_both_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two trees of equal nodes with three, two, two and thrice one neighbours; one of them in another order as well."""
    trees = [[(0, 1), (0, 2), (0, 3), (3, 4), (4, 5)], [(0, 1), (0, 2), (0, 3), (2, 4), (3, 5)]]
    graphs = [Graph(np.zeros((6, 1), np.int32), np.array(edges), 1) for edges in trees]
    graphs.append(graphs[0].permute(np.arange(6)[::-1]))
    near = [Near(Linked(graph.adjacency > 0, graph.x[:, 0]), 1e-6) for graph in graphs]
    asked = list[int]()
    monkeypatch.setattr(search, "tempered", lambda *_, **__: iter(near))
    monkeypatch.setattr(Growing, "every", lambda *_: asked.append(1) or AnonymitySet())
    problem, nodes = (
        CensusProblem.of(observed(graphs[0]), Knowledge(SPACE, n=6)),
        Nodes(CODES, SPACE.encode(CODES), np.array([3, 3])),
    )
    _, found, _ = search.searched(problem, nodes, Budget(time_limit=60).start())
    assert len(asked) == found.censuses == 2 and not found.exhausted


@pytest.mark.parametrize("known", ["features", "nothing"])
@pytest.mark.long
def test_a_graph_whose_blocks_are_too_many_to_count_is_found(known: str) -> None:
    truth = drawn(np.random.default_rng(5), 7 if known == "features" else 5)
    seen = observed(truth, hidden=16)
    knowledge = Knowledge(SPACE, max_n=6) if known == "nothing" else Knowledge(SPACE, n=7, features=truth.x)
    only = {"hop_blocks": "1", "counting_share": "0.01", "enumerated_nodes": "0"}  # nothing is counted or enumerated
    census = get_attack("census").with_options(only)
    answer = census(seen, knowledge, key=jax.random.key(0), budget=Budget(time_limit=300))
    assert any(one.isomorphic(truth) for one in answer.graphs)
    distances = [distance for distance, _ in gradient_distances(seen, SPACE, answer.graphs)]
    assert max(distances) <= 1e-4 and min(distances) < 1e-5
    assert answer.certificate is not None and answer.certificate.status == "at_least_k"
    assert SEARCHED in answer.certificate.conditions


def test_degrees_noise_pruning_and_blocks_of_a_hop_less_leave_the_search_out() -> None:
    truth = drawn(np.random.default_rng(5), 7)
    seen = observed(truth)
    degrees = FeatureSpace((onehot("degree", range(5)),), degree="degree")
    assert searchable(CensusProblem.of(seen, Knowledge(SPACE)))
    assert not searchable(CensusProblem.of(seen, Knowledge(SPACE, noise=1e-6)))
    assert not searchable(CensusProblem.of(seen, Knowledge(degrees)))
    assert not searchable(CensusProblem.of(dataclasses.replace(seen, pruned=True), Knowledge(SPACE)))
    linear = observed(truth, readout="pooled", last_act=False)
    assert not searchable(CensusProblem.of(linear, Knowledge(SPACE)))
    several = dataclasses.replace(seen, protocol="fedavg", local=LocalTraining(0.1, 2))
    assert not searchable(CensusProblem.of(several, Knowledge(SPACE)))


@pytest.mark.parametrize("name", ["node_level", "edge_classes", "returns_statistics"])
def test_labels_of_nodes_classes_of_edges_and_batch_statistics_leave_the_search_out(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    problem = CensusProblem.of(observed(drawn(np.random.default_rng(5), 7)), Knowledge(SPACE))
    assert searchable(problem)
    monkeypatch.setattr(GNN, name, property(lambda _: 2))
    assert not searchable(problem)


def test_misfits_of_zero_have_the_least_energy(monkeypatch: pytest.MonkeyPatch) -> None:
    """``log FLOOR`` for the mean over equations, and for the residual; a misfit in one equation of four alone."""
    misfits = np.array([[0.0] * 4, [0.0, 3.0, 0.0, 0.0]])
    monkeypatch.setattr(NodeSums, "misfits", lambda *_: misfits)
    sums = object.__new__(NodeSums)
    graphs = [Linked(np.zeros((n, n), bool), np.zeros(n, np.int64)) for n in (2, 3)]
    energies, residuals = _energies(sums, graphs)
    floor = np.log(FLOOR)
    assert residuals.tolist() == [0.0, 3.0]
    np.testing.assert_allclose(energies, [2 * floor, (3 * floor + np.log(6.0 + FLOOR)) / 4 + np.log(3.0 + FLOOR)])
