"""Distances at weights that are off by rounding: when they are asked for, and which one counts."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
import pytest
from models import some_params

from jgleak.attacks.distance import MATCH
from jgleak.attacks.turned_units import DRAWS, JITTER, TURNED, unturned
from jgleak.federated import Observation
from jgleak.gnn import GNN, MLP, GCNConv, Layer, Pooled

MODEL = GNN(3, (Layer(GCNConv(4)),), Pooled("mean", MLP((2,))))


@pytest.mark.parametrize(
    ("distances", "asked", "taken"),
    [
        ((0.0,), 1, 0),
        ((MATCH,), 1, 0),
        ((TURNED,), 1, 0),
        ((2.0,), 1, 0),
        ((0.05, 0.04, MATCH), 3, 2),
        ((0.05, *[0.01] * DRAWS), 1 + DRAWS, 0),
    ],
    ids=["none", "rounding", "too far for a unit", "far", "a unit", "another graph"],
)
def test_a_graph_that_a_unit_may_turn_away_is_compared_at_other_weights(
    distances: tuple[float, ...], asked: int, taken: int
) -> None:
    """Until one explains it; without any the distance is that at the client's own weights."""
    observation = Observation(MODEL, some_params(MODEL), some_params(MODEL, 2), "bce")
    looked = list[Any]()

    def compare(seen: Observation) -> tuple[float, int]:
        looked.append(seen.params)
        return distances[len(looked) - 1], len(looked) - 1

    assert unturned(compare, observation, MATCH) == (distances[taken], taken)
    assert len(looked) == asked and looked[0] is observation.params
    own = jax.tree.leaves(observation.params)
    off = [[np.abs(a - b).max() for a, b in zip(jax.tree.leaves(some), own, strict=True)] for some in looked[1:]]
    assert all(0.0 < max(each) < 20 * JITTER for each in off) and len({tuple(each) for each in off}) == asked - 1
