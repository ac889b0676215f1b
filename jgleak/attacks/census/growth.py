"""All connected graphs whose nodes have given blocks, grown edge by edge, partial graphs merged when isomorphic."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from typing import NamedTuple

import igraph
import numpy as np
from jaxtyping import Int

from jgleak.attacks.attack import Clock
from jgleak.attacks.span.hops import Blocks, turned
from jgleak.graph import coloured

Edges = tuple[tuple[int, int], ...]

FORWARD = igraph.GraphBase(3, [(0, 1)]).permute_vertices([1, 2, 0]).get_edgelist() == [(1, 2)]
"""True where an igraph permutation lists the new place of every node (before version 1.0), False where it lists the
node of every new place."""


class Assembled(NamedTuple):
    """A finished graph: the top block of every node, the edges, and their edge classes."""

    blocks: tuple[int, ...]
    edges: Edges
    along: tuple[int, ...]


class PartialGraph(NamedTuple):
    """A connected partial graph.

    Attributes:
      blocks: the block of each node.
      edges: node pairs.
      along: the class of each edge.
      needs: for each node the neighbours that it still lacks (``Blocks.neighbours``).
      left: blocks not yet placed, and how many of each.
      around: for each node the sum of its neighbours' ``_seen``.
    """

    blocks: tuple[int, ...]
    edges: Edges
    along: tuple[int, ...]
    needs: tuple[tuple[int, ...], ...]
    left: tuple[tuple[int, int], ...]
    around: tuple[int, ...]


class Assembly:
    """Graphs with a given census.

    Each node's block names the classes (entries of the level below) of its neighbours, and the edge class to each; a
    node's own class is the root of its block. A connected graph is grown from one node of the rarest block, by one edge
    a step: the next missing neighbour of the node with the fewest options is a node already there or a new one. Partial
    graphs are merged under isomorphisms that keep every node's block. That is safe at any step, because which graphs
    can be completed from a partial graph depends on nothing else; merging parts on their own before combining them
    would not be (docs/theory.md, section 3).

    Args:
      blocks: top blocks.
      counts: nodes with each block ``(K,)``.
      clock: ends the search.
      most: most partial graphs in total.
      beam: most partial graphs kept with one number of edges; None: all of them.
      guide: a value for each partial graph; those with the smallest values are kept, or random ones without a guide.
    """

    def __init__(
        self,
        blocks: Blocks,
        counts: Int[np.ndarray, " K"],
        *,
        clock: Clock,
        most: int,
        beam: int | None = None,
        guide: Callable[[PartialGraph], float] | None = None,
    ) -> None:
        self.roots = blocks.roots.tolist()
        self.neighbours, self.classes = blocks.neighbours, blocks.classes
        self.counts = {int(k): int(counts[k]) for k in np.flatnonzero(counts)}
        self.clock, self.most, self.beam, self.guide = clock, most, beam, guide
        self.rng = np.random.default_rng(0)
        self.exhausted = True
        self.steps = 0
        # every edge that some block has, by its root's class: seen from its other end, and the blocks that have it
        self.opposite: dict[tuple[int, int], tuple[int, int]] = {}
        self.holding: dict[tuple[int, int], list[int]] = {}
        for k in self.counts:
            for other in set(self.neighbours[k]):
                edge = self.roots[k], other
                self.opposite[edge] = turned(*edge, self.classes)
                self.holding.setdefault(edge, []).append(k)

    def graphs(self) -> Iterator[Assembled]:
        """Every connected graph of this census, each isomorphism class once; see ``exhausted`` afterwards."""
        start = min(self.counts, key=lambda k: (self.counts[k], -len(self.neighbours[k]), k))
        if not self.neighbours[start]:  # it stands alone
            if self.counts == {start: 1}:
                yield Assembled((start,), (), ())
            return
        left = {**self.counts, start: self.counts[start] - 1}
        level = [PartialGraph((start,), (), (), (self.neighbours[start],), _frozen(left), (0,))]
        while level:
            following, done = _Different(self.classes), _Different(self.classes)
            for partial in level:
                self.steps += 1
                if self.steps > self.most or self.clock.left <= 0:
                    self.exhausted, level = False, []
                    break
                for grown in self._grow(partial):
                    closed = not any(grown.needs)
                    if closed and grown.left:
                        continue
                    (done if closed else following).add(grown)
            else:
                level = self._kept(following.graphs)
            yield from (Assembled(partial.blocks, partial.edges, partial.along) for partial in done.graphs)

    def _kept(self, level: list[PartialGraph]) -> list[PartialGraph]:
        if self.beam is None or len(level) <= self.beam:
            return level
        self.exhausted = False
        if self.guide is not None:
            return sorted(level, key=self.guide)[: self.beam]
        return [level[i] for i in np.sort(self.rng.choice(len(level), self.beam, replace=False))]

    def _grow(self, partial: PartialGraph) -> list[PartialGraph]:
        """All ways to give one node, the most constrained, its next neighbour."""
        options = self._most_constrained(partial)
        if options is None:
            return []
        v, wanted, there, new = options
        blocks, edges, left = partial.blocks, partial.edges, dict(partial.left)
        (_, mine), along = self.opposite[self.roots[blocks[v]], wanted], wanted % self.classes
        classes, out = (*partial.along, along), list[PartialGraph]()
        for u in there:
            needs, around = list(partial.needs), list(partial.around)
            needs[v], needs[u] = _without(needs[v], wanted), _without(needs[u], mine)
            around[v] += _seen(blocks[u], along)
            around[u] += _seen(blocks[v], along)
            more = (*edges, (min(u, v), max(u, v)))
            out.append(PartialGraph(blocks, more, classes, tuple(needs), partial.left, tuple(around)))
        for k in new:
            needs = [*partial.needs, _without(self.neighbours[k], mine)]
            around = [*partial.around, _seen(blocks[v], along)]
            needs[v] = _without(needs[v], wanted)
            around[v] += _seen(k, along)
            rest, more = _frozen({**left, k: left[k] - 1}), (*edges, (v, len(blocks)))
            out.append(PartialGraph((*blocks, k), more, classes, tuple(needs), rest, tuple(around)))
        return out

    def _most_constrained(self, partial: PartialGraph) -> tuple[int, int, list[int], list[int]] | None:
        """A node, a neighbour that it lacks, and the candidates for it: existing nodes, and blocks of a new one. None
        where no node lacks a neighbour, or one has no candidate.
        """
        best: tuple[int, int, list[int], list[int]] | None = None
        fewest, left, edges, lacking = 0, dict(partial.left), partial.edges, dict[tuple[int, int], list[int]]()
        open_edges = list[tuple[int, tuple[int, int]]]()
        for v, needs in enumerate(partial.needs):
            for wanted in set(needs) if needs else ():
                edge = self.roots[partial.blocks[v]], wanted
                open_edges.append((v, edge))
                lacking.setdefault(edge, []).append(v)
        for v, edge in open_edges:
            end = self.opposite[edge]
            there, new = lacking.get(end, []), self.holding.get(end, [])
            if there:
                there = [u for u in there if u != v and ((u, v) if u < v else (v, u)) not in edges]
            if new:
                new = [k for k in new if left.get(k)]
            number = len(there) + len(new)
            if not number:
                return None
            if best is None or number < fewest:
                best, fewest = (v, edge[1], there, new), number
        return best


class _Different:
    """Partial graphs of which no two are isomorphic, the first of each kind.

    Attributes:
      graphs: in the order in which they came.
    """

    def __init__(self, classes: int) -> None:
        self.graphs: list[PartialGraph] = []
        self._classes = classes
        self._alone: dict[int, PartialGraph | None] = {}  # by what is quick to see; None: there are several
        self._forms: set[object] = set()

    def add(self, partial: PartialGraph) -> None:
        """Keep it, unless an isomorphic one is kept already. Canonical forms are computed only of graphs whose blocks
        have equally often neighbours that look alike."""
        shown = sum(map(hash, zip(partial.blocks, partial.around, strict=True)))
        if shown in self._alone:
            if (other := self._alone[shown]) is not None:
                self._forms.add(_canonical(other, self._classes))
                self._alone[shown] = None
            if (form := _canonical(partial, self._classes)) in self._forms:
                return
            self._forms.add(form)
        else:
            self._alone[shown] = partial
        self.graphs.append(partial)


@cache
def _seen(block: int, along: int) -> int:
    """A number for a node of a block at the other end of an edge: seldom the same for two."""
    return hash((block,)) * (2 * along + 1)


def _without(needs: tuple[int, ...], one: int) -> tuple[int, ...]:
    place = needs.index(one)
    return needs[:place] + needs[place + 1 :]


def _frozen(left: dict[int, int]) -> tuple[tuple[int, int], ...]:
    return tuple((k, number) for k, number in left.items() if number)


def _canonical(partial: PartialGraph, classes: int) -> object:
    """Equal exactly for isomorphic partial graphs (blocks and edge classes kept)."""
    if classes > 1:
        pairs = np.array(partial.edges, np.int64).reshape(-1, 2), np.array(partial.blocks), np.array(partial.along)
        graph, shown = coloured(len(partial.blocks), *pairs)
        colours, edges = shown.tolist(), graph.get_edgelist()
    else:
        colours, edges = partial.blocks, partial.edges
        graph = igraph.GraphBase(len(colours), edges)
    place = graph.canonical_permutation(color=colours)
    order = sorted(range(len(place)), key=place.__getitem__)
    if not FORWARD:
        place, order = order, place
    size = len(place)
    ends = [i * size + j if (i := place[u]) < (j := place[v]) else j * size + i for u, v in edges]
    return tuple([colours[v] for v in order]), frozenset(ends)
