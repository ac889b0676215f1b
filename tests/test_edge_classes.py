"""Edges of several classes: in graphs, batches, metrics, files and pictures, and found again by the census."""

from __future__ import annotations

import dataclasses
from itertools import product
from typing import Any

import jax
import jax.numpy as jnp
import networkx as nx
import numpy as np
import pytest
from models import some_params
from rdkit import Chem
from rich.console import Console
from typer.testing import CliRunner

from jgleak import Budget, FeatureSpace, Graph, Knowledge
from jgleak.attacks.census.census import CENSUS
from jgleak.attacks.census.problem import CensusProblem
from jgleak.attacks.census.public_blocks import beside
from jgleak.attacks.census.screen import passing
from jgleak.attacks.census.system import Rules
from jgleak.attacks.distance import gradient_distances
from jgleak.attacks.registry import ATTACKS
from jgleak.attacks.span.hops import Blocks, Nodes
from jgleak.audit.describe import describe
from jgleak.audit.table import graph_table
from jgleak.cli import app
from jgleak.datasets import load
from jgleak.datasets.auxiliary import adapted
from jgleak.datasets.molecules import molecule_graph, with_bonds
from jgleak.draw import inline_svg
from jgleak.features import onehot
from jgleak.federated import fedsgd, save
from jgleak.federated import load as load_observation
from jgleak.gnn import GNN, MLP, GCNConv, GINEConv, Layer, LinearEncoder, NodeMLP, Pooled, standard
from jgleak.gnn.gine import one_hot_rows
from jgleak.graph import GraphBatch, distinct
from jgleak.metrics.alignment import align
from jgleak.metrics.exact import exact
from jgleak.metrics.gsm import gsm
from jgleak.smiles import smiles
from tests.clocks import HELD

SPACE = FeatureSpace((onehot("colour", ("red", "blue")), onehot("degree", range(5))), "degree", edge_classes=("a", "b"))


def drawn(n: int, seed: int, classes: int = 2) -> Graph:
    """A connected random graph whose nodes state their degrees."""
    rng = np.random.default_rng(seed)
    edges = {(int(rng.integers(v)), v) for v in range(1, n)} | {tuple(sorted(rng.choice(n, 2, False).tolist()))}
    pairs = np.array(sorted(edges))
    x = np.c_[rng.integers(2, size=n), np.bincount(pairs.ravel(), minlength=n)]
    return Graph(x, pairs, int(rng.integers(2)), edge_class=rng.integers(classes, size=len(pairs)))


def model_of(classes: int = 2, width: int = 32, readout: Any = None) -> GNN:
    layers = tuple(Layer(GINEConv(width, True, edge_rows=one_hot_rows(classes)), act) for act in ("relu", "identity"))
    return GNN(SPACE.width, layers, readout or NodeMLP(MLP((24, 2)), see_input=False), LinearEncoder(width, bias=False))


@pytest.mark.parametrize("seed", range(20))
def test_the_canonical_form_is_that_of_every_order_and_knows_classes(seed: int) -> None:
    rng, graph = np.random.default_rng(seed), drawn(6, seed)
    for _ in range(5):
        moved = graph.permute(rng.permutation(graph.n))
        assert moved.canonical_form() == graph.canonical_form() and exact(graph, moved) and graph.isomorphic(moved)
    plain = dataclasses.replace(graph, edge_class=None)
    assert plain.permute(rng.permutation(6)).canonical_form() == plain.canonical_form() != graph.canonical_form()
    assert not exact(graph, plain) and not graph.isomorphic(plain)
    assert graph.edge_class is not None
    for edge in range(len(graph.edges)):
        other = dataclasses.replace(graph, edge_class=graph.edge_class ^ (np.arange(len(graph.edges)) == edge))
        same = graph.isomorphic(other)
        assert exact(graph, other) == same == (other.canonical_form() == graph.canonical_form())


def test_classes_follow_their_edges_into_order() -> None:
    graph = Graph(np.zeros((3, 1), int), np.array([[2, 1], [1, 0]]), edge_class=np.array([1, 0]))
    assert graph.edges.tolist() == [[0, 1], [1, 2]] and graph.edge_class is not None
    assert graph.edge_class.tolist() == [0, 1]
    back = Graph.from_networkx(graph.to_networkx())
    assert back.edge_class is not None and back.edge_class.tolist() == [0, 1]


