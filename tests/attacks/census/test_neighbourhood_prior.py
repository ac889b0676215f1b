"""Familiarity: what public graphs have is less surprising, whatever the node order; parts see what they can."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from jgleak.attacks.census.neighbourhood_prior import UNSEEN, Familiar, labels


def test_public_graphs_surprise_less(lab: Any) -> None:
    public = [lab.path([0, 1, 2, 1, 0]), lab.path([1, 2, 1, 0]), lab.ring([0, 1, 2, 0, 1, 2])]
    familiar = Familiar(public)
    known, strange = familiar.surprises([lab.path([2, 1, 2, 1, 0]), lab.ring([0, 0, 2, 2, 1])])
    assert familiar.surprises(public)[0] < known < strange


def test_of_all_public_nodes_the_surprise_is_none(lab: Any) -> None:
    """It is counted beyond the public graphs' own mean."""
    public = [lab.random(7, seed) for seed in range(5)]
    assert sum(Familiar(public).surprises(public)) == pytest.approx(0.0, abs=1e-9)


def test_node_order_changes_nothing(lab: Any) -> None:
    familiar = Familiar([lab.random(8, seed) for seed in range(4)])
    graph, rng = lab.random(9, 11), np.random.default_rng(0)
    values = familiar.surprises([graph, *(graph.permute(rng.permutation(9)) for _ in range(3))])
    np.testing.assert_allclose(values, values[0], rtol=1e-12)


def test_an_open_node_is_only_itself(lab: Any) -> None:
    """A part whose nodes all lack neighbours shows their features; once closed it is the whole graph."""
    graph = lab.path([0, 1, 2])
    familiar = Familiar([graph])
    nodes, neighbours = labels(graph.x), graph.neighbours
    whole = familiar.of(nodes, neighbours, [True] * 3)
    assert whole == familiar.surprises([graph])[0] == pytest.approx(0.0)
    unknown = Familiar([lab.path([3, 3])])
    alone = unknown.of(nodes, neighbours, [False] * 3)
    assert alone == pytest.approx(3 * (-np.log(UNSEEN / 2)))
