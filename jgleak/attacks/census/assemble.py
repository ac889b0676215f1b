"""Fourth stage: every graph that the counts allow, with the distance of its gradient."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from functools import cached_property
from typing import Any

import numpy as np
from jaxtyping import Int

from jgleak.attacks.attack import Clock
from jgleak.attacks.census.candidates import Levels
from jgleak.attacks.census.growth import Assembly, PartialGraph
from jgleak.attacks.census.neighbourhood_prior import NeighbourhoodPrior, row_names
from jgleak.attacks.census.problem import CensusProblem
from jgleak.attacks.census.system import Solution
from jgleak.attacks.distance import Fit, gradient_distances
from jgleak.graph import Graph

Form = tuple[bytes, bytes]
"""A graph up to isomorphism."""


@dataclasses.dataclass(frozen=True)
class ExplainingGraph:
    """A graph with its label, its relative gradient distance, and its canonical form."""

    graph: Graph
    distance: float
    form: Form


@dataclasses.dataclass(frozen=True)
class AnonymitySet:
    """Graphs that have the observed gradient, no two isomorphic.

    Attributes:
      graphs: those found, in the order of their censuses.
      exhausted: every possibility was examined.
      censuses: number of whole-number solutions that were examined.
      partials: number of partial graphs that were examined.
    """

    graphs: tuple[ExplainingGraph, ...] = ()
    exhausted: bool = True
    censuses: int = 0
    partials: int = 0

    @property
    def forms(self) -> frozenset[Form]:
        """The canonical forms of its graphs."""
        return frozenset(one.form for one in self.graphs)

    @property
    def distances(self) -> list[float]:
        """The relative gradient distances of its graphs."""
        return [one.distance for one in self.graphs]

    def joined(self, more: AnonymitySet) -> AnonymitySet:
        """This set with the other graphs of ``more``, and the sums of both counts."""
        known = self.forms
        return AnonymitySet(
            (*self.graphs, *(one for one in more.graphs if one.form not in known)),
            self.exhausted and more.exhausted,
            self.censuses + more.censuses,
            self.partials + more.partials,
        )

    def likely(self, fit: Fit) -> AnonymitySet:
        """This set without graphs that are too unlikely beside the best one, where noise allows several gradients."""
        kept = np.flatnonzero(fit.likely(self.distances)).tolist()
        return dataclasses.replace(self, graphs=tuple(self.graphs[i] for i in kept))


CUT = AnonymitySet(exhausted=False)
"""The empty set of a search that a budget ended."""


def assemble(
    problem: CensusProblem,
    levels: Levels,
    solution: Solution,
    sizes: range,
    clock: Clock,
    told: tuple[float, Any] | None = None,
) -> AnonymitySet:
    """Every connected graph of every census with one of these numbers of nodes that has the observed gradient (with
    ``told``, as in ``Growing``, every connected graph of the census), until time runs out or the list is full.

    Where public graphs are known, graphs that are likely by these are assembled first, census by census, and the others
    after that.
    """
    found = AnonymitySet(exhausted=levels.complete)
    if not solution.explained:
        return found
    growing = Growing(problem, levels, clock, told)
    likely_first, limits = bool(problem.knowledge.auxiliary), problem.limits
    steps, vast = limits.partial_graphs, list[Int[np.ndarray, " K"]]()
    for counts in _counts(problem, levels, solution, sizes, clock):
        if counts is None:
            found = found.joined(CUT)
            if growing.ended(found):
                break
            continue
        more = growing.some(found, counts) if likely_first else growing.every(found, counts, steps)
        found = found.joined(dataclasses.replace(more, exhausted=True, censuses=1))
        if not more.exhausted:  # the others get fewer steps, so that every census has its turn
            vast.append(counts)
            steps = limits.more_partial_graphs
        if growing.ended(found):
            found = found.joined(CUT)
            break
    steps = limits.partial_graphs  # beside public graphs only what looked likely was assembled so far
    for counts in vast:
        if growing.ended(found) or not likely_first:
            found = found.joined(CUT)
            break
        more = growing.every(found, counts, steps)
        found = found.joined(more)
        steps = steps if more.exhausted else limits.more_partial_graphs
    return found.likely(problem.fit)


def _counts(
    problem: CensusProblem, levels: Levels, solution: Solution, sizes: range, clock: Clock
) -> Iterator[Int[np.ndarray, " K"] | None]:
    """How many nodes have each top block, whatever their labels, for every census once; None where a search was cut
    off."""
    seen: set[bytes] = set()
    for census in problem.arithmetic.censuses(solution, sizes, clock):
        if census is None:
            yield None
            continue
        blocks, size = solution.equations.blocks, levels.top.size
        counts = np.bincount(blocks, census.counts, minlength=size).astype(np.int64)
        if counts.tobytes() not in seen:
            seen.add(counts.tobytes())
            yield counts


@dataclasses.dataclass(frozen=True)
class Growing:
    """Finds the graphs of one census after another.

    Graphs of one census have the same gradient, since the readout adds up what blocks contribute: its distance is
    computed once, except in node tasks, whose labels depend on the graph.

    Attributes:
      problem: the update and what is known.
      levels: the blocks.
      clock: ends the search.
      told: that distance and the label, where both are known; then no gradient is computed.
    """

    problem: CensusProblem
    levels: Levels
    clock: Clock
    told: tuple[float, Any] | None = None

    def ended(self, found: AnonymitySet) -> bool:
        """True where time is up or the list is full."""
        return self.clock.left <= 0 or len(found.graphs) >= self.problem.limits.listed

    def every(self, found: AnonymitySet, counts: Int[np.ndarray, " K"], steps: int) -> AnonymitySet:
        """All graphs; not exhausted, with some of them at best, where they are too many or time runs out."""
        limits = self.problem.limits
        if found.graphs and counts.sum() > found.graphs[0].graph.n:
            steps = limits.more_partial_graphs
        more = self._graphs(found, counts, steps, None)
        if more.exhausted or more.graphs:
            return more
        return more.joined(self._graphs(found, counts, steps, limits.beam))

    def some(self, found: AnonymitySet, counts: Int[np.ndarray, " K"]) -> AnonymitySet:
        """The graphs that are most likely by the public graphs; exhausted where there are no others."""
        return self._graphs(found, counts, self.problem.limits.partial_graphs, self.problem.limits.beam)

    def _graphs(self, found: AnonymitySet, counts: Int[np.ndarray, " K"], steps: int, beam: int | None) -> AnonymitySet:
        """The graphs of a census that are not in ``found``."""
        problem, levels, shared = self.problem, self.levels, self.told
        forms, out = set(found.forms), list[ExplainingGraph]()
        guide = self._unlikely if problem.knowledge.auxiliary else None
        assembly = Assembly(levels.top, counts, clock=self.clock, most=steps, beam=beam, guide=guide)
        whole = True
        for blocks, edges, along in assembly.graphs():
            kinds = levels.top.kinds[list(blocks)]
            classes = np.array(along, np.int64) if problem.observation.model.edge_classes else None
            graph = Graph(levels.nodes.codes[kinds], np.array(edges, np.int64).reshape(-1, 2), edge_class=classes)
            form = graph.canonical_form()
            if form not in forms:
                forms.add(form)
                if shared is None or (problem.observation.model.node_level and self.told is None):
                    shared = gradient_distances(problem.seen, problem.knowledge.space, [graph], problem.fit.most)[0]
                if self.told is not None or shared[0] <= problem.fit.most:
                    out.append(ExplainingGraph(dataclasses.replace(graph, y=shared[1]), shared[0], form))
            if self.clock.left <= 0 or len(found.graphs) + len(out) >= problem.limits.listed:
                whole = False
                break
        return AnonymitySet(tuple(out), whole and assembly.exhausted, partials=assembly.steps)

    @cached_property
    def _public(self) -> tuple[NeighbourhoodPrior, list[bytes]]:
        """The prior of the public graphs, and a name for the root of every block."""
        names = row_names(self.levels.nodes.codes[self.levels.top.kinds])
        return NeighbourhoodPrior(self.problem.knowledge.auxiliary), names

    def _unlikely(self, partial: PartialGraph) -> float:
        """The negative log-likelihood of a partial graph by the public graphs."""
        prior, names = self._public
        neighbours: list[list[int]] = [[] for _ in partial.blocks]
        for u, v in partial.edges:
            neighbours[u].append(v)
            neighbours[v].append(u)
        closed = [not needs for needs in partial.needs]
        return prior.negative_log_likelihood([names[k] for k in partial.blocks], neighbours, closed)