def test_bridges_keep_classes_and_an_edge_has_one() -> None:
    graphs = [drawn(5, seed) for seed in range(3)] + [Graph(np.array([[0, 0]]), np.zeros((0, 2), int))]
    back = [one for graph in graphs for one in Graph.from_jraph(graph.to_jraph(SPACE), SPACE)]
    assert all(exact(graph, one) for graph, one in zip(graphs, back, strict=True))
    tuples = graphs[0].to_jraph(SPACE)
    turned = np.asarray(tuples.edges).copy()
    turned[0] = turned[0, ::-1]
    for edges, message in ((turned, "another class in the other direction"), (turned[:, :1], "one column a class")):
        with pytest.raises(ValueError, match=message):
            Graph.from_jraph(tuples._replace(edges=edges), SPACE)
    directed = graphs[0].to_networkx().to_directed()
    assert exact(graphs[0], Graph.from_networkx(directed))
    u, v = next(iter(directed.edges))
    directed.edges[u, v]["edge_class"] = 1 - directed.edges[v, u]["edge_class"]
    with pytest.raises(ValueError, match="has two; an edge has one class"):
        Graph.from_networkx(directed)


@pytest.mark.parametrize("seed", range(5))
def test_an_alignment_takes_an_isomorphism_of_the_edges(seed: int) -> None:
    """In a cubic graph of equal nodes, matching them one by one finds no whole order."""
    rng = np.random.default_rng(seed)
    edges = np.array(nx.random_regular_graph(3, 12, seed=seed).edges)
    cubic = Graph(np.tile([0, 3], (12, 1)), edges, edge_class=rng.integers(2, size=18))
    moved = cubic.permute(rng.permutation(12))
    order = align(cubic, SPACE, adjacency=moved.adjacency, nodes=SPACE.encode(moved.x))
    np.testing.assert_array_equal(moved.permute(order).adjacency, cubic.adjacency)


def test_a_graph_in_words_names_its_classes() -> None:
    graph = Graph(np.array([[0, 1], [1, 2], [0, 1]]), np.array([[0, 1], [1, 2]]), edge_class=np.array([1, 0]))
    assert describe(graph, SPACE)["edge_classes"] == ["b", "a"]
    console = Console(record=True, width=80)
    console.print(graph_table(graph, SPACE))
    assert "0 b, 2 a" in console.export_text()


def test_public_neighbourhoods_know_the_classes_of_their_edges() -> None:
    x = np.array([[0, 1], [1, 2], [0, 1]])
    graph = Graph(x, np.array([[0, 1], [1, 2]]), edge_class=np.array([0, 1]))
    nodes = Nodes(x[:2], SPACE.encode(x[:2]), x[:2, 1], classes=2)
    assert beside(nodes, [graph]).listed == ((0, (2,)), (0, (3,)), (1, (0, 1)))


def test_public_graphs_keep_their_classes_or_are_refused() -> None:
    graph, public = drawn(5, 2), [drawn(6, seed) for seed in range(3)]
    kept = adapted(public, SPACE, SPACE)
    assert all(
        dataclasses.replace(one, x=other.x).canonical_form() == other.canonical_form()
        for one, other in zip(kept, public, strict=True)
    )
    bare = dataclasses.replace(SPACE, edge_classes=())
    assert all(one.edge_class is None for one in adapted(public, SPACE, bare))
    with pytest.raises(ValueError, match="was shown the edge classes a, b, these public graphs have none"):
        adapted(public, bare, SPACE)
    model = model_of()
    observation = fedsgd(model, some_params(model), [graph], SPACE, loss="ce")
    blind = tuple(dataclasses.replace(one, edge_class=None) for one in public)
    assert CENSUS.refusal(observation, Knowledge(SPACE, auxiliary=tuple(public))) is None
    assert "the public graphs do not fit" in str(CENSUS.refusal(observation, Knowledge(SPACE, auxiliary=blind)))


@pytest.mark.parametrize(
    ("classes", "message"),
    [([0], "a class from 0 for each of the 2 edges"), ([0, -1], "a class from 0"), ([0.5, 1.0], "a class from 0")],
)
def test_classes_are_checked(classes: list[float], message: str, unchecked: Any) -> None:
    with pytest.raises(ValueError, match=message):
        Graph(np.zeros((3, 1), int), np.array([[0, 1], [1, 2]]), edge_class=np.array(classes))


