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
from jgleak.attacks.span.hops import Blocks, Neighbours

Census = tuple[tuple[int, int], ...]


@dataclasses.dataclass(frozen=True)
class PartialGluing:
    """A graph under construction, or a finished one.

    Attributes:
      kinds: the 1-hop block of each node.
      edges: node pairs.
      glued: the 2-hop block glued at each node, -1 where the node still dangles.
    """

    kinds: tuple[int, ...]
    edges: tuple[tuple[int, int], ...]
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
    """Which 2-hop blocks fit at a node of a given kind whose neighbours so far have given kinds; memoised.

    Args:
      ones: the 1-hop blocks.
      twos: the 2-hop blocks.
      order: blocks with lower values are tried first (the paper's ``S(B)``).
      alive: which 2-hop blocks may be used.
    """

    def __init__(
        self, ones: Blocks, twos: Blocks, order: Float[np.ndarray, " K"], alive: Bool[np.ndarray, " K"]
    ) -> None:
        self.roots = ones.roots.tolist()
        self.around = ones.neighbours
        self.blocks: dict[int, list[tuple[int, Neighbours]]] = {}
        ranked = np.argsort(order, kind="stable")
        for block in ranked[alive[ranked]].tolist():
            self.blocks.setdefault(int(twos.roots[block]), []).append((block, twos.neighbours[block]))
        self._fits: dict[tuple[int, Neighbours], tuple[tuple[int, Neighbours], ...]] = {}
        self.capacity: dict[tuple[int, int], int] = {}
        for kind in self.blocks:
            for type_, number in Counter(self.around[kind]).items():
                key = (self.roots[kind], type_)
                self.capacity[key] = max(self.capacity.get(key, 0), number)

    def fits(self, kind: int, present: Neighbours) -> tuple[tuple[int, Neighbours], ...]:
        """Blocks rooted at ``kind`` that hold all kinds in ``present`` (sorted), each with the kinds still missing."""
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
    for kind in present:
        if kind not in rest:
            return None
        rest.remove(kind)
    return tuple(rest)


class Builder:
    """One depth-first search from one starting block.

    Args:
      gluing: the blocks and how they fit.
      most: no graph larger than this.
      clock: stops the search.
      steps: most nodes of the search tree.
    """

    def __init__(self, gluing: Gluing, *, most: int, clock: Clock, steps: int) -> None:
        self.gluing, self.most, self.clock, self.steps = gluing, most, clock, steps
        self.kinds: list[int] = []
        self.adjacent: list[list[int]] = []
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
        edges = tuple((u, v) for u, around in enumerate(self.adjacent) for v in around if u < v)
        return PartialGluing(tuple(self.kinds), edges, tuple(self.glued))

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
            if not fits:
                return
            if chosen < 0 or len(fits) < len(options):
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
        """Give ``node`` its missing neighbours, kind by kind: dangling nodes first, new ones for the rest."""
        if not missing:
            yield from self._search()
            return
        (kind, number), rest = missing[0], missing[1:]
        partners = self._partners(node, kind)
        for reused in range(min(number, len(partners)), -1, -1):
            if len(self.kinds) + number - reused > self.most:
                continue
            seen = set()
            for chosen in combinations(partners, reused):
                shape = tuple(sorted(signature for _, signature in chosen))
                if shape in seen:
                    continue
                seen.add(shape)
                others = [other for other, _ in chosen]
                start = len(self.kinds)
                for other in others:
                    self._join(node, other)
                for _ in range(number - reused):
                    self._add(kind)
                    self._join(node, len(self.kinds) - 1)
                yield from self._attach(node, rest)
                for new in range(len(self.kinds) - 1, start - 1, -1):
                    self._part(node, new)
                    self._drop(new)
                for other in reversed(others):
                    self._part(node, other)
                if self.steps <= 0:
                    return

    def _partners(self, node: int, kind: int) -> list[tuple[int, tuple[object, ...]]]:
        """Dangling nodes of a kind that could become neighbours, with what tells them apart."""
        out = []
        for other, block in enumerate(self.glued):
            if other == node or block >= 0 or self.kinds[other] != kind or other in self.adjacent[node]:
                continue
            present = tuple(sorted((*self._present(other), self.kinds[node])))
            if self.gluing.fits(kind, present):
                out.append((other, tuple(sorted(self.adjacent[other]))))
        return out

    def _present(self, node: int) -> Neighbours:
        return tuple(sorted(self.kinds[u] for u in self.adjacent[node]))

    def _needed(self) -> int:
        """A lower bound on the size of any closed graph: feature vectors that no dangling node can still provide."""
        extra: dict[int, int] = {}
        for (have, want), number in self.demand.items():
            left = number - self.demand[(want, have)] if have != want else number % 2
            if left > 0:
                new = -(-left // self.gluing.capacity.get((want, have), 1))
                extra[want] = max(extra.get(want, 0), new)
        return len(self.kinds) + sum(extra.values())

    def _add(self, kind: int) -> None:
        self.kinds.append(kind)
        self.adjacent.append([])
        self.glued.append(-1)
        root = self.gluing.roots[kind]
        for type_ in self.gluing.around[kind]:
            self.demand[(root, type_)] += 1

    def _drop(self, node: int) -> None:
        root = self.gluing.roots[self.kinds[node]]
        for type_ in self.gluing.around[self.kinds[node]]:
            self.demand[(root, type_)] -= 1
        self.kinds.pop()
        self.adjacent.pop()
        self.glued.pop()

    def _join(self, u: int, v: int) -> None:
        self.adjacent[u].append(v)
        self.adjacent[v].append(u)
        self._change(u, v, -1)

    def _part(self, u: int, v: int) -> None:
        self.adjacent[u].remove(v)
        self.adjacent[v].remove(u)
        self._change(u, v, 1)

    def _change(self, u: int, v: int, by: int) -> None:
        a, b = self.gluing.roots[self.kinds[u]], self.gluing.roots[self.kinds[v]]
        self.demand[(a, b)] += by
        self.demand[(b, a)] += by
