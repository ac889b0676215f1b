"""Neighbourhoods of public graphs as the only ones that are tried."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from jgleak.attacks.census.public_blocks import beside
from jgleak.attacks.span.hops import Nodes
from jgleak.graph import Graph

CODES, DEGREES = np.array([[0], [1], [0], [3]]), np.array([1, 2, 2, 1])
"""Of a: ends and inner nodes; of b: inner nodes; of d: ends."""


@pytest.mark.parametrize(
    ("kinds", "classes", "listed"),
    [
        ("aba", None, {(0, (1,)), (1, (0, 0))}),
        ("aba", [0, 1], {(0, (2,)), (1, (0, 1)), (0, (3,))}),
        ("aba", [1, 0], {(0, (2,)), (1, (0, 1)), (0, (3,))}),
        ("abad", [0, 1, 1], {(0, (2,)), (1, (0, 5)), (2, (3, 7)), (3, (5,))}),
        ("ac", None, set()),
        ("aabc", None, {(0, (2,)), (2, (0, 1))}),
        ("bb", None, set()),
    ],
    ids=["alike", "classes", "classes reversed", "longer", "unknown", "partly unknown", "another degree"],
)
def test_neighbourhoods_of_public_paths_are_listed(
    kinds: str, classes: list[int] | None, listed: set[tuple[int, tuple[int, ...]]]
) -> None:
    """As a node and its neighbours, each with the class of its edge; those that hold an unknown vector are left out."""
    edges = np.array([(i, i + 1) for i in range(len(kinds) - 1)])
    x = np.array([["abcd".index(kind)] for kind in kinds], np.int32)
    graph = Graph(x, edges, edge_class=None if classes is None else np.array(classes))
    nodes = Nodes(CODES, np.eye(4)[CODES[:, 0]], DEGREES, certain=True, classes=1 if classes is None else 2)
    order = np.random.default_rng(0).permutation(len(kinds))
    found = beside(nodes, [graph, graph.permute(order)])
    assert found.listed is not None and len(found.listed) == len(listed) and set(found.listed) == listed
    assert list(found.listed) == sorted(listed) and dataclasses.replace(found, listed=None) == nodes
