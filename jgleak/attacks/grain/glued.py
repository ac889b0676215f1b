"""The paper's own search where all nodes differ (GRAIN, Algorithms 4 and 8 with the uniqueness heuristic).

The heuristic overlaps any two nodes with the same features, and glues no block twice. So a partial graph is a set of
edges between feature vectors; gluing a 2-hop block adds its edges, and cycles close by themselves. The paper leaves
open which dangling node is next and where the search begins: here the node that came first, and every block in turn,
in the order of the paper's score.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from jgleak.attacks.attack import Budget, Clock, Reconstruction
from jgleak.attacks.distance import Fit, gradient_distances
from jgleak.attacks.grain.candidates import GrainCandidates, find_candidates
from jgleak.attacks.grain.reconstruct import block_order
from jgleak.attacks.grain.settings import GrainSettings
from jgleak.attacks.span.levels import find_nodes
from jgleak.federated.knowledge import Knowledge
from jgleak.federated.observation import Observation
from jgleak.graph import Graph

Edges = frozenset[tuple[int, int]]
"""Pairs of rows of ``Nodes``, the smaller first."""


class Partial(NamedTuple):
    """A graph under construction, or a finished one: its nodes in the order in which they came, its edges, and the
    blocks that were glued."""

    nodes: tuple[int, ...]
    edges: Edges
    glued: frozenset[int]


class Gluer:
    """The depth-first search over one client's blocks.

    Args:
      candidates: nodes and blocks that passed the span checks.
      clock: ends the search.

    Attributes:
      largest: the partial graph with most nodes so far.
    """

    def __init__(self, candidates: GrainCandidates, clock: Clock) -> None:
        ones, twos = candidates.ones, candidates.twos
        self.degrees, self.clock = candidates.nodes.degrees.tolist(), clock
        self.blocks = [
            (int(ones.roots[centre]), _edges(ones.roots.tolist(), ones.neighbours, int(centre), around))
            for centre, around in zip(twos.roots.tolist(), twos.neighbours, strict=True)
        ]
        self.order = np.argsort(block_order(candidates), kind="stable").tolist()
        self.largest = Partial((), frozenset(), frozenset())

    def closures(self) -> Iterator[Partial]:
        """Every finished graph, from the best block on; blocks that were tried are not begun with again."""
        for start in self.order:
            first = self._glue(Partial((), frozenset(), frozenset()), start)
            if first is not None:
                yield from self._search(first)
            if self.clock.left <= 0:
                return

    def _search(self, partial: Partial) -> Iterator[Partial]:
        if self.clock.left <= 0:
            return
        if len(partial.nodes) > len(self.largest.nodes):
            self.largest = partial
        missing = self._missing(partial.edges)
        dangling = next((node for node in partial.nodes if missing[node] > 0), None)
        if dangling is None:
            yield partial
            return
        for block in self.order:
            if self.blocks[block][0] == dangling and block not in partial.glued:
                grown = self._glue(partial, block)
                if grown is not None:
                    yield from self._search(grown)

    def _glue(self, partial: Partial, block: int) -> Partial | None:
        """The graph with one more block; None where a node would get more neighbours than its degree says."""
        centre, edges = self.blocks[block]
        together = partial.edges | edges
        missing = self._missing(together)
        if any(missing[node] < 0 for edge in edges for node in edge):
            return None
        nodes = dict.fromkeys((*partial.nodes, centre, *(node for edge in sorted(edges) for node in edge)))
        return Partial(tuple(nodes), together, partial.glued | {block})

    def _missing(self, edges: Edges) -> list[int]:
        """Of every node, how many neighbours are not there yet."""
        missing = list(self.degrees)
        for edge in edges:
            for node in edge:
                missing[node] -= 1
        return missing


def _edges(roots: list[int], around: tuple[tuple[int, ...], ...], centre: int, neighbours: tuple[int, ...]) -> Edges:
    """Edges of a 2-hop block between rows of ``Nodes``: of its centre, and of the centre's neighbours."""
    pairs = [(roots[kind], other) for kind in (centre, *neighbours) for other in around[kind]]
    return frozenset((min(pair), max(pair)) for pair in pairs)


def reconstruct_glued(
    observation: Observation, knowledge: Knowledge, settings: GrainSettings, *, clock: Clock, budget: Budget
) -> Reconstruction:
    """GRAIN for graphs whose nodes all differ, by the paper's search; the arguments are those of
    ``reconstruct_distinct``."""
    tolerances, limits = settings.tolerances.span, settings.limits.span
    nodes = find_nodes(observation, knowledge, clock=clock, tolerances=tolerances, limits=limits)
    bounds = {"clock": clock, "budget": budget, "settings": settings}
    candidates = find_candidates(observation, knowledge, nodes, levels=(1, 2), grown={}, **bounds)
    if candidates is None or candidates.twos.size == 0:
        return Reconstruction((), None, "no candidates", info={"nodes": int(nodes.degrees.size)})
    gluer, most = Gluer(candidates, clock), Fit.of(observation, knowledge.noise).most
    best: tuple[float, Graph] | None = None
    stop, tested = "exhausted", set[Edges]()
    for closed in gluer.closures():
        if closed.edges in tested:
            continue
        tested.add(closed.edges)
        distance, graph = _compared(observation, knowledge, candidates, closed, most)
        if best is None or distance < best[0]:
            best = distance, graph
        if distance <= most:
            stop = "match"
            break
    if stop != "match" and clock.left <= 0:
        stop = "time"
    info = {**candidates.info, "graphs_tested": len(tested), "seconds": clock.elapsed}
    distance, graph = best or _compared(observation, knowledge, candidates, gluer.largest, most)
    return Reconstruction((graph,), distance, stop, info=info)


def _compared(
    observation: Observation, knowledge: Knowledge, candidates: GrainCandidates, partial: Partial, most: float
) -> tuple[float, Graph]:
    """A graph's distance from the observed gradient, and the graph with its label."""
    place = {node: i for i, node in enumerate(partial.nodes)}
    edges = np.array([[place[u], place[v]] for u, v in sorted(partial.edges)], np.int64).reshape(-1, 2)
    graph = Graph(candidates.nodes.codes[list(partial.nodes)], edges)
    ((distance, label),) = gradient_distances(observation, knowledge.space, [graph], most)
    return distance, dataclasses.replace(graph, y=label)
