"""All small connected graphs of the node candidates, where counting gives no graph.

No check of blocks is needed. Small and simple graphs come first, by the number of nodes plus a constant for every
cycle. For every multiset of feature vectors and degrees ``growth`` builds the connected graphs, each once up to
isomorphism, and ``screen`` compares their whole gradients. Bounds on feature vectors, where the equations give them
(``shares``), leave few multisets.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from itertools import combinations_with_replacement

import numpy as np
from jaxtyping import Float, Int

from jgleak.attacks.attack import Clock
from jgleak.attacks.census.assemble import AnonymitySet, ExplainingGraph
from jgleak.attacks.census.growth import Assembly
from jgleak.attacks.census.problem import CensusProblem
from jgleak.attacks.census.row_rank import shown_rank
from jgleak.attacks.census.screen import TOGETHER, passing
from jgleak.attacks.census.shares import Bounds
from jgleak.attacks.span.hops import Blocks, Nodes
from jgleak.graph import Graph

CYCLE = 2
"""One cycle counts as this many nodes in the order of graphs."""

Multiset = dict[int, int]
"""How many nodes have each star."""


@dataclasses.dataclass(frozen=True)
class Stars:
    """What a node may be: a feature vector, and the classes of its edges.

    Attributes:
      codes: feature codes of different feature vectors ``(U, G)``.
      rows: the same as the model takes them ``(U, m)``.
      vectors: the feature vector of each star ``(T,)``.
      edges: the classes of each star's edges, as many as it has neighbours.
      least: fewest nodes that have each feature vector ``(U,)``.
      most: most nodes that have each ``(U,)``.
      rank: fewest dimensions that the rows of a graph span.
    """

    codes: Int[np.ndarray, "U G"]
    rows: Float[np.ndarray, "U m"]
    vectors: Int[np.ndarray, " T"]
    edges: tuple[tuple[int, ...], ...]
    least: Int[np.ndarray, " U"]
    most: Int[np.ndarray, " U"]
    rank: int

    @property
    def degrees(self) -> Int[np.ndarray, " T"]:
        """Number of neighbours of each star ``(T,)``."""
        return np.array([len(one) for one in self.edges], np.int64)

    def multisets(self, n: int, ends: int, clock: Clock) -> Iterator[Multiset | None]:
        """All choices of ``n`` stars with ``ends`` ends of edges, within the bounds of feature vectors, whose rows have
        the ``rank``; None where the clock ended first."""
        degrees, number = self.degrees, len(self.edges)
        # a least number of nodes of a vector binds a star by itself only where the vector has no other star
        alone = np.bincount(self.vectors)[self.vectors] == 1
        low = np.where(alone, self.least[self.vectors], 0)
        high = np.minimum(self.most[self.vectors], n)
        owed = np.r_[np.cumsum(low[::-1])[::-1], 0]  # nodes that the stars from each on cannot do without
        # degrees of the stars from each on: the ends that are left must lie between so many a node
        fewest = np.minimum.accumulate(np.r_[degrees, 1 << 30][::-1])[::-1]
        greatest = np.maximum.accumulate(np.r_[degrees, -1][::-1])[::-1]

        def within(first: int, nodes: int, left: int) -> bool:
            return bool(fewest[first] * nodes <= left <= greatest[first] * nodes)

        def chosen(first: int, nodes: int, left: int, lacking: int) -> Iterator[Multiset]:
            if not nodes:
                yield {}
                return
            for star in range(first, number):
                for count in range(min(int(high[star]), nodes), max(int(low[star]), 1) - 1, -1):
                    others, rest = nodes - count, left - count * int(degrees[star])
                    if others < lacking - 1:  # a dimension takes a node
                        continue
                    if not others and not rest and not owed[star + 1]:
                        yield {star: count}
                    elif others >= max(owed[star + 1], 1) and within(star + 1, others, rest):
                        yield from ({star: count, **more} for more in chosen(star + 1, others, rest, lacking - 1))
                if low[star]:
                    return

        for one in chosen(0, n, ends, self.rank):
            if clock.left <= 0:
                yield None
                return
            if self._may_be(one):
                yield one

    def _may_be(self, chosen: Multiset) -> bool:
        stars, counts = list(chosen), list(chosen.values())
        total = np.bincount(self.vectors[stars], counts, minlength=self.least.size)
        if np.any(total < self.least) or np.any(total > self.most):
            return False
        return bool(np.linalg.matrix_rank(self.rows[total > 0]) >= self.rank)

    def blocks(self, classes: int) -> Blocks:
        """The stars as blocks whose neighbours are all of one class, so that any two nodes may be neighbours."""
        number, zeros = len(self.edges), np.zeros(len(self.edges))
        roots = np.zeros(number, np.int64)
        states = zeros[:, None], np.zeros((number, 0))
        return Blocks(roots, self.vectors, self.edges, *states, zeros, 0, classes=classes)


def may_be_small(problem: CensusProblem, nodes: Nodes) -> bool:
    """True where the client's graph may be small enough to be enumerated."""
    most, kinds = problem.limits.enumerated_nodes, np.unique(nodes.codes, axis=0).shape[0]
    return problem.rounds[0][0] <= most and 0 < kinds and not (nodes.certain and kinds > most)


