"""GRAIN on small coloured graphs: degenerate shapes, unique nodes, words, budgets, and what it refuses."""

from __future__ import annotations

import dataclasses
import time
from typing import Any

import jax
import numpy as np
import pytest

from jgleak.attacks.attack import Budget, Reconstruction
from jgleak.attacks.distance import gradient_distances
from jgleak.attacks.grain.grain import GRAIN
from jgleak.features import FeatureSpace, binary, onehot, real
from jgleak.federated import Knowledge, Observation, fedsgd
from jgleak.graph import Graph


def attack(lab: Any, graph: Graph, *, seconds: float = 60.0, model: Any = None, **knowledge: Any) -> Reconstruction:
    observation = lab.observe(model or lab.model(), graph)
    return GRAIN(
        observation, Knowledge(lab.space, **knowledge), key=jax.random.key(0), budget=Budget(time_limit=seconds)
    )


def is_exact(found: Reconstruction, truth: Graph) -> bool:
    return found.stop == "match" and found.best is not None and found.best.isomorphic(truth) and found.best.y == truth.y


def test_one_node_two_nodes_and_what_fits_one_block(lab: Any) -> None:
    star = lab.graph([0, 1, 2, 3], [(0, 1), (0, 2), (0, 3)], y=0)
    for truth in (lab.path([1]), lab.path([0, 2]), lab.path([0, 1, 2], y=0), star):
        assert is_exact(attack(lab, truth), truth)


def test_three_convolutions_test_every_graph(lab: Any) -> None:
    """All rings of one colour have the same 2-hop blocks; summed, their gradients differ by their sizes."""
    truth, model = lab.ring([0] * 6), lab.model(layers=3, readout="pooled", pooling="sum", last_act=True)
    assert is_exact(attack(lab, truth, model=model, max_n=8), truth)


def test_rings(lab: Any) -> None:
    for colours in ([0, 1, 2], [0, 0, 1, 2, 3], [0, 1, 1, 2, 2, 3]):
        truth = lab.ring(colours)
        assert is_exact(attack(lab, truth), truth)


@pytest.mark.parametrize("distinct", [False, True])
def test_a_ring_of_four_could_be_any_ring_of_its_nodes(distinct: bool, lab: Any) -> None:
    """A node misses its opposite in ``H_1``, and just itself in ``H_2``: who is opposite leaves no trace."""
    truth, other = lab.ring([0, 1, 2, 3]), lab.ring([0, 1, 3, 2])
    found = attack(lab, truth, distinct_nodes=distinct)
    assert gradient_distances(lab.observe(lab.model(), truth), lab.space, [other])[0][0] < 1e-5
    assert found.stop == "match" and found.best is not None
    assert any(found.best.isomorphic(lab.ring(order)) for order in ([0, 1, 2, 3], [0, 1, 3, 2], [0, 2, 1, 3]))


def test_the_smallest_of_covers_is_taken(lab: Any) -> None:
    """Every node of a ring that repeats itself occurs in the shorter ring: their gradients are equal."""
    short, double = lab.ring([0, 1, 2]), lab.ring([0, 1, 2] * 2)
    assert is_exact(attack(lab, double), short)
    assert is_exact(attack(lab, double, n=6), double)
    assert is_exact(attack(lab, lab.ring([0] * 7)), lab.ring([0] * 3))
    assert is_exact(attack(lab, lab.path([1, 1])), lab.path([1, 1]))


def test_a_disconnected_graph_gives_some_graph(lab: Any) -> None:
    truth = lab.graph([0, 1, 2, 3, 0], [(0, 1), (1, 2), (3, 4)])
    found = attack(lab, truth, seconds=20.0)
    assert found.stop != "match" and len(found.graphs) <= 1
    if found.best is not None:
        lab.space.check(found.best.x)
        assert found.gradient_distance is not None and found.gradient_distance > 1e-4


def test_nodes_that_all_differ(lab: Any) -> None:
    for truth in (lab.ring([0, 1, 2]), lab.graph([0, 1, 2, 3, 1], [(0, 1), (0, 2), (0, 3), (1, 2), (2, 4)])):
        found = attack(lab, truth, distinct_nodes=True)
        assert is_exact(found, truth)
        assert found.info["settled"] >= 1


