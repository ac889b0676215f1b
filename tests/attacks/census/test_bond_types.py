"""The molecule prior looks at bond types where a graph has them: a valence that is passed or left open costs."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from jgleak.attacks.census.prior import MISMATCH, molecule_scores
from jgleak.datasets import load
from jgleak.features import FeatureSpace
from jgleak.graph import Graph


@pytest.fixture(scope="module")
def molecules() -> tuple[list[Graph], FeatureSpace]:
    data = load("embedded", graphs=12, max_nodes=12, bonds=True)
    return list(data.graphs), data.space


def test_bonds_that_break_a_valence_cost_and_the_molecule_s_own_do_not(
    molecules: tuple[list[Graph], FeatureSpace],
) -> None:
    """Every single bond made double passes two valences; every double one made single leaves two open."""
    graphs, space = molecules
    single, double = (space.edge_classes.index(name) for name in ("SINGLE", "DOUBLE"))
    changed = 0
    for graph in graphs:
        own = molecule_scores([graph], space)[0]
        assert graph.edge_class is not None and own < MISMATCH
        others = []
        for edge, kind in enumerate(graph.edge_class.tolist()):
            if kind in (single, double):
                classes = np.array(graph.edge_class)
                classes[edge] = single + double - kind
                others.append(dataclasses.replace(graph, edge_class=classes))
        assert all(score >= own + MISMATCH for score in molecule_scores(others, space))
        changed += len(others)
    assert changed > 50
