"""Spans that lack a dimension: a molecule whose adjacency is singular, completed from its blocks alone."""

from __future__ import annotations

import jax
import numpy as np

from jgleak.attacks.attack import Budget
from jgleak.attacks.span.combinations import Slot
from jgleak.attacks.span.deficit import completed
from jgleak.attacks.span.filter import BlockFilter
from jgleak.attacks.span.hops import Nodes
from jgleak.attacks.span.levels import find_nodes
from jgleak.attacks.span.sites import sites
from jgleak.attacks.span.subspace import Subspace
from jgleak.datasets import load
from jgleak.datasets.molecules import molecule_graph
from jgleak.federated import Knowledge, Observation, fedsgd
from jgleak.gnn import GNN
from jgleak.graph import Graph

FOREVER = Budget(seconds=1e6).start()


def seen(smiles: str) -> tuple[Graph, Observation, Nodes, Subspace]:
    """A molecule, what the server sees of it, the node vectors that pass, and the span of its 1-hop rows."""
    graph, space = molecule_graph(smiles, 1), load("embedded").space
    model = GNN(in_features=space.width)
    observation = fedsgd(model, model.initial(key=jax.random.key(0)), [graph], space, loss="bce")
    nodes = find_nodes(observation, Knowledge(space), clock=FOREVER)
    [node] = [site for site in sites(observation, 1) if site.name == "node"]
    return graph, observation, nodes, Subspace.of_gradient(node.gradient, most=40)


def completions(observation: Observation, nodes: Nodes, span: Subspace) -> tuple[BlockFilter, list[Subspace]]:
    search = BlockFilter(observation.model, observation.params, 0, nodes.rows, nodes.degrees)
    options = np.flatnonzero(nodes.degrees > 0)
    requests = [(c, [Slot(options, int(degree))]) for c, degree in enumerate(nodes.degrees)]
    return search, completed(search, requests, span, FOREVER)


def true_rows(graph: Graph, nodes: Nodes, search: BlockFilter) -> np.ndarray:
    """The states of the graph's different 1-hop blocks."""
    places = {tuple(codes): i for i, codes in enumerate(nodes.codes.tolist())}
    entry = [places[tuple(codes)] for codes in graph.x.tolist()]
    blocks = sorted({(entry[v], tuple(sorted(entry[u] for u in graph.neighbours[v]))) for v in range(graph.n)})
    return search.confirm([centre for centre, _ in blocks], [list(around) for _, around in blocks])[2]


def test_the_shared_direction_is_the_missing_one() -> None:
    graph, observation, nodes, span = seen("CNC(=O)ON=CC(C)(C)S(C)=O")
    looped = graph.adjacency + np.eye(graph.n)
    assert np.linalg.matrix_rank(looped) < graph.n
    search, found = completions(observation, nodes, span)
    rows = true_rows(graph, nodes, search)
    assert np.linalg.matrix_rank(rows, tol=1e-8 * np.abs(rows).max()) == span.rank + 1 == found[0].rank
    assert np.sum(span.distances(rows) > 1e-2) >= 3, "several true rows lie far outside"
    assert np.all(found[0].distances(rows) < 1e-4) and found[0].tolerance >= 1e-4
    np.testing.assert_allclose(found[0].basis.T @ found[0].basis, np.eye(found[0].rank), atol=1e-9)
    inside = span.basis @ np.random.default_rng(0).normal(size=(span.rank, 5))
    assert np.all(found[0].distances(inside.T * span.scale) < 1e-9), "nothing of the span is lost"


def test_without_time_nothing_is_found() -> None:
    _, observation, nodes, span = seen("CNC(=O)ON=CC(C)(C)S(C)=O")
    search = BlockFilter(observation.model, observation.params, 0, nodes.rows, nodes.degrees)
    assert completed(search, [(0, [Slot(np.arange(3), 1)])], span, Budget(seconds=1e-9).start()) == []
    assert completed(search, [], span, FOREVER) == []
