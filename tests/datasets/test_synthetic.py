"""Random graphs have the properties their names promise."""

from __future__ import annotations

from typing import Any

import networkx as nx
import numpy as np
import pytest

from jgleak.datasets import Topology, synthetic
from jgleak.datasets.synthetic import KINDS, Kind

TOPOLOGY = {"kind": "er", "nodes": (10, 30), "degree": 4}


@pytest.mark.parametrize("kind", KINDS)
def test_same_seed_same_graphs_and_connected(kind: Kind) -> None:
    one, two = (synthetic(Topology(kind), graphs=8, seed=5) for _ in range(2))
    other = synthetic(Topology(kind), graphs=8, seed=6)
    assert all(
        np.array_equal(a.x, b.x) and np.array_equal(a.edges, b.edges) and a.y == b.y
        for a, b in zip(one.graphs, two.graphs, strict=True)
    )
    assert any(a.n != b.n or not np.array_equal(a.x, b.x) for a, b in zip(one.graphs, other.graphs, strict=True))
    assert not {g.name for g in one.graphs} & {g.name for g in other.graphs}
    for g in one.graphs:
        assert g.connected and 10 <= g.n <= 30
        stated = one.space.degrees(g.x)
        assert stated is not None and np.array_equal(stated, g.degree)


@pytest.mark.parametrize("kind", KINDS)
def test_statistics_do_not_depend_on_the_clients(kind: Kind) -> None:
    one, eight = (synthetic(Topology(kind), graphs=count, width=40, seed=5) for count in (1, 8))
    assert one.space.to_json() == eight.space.to_json()
    drawn = np.concatenate([g.x for g in eight.graphs])
    for feature in (0, 1):
        assert set(drawn[:, feature].tolist()) <= set(one.space.possible(feature).tolist())


def test_each_kind_is_what_it_says() -> None:
    assert all(nx.is_tree(g.to_networkx()) for g in synthetic(Topology("tree"), graphs=10, seed=0).graphs)
    regular = synthetic(Topology("regular", degree=3), graphs=10, seed=0).graphs
    assert all(set(g.degree.tolist()) == {3} and g.n % 2 == 0 for g in regular)
    for g in synthetic(Topology("ba", degree=4), graphs=10, seed=0).graphs:
        assert len(g.edges) == 2 * (g.n - 2)
    er = synthetic(Topology("er", (50, 50), connected=False), graphs=200, seed=0).graphs
    assert abs(np.mean([g.degree.mean() for g in er]) - 4) < 0.1


def test_gaussian_features_and_node_labels() -> None:
    dataset = synthetic(Topology("er"), graphs=20, features="gaussian", width=3, classes=4, labels="node", seed=1)
    x = np.concatenate([g.x for g in dataset.graphs])
    assert dataset.task == "node" and not dataset.space.discrete and dataset.space.degree is None
    assert abs(x.mean()) < 0.1 and abs(x.std() - 1) < 0.1
    assert set(np.concatenate([np.asarray(g.y) for g in dataset.graphs]).tolist()) == set(range(4))


def test_smallest_graphs() -> None:
    for kind in ("er", "ba", "tree"):
        assert synthetic(Topology(kind, (1, 1)), graphs=2, seed=0).graphs[0].edges.shape == (0, 2)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"kind": "lattice"}, "kind: no generator 'lattice'"),
        ({"graphs": 0}, "graphs and width must be at least 1"),
        ({"nodes": (5, 2)}, "nodes: expected 1 <= smallest <= largest"),
        ({"degree": 0}, "degree: must be positive"),
        ({"kind": "regular", "degree": 2.5}, "degree: a regular graph needs an integer"),
        ({"kind": "regular", "degree": 3, "nodes": (5, 5)}, "no size in 5..5 allows a 3-regular graph"),
        ({"degree": 0.01, "nodes": (40, 40)}, "connected: no connected er graph"),
        ({"features": "words"}, "features: must be"),
        ({"labels": "edge"}, "labels: must be"),
    ],
)
@pytest.mark.usefixtures("unchecked")
def test_faults(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        edges: dict[str, Any] = {name: changes.get(name, usual) for name, usual in TOPOLOGY.items()}
        synthetic(Topology(**edges), seed=0, **{name: changes[name] for name in changes.keys() - TOPOLOGY.keys()})