def test_words(lab: Any) -> None:
    """A citation-like client: hundreds of words, each node has a few and no two nodes the same."""
    rng = np.random.default_rng(0)
    bare = FeatureSpace((*(binary(f"w{i}") for i in range(200)), onehot("degree", range(20))), degree="degree")
    edges = np.array([(0, k) for k in range(1, 8)] + [(1, 2), (3, 8), (8, 9)])
    words = rng.random((10, 200)) < 0.04
    truth = Graph(np.c_[words, np.bincount(edges.ravel())].astype(np.int32), edges, y=np.arange(10) % 2)
    public = np.c_[rng.random((400, 200)) < 0.04, rng.integers(20, size=400)].astype(np.int32)
    space = bare.fit([public, truth.x])
    model = lab.model(in_features=space.width, hidden=300, per_node=True)
    observation = fedsgd(model, lab.params(model), [truth], space, loss="bce")
    found = GRAIN(observation, Knowledge(space, distinct_nodes=True), key=jax.random.key(0))
    assert found.stop == "match" and found.best is not None and found.best.isomorphic(truth)


@pytest.mark.parametrize("seconds", [0.0, 0.05])
@pytest.mark.parametrize("distinct", [False, True])
def test_a_tiny_budget_ends_cleanly(seconds: float, distinct: bool, lab: Any) -> None:
    truth = lab.random(12, 4)
    attack(lab, truth, distinct_nodes=distinct)  # compiled now: compilation cannot be interrupted
    begun = time.monotonic()
    found = attack(lab, truth, seconds=seconds, distinct_nodes=distinct)
    assert time.monotonic() - begun < 5.0
    assert found.stop == "time" or seconds > 0
    assert "nodes" in found.info or "reason" in found.info


def test_spans_that_say_nothing_end_quickly(lab: Any) -> None:
    """A model narrower than the number of nodes fills every span."""
    begun = time.monotonic()
    found = attack(lab, lab.random(12, 5), model=lab.model(hidden=4, readout_widths=(4,)), seconds=20.0)
    assert time.monotonic() - begun < 30.0
    assert found.stop != "match"


def test_few_candidates_allowed(lab: Any) -> None:
    observation = lab.observe(lab.model(), lab.random(8, 6))
    found = GRAIN(observation, Knowledge(lab.space), key=jax.random.key(0), budget=Budget(candidates=1))
    assert found.stop != "error"


@pytest.mark.parametrize(
    ("fields", "hint"),
    [
        ({"layers": 1}, "at least two convolutions"),
        ({"readout": "pooled", "readout_widths": ()}, "'node_mlp' or three layers"),
        ({"readout": "node_scores", "layers": 3}, "node_mlp"),
    ],
)
def test_models_it_cannot_attack(fields: dict[str, Any], hint: str, lab: Any) -> None:
    model = lab.model(hidden=8, **fields)
    observation = _unobserved(lab, model)
    with pytest.raises(ValueError, match="cannot run here") as error:
        GRAIN(observation, Knowledge(lab.space), key=jax.random.key(0))
    assert hint in str(error.value)


def test_batches_and_real_features_are_refused(lab: Any) -> None:
    observation = dataclasses.replace(_unobserved(lab, lab.model(hidden=8)), batch_size=2)
    with pytest.raises(ValueError, match="attacks one; record batches of one, or take an attack on batches"):
        GRAIN(observation, Knowledge(lab.space), key=jax.random.key(0))
    numbers = FeatureSpace(tuple(real(f"r{i}") for i in range(lab.space.width)))
    with pytest.raises(ValueError, match="real-valued"):
        GRAIN(_unobserved(lab, lab.model(hidden=8)), Knowledge(numbers), key=jax.random.key(0))
    with pytest.raises(ValueError, match="takes 13 features a node, but the feature space has 9"):
        GRAIN(_unobserved(lab, lab.model(hidden=8)), Knowledge(lab.bare.without("colour")), key=jax.random.key(0))


def _unobserved(lab: Any, model: Any) -> Observation:
    return Observation(model, lab.params(model), lab.params(model), "bce")
