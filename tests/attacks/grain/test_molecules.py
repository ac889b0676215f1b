"""GRAIN end to end on well-known molecules: the graph comes back exactly, whatever the model."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest

from jgleak.attacks.attack import Reconstruction
from jgleak.attacks.registry import get_attack
from jgleak.audit.experiment import Setup, prepare, run
from jgleak.audit.specification import Specification
from jgleak.datasets import Dataset

SMALL = ("glycine", "toluene")


def attack(names: tuple[str, ...], **fields: Any) -> list[tuple[Any, Reconstruction]]:
    """The named molecules as clients of one experiment."""
    specification = Specification(attack="grain", **fields)
    setup = prepare(specification)
    chosen = [g for name in names for g in setup.dataset.graphs if g.name.startswith(f"{name}:")]
    assert len(chosen) == len(names)
    dataset: Dataset = dataclasses.replace(setup.dataset, graphs=chosen)
    clients = Setup(dataset, setup.model, setup.params, setup.loss)
    return [(result.truth, result.reconstruction) for result in run(specification, clients)]


@pytest.mark.parametrize(
    ("fields", "names"),
    [
        ({}, (*SMALL, "caffeine", "aspirin")),
        ({"activation": "gelu"}, SMALL),
        ({"model": "gat"}, SMALL),
        ({"model": "sage"}, SMALL),
        ({"layers": 3}, SMALL),
        ({"node_task": True}, SMALL),
        ({"degree": False}, ("glycine",)),
    ],
    ids=["gcn", "gelu", "gat", "sage", "three layers", "node task", "no degree"],
)
def test_molecules_come_back(fields: dict[str, Any], names: tuple[str, ...]) -> None:
    for truth, found in attack(names, **fields):
        assert found.best is not None and found.best.isomorphic(truth), truth.name
        assert found.stop == "match"
        assert found.gradient_distance is not None and found.gradient_distance < 1e-4
        if not fields.get("node_task"):
            assert found.best.y == truth.y
        assert found.info["blocks"] >= 1 and found.info["graphs_tested"] >= 1


def test_known_size_and_covers() -> None:
    """Benzene's and cyclohexane's nodes are all equal: any ring of them has the gradient, and the smallest is taken."""
    specification = Specification(attack="grain")
    setup = prepare(specification)
    for name in ("benzene", "cyclohexane"):
        truth = next(g for g in setup.dataset.graphs if g.name.startswith(f"{name}:"))
        clients = Setup(dataclasses.replace(setup.dataset, graphs=[truth]), *setup[1:])
        (free,) = run(specification, clients)
        (sized,) = run(dataclasses.replace(specification, know=("n",)), clients)
        assert free.reconstruction.best is not None and sized.reconstruction.best is not None
        assert free.reconstruction.best.n == 3
        np.testing.assert_array_equal(free.reconstruction.best.degree, 2)
        assert sized.reconstruction.best.isomorphic(truth)
    assert get_attack("grain").name == "grain"