def enumerated(problem: CensusProblem, nodes: Nodes, bounds: Bounds | None, clock: Clock) -> AnonymitySet:
    """Every connected graph of up to ``enumerated_nodes`` nodes with the observed gradient, within the time.

    Exhausted where no larger number of nodes is possible and every graph was compared. Where larger graphs are
    possible, the search goes on, after its first graph, for as long as the attack has taken until then.

    Args:
      problem: the update and what is known.
      nodes: feature vectors that may occur.
      bounds: bounds on their shares; None where none are known.
      clock: ends the search.
    """
    slots = problem.limits.enumerated_nodes
    sizes = [n for sizes in problem.rounds for n in sizes if n <= slots]
    whole = problem.most_nodes <= slots
    found, looked, exhausted = list[ExplainingGraph](), _Looked(), whole and nodes.complete
    rank = shown_rank(problem, nodes)
    stars = dict[int, Stars]()
    for n, cycles in _order(sizes):
        if clock.left <= 0:
            looked.cut = True
            break
        if n not in stars:
            stars[n] = _stars(problem, nodes, bounds, (n, rank))
        for graphs in _batches(looked, problem, stars[n], (n, cycles), clock):
            first = not found
            found += passing(problem, graphs, slots, clock)
            looked.cut |= clock.left <= 0
            if first and found and not whole:
                clock = clock.part(min(1.0, clock.elapsed / max(clock.left, 1e-9)))
            if len(found) >= problem.limits.listed:
                looked.cut = True
                break
        if looked.cut:
            break
    graphs = tuple(found[: problem.limits.listed])
    return AnonymitySet(graphs, exhausted and not looked.cut, looked.multisets, looked.partials).likely(problem.fit)


@dataclasses.dataclass
class _Looked:
    """What was examined so far, and whether the rest was cut off."""

    multisets: int = 0
    partials: int = 0
    cut: bool = False


def _order(sizes: list[int]) -> list[tuple[int, int]]:
    """Numbers of nodes and of independent cycles, the simplest first."""
    pairs = [(n, cycles) for n in sizes for cycles in range((n - 1) * (n - 2) // 2 + 1)]
    return sorted(pairs, key=lambda pair: (pair[0] + CYCLE * pair[1], pair))


def _stars(problem: CensusProblem, nodes: Nodes, bounds: Bounds | None, size: tuple[int, int]) -> Stars:
    """The possible stars of a graph with a number of nodes and a rank of its rows (``size``)."""
    n, rank = size
    knowledge, space = problem.knowledge, problem.knowledge.space
    codes = np.unique(nodes.codes, axis=0)
    stated = space.degrees(codes)
    least, most = np.zeros(len(codes), np.int64), np.full(len(codes), n)
    largest = n - 1 if knowledge.max_degree is None else min(n - 1, knowledge.max_degree)
    fitting = range(min(1, n - 1), largest + 1)  # in a connected graph no node is alone beside others
    tried = [fitting if stated is None else [d for d in [int(stated[u])] if d in fitting] for u in range(len(codes))]
    pairs = [(u, around) for u, degrees in enumerate(tried) for d in degrees for around in _around(d, nodes.classes)]
    if nodes.certain and stated is not None:
        least[:] = 1
    if bounds is not None and stated is not None:
        low, high = (_by_vector(codes, nodes, bound) for bound in bounds)
        scale, off = 1 if problem.absolute else n, problem.tolerances.whole_number
        least = np.maximum(least, np.ceil(low * scale - off)).astype(np.int64)
        most = np.minimum(most, np.floor(np.minimum(high, n) * scale + off)).astype(np.int64)
    known = problem.known_rows(codes)
    if known is not None:
        least = most = known[1][known[0]]
    pairs.sort(key=lambda pair: len(pair[1]))
    rows = space.encode(codes).astype(np.float64)
    vectors, edges = np.array([u for u, _ in pairs], np.int64), tuple(around for _, around in pairs)
    return Stars(codes, rows, vectors, edges, least, most, rank)


def _around(degree: int, classes: int) -> Iterator[tuple[int, ...]]:
    return combinations_with_replacement(range(classes), degree)


def _by_vector(codes: Int[np.ndarray, "U G"], nodes: Nodes, bound: Float[np.ndarray, " T"]) -> Float[np.ndarray, " U"]:
    """A bound on the nodes' entries in the order of ``codes``; features state degrees, so each has one entry."""
    place = {row.tobytes(): value for row, value in zip(nodes.codes, bound.tolist(), strict=True)}
    return np.array([place[row.tobytes()] for row in codes])


def _batches(
    looked: _Looked, problem: CensusProblem, stars: Stars, size: tuple[int, int], clock: Clock
) -> Iterator[list[Graph]]:
    """Graphs with the numbers of nodes and of independent cycles in ``size``; ``looked`` is updated."""
    n, cycles = size
    blocks, graphs = stars.blocks(problem.observation.model.edge_classes or 1), list[Graph]()
    for chosen in stars.multisets(n, 2 * (n - 1 + cycles), clock):
        if chosen is None:
            looked.cut = True
            break
        counts = np.zeros(len(stars.edges), np.int64)
        counts[list(chosen)] = list(chosen.values())
        assembly = Assembly(blocks, counts, clock=clock, most=problem.limits.partial_graphs)
        for kinds, edges, along in assembly.graphs():
            classes = np.array(along, np.int64) if problem.observation.model.edge_classes else None
            vectors = stars.codes[stars.vectors[list(kinds)]]
            graphs.append(Graph(vectors, np.array(edges, np.int64).reshape(-1, 2), edge_class=classes))
            if len(graphs) == TOGETHER:
                yield graphs
                graphs = []
        looked.multisets += 1
        looked.partials += assembly.steps
        looked.cut |= not assembly.exhausted
        if clock.left <= 0:
            looked.cut = True
            break
    if graphs:
        yield graphs
