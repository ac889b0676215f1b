"""What every search assumes, in words."""

from __future__ import annotations

import dataclasses
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from jgleak.attacks.census import certify as module
from jgleak.attacks.census.arithmetic import Exact
from jgleak.attacks.census.assemble import AnonymitySet, ExplainingGraph
from jgleak.attacks.census.certify import _conditions, certify
from jgleak.attacks.census.problem import CensusProblem
from jgleak.attacks.census.settings import DEFAULTS
from jgleak.features import FeatureSpace, onehot
from jgleak.federated import Knowledge
from jgleak.graph import Graph
from tests.clocks import HELD

SPACE = FeatureSpace((onehot("kind", range(3)),))
ZERO, CONNECTED = "no row that a span check tests is zero", "the graph is connected"


@pytest.mark.parametrize(
    ("fields", "observed", "wanted"),
    [
        ({}, {}, [ZERO, CONNECTED]),
        ({"connected": False}, {}, [ZERO]),
        ({"public": [0, 1, 2]}, {}, [ZERO, CONNECTED]),
        (
            {"public": [0, 1, 1]},
            {},
            ["no node has a feature value that the public statistics lack", ZERO, CONNECTED],
        ),
        ({}, {"steps": 1}, [ZERO, CONNECTED]),
        (
            {},
            {"steps": 2, "pruned": True},
            [
                ZERO,
                "the local path of 2 steps is that of the listed graphs",
                "along it the rows of blocks move by less than their span checks allow",
                "the entries that pruning left distinguish the gradients of different graphs",
                CONNECTED,
            ],
        ),
    ],
)
def test_conditions_are_those_of_what_is_known(
    fields: dict[str, Any], observed: dict[str, Any], wanted: list[str]
) -> None:
    some, public = object.__new__(CensusProblem), fields.pop("public", None)
    space = SPACE if public is None else SPACE.fit([np.array(public)[:, None]])
    local = SimpleNamespace(steps=observed["steps"]) if "steps" in observed else None
    some.__dict__.update(
        knowledge=Knowledge(space, **fields),
        observation=SimpleNamespace(local=local, pruned=observed.get("pruned", False)),
        seen=SimpleNamespace(statistics=None),
        arithmetic=Exact(DEFAULTS),
        n_counted=False,
    )
    assert list(_conditions(some)) == wanted


@pytest.fixture(scope="module")
def rings(lab: Any) -> tuple[CensusProblem, list[ExplainingGraph]]:
    """A problem whose graph is a triangle, with which a ring of six shares the gradient."""
    problem = CensusProblem.of(lab.observe(lab.model(), lab.ring([0, 1, 2])), Knowledge(lab.space, max_n=12))
    both = [lab.ring([0, 1, 2] * times) for times in (2, 1)]
    found = zip(both, (3e-7, 1e-7), strict=True)
    return problem, [ExplainingGraph(graph, far, graph.canonical_form()) for graph, far in found]


@pytest.mark.parametrize(
    ("number", "exhausted", "status"),
    [(1, True, "unique"), (2, True, "k_graphs"), (1, False, "at_least_k"), (2, False, "at_least_k")],
)
def test_a_certificate_says_what_was_found_among_what(
    number: int, exhausted: bool, status: str, rings: tuple[CensusProblem, list[ExplainingGraph]]
) -> None:
    problem, found = rings
    made = certify(problem, ("said before",), AnonymitySet(tuple(found[:number]), exhausted), 12, HELD)
    said = made.certificate
    assert (said.status, said.size, said.n_max, said.n_known, said.noise) == (status, number, 12, False, None)
    assert said.residual == 3e-7 and said.conditions == (
        "said before",
        ZERO,
        *problem.arithmetic.conditions(),
        CONNECTED,
    )
    assert [graph.n for graph in made.graphs] == [3, 6][-number:]
    assert made.distance == {3: 1e-7, 6: 3e-7}[made.graphs[0].n]
    knowledge = dataclasses.replace(problem.knowledge, n=6, max_n=None)
    known = certify(dataclasses.replace(problem, knowledge=knowledge), (), AnonymitySet(tuple(found)), 6, HELD)
    assert known.certificate.n_known and known.certificate.n_max == 6
    knowledge = dataclasses.replace(problem.knowledge, noise=1e-3)
    noisy = certify(dataclasses.replace(problem, knowledge=knowledge), (), AnonymitySet(tuple(found)), 12, HELD)
    assert noisy.certificate.noise == 1e-3


def test_the_likeliest_order_of_nodes_is_worked_out_for_the_first_graph(
    rings: tuple[CensusProblem, list[ExplainingGraph]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It takes long."""
    problem, found = rings
    asked = list[tuple[int, int]]()

    def numbered(graph: Graph, knowledge: Knowledge, _: Any) -> Graph:
        asked.append((graph.n, len(knowledge.auxiliary)))
        return graph

    monkeypatch.setattr(module, "numbered", numbered)
    knowledge = dataclasses.replace(problem.knowledge, auxiliary=(found[0].graph, found[1].graph))
    made = certify(dataclasses.replace(problem, knowledge=knowledge), (), AnonymitySet(tuple(found)), 12, HELD)
    assert [number for _, number in asked] == [2, 0] and [n for n, _ in asked] == [graph.n for graph in made.graphs]
