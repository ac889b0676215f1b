"""Client subgraphs: induced, connected, of the wanted sizes, with the right degrees and labels."""

from __future__ import annotations

from collections import Counter
from typing import Any, get_args

import networkx as nx
import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from jgleak.datasets import LoadReport, Network, clients, sampling
from jgleak.datasets.network import client_space, undirected
from jgleak.datasets.sampling import Scheme, ball, balls, grow, sampled_balls
from jgleak.features import onehot


def _network(g: nx.Graph, *, degree: bool = True, classes: int = 3, seed: int = 0) -> Network:
    """A network with its node numbers as the only feature."""
    n = g.number_of_nodes()
    pairs = np.array(list(g.edges), np.int64).reshape(-1, 2)
    space = client_space((onehot("id", range(n)),), degree)
    y = np.random.default_rng(seed).integers(classes, size=n)
    x = sp.csr_array(np.arange(n, dtype=np.int32).reshape(-1, 1))
    return Network("toy", x, undirected(pairs, n), y, space, classes, LoadReport(n, n))


GRAPH = nx.barabasi_albert_graph(120, 1, seed=3)
NETWORK = _network(GRAPH)


@given(st.integers(0, 119), st.integers(1, 40))
def test_ball_against_networkx(centre: int, limit: int) -> None:
    reached = sorted(nx.single_source_shortest_path_length(GRAPH, centre, cutoff=3))
    found, limited = ball(NETWORK, centre), ball(NETWORK, centre, limit)
    assert found is not None and found.tolist() == reached
    assert (limited is None) == (len(reached) > limit)


@settings(deadline=None)
@given(st.sampled_from([balls, grow, sampled_balls]), st.integers(0, 10**6), st.integers(1, 15), st.integers(0, 25))
def test_draws_are_connected_and_in_range(scheme: Any, seed: int, low: int, extra: int) -> None:
    nodes = scheme(NETWORK, low, low + extra, np.random.default_rng(seed))
    if nodes is not None:
        assert low <= nodes.size <= low + extra and np.unique(nodes).size == nodes.size
        assert nx.is_connected(GRAPH.subgraph(nodes.tolist()))


def test_sampled_ball_of_a_hub_fills_up_and_reaches_three_hops() -> None:
    tree = nx.balanced_tree(20, 3)
    network = _network(tree)
    sizes, depths = set(), set()
    for seed in range(30):
        rng = np.random.default_rng(seed)
        centre = int(np.random.default_rng(seed).integers(network.n))
        nodes = sampled_balls(network, 1, 50, rng)
        assert nodes is not None and centre in nodes
        sizes.add(nodes.size)
        depths.add(max(nx.shortest_path_length(tree, centre, int(v)) for v in nodes))
    assert max(sizes) <= 50 and max(sizes) > 40 and max(depths) == 3


@pytest.mark.parametrize("scheme", get_args(Scheme))
def test_clients_are_induced_subgraphs(scheme: Scheme) -> None:
    dataset = clients(NETWORK, scheme, graphs=10, sizes=((0.5, 1, 12), (0.5, 12, 40)), seed=4)
    assert len(dataset.graphs) == 10 and all(g.n <= 12 for g in dataset.graphs[:5])
    assert all(12 <= g.n <= 40 for g in dataset.graphs[5:])
    for g in dataset.graphs:
        ids = g.x[:, 0].tolist()
        induced = GRAPH.subgraph(ids)
        assert {tuple(sorted((ids[u], ids[v]))) for u, v in g.edges.tolist()} == {
            tuple(sorted(e)) for e in induced.edges
        }
        stated = dataset.space.degrees(g.x)
        assert stated is not None and np.array_equal(stated, g.degree)
        counts = Counter(NETWORK.y[ids].tolist())
        assert isinstance(g.y, int) and counts[g.y] == max(counts.values())
    assert dataset.report.rows == 10 + sum(dataset.report.dropped.values())


@pytest.mark.parametrize("degree", [True, False])
def test_statistics_do_not_depend_on_the_clients(degree: bool) -> None:
    """They are of the whole network, and of degrees in other subgraphs; no possible degree is excluded."""
    network = _network(GRAPH, degree=degree)
    one, ten = (clients(network, "grow", graphs=count, sizes=((1.0, 5, 9),), seed=4) for count in (1, 10))
    assert one.space.to_json() == ten.space.to_json()
    mean = one.space.mean
    assert mean is not None
    np.testing.assert_allclose(mean[:120], np.bincount(network.x.toarray()[:, 0], minlength=120) / 120, atol=1e-12)
    if degree:
        assert one.space.possible(1).tolist() == list(range(9))


