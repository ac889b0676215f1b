"""One molecule as a client, and what the span checks have to find in it."""

from __future__ import annotations

from models import flat, some_params

from jgleak.attacks.span.check import SpanCheck
from jgleak.attacks.span.hops import Nodes
from jgleak.attacks.span.leak_points import leak_points
from jgleak.attacks.span.levels import find_nodes
from jgleak.datasets import load
from jgleak.datasets.molecules import molecule_graph
from jgleak.federated import Knowledge, Observation, fedsgd
from jgleak.graph import Graph
from tests.clocks import HELD as FOREVER


def seen(smiles: str) -> tuple[Graph, Observation, Nodes, SpanCheck]:
    """A molecule, what the server sees of it, the node vectors that pass, and the node check of its 1-hop rows."""
    graph, space = molecule_graph(smiles, 1), load("embedded").space
    model = flat(in_features=space.width)
    observation = fedsgd(model, some_params(model), [graph], space, loss="bce")
    nodes = find_nodes(observation, Knowledge(space), clock=FOREVER)
    [node] = [site for site in leak_points(observation, 1) if site.name == "node"]
    check = SpanCheck.at(node, most=40)
    assert check is not None
    return graph, observation, nodes, check


def true_blocks(graph: Graph, nodes: Nodes) -> set[tuple[int, tuple[int, ...]]]:
    """The graph's different 1-hop blocks: the centre's row of ``nodes``, and its neighbours'."""
    places = {tuple(codes): i for i, codes in enumerate(nodes.codes.tolist())}
    entry = [places[tuple(codes)] for codes in graph.x.tolist()]
    return {(entry[v], tuple(sorted(entry[u] for u in graph.neighbours[v]))) for v in range(graph.n)}
