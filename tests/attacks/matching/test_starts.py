"""Where searches begin: the distributions that the papers name, for all that is unknown and nothing else."""

from __future__ import annotations

import dataclasses
from typing import Any

import jax
import numpy as np
import pytest
from models import some_params

from jgleak import Knowledge
from jgleak.attacks import relaxations
from jgleak.attacks.matching.problem import Problem, Setting, pose
from jgleak.attacks.matching.starts import Frequent, Sparse, named
from jgleak.features import FeatureSpace, binary, onehot, real
from jgleak.federated import fedsgd
from jgleak.gnn import GNN, MLP, GCNConv, Layer, Pooled
from jgleak.graph import Graph

SPACE = FeatureSpace((onehot("colour", "rgb"), binary("ring"), real("charge")))
MANY = 40
"""Nodes, so that a share of their pairs of slots is near its expectation."""


def posed(space: FeatureSpace = SPACE, **known: Any) -> tuple[Setting, Problem]:
    rng = np.random.default_rng(0)
    rows = np.stack([rng.integers(3, size=MANY), rng.integers(2, size=MANY), rng.normal(size=MANY)], axis=1)
    graph = Graph(rows, np.array([(v, v + 1) for v in range(MANY - 1)]), 1)
    model = GNN(space.width, (Layer(GCNConv(4)),), Pooled("mean", MLP((3,))))
    seen = fedsgd(model, some_params(model), [graph], space, loss="ce")
    return pose(seen, Knowledge(space, n=MANY, **known), infer=False)


def test_edges_are_tossed_and_features_normal() -> None:
    """GLG, section 5."""
    setting, problem = posed()
    begun = named("bernoulli")(setting, problem, jax.random.key(3))
    edges, nodes = np.asarray(begun["adjacency"]), np.asarray(begun["nodes"])
    assert set(np.unique(edges)) == {0.0, 1.0} and edges.mean() == pytest.approx(0.5, abs=4 * 0.5 / np.sqrt(edges.size))
    assert nodes.std() == pytest.approx(1.0, abs=0.2) and abs(nodes.mean()) < 0.2
    normal = named("normal")(setting, problem, jax.random.key(3))
    np.testing.assert_array_equal(begun["nodes"], normal["nodes"])
    np.testing.assert_array_equal(begun["labels"], normal["labels"])
    assert np.unique(normal["adjacency"]).size > 0.99 * edges.size


@pytest.mark.parametrize("value", ["0", "0.25", "1"])
def test_all_at_one_value_but_labels(value: str) -> None:
    setting, problem = posed()
    begun = named(value)(setting, problem, jax.random.key(3))
    assert np.all(np.asarray(begun["nodes"]) == float(value)) and np.all(np.asarray(begun["adjacency"]) == float(value))
    assert np.unique(begun["labels"]).size == 3, "three logits"
    assert named(value) is named(value), "one program"


def test_a_sparse_start_has_small_features_and_equal_edges() -> None:
    setting, problem = posed()
    begun = Sparse(start_edge=0.125)(setting, problem, jax.random.key(3))
    normal = named("normal")(setting, problem, jax.random.key(3))
    np.testing.assert_allclose(begun["nodes"], 0.1 * np.asarray(normal["nodes"]), rtol=1e-6)
    assert np.all(np.asarray(begun["adjacency"]) == 0.125)


def test_what_is_known_is_not_searched_for() -> None:
    adjacency = np.zeros((MANY, MANY))
    cases: list[tuple[dict[str, Any], set[str]]] = [
        ({"adjacency": adjacency}, {"nodes", "labels"}),
        ({"features": np.zeros((MANY, 3))}, {"adjacency", "labels"}),
        ({"labels": np.array([1])}, {"nodes", "adjacency"}),
    ]
    for known, left in cases:
        setting, problem = posed(**known)
        for start in (named("normal"), named("bernoulli"), named("0.5"), Sparse(), Frequent()):
            assert set(start(setting, problem, jax.random.key(0))) == left


def test_frequent_values_come_first() -> None:
    """Of each kind of column: a softmax of the logits is the public frequency, a sigmoid that of a bit, and numbers
    lie around their mean with their deviation."""
    mean = np.array([0.7, 0.2, 0.1, 0.9, 5.0])
    setting, problem = posed(dataclasses.replace(SPACE, mean=mean, std=np.array([1.0, 1.0, 1.0, 1.0, 2.0])))
    still = Frequent(start_spread=0.0)(setting, problem, jax.random.key(3))["nodes"]
    shown = np.asarray(relaxations.softmax_features(still, setting.groups))[0]
    np.testing.assert_allclose(shown[:, :4], np.broadcast_to(mean[:4], (len(shown), 4)), atol=1e-5)
    numbers = np.asarray(still)[0, :, 4]
    assert numbers.mean() == pytest.approx(5.0, abs=1.0) and numbers.std() == pytest.approx(2.0, abs=0.6)
    spread = np.asarray(Frequent(start_spread=0.5)(setting, problem, jax.random.key(3))["nodes"])
    assert (spread - np.asarray(still))[..., :4].std() == pytest.approx(0.5, abs=0.1)


def test_no_value_starts_as_less_likely_than_the_rarest() -> None:
    """Nor as likelier than what leaves the others that; a bit that was never set says nothing of itself."""
    setting, problem = posed(dataclasses.replace(SPACE, mean=np.array([1.0, 0.0, 0.01, 1.0, 0.0]), std=np.ones(5)))
    start = Frequent(start_spread=0.0, start_rarest=0.05)
    shown = np.asarray(start(setting, problem, jax.random.key(3))["nodes"])[0, 0]
    np.testing.assert_allclose(shown[:4], [0.0, np.log(0.05), np.log(0.05), np.log(0.95 / 0.05)], rtol=1e-5)
    unset = dataclasses.replace(problem, mean=np.zeros(5, np.float32))
    assert np.asarray(start(setting, unset, jax.random.key(3))["nodes"])[0, 0, 3] == 0.0
    rare = dataclasses.replace(problem, mean=np.full(5, 0.01, np.float32))
    assert np.asarray(start(setting, rare, jax.random.key(3))["nodes"])[0, 0, 3] == pytest.approx(np.log(0.05 / 0.95))


def test_what_is_searched_for_is_drawn_once_each() -> None:
    """Features, edges and labels share no number."""
    setting, problem = posed()
    begun = named("normal")(setting, problem, jax.random.key(3))
    nodes, edges, labels = (np.ravel(begun[name]) for name in ("nodes", "adjacency", "labels"))
    assert np.isin(nodes, edges).mean() < 0.05 and not np.isin(labels, np.r_[nodes, edges]).any()


def test_numbers_without_a_deviation_start_around_their_mean() -> None:
    setting, problem = posed(dataclasses.replace(SPACE, mean=np.arange(5.0), std=np.array([1.0, 1.0, 1.0, 1.0, 0.0])))
    numbers = np.asarray(Frequent()(setting, problem, jax.random.key(3))["nodes"])[0, :, 4]
    assert numbers.mean() == pytest.approx(4.0, abs=0.6) and numbers.std() == pytest.approx(1.0, abs=0.4)


def test_a_start_that_there_is_not_is_named() -> None:
    with pytest.raises(ValueError, match="expected a number or one of normal, bernoulli, sparse, got 'uniform'"):
        named("uniform")
