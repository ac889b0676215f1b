"""Attacks on models that are shown integers and masses as they are, rather than one-hot."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
import pytest

from jgleak.attacks.attack import Budget
from jgleak.attacks.registry import get_attack
from jgleak.features import Feature, FeatureSpace, number, onehot, real
from jgleak.federated import Knowledge, fedsgd
from jgleak.federated.observation import Observation
from jgleak.gnn import GNN, MLP, GCNConv, Layer, Pooled
from jgleak.graph import Graph
from jgleak.metrics.exact import isomorphism
from jgleak.metrics.gsm import gsm

ELEMENT = onehot("element", ("C", "N", "O"))
CHARGE = number("charge", (-1, 0, 2))
MASS = Feature("mass", (12.011, 14.007, 15.999), "number", "element", (0, 1, 2))
X = np.array([[0, 1, 0], [1, 2, 1], [2, 0, 2], [0, 0, 0]])
EDGES = np.array([[0, 1], [1, 2], [1, 3]])


def observed(space: FeatureSpace, graph: Graph) -> Observation:
    """The gradient of one graph under a GCN of two layers."""
    layers = (Layer(GCNConv(24, bias=True)), Layer(GCNConv(24, bias=True)))
    model = GNN(space.width, layers, Pooled("mean", MLP((16, 2))))
    params: Any = model.initial(key=jax.random.key(1))
    return fedsgd(model, params, [graph], space, loss="ce")


@pytest.mark.long
def test_the_census_finds_integers_and_what_an_element_determines() -> None:
    """Columns are normalised: under raw masses all nodes switch on the same units, and the gradient has rank 1."""
    space, graph = FeatureSpace((ELEMENT, CHARGE, MASS)).fit([X]), Graph(X, EDGES, 1)
    known = Knowledge(space, n=4, labels=np.array([1]))
    found = get_attack("census")(observed(space, graph), known, key=jax.random.key(0), budget=Budget(time_limit=60.0))
    assert isomorphism(graph, found.graphs[0]) is not None
    assert gsm(graph, found.graphs[0], space).gsm0 == 1.0


@pytest.mark.long
def test_real_columns_beside_discrete_ones_are_for_attacks_that_search_numbers() -> None:
    space = FeatureSpace((ELEMENT, CHARGE, real("radius")))
    graph = Graph(np.array([[0, 1, 0.3], [1, 2, -0.2], [2, 0, 0.1], [0, 0, 0.9]]), EDGES, 1)
    seen, known = observed(space, graph), Knowledge(space, n=4, labels=np.array([1]))
    with pytest.raises(ValueError, match="real-valued ones; use discrete features .--no-attributes"):
        get_attack("census")(seen, known, key=jax.random.key(0), budget=Budget(time_limit=60.0))
    found = get_attack("dlg").with_options({"steps": "3"})(
        seen, known, key=jax.random.key(0), budget=Budget(time_limit=60.0)
    )
    space.check(found.graphs[0].x)
