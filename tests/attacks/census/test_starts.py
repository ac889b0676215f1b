"""Feature vectors to begin with where a singular adjacency hides the nodes' rows."""

from __future__ import annotations

import dataclasses

import jax
import numpy as np
import pytest

from jgleak import Budget, Knowledge, get_attack
from jgleak.attacks.census.problem import CensusProblem
from jgleak.attacks.census.starts import OCCURRING, hidden
from jgleak.attacks.span.levels import input_subspace
from jgleak.datasets import load
from jgleak.datasets.molecules import molecule_graph
from jgleak.features import FeatureSpace
from jgleak.federated import Observation, fedsgd
from jgleak.gnn import GNN, MLP, GCNConv, Layer, Pooled
from jgleak.graph import Graph

DATA = load("embedded")
RAW = dataclasses.replace(DATA.space, mean=None, std=None)
MODEL = GNN(DATA.space.width, tuple(Layer(GCNConv(64, bias=True), "relu") for _ in range(2)), Pooled(mlp=MLP((16, 2))))
PARAMS = MODEL.initial(key=jax.random.key(0))


def seen(smiles: str, space: FeatureSpace = DATA.space) -> tuple[Graph, Observation]:
    """A molecule of six atoms, X2A-BX2, and its gradient."""
    graph = dataclasses.replace(molecule_graph(smiles), y=1)
    return graph, fedsgd(MODEL, PARAMS, [graph], space, loss="ce")


@pytest.mark.parametrize(
    ("smiles", "space"), [("CC(=O)C(C)O", DATA.space), ("CC(=O)C(C)O", RAW), ("NC(=O)C(Cl)Cl", RAW)]
)
def test_a_tree_whose_nodes_are_hidden_is_found(smiles: str, space: FeatureSpace) -> None:
    graph, observation = seen(smiles, space)
    knowledge = Knowledge(space, prior="none")
    span = input_subspace(observation, knowledge)
    rows = knowledge.space.encode(graph.x).astype(float)
    assert not np.any(span.distances(rows) <= span.tolerance), "no node is in the span"
    answer = get_attack("census")(observation, knowledge, key=jax.random.key(1), budget=Budget(seconds=60))
    certificate = answer.certificate
    assert any(one.isomorphic(graph) for one in answer.graphs)
    assert certificate is not None and OCCURRING in certificate.conditions
    assert (certificate.status == "unique") == (len(answer.graphs) == 1)


def test_every_vector_of_values_that_occur_is_there_and_no_other() -> None:
    graph, observation = seen("CC(=O)C(C)O", RAW)
    start = hidden(CensusProblem.of(observation, Knowledge(RAW)))
    assert start is not None and start.complete
    free = [g for g, feature in enumerate(RAW.features) if feature.determined_by is None]
    values = [set(graph.x[:, g].tolist()) for g in free]
    found = {tuple(row) for row in start.nodes.codes[:, free].tolist()}
    assert len(found) == np.prod([len(one) for one in values])
    assert all(code in one for row in found for code, one in zip(row, values, strict=True))
    assert {tuple(row) for row in graph.x[:, free].tolist()} <= found


def test_nothing_is_hidden_from_who_knows_the_rows_or_sees_noise() -> None:
    graph, observation = seen("CC(=O)C(C)O", RAW)
    for knows in (Knowledge(RAW, n=graph.n, features=graph.x), Knowledge(RAW, noise=1e-6)):
        assert hidden(CensusProblem.of(observation, knows)) is None
