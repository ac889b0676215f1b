"""What gradient matching makes of an observation and of what is known beside it."""

from __future__ import annotations

import dataclasses
from typing import Any

import jax
import numpy as np
import pytest

from jgleak import Knowledge
from jgleak.attacks.matching.problem import mask_keys, normalisation, pose
from jgleak.federated import fedsgd
from jgleak.gnn import GNN, GCNConv, Layer, Pooled
from jgleak.graph import Graph


def seen(lab: Any, *graphs: Graph) -> Any:
    model = GNN(lab.space.width, (Layer(GCNConv(4)),), Pooled())
    return fedsgd(model, lab.params(model), graphs, lab.space, loss="ce")


def test_known_edges_give_the_columns_that_state_degrees(lab: Any) -> None:
    """Also of a node without neighbours, whose degree is the schema's first value."""
    graph = lab.graph([0, 1, 2, 1, 3], [(0, 1), (1, 2), (1, 3)], 1)
    setting, problem = pose(seen(lab, graph), Knowledge(lab.space, adjacency=graph.adjacency), infer=False)
    assert (graph.degree == 0).any() and lab.space.degree_codes(np.array([0]))[0] == 0
    assert setting.degree_column is not None and problem.degrees is not None
    start, width = setting.degree_column, problem.degrees.shape[-1]
    np.testing.assert_array_equal(problem.degrees[0, : graph.n], lab.space.encode(graph.x)[:, start : start + width])
    assert not problem.degrees[0, graph.n :].any() and problem.nodes is None


def test_degrees_that_the_schema_lacks_or_features_say_are_not_stated(lab: Any) -> None:
    hub = lab.space.features[lab.space.index(lab.space.degree)].values[-1] + 1
    star = np.zeros((hub + 1, hub + 1))
    star[0, 1:] = star[1:, 0] = 1.0
    graph = lab.random(hub + 1, 1)
    setting, problem = pose(seen(lab, graph), Knowledge(lab.space, adjacency=star), infer=False)
    assert problem.degrees is None and setting.degree_column is None
    known = Knowledge(lab.space, adjacency=graph.adjacency, features=graph.x)
    setting, problem = pose(seen(lab, graph), known, infer=False)
    assert problem.degrees is None and problem.nodes is not None
    np.testing.assert_array_equal(problem.nodes[0, : graph.n], lab.space.encode(graph.x))


def test_the_number_of_nodes_has_to_follow(lab: Any) -> None:
    graph = lab.random(5, 1)
    with pytest.raises(ValueError, match=r"give Knowledge\(n=...\)"):
        pose(seen(lab, graph), Knowledge(lab.space), infer=False)
    flat = lab.model(hidden=4, readout="flattened", slots=4)
    observed = lab.observe(flat, lab.random(4, 1))
    with pytest.raises(ValueError, match="has 4 node slots, fewer than the 5 nodes given"):
        pose(observed, Knowledge(lab.space, n=5), infer=False)


def test_raw_columns_become_encoded_ones(lab: Any) -> None:
    """``(raw - mean) * scale``; a column that never varies says nothing."""
    width = lab.space.width
    mean, std = np.linspace(0.0, 1.0, width), np.linspace(0.0, 2.0, width)
    graph = lab.random(6, 2)
    for space in (lab.space, dataclasses.replace(lab.space, mean=mean, std=std)):
        shift, scale = normalisation(space)
        raw = dataclasses.replace(space, mean=None, std=None).encode(graph.x)
        np.testing.assert_allclose((raw - shift) * scale, space.encode(graph.x), atol=1e-6)


def test_masks_are_drawn_from_keys_that_differ() -> None:
    keys = mask_keys(5, jax.random.key(3))
    assert keys.shape == (5, 2) and len({tuple(key) for key in keys.tolist()}) == 5
    np.testing.assert_array_equal(keys, mask_keys(5, jax.random.key(3)))
    assert not np.array_equal(keys, mask_keys(5, jax.random.key(4)))
