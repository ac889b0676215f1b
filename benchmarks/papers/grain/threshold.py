"""GRAIN's Figure 6: how many nodes and 1-hop blocks pass the span check, by its threshold."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from itertools import combinations_with_replacement, islice

import numpy as np
from jaxtyping import Float, Int

from benchmarks.lib.records import Record
from jgleak.attacks.span.leak_points import leak_points
from jgleak.attacks.span.nodes import passing_nodes
from jgleak.attacks.span.subspace import Subspace
from jgleak.audit.setup import Setup
from jgleak.features import FeatureSpace
from jgleak.federated import Observation, fedsgd
from jgleak.graph import Graph

THRESHOLDS = tuple(float(10.0 ** (half / 2)) for half in range(-14, 1))

LOOSEST = 0.1
"""Nodes are listed up to here; above, every feature vector of the schema would have to be."""

PIECE = 20_000
"""Blocks looked at together."""


def of_clients(setup: Setup, about: Record) -> Record:
    """For every client and threshold: what passes over what there is, and the share of the true ones that pass."""
    clients = [_client(setup, graph) for graph in setup.dataset.graphs]
    return about | {"thresholds": list(THRESHOLDS), "loosest": LOOSEST, "clients": clients}


def _client(setup: Setup, graph: Graph) -> Record:
    seen = fedsgd(setup.model, setup.params, [graph], setup.dataset.space, loss=setup.loss)
    space, spans = setup.dataset.space, [_span(seen, hop) for hop in (0, 1)]
    loose = dataclasses.replace(spans[0], margin=spans[0].margin.loosened(LOOSEST / spans[0].tolerance))
    codes = passing_nodes(space, loose)
    away = spans[0].distances(space.encode(codes))
    true = np.unique(graph.x, axis=0)
    nodes = _passing(away, _same(codes, true), len(true), [cut for cut in THRESHOLDS if cut <= LOOSEST])
    kept = codes[away <= spans[0].tolerance]
    blocks = _blocks(graph)
    found = [(np.zeros(0), np.zeros(0, bool)), *_one_hop(setup, kept, spans[1], blocks)]  # none where no node passes
    away, right = (np.concatenate(part) for part in zip(*found, strict=True))
    return {"n": graph.n, "nodes": nodes, "blocks": _passing(away, right, len(blocks), THRESHOLDS)}


def _span(seen: Observation, hop: int) -> Subspace:
    """The span of the gradient of the kernel that the nodes' own rows enter: GRAIN's check."""
    (point,) = (point for point in leak_points(seen, hop) if point.name == "node")
    return Subspace.of_gradient(point.gradient)


def _passing(
    away: Float[np.ndarray, " k"], right: np.ndarray, true: int, cuts: Sequence[float]
) -> list[tuple[float, float]]:
    return [(float(np.sum(away <= cut)) / true, float(np.sum(right & (away <= cut))) / true) for cut in cuts]


def _same(codes: Int[np.ndarray, "T G"], true: Int[np.ndarray, "U G"]) -> np.ndarray:
    known = {tuple(row) for row in true.tolist()}
    return np.array([tuple(row) in known for row in codes.tolist()], bool)


Block = tuple[tuple[int, ...], tuple[tuple[int, ...], ...]]
"""Codes of a centre, and those of its neighbours, sorted."""


def _blocks(graph: Graph) -> set[Block]:
    """The client's own 1-hop blocks."""
    rows = [tuple(row) for row in graph.x.tolist()]
    around = [np.flatnonzero(line) for line in graph.adjacency]
    return {(rows[v], tuple(sorted(rows[u] for u in near))) for v, near in enumerate(around)}


def _one_hop(
    setup: Setup, codes: Int[np.ndarray, "T G"], span: Subspace, true: set[Block]
) -> Iterator[tuple[Float[np.ndarray, " k"], np.ndarray]]:
    """Distances of all 1-hop blocks of these nodes, plainly enumerated, and which of them are the client's."""
    space: FeatureSpace = setup.dataset.space
    degrees = space.degrees(codes)
    assert degrees is not None  # a molecule's features state them
    rows, order = space.encode(codes).astype(np.float64), [tuple(row) for row in codes.tolist()]
    kernel = np.asarray(setup.params["layers_0"]["conv"]["kernel"], np.float64)
    mapped, near = rows @ kernel / np.sqrt(degrees + 1.0)[:, None], np.flatnonzero(degrees > 0)
    for centre, degree in enumerate(degrees.tolist()):
        ways = combinations_with_replacement(near.tolist(), degree)
        while piece := list(islice(ways, PIECE)):
            members = np.array(piece, np.int64).reshape(len(piece), degree)
            mixed = (mapped[centre] + mapped[members].sum(axis=1)) / np.sqrt(degree + 1.0)
            right = [(order[centre], tuple(sorted(order[u] for u in around))) in true for around in piece]
            yield span.distances(np.maximum(mixed, 0.0)), np.array(right, bool)
