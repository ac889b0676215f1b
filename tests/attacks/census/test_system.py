"""The rules that counts of blocks obey: against counting the edges of nodes one by one."""

from __future__ import annotations

from collections import Counter
from itertools import product

import networkx as nx
import numpy as np
import pytest

from jgleak.attacks.census.system import Rules
from jgleak.attacks.span.hops import Blocks

CLASSES = 2
Block = tuple[int, tuple[int, ...]]
"""The number of neighbours, and for each of them twice its own number and the class of the edge."""


def blocks_of(graph: nx.Graph) -> list[Block]:
    """The block of each node."""
    degree = dict(graph.degree)
    return [(degree[v], tuple(sorted(CLASSES * degree[u] + e["along"] for u, e in graph[v].items()))) for v in graph]


def classed(number: int) -> list[nx.Graph]:
    """All connected graphs of so many nodes with each way to class their edges."""
    found = list[nx.Graph]()
    for plain in nx.graph_atlas_g():
        if len(plain) == number and nx.is_connected(plain):
            for classes in product(range(CLASSES), repeat=plain.size()):
                graph = nx.Graph(plain)
                nx.set_edge_attributes(graph, dict(zip(graph.edges, classes, strict=True)), "along")
                found.append(graph)
    return found


def table(named: list[Block]) -> Blocks:
    roots, nothing = np.array([degree for degree, _ in named]), np.zeros((len(named), 0))
    return Blocks(roots, roots, tuple(n for _, n in named), nothing, nothing, np.zeros(len(named)), 0, classes=CLASSES)


def obeys(nodes: list[Block]) -> bool:
    """Every edge has an end at either side, and there are enough of them to connect the nodes."""
    ends = Counter((root, *divmod(one, CLASSES)) for root, around in nodes for one in around)
    paired = all(
        number == ends[other, root, k] if root != other else number % 2 == 0
        for (root, other, k), number in ends.items()
    )
    return paired and ends.total() >= 2 * (len(nodes) - 1)


GRAPHS = [graph for number in (2, 3, 4) for graph in classed(number)]
NAMED = sorted({block for graph in GRAPHS for block in blocks_of(graph)})


@pytest.fixture(scope="module")
def rules() -> Rules:
    """Of all blocks, where nothing is known."""
    return Rules.of(table(NAMED), np.arange(len(NAMED)))


def counted(nodes: list[Block]) -> np.ndarray:
    return np.bincount([NAMED.index(block) for block in nodes], minlength=len(NAMED))


def test_counts_of_graphs_obey_the_rules(rules: Rules) -> None:
    for graph in GRAPHS:
        counts = counted(blocks_of(graph))
        assert rules.hold(counts, len(graph)) and not rules.hold(counts, len(graph) + 1)
        np.testing.assert_allclose(rules.matrix(absolute=True) @ counts, 0.0)
        wanted = np.r_[np.zeros(len(rules.balance)), 1.0]
        np.testing.assert_allclose(rules.matrix(absolute=False) @ (counts / len(graph)), wanted, atol=1e-12)


def test_counts_obey_the_rules_exactly_where_every_edge_has_two_ends_and_there_are_enough(rules: Rules) -> None:
    rng, held = np.random.default_rng(0), 0
    small = [k for k, (degree, _) in enumerate(NAMED) if degree < 3]
    for _ in range(3000):
        nodes = [NAMED[k] for k in rng.choice(rng.choice(small, 3), int(rng.integers(2, 5)))]
        assert rules.hold(counted(nodes), len(nodes)) == obeys(nodes)
        held += obeys(nodes)
    assert held > 20


@pytest.mark.parametrize("known", [(1, 3), (2, 6), (5, 5), (0, 1), (1, 1)])
def test_known_rows_have_their_shares_of_the_nodes(known: tuple[int, int]) -> None:
    """The second row is that of nodes with one neighbour; of several times as many nodes the shares count alone."""
    row = np.array([int(degree == 1) for degree, _ in NAMED])
    rules, held = Rules.of(table(NAMED), np.arange(len(NAMED)), (row, np.array(known))), 0
    for graph in GRAPHS:
        counts, ends = counted(blocks_of(graph)), sum(degree == 1 for _, degree in graph.degree)
        wanted = ends * sum(known) == known[1] * len(graph)
        assert rules.hold(counts, len(graph)) == wanted
        held += wanted
        linear = rules.matrix(absolute=True)
        assert np.allclose(linear @ counts, 0.0) == wanted
        assert np.array_equal(linear[: len(rules.balance)], rules.balance)
        assert np.abs(linear[len(rules.balance) :]).max() == 1.0, "rules are of comparable size"
    assert held > 1


def test_nothing_known_is_no_rule(rules: Rules) -> None:
    assert len(rules.matrix(absolute=True)) == len(rules.balance)
