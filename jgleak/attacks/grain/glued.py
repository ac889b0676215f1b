"""The paper's own search where all nodes differ (GRAIN, Algorithms 4 and 8 with the uniqueness heuristic).

The heuristic overlaps any two nodes with the same features, and glues no block twice. So a partial graph is a set of
edges between feature vectors; gluing a 2-hop block adds its edges, after which its centre dangles no more, and cycles
close by themselves. The paper leaves open which dangling node is next and where the search begins: here the node that
came first, and every block in turn, in the order of the paper's score. The blocks are those of ``candidates``, whose
structure filter asks for a partner at every neighbour; and what gives a node more neighbours than its degree says is
left out at once.
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
    """A graph under construction, or a finished one: its nodes in the order in which they came, and its edges."""

    nodes: tuple[int, ...]
    edges: Edges


NOTHING = Partial((), frozenset())
"""Before the first block."""


class Gluer:
    """The depth-first search over one client's blocks.

    Args:
      candidates: nodes and blocks that passed the span checks.
      most: largest number of nodes.
      clock: ends the search.

    Attributes:
      largest: the partial graph with most nodes so far.
    """

    def __init__(self, candidates: GrainCandidates, most: float, clock: Clock) -> None:
        ones, twos = candidates.ones, candidates.twos
        self.degrees, self.most, self.clock = candidates.nodes.degrees.tolist(), most, clock
        self.vectors = np.unique(candidates.nodes.codes, axis=0, return_inverse=True)[1].ravel().tolist()
        self.blocks, self.around = list[Edges](), dict[int, list[int]]()
        roots = ones.roots.tolist()
        for place in np.argsort(block_order(candidates), kind="stable").tolist():
            centre = int(twos.roots[place])
            edges = _edges(roots, ones.neighbours, (centre, *twos.neighbours[place]))
            if edges is not None:
                self.around.setdefault(roots[centre], []).append(len(self.blocks))
                self.blocks.append(edges)
        self.largest = NOTHING

    def closures(self) -> Iterator[Partial]:
        """Finished graphs, from every block in turn."""
        for block, centre in sorted((block, centre) for centre, blocks in self.around.items() for block in blocks):
            first = self._glue(NOTHING, block, centre)
            if first is not None:
                yield from self._search(first)
            if self.clock.left <= 0:
                return

    def _search(self, partial: Partial) -> Iterator[Partial]:
        if len(partial.nodes) > len(self.largest.nodes):
            self.largest = partial
        missing = self._missing(partial.edges)
        dangling = next((node for node in partial.nodes if missing[node] > 0), None)
        if dangling is None:
            yield partial
            return
        for block in self.around.get(dangling, []):
            if self.clock.left <= 0:
                return
            grown = self._glue(partial, block, dangling)
            if grown is not None:
                yield from self._search(grown)

    def _glue(self, partial: Partial, block: int, centre: int) -> Partial | None:
        """The graph with one more block; None where a node would get more neighbours than its degree says, where two
        nodes would be the same, or where there would be too many."""
        edges = self.blocks[block]
        together = partial.edges | edges
        missing = self._missing(together)
        nodes = tuple(dict.fromkeys((*partial.nodes, centre, *(node for edge in sorted(edges) for node in edge))))
        if len(nodes) > self.most or len({self.vectors[node] for node in nodes}) < len(nodes):
            return None
        if any(missing[node] < 0 for node in nodes):
            return None
        return Partial(nodes, together)

    def _missing(self, edges: Edges) -> list[int]:
        """Of every node, how many neighbours are not there yet."""
        missing = list(self.degrees)
        for edge in edges:
            for node in edge:
                missing[node] -= 1
        return missing


def _edges(roots: list[int], around: tuple[tuple[int, ...], ...], kinds: tuple[int, ...]) -> Edges | None:
    """Edges of a 2-hop block between rows of ``Nodes``: of its centre and the centre's neighbours, which are ``kinds``.
    None where a node would be its own neighbour, or twice another's."""
    if any(len({roots[kind], *around[kind]}) <= len(around[kind]) for kind in kinds):
        return None
    pairs = [(roots[kind], other) for kind in kinds for other in around[kind]]
    return frozenset((min(pair), max(pair)) for pair in pairs)


def reconstruct_glued(
    observation: Observation, knowledge: Knowledge, settings: GrainSettings, *, clock: Clock, budget: Budget
) -> Reconstruction:
    """GRAIN for graphs whose nodes all differ, by the paper's search; the arguments are those of
    ``reconstruct_distinct``. "exhausted" says that this search ended, not that there is no graph: nodes in another
    order may close others."""
    tolerances, limits = settings.tolerances.span, settings.limits.span
    nodes = find_nodes(observation, knowledge, clock=clock, tolerances=tolerances, limits=limits)
    bounds = {"clock": clock, "budget": budget, "settings": settings}
    candidates = find_candidates(observation, knowledge, nodes, levels=(1, 2), grown={}, **bounds)
    info = {"nodes": int(nodes.degrees.size)} if candidates is None else candidates.info
    if candidates is None or candidates.twos.size == 0:
        stop = "time" if clock.left <= 0 else "no candidates"
        return Reconstruction((), None, stop, info={**info, "seconds": clock.elapsed})
    known, fits = knowledge.n, Fit.of(observation, knowledge.noise).most
    gluer = Gluer(candidates, known or knowledge.max_n or np.inf, clock)
    best: tuple[float, Graph] | None = None
    stop, tested = "exhausted", set[tuple[frozenset[int], Edges]]()
    for closed in gluer.closures():
        key = frozenset(closed.nodes), closed.edges
        if key in tested or known not in (None, len(closed.nodes)):
            continue
        tested.add(key)
        distance, graph = _compared(observation, knowledge, candidates, closed, fits)
        if best is None or distance < best[0]:
            best = distance, graph
        if distance <= fits:
            stop = "match"
            break
    if stop != "match" and clock.left <= 0:
        stop = "time"
    if best is None and gluer.largest.nodes:
        best = _compared(observation, knowledge, candidates, gluer.largest, fits)
    info = {**info, "graphs_tested": len(tested), "seconds": clock.elapsed}
    if best is None:
        return Reconstruction((), None, stop, info=info)
    return Reconstruction((best[1],), best[0], stop, info=info)


def _compared(
    observation: Observation, knowledge: Knowledge, candidates: GrainCandidates, partial: Partial, most: float
) -> tuple[float, Graph]:
    """A graph's distance from the observed gradient, and the graph with its label."""
    place = {node: i for i, node in enumerate(partial.nodes)}
    edges = np.array([[place[u], place[v]] for u, v in sorted(partial.edges)], np.int64).reshape(-1, 2)
    graph = Graph(candidates.nodes.codes[list(partial.nodes)], edges)
    ((distance, label),) = gradient_distances(observation, knowledge.space, [graph], most)
    return distance, dataclasses.replace(graph, y=label)