def test_sizes_that_hardly_occur_do_not_stop_the_statistics(monkeypatch: pytest.MonkeyPatch) -> None:
    """Clients of the common size are all found; of the rare one none is asked for, and none is found for statistics."""
    monkeypatch.setattr(sampling, "ATTEMPTS", 20)
    dataset = clients(NETWORK, "balls", graphs=1, sizes=((0.6, 1, 100), (0.4, 119, 120)), seed=0)
    assert dataset.space.possible(1).tolist() == list(range(100))


def test_clients_of_other_seeds_have_other_names() -> None:
    """A report counts graphs by name: those of two seeds are no two attacks on one client."""
    drawn = [clients(NETWORK, "grow", graphs=3, sizes=((1.0, 5, 9),), seed=seed).graphs for seed in (0, 1)]
    assert len({graph.name for graphs in drawn for graph in graphs}) == 6


def test_shares_add_up_and_seeds_repeat() -> None:
    mix = ((0.2, 1, 10), (0.4, 10, 20), (0.3, 20, 30), (0.1, 30, 40))
    for graphs in (1, 7, 100):
        assert len(clients(NETWORK, "grow", graphs=graphs, sizes=mix, seed=0).graphs) == graphs
    sizes = [g.n for g in clients(NETWORK, "grow", graphs=100, sizes=mix, seed=0).graphs]
    assert [max(part) for part in (sizes[:20], sizes[20:60], sizes[60:90], sizes[90:])] <= [10, 20, 30, 40]
    assert sizes == [g.n for g in clients(NETWORK, "grow", graphs=100, sizes=mix, seed=0).graphs]


def test_node_labels_and_unknown_classes() -> None:
    network = _network(nx.path_graph(20))
    network.y[:10] = -1
    node = clients(network, "grow", graphs=5, sizes=((1.0, 4, 4),), labels="node", seed=0)
    assert node.task == "node" and all(np.asarray(g.y).tolist() == network.y[g.x[:, 0]].tolist() for g in node.graphs)
    assert node.report.dropped["draw with unknown classes"] > 0
    graph = clients(network, "grow", graphs=5, sizes=((1.0, 4, 4),), seed=0)
    assert all(isinstance(g.y, int) and g.y >= 0 for g in graph.graphs)


def test_degree_outside_the_schema() -> None:
    with pytest.raises(ValueError, match="a degree of 150 exceeds the schema's largest, 99"):
        _network(nx.star_graph(150)).subgraph(np.arange(151))
    assert _network(nx.star_graph(150), degree=False).subgraph(np.arange(151)).n == 151


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"scheme": "walk"}, "scheme: no sampling scheme 'walk'"),
        ({"labels": "edge"}, "labels: must be 'graph' or 'node'"),
        ({"graphs": 0}, "graphs: must be at least 1"),
        ({"sizes": ((0.5, 1, 3),)}, "shares must be non-negative and sum to 1"),
        ({"sizes": ((1.0, 3, 2),)}, "expected 1 <= smallest <= largest"),
        ({"sizes": ((1.0, 150, 200),), "scheme": "grow", "graphs": 1}, r"no client of 150\.\.200 nodes"),
    ],
)
@pytest.mark.usefixtures("unchecked")
def test_faults(changes: dict[str, Any], message: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("jgleak.datasets.sampling.ATTEMPTS", 20)
    with pytest.raises(ValueError, match=message):
        clients(NETWORK, **({"scheme": "balls", "seed": 0} | changes))


def test_network_checks_its_parts() -> None:
    one_way = sp.csr_array(np.array([[0, 1], [0, 0]], np.int8))
    x, y = sp.csr_array(np.zeros((2, 1), np.int8)), np.array([0, 1])
    space, report = client_space((onehot("id", range(2)),), False), LoadReport(2, 2)
    with pytest.raises(ValueError, match="adjacency: must be symmetric"):
        Network("toy", x, one_way, y, space, 2, report)
    with pytest.raises(ValueError, match="x: expected shape"):
        Network("toy", x[:1], undirected(np.array([[0, 1]]), 2), y, space, 2, report)
    with pytest.raises(ValueError, match="y: classes must lie in"):
        Network("toy", x, undirected(np.array([[0, 1]]), 2), y, space, 1, report)