def test_a_space_and_its_graphs_agree_on_classes() -> None:
    graph, bare = drawn(4, 0), dataclasses.replace(SPACE, edge_classes=())
    with pytest.raises(ValueError, match="the feature space lists none"):
        GraphBatch.from_graphs([graph], bare)
    with pytest.raises(ValueError, match="has the edge classes a, b, and the graph has none"):
        GraphBatch.from_graphs([dataclasses.replace(graph, edge_class=None)], SPACE)
    with pytest.raises(ValueError, match=r"class 2 is outside 0\.\.1"):
        GraphBatch.from_graphs([dataclasses.replace(graph, edge_class=np.full(len(graph.edges), 2))], SPACE)
    with pytest.raises(ValueError, match="tells 0 edge classes apart, but the feature space lists 2"):
        plain = standard(SPACE.width, "gcn", hidden=4)
        fedsgd(plain, some_params(plain), [graph], SPACE, loss="ce")
    assert FeatureSpace.from_json(SPACE.to_json()).edge_classes == SPACE.without("colour").edge_classes == ("a", "b")


def test_a_batch_takes_the_adjacency_apart() -> None:
    graphs = [drawn(5, seed) for seed in range(3)]
    adjacency = np.asarray(GraphBatch.from_graphs(graphs, SPACE).adjacency)
    for one, graph in zip(adjacency, graphs, strict=True):
        np.testing.assert_array_equal(one.sum(axis=2)[:5, :5], graph.adjacency)
        assert graph.edge_class is not None
        assert [int(one[u, v].argmax()) for u, v in graph.edges] == graph.edge_class.tolist()


def test_layers_without_classes_see_the_sum() -> None:
    conv = GCNConv(8)
    mixed = GNN(SPACE.width, (Layer(GINEConv(8, edge_rows=one_hot_rows(2))), Layer(conv, "identity")), Pooled())
    params, graph = some_params(mixed), drawn(5, 1)
    dense = jax.tree.map(lambda leaf: jnp.asarray(leaf[0]), GraphBatch.from_graphs([graph], SPACE)).dense
    _, first, last = mixed.apply({"params": params}, *dense, method="states")
    weights = {"params": mixed.conv_of(params, 1)}
    wanted = conv.apply(weights, first, dense.adjacency.sum(axis=-1), dense.mask)
    np.testing.assert_allclose(last, np.asarray(wanted), rtol=1e-5, atol=1e-6)


def test_gsm_counts_classes_from_the_first_hop_on() -> None:
    graph = drawn(6, 3)
    assert graph.edge_class is not None
    other = dataclasses.replace(graph, edge_class=1 - graph.edge_class)
    same, changed = gsm(graph, graph.permute(np.arange(6)[::-1]), SPACE), gsm(graph, other, SPACE)
    assert (same.gsm0, same.gsm1, same.gsm2) == (1.0, 1.0, 1.0)
    assert changed.gsm0 == 1.0 and changed.gsm1 < 1.0 and changed.gsm2 < 1.0


@pytest.mark.parametrize("seed", [0, 1, 4])
def test_the_anonymity_set_is_what_trying_every_graph_finds(seed: int) -> None:
    """All graphs of four nodes with these feature rows, every pair unjoined or joined by either class."""
    graph = drawn(4, seed)
    model = model_of()
    params = some_params(model, seed=seed)
    observation = fedsgd(model, params, [graph], SPACE, loss="ce")
    knowledge = Knowledge(SPACE, n=4)
    found = CENSUS(observation, knowledge, key=jax.random.key(0), budget=Budget(time_limit=30))
    pairs, every = np.array(np.triu_indices(4, 1)).T, []
    for choice in product(range(3), repeat=len(pairs)):
        picked = np.array(choice)
        edges = pairs[picked > 0]
        same_degrees = np.array_equal(np.bincount(edges.ravel(), minlength=4), graph.x[:, 1])
        one = Graph(graph.x, edges, edge_class=picked[picked > 0] - 1)
        if same_degrees and one.connected:
            every.append(one)
    every = distinct(every)
    near = [one for one, (d, _) in zip(every, gradient_distances(observation, SPACE, every), strict=True) if d < 1e-4]
    assert {one.canonical_form() for one in found.graphs} == {one.canonical_form() for one in near}
    assert found.certificate is not None and found.certificate.status in ("unique", "k_graphs")
    assert any(exact(graph, one) for one in found.graphs)


@pytest.fixture(scope="module")
def bonded() -> Any:
    return load("embedded", bonds=True)


