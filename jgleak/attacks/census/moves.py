"""Random changes of a connected graph: the steps of a search among graphs."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Int

TRIES = 8
"""Changes that are drawn until one is possible."""

START_DEGREE = 3
"""Most neighbours of a node in a random graph to begin with, where more are allowed."""

START_SIZE = 20
"""Most nodes of such a graph, where so few are allowed."""


class Linked(NamedTuple):
    """A connected graph: its adjacency ``(n, n)`` without self-loops, and the kind of every node ``(n,)``."""

    adjacency: Bool[np.ndarray, "n n"]
    kinds: Int[np.ndarray, " n"]


Move = Callable[[Linked, np.random.Generator], Linked | None]
"""A random change of a copy; None where the change drawn is impossible."""


@dataclasses.dataclass(frozen=True)
class Moves:
    """The graphs that are allowed, and the changes from one to another.

    Attributes:
      kinds: number of node kinds.
      most: most neighbours of a node.
      sizes: numbers of nodes, a range.
      fixed: the kinds of all nodes, where they are known ``(n,)``.
    """

    kinds: int
    most: int
    sizes: range
    fixed: Int[np.ndarray, " n"] | None = None

    def start(self, rng: np.random.Generator) -> Linked:
        """A random tree."""
        usual = [size for size in self.sizes if size <= START_SIZE] or self.sizes[:1]
        size = int(rng.choice(usual)) if self.fixed is None else self.fixed.size
        kinds = rng.integers(self.kinds, size=size) if self.fixed is None else rng.permutation(self.fixed)
        adjacency, most = np.zeros((size, size), bool), min(self.most, START_DEGREE)
        for v in range(1, size):
            open_nodes = np.flatnonzero(adjacency[:v].sum(axis=1) < max(most, 2))
            _flip(adjacency, int(rng.choice(open_nodes)), v)
        return Linked(adjacency, kinds)

    def changed(self, graph: Linked, rng: np.random.Generator) -> Linked | None:
        """One random change; None where all changes drawn are impossible."""
        moves = self._moves
        for _ in range(TRIES):
            found = moves[int(rng.integers(len(moves)))](Linked(graph.adjacency.copy(), graph.kinds.copy()), rng)
            if found is not None and found.adjacency.sum(axis=1).max() <= self.most and _connected(found.adjacency):
                return found
        return None

    @property
    def _moves(self) -> tuple[Move, ...]:
        """The kinds of change; two of them are drawn twice as often."""
        edges = (_moved_end, _moved_end, _crossed, _crossed, _toggled, _slid, _exchanged)
        if self.fixed is not None:
            return edges
        return (*edges, self._renamed) if len(self.sizes) == 1 else (*edges, self._renamed, self._grown, self._shrunk)

    def _renamed(self, graph: Linked, rng: np.random.Generator) -> Linked | None:
        """A node becomes one of another kind."""
        node, kind = int(rng.integers(graph.kinds.size)), int(rng.integers(self.kinds))
        if graph.kinds[node] == kind:
            return None
        graph.kinds[node] = kind
        return graph

    def _grown(self, graph: Linked, rng: np.random.Generator) -> Linked | None:
        """A node more, at the end of an edge or in the middle of one."""
        size = graph.kinds.size
        if size + 1 not in self.sizes:
            return None
        adjacency = np.pad(graph.adjacency, (0, 1))
        place = int(rng.integers(size))
        if rng.random() < 0.5 and graph.adjacency[place].any():
            other = int(rng.choice(np.flatnonzero(graph.adjacency[place])))
            _flip(adjacency, place, other)
            _flip(adjacency, other, size)
        _flip(adjacency, place, size)
        return Linked(adjacency, np.r_[graph.kinds, rng.integers(self.kinds)])

    def _shrunk(self, graph: Linked, rng: np.random.Generator) -> Linked | None:
        """A node less; where it had two neighbours, these are linked."""
        size, node = graph.kinds.size, int(rng.integers(graph.kinds.size))
        around = np.flatnonzero(graph.adjacency[node])
        if size - 1 not in self.sizes or around.size > 2:
            return None
        if around.size == 2:
            if graph.adjacency[around[0], around[1]]:
                return None
            _flip(graph.adjacency, *around.tolist())
        kept = np.arange(size) != node
        return Linked(graph.adjacency[np.ix_(kept, kept)], graph.kinds[kept])


def _flip(adjacency: Bool[np.ndarray, "n n"], u: int, v: int) -> None:
    adjacency[u, v] = adjacency[v, u] = not adjacency[u, v]


def _edge(graph: Linked, rng: np.random.Generator) -> tuple[int, int] | None:
    """A random edge in a random direction."""
    ends = np.argwhere(graph.adjacency)
    if not ends.size:
        return None
    u, v = ends[int(rng.integers(len(ends)))].tolist()
    return u, v


def _moved_end(graph: Linked, rng: np.random.Generator) -> Linked | None:
    """An edge leads to another node."""
    edge, other = _edge(graph, rng), int(rng.integers(graph.kinds.size))
    if edge is None or other in edge or graph.adjacency[edge[0], other]:
        return None
    _flip(graph.adjacency, *edge)
    _flip(graph.adjacency, edge[0], other)
    return graph


def _crossed(graph: Linked, rng: np.random.Generator) -> Linked | None:
    """Two edges exchange ends: no degree changes."""
    one, two = _edge(graph, rng), _edge(graph, rng)
    if one is None or two is None or len({*one, *two}) < 4:
        return None
    crossed = (one[0], two[0]), (one[1], two[1])
    if any(graph.adjacency[edge] for edge in crossed):
        return None
    for edge in (one, two, *crossed):
        _flip(graph.adjacency, *edge)
    return graph


def _toggled(graph: Linked, rng: np.random.Generator) -> Linked | None:
    """An edge more or less."""
    u, v = rng.integers(graph.kinds.size, size=2).tolist()
    if u == v:
        return None
    _flip(graph.adjacency, u, v)
    return graph


def _slid(graph: Linked, rng: np.random.Generator) -> Linked | None:
    """A node between two others, which are linked instead, goes into another edge."""
    node = int(rng.integers(graph.kinds.size))
    around = np.flatnonzero(graph.adjacency[node]).tolist()
    if len(around) != 2 or graph.adjacency[around[0], around[1]]:
        return None
    for other in around:
        _flip(graph.adjacency, node, other)
    _flip(graph.adjacency, *around)
    into = _edge(graph, rng)
    if into is None:
        return None
    _flip(graph.adjacency, *into)
    for other in into:
        _flip(graph.adjacency, node, other)
    return graph


def _exchanged(graph: Linked, rng: np.random.Generator) -> Linked | None:
    """Two nodes of different kinds exchange them."""
    u, v = rng.integers(graph.kinds.size, size=2).tolist()
    if graph.kinds[u] == graph.kinds[v]:
        return None
    graph.kinds[[u, v]] = graph.kinds[[v, u]]
    return graph


def _connected(adjacency: Bool[np.ndarray, "n n"]) -> bool:
    reached, fresh = np.zeros(adjacency.shape[0], bool), np.arange(adjacency.shape[0]) == 0
    while fresh.any():
        reached |= fresh
        fresh = adjacency[fresh].any(axis=0) & ~reached
    return bool(reached.all())
