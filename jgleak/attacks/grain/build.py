"""Graphs from 2-hop blocks: a depth-first search over small integers (GRAIN, Algorithms 4, 5 and 8).

A node of the search is a partial graph whose nodes carry 1-hop blocks ("kinds"). Gluing a 2-hop block at a dangling
node says which kinds its neighbours have; those not there yet are either nodes that already dangle elsewhere (the
paper's overlaps, which close cycles) or new. Feature tensors never appear: two nodes may be the same exactly when their
kinds are equal.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterator
from itertools import combinations

import numpy as np
from jaxtyping import Bool, Float

from jgleak.attacks.attack import Clock
from jgleak.attacks.span.hops import Blocks, Neighbours, turned

Census = tuple[tuple[int, int], ...]


@dataclasses.dataclass(frozen=True)
class PartialGluing:
    """A graph under construction, or a finished one.

    Attributes:
      kinds: the 1-hop block of each node.
      edges: node pairs.
      along: their edge classes.
      glued: the 2-hop block glued at each node, -1 where the node still dangles.
    """

    kinds: tuple[int, ...]
    edges: tuple[tuple[int, int], ...]
    along: tuple[int, ...]
    glued: tuple[int, ...]

    @property
    def closed(self) -> bool:
        """No node dangles."""
        return all(b >= 0 for b in self.glued)

    @property
    def census(self) -> Census:
        """How often each 2-hop block occurs. It decides the gradient, up to scale."""
        return tuple(sorted(Counter(self.glued).items()))


class Gluing:
    """Which 2-hop blocks fit at a node of a given kind with given neighbours so far; memoised.

    Neighbours are those of ``Blocks``: a kind along an edge of some class.

    Args:
      ones: the 1-hop blocks.
      twos: the 2-hop blocks.
      order: blocks with lower values are tried first (the paper's ``S(B)``).
      alive: which 2-hop blocks may be used.
    """

    def __init__(
        self, ones: Blocks, twos: Blocks, order: Float[np.ndarray, " K"], alive: Bool[np.ndarray, " K"]
    ) -> None:
        self.roots, self.classes = ones.roots.tolist(), ones.classes
        self.around = ones.neighbours
        self.blocks: dict[int, list[tuple[int, Neighbours]]] = {}
        ranked = np.argsort(order, kind="stable")
        for block in ranked[alive[ranked]].tolist():
            self.blocks.setdefault(int(twos.roots[block]), []).append((block, twos.neighbours[block]))
        self._fits: dict[tuple[int, Neighbours], tuple[tuple[int, Neighbours], ...]] = {}
        self.capacity: dict[tuple[int, int], int] = {}
        for kind in self.blocks:
            for neighbour, number in Counter(self.around[kind]).items():
                key = (self.roots[kind], neighbour)
                self.capacity[key] = max(self.capacity.get(key, 0), number)

    def fits(self, kind: int, present: Neighbours) -> tuple[tuple[int, Neighbours], ...]:
        """Blocks rooted at ``kind`` that hold all of ``present`` (sorted), each with the neighbours still missing."""
        key = (kind, present)
        if key not in self._fits:
            self._fits[key] = tuple(
                (block, rest)
                for block, neighbours in self.blocks.get(kind, [])
                if (rest := _without(neighbours, present)) is not None
            )
        return self._fits[key]


def _without(neighbours: Neighbours, present: Neighbours) -> Neighbours | None:
    rest = list(neighbours)
    for neighbour in present:
        if neighbour not in rest:
            return None
        rest.remove(neighbour)
    return tuple(rest)


class Builder:
    """One depth-first search from one starting block.

    Args:
      gluing: the blocks and how they fit.
      most: largest number of nodes of a graph.
      clock: stops the search.
      steps: largest number of nodes of the search tree.
    """

    def __init__(self, gluing: Gluing, *, most: int, clock: Clock, steps: int) -> None:
        self.gluing, self.most, self.clock, self.steps = gluing, most, clock, steps
        self.kinds: list[int] = []
        self.adjacent: list[dict[int, int]] = []
        self.glued: list[int] = []
        self.demand: Counter[tuple[int, int]] = Counter()
        self.largest: PartialGluing | None = None
        self.exhausted = True

    def closures(self, root: int) -> Iterator[PartialGluing]:
        """Every finished graph that starts from a node of kind ``root``, cycles before growth."""
        self._add(root)
        yield from self._search()

    def snapshot(self) -> PartialGluing:
        """The current graph."""
        edges = {(u, v): along for u, around in enumerate(self.adjacent) for v, along in around.items() if u < v}
        return PartialGluing(tuple(self.kinds), tuple(edges), tuple(edges.values()), tuple(self.glued))

    def _search(self) -> Iterator[PartialGluing]:
        self.steps -= 1
        if self.steps % 256 == 0 and self.clock.left <= 0:
            self.steps = 0
        if self.steps <= 0:
            self.exhausted = False
            return
        if self._needed() > self.most:
            if self.largest is None:
                self.largest = self.snapshot()
            return
        chosen, options = -1, ()
        for node, block in enumerate(self.glued):
            if block >= 0:
                continue
            fits = self.gluing.fits(self.kinds[node], self._present(node))
            if not fits:  # nothing can ever be glued here: neighbours are added, and never taken away below
                return
            if chosen < 0 or len(fits) < len(options):  # where fewest blocks fit, wrong ones fail soonest
                chosen, options = node, fits
                if len(fits) == 1 and not fits[0][1]:
                    break
        if self.largest is None or len(self.kinds) > len(self.largest.kinds):
            self.largest = self.snapshot()
        if chosen < 0:
            yield self.snapshot()
            return
        for block, missing in options:
            self.glued[chosen] = block
            yield from self._attach(chosen, sorted(Counter(missing).items()))
            self.glued[chosen] = -1
            if self.steps <= 0:
                self.exhausted = False
                return

    def _attach(self, node: int, missing: list[tuple[int, int]]) -> Iterator[PartialGluing]:
        """Give ``node`` its missing neighbours, one kind after another: dangling nodes first, then new ones."""
        if not missing:
            yield from self._search()
            return
        (neighbour, number), rest = missing[0], missing[1:]
        kind, along = divmod(neighbour, self.gluing.classes)
        partners = self._partners(node, kind, along)
        for reused in range(min(number, len(partners)), -1, -1):
            if len(self.kinds) + number - reused > self.most:
                continue
            seen = set()
            for chosen in combinations(partners, reused):
                # dangling nodes of one kind with the same neighbours can be exchanged: one choice stands for all
                shape = tuple(sorted(signature for _, signature in chosen))
                if shape in seen:
                    continue
                seen.add(shape)
                others = [other for other, _ in chosen]
                start = len(self.kinds)
                for other in others:
                    self._join(node, other, along)
                for _ in range(number - reused):
                    self._add(kind)
                    self._join(node, len(self.kinds) - 1, along)
                yield from self._attach(node, rest)
                for new in range(len(self.kinds) - 1, start - 1, -1):
                    self._part(node, new)
                    self._drop(new)
                for other in reversed(others):
                    self._part(node, other)
                if self.steps <= 0:
                    return

    def _partners(self, node: int, kind: int, along: int) -> list[tuple[int, tuple[object, ...]]]:
        """Dangling nodes of a kind that may become neighbours along such an edge, each with its neighbours so far."""
        out = []
        for other, block in enumerate(self.glued):
            if other == node or block >= 0 or self.kinds[other] != kind or other in self.adjacent[node]:
                continue
            present = tuple(sorted((*self._present(other), self._neighbour(node, along))))
            if self.gluing.fits(kind, present):
                out.append((other, tuple(sorted(self.adjacent[other].items()))))
        return out

    def _present(self, node: int) -> Neighbours:
        return tuple(sorted(self._neighbour(u, along) for u, along in self.adjacent[node].items()))

    def _neighbour(self, node: int, along: int) -> int:
        """A node as the neighbour of another, along an edge of some class."""
        return self.gluing.classes * self.kinds[node] + along

    def _needed(self) -> int:
        """A lower bound on the size of any closed graph: feature vectors that no dangling node can still provide."""
        extra: dict[int, int] = {}
        for (have, want), number in self.demand.items():
            back = turned(have, want, self.gluing.classes)
            left = number - self.demand[back] if back != (have, want) else number % 2
            if left > 0:
                # one new node may meet demands of several sorts, so the largest of these numbers counts, not their sum
                new = -(-left // self.gluing.capacity.get(back, 1))
                extra[back[0]] = max(extra.get(back[0], 0), new)
        return len(self.kinds) + sum(extra.values())

    def _add(self, kind: int) -> None:
        self.kinds.append(kind)
        self.adjacent.append({})
        self.glued.append(-1)
        root = self.gluing.roots[kind]
        for neighbour in self.gluing.around[kind]:
            self.demand[(root, neighbour)] += 1

    def _drop(self, node: int) -> None:
        root = self.gluing.roots[self.kinds[node]]
        for neighbour in self.gluing.around[self.kinds[node]]:
            self.demand[(root, neighbour)] -= 1
        self.kinds.pop()
        self.adjacent.pop()
        self.glued.pop()

    def _join(self, u: int, v: int, along: int) -> None:
        self.adjacent[u][v] = self.adjacent[v][u] = along
        self._change(u, v, along, -1)

    def _part(self, u: int, v: int) -> None:
        along = self.adjacent[u].pop(v)
        self.adjacent[v].pop(u)
        self._change(u, v, along, 1)

    def _change(self, u: int, v: int, along: int, by: int) -> None:
        a, b = self.gluing.roots[self.kinds[u]], self.gluing.roots[self.kinds[v]]
        self.demand[(a, self.gluing.classes * b + along)] += by
        self.demand[(b, self.gluing.classes * a + along)] += by