@pytest.mark.parametrize("place", [pytest.param(1, marks=pytest.mark.slow), 20])
@pytest.mark.long
def test_bond_types_come_back(bonded: Any, place: int, tmp_path: Any) -> None:
    layers = tuple(Layer(GINEConv(64, True), act) for act in ("relu", "identity"))
    model = GNN(bonded.space.width, layers, NodeMLP(MLP((64, 2)), see_input=False), LinearEncoder(64, bias=False))
    params, graph = some_params(model), bonded.graphs[place]
    save(tmp_path / "seen.safetensors", fedsgd(model, params, [graph], bonded.space, loss="bce"), bonded.space)
    observation, space = load_observation(tmp_path / "seen.safetensors")
    assert observation.model == model and space.edge_classes == ("SINGLE", "DOUBLE", "TRIPLE", "AROMATIC")
    found = CENSUS(observation, Knowledge(space), key=jax.random.key(0), budget=Budget(time_limit=60))
    assert found.best is not None and exact(graph, found.best)
    glued = ATTACKS["grain"](observation, Knowledge(space), key=jax.random.key(0), budget=Budget(time_limit=60))
    listed = [one.canonical_form() for one in found.graphs]  # GRAIN returns the first match, which may be another
    assert glued.stop == "match" and glued.best is not None and glued.best.canonical_form() in listed
    assert "<path" in inline_svg(found.best, space, label="found")
    printed = CliRunner().invoke(app, ["invert", str(tmp_path / "seen.safetensors")]).output
    assert f"SMILES {Chem.CanonSmiles(graph.name.split(': ')[1], useChiral=0)}\n" in printed
    assert "with the bond types of the reconstruction" in printed


def test_a_molecule_with_bond_types_is_its_smiles() -> None:
    space = with_bonds(load("embedded").space)
    for text in ("CC(=O)Oc1ccccc1C(=O)O", "C#N", "c1ccc2[nH]ccc2c1", "C[N+](C)(C)CC([O-])=O"):
        found = smiles(molecule_graph(text, bonds=True), space)
        assert found is not None and found.texts == (Chem.CanonSmiles(text),) and "bond types" in found.note


def test_attacks_that_know_no_classes_say_so() -> None:
    model, graph = model_of(), drawn(5, 2)
    observation = fedsgd(model, some_params(model), [graph], SPACE, loss="ce")
    knowledge = Knowledge(SPACE, n=5)
    for attack in ATTACKS.values():
        reason = attack.refusal(observation, knowledge)
        assert attack.edge_classes or (reason is not None and "edge classes" in reason) or "protocol" in str(reason)
    for name in ("random", "empty"):
        found = ATTACKS[name](observation, knowledge, key=jax.random.key(1))
        assert found.best is not None and found.gradient_distance is not None
    with pytest.raises(ValueError, match="tells 2 edge classes apart, but the feature space lists 0"):
        CENSUS(observation, Knowledge(dataclasses.replace(SPACE, edge_classes=())), key=jax.random.key(0))
    raw = GNN(SPACE.width, (Layer(GINEConv(8, edge_rows=one_hot_rows(2))),), NodeMLP(MLP((4, 2)), see_input=False))
    seen = fedsgd(raw, some_params(raw), [graph], SPACE, loss="ce")
    with pytest.raises(ValueError, match="no linear map takes the nodes' own rows"):
        CENSUS(seen, knowledge, key=jax.random.key(0))


def test_the_comparison_of_whole_gradients_keeps_classes() -> None:
    """Of all ways to class the edges of a graph those of its own form have its gradient, and keep their classes."""
    model, graph = model_of(), drawn(4, 0)
    assert graph.edge_class is not None
    ways = [dataclasses.replace(graph, edge_class=np.array(one)) for one in product(range(2), repeat=len(graph.edges))]
    problem = CensusProblem.of(fedsgd(model, some_params(model), [graph], SPACE, loss="ce"), Knowledge(SPACE))
    own = [one.canonical_form() for one in ways if one.canonical_form() == graph.canonical_form()]
    found = passing(problem, ways, 6, HELD)
    assert [one.form for one in found] == [one.graph.canonical_form() for one in found] == own
    assert all(one.graph.y == graph.y for one in found) and 0 < len(own) < len(ways)


def test_edges_of_different_classes_are_balanced_apart() -> None:
    """Two classes of nodes, joined once by each edge class; and one class joined with itself by either."""
    neighbours = ((2,), (3,), (0,), (1, 0), (1,))  # of kinds 0, 0, 1, 0, 0: kind * 2 + edge class
    blocks = Blocks(
        roots=np.array([0, 0, 1, 0, 0]),
        kinds=np.array([0, 0, 1, 0, 0]),
        neighbours=neighbours,
        states=np.zeros((5, 1)),
        below=np.zeros((5, 0)),
        distances=np.zeros(5),
        checked=5,
        classes=2,
    )
    rules = Rules.of(blocks, np.arange(5))
    assert sorted(rules.balance.tolist()) == [[0, 1, 0, 0, 0], [1, 0, -1, 0, 0]]
    assert sorted(rules.loops.tolist()) == [[0, 0, 0, 1, 0], [0, 0, 0, 1, 1]]
