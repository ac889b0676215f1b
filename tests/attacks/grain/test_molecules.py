"""GRAIN end to end on well-known molecules: the graph comes back exactly, whatever the model."""

from __future__ import annotations

import dataclasses
from typing import Any

import jax
import numpy as np
import pytest
from models import flat

from jgleak.attacks.attack import Reconstruction
from jgleak.attacks.grain.grain import GRAIN
from jgleak.audit.clients import on_cycle
from jgleak.datasets import Dataset
from jgleak.datasets.embedded import embedded
from jgleak.federated import Knowledge
from jgleak.gnn import GNN
from jgleak.graph import Graph

SMALL = ("glycine", "toluene")


@pytest.fixture(scope="module")
def dataset() -> Dataset:
    return embedded()


def molecule(dataset: Dataset, name: str) -> Graph:
    return next(g for g in dataset.graphs if g.name.startswith(f"{name}:"))


def attack(lab: Any, model: GNN, truth: Graph, knowledge: Knowledge) -> Reconstruction:
    observation = lab.observe(model, truth, space=knowledge.space)
    return GRAIN(observation, knowledge, key=jax.random.key(0))


def check(found: Reconstruction, truth: Graph) -> None:
    assert found.best is not None and found.best.isomorphic(truth), truth.name
    assert found.stop == "match"
    assert found.gradient_distance is not None and found.gradient_distance < 1e-4
    assert found.info["blocks"] >= 1 and found.info["graphs_tested"] >= 1


@pytest.mark.parametrize(
    ("fields", "names"),
    [
        ({}, (*SMALL, "caffeine")),
        ({"act": "gelu"}, SMALL[1:]),
        ({"conv": "gat"}, SMALL[1:]),
        ({"conv": "sage"}, SMALL[1:]),
        ({"layers": 3}, SMALL[1:]),
    ],
    ids=["gcn", "gelu", "gat", "sage", "three layers"],
)
def test_molecules_come_back(fields: dict[str, Any], names: tuple[str, ...], lab: Any, dataset: Dataset) -> None:
    model = flat(in_features=dataset.space.width, **fields)
    for name in names:
        truth = molecule(dataset, name)
        found = attack(lab, model, truth, Knowledge(dataset.space))
        check(found, truth)
        assert found.best is not None and found.best.y == truth.y


def test_node_labels_come_back(lab: Any, dataset: Dataset) -> None:
    """Atoms that the model tells apart get their own labels; of others the counts are right."""
    model = flat(in_features=dataset.space.width, per_node=True)
    for name in SMALL:
        whole = molecule(dataset, name)
        truth = dataclasses.replace(whole, y=on_cycle(whole))
        found = attack(lab, model, truth, Knowledge(dataset.space))
        check(found, truth)
        assert found.best is not None and isinstance(found.best.y, np.ndarray) and isinstance(truth.y, np.ndarray)
        assert sorted(found.best.y.tolist()) == sorted(truth.y.tolist())


def test_degrees_that_are_no_feature_are_tried(lab: Any, dataset: Dataset) -> None:
    whole = molecule(dataset, "glycine")
    degree = dataset.space.degree
    assert degree is not None
    space = dataset.space.without(degree)
    truth = dataclasses.replace(whole, x=np.delete(whole.x, dataset.space.index(degree), axis=1))
    check(attack(lab, flat(in_features=space.width), truth, Knowledge(space)), truth)


def test_known_size_and_covers(lab: Any, dataset: Dataset) -> None:
    """Benzene's and cyclohexane's nodes are all equal: any ring of them has the gradient, and the smallest is taken."""
    model = flat(in_features=dataset.space.width)
    for name in ("benzene", "cyclohexane"):
        truth = molecule(dataset, name)
        free = attack(lab, model, truth, Knowledge(dataset.space)).best
        sized = attack(lab, model, truth, Knowledge(dataset.space, n=6)).best
        assert free is not None and sized is not None
        assert free.n == 3
        np.testing.assert_array_equal(free.degree, 2)
        assert sized.isomorphic(truth)
