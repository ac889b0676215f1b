"""Nodes that all differ: settled neighbourhoods, and what they leave open (GRAIN, section 5.4, extended).

Where no two nodes share a feature vector, a feature vector *is* a node, and a passing 1-hop block *is* that node's
neighbourhood. So there is nothing to glue: neighbourhoods are settled one by one, the one with the fewest candidates
first, and every settled one decides for each other node whether the two are neighbours. A hub with thirty leaves has
too many candidates to enumerate, but is known once its leaves are.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterator, Sequence
from itertools import combinations

import numpy as np
from jaxtyping import Int

from jgleak.attacks.attack import Budget, Clock
from jgleak.attacks.span.check import SpanCheck
from jgleak.attacks.span.combinations import Slot, total
from jgleak.attacks.span.filter import BlockFilter
from jgleak.attacks.span.hops import Nodes, encoded, fixed_rows
from jgleak.attacks.span.settings import SpanLimits
from jgleak.federated.observation import Observation
from jgleak.graph import Graph

DEPENDENT = 1e-5
"""Rows of unit length are taken to add up to another where less of it than this is left."""

TINY = np.finfo(np.float64).tiny
"""In place of the length of a row of zeros."""


@dataclasses.dataclass
class Board:
    """What is known so far.

    Attributes:
      nodes: those that may occur, no two with the same features.
      settled: neighbours of the nodes that have one candidate neighbourhood.
      tried: the candidate neighbourhoods of nodes around which all were checked.
      occurring: nodes that certainly occur. The others are settled once a settled node has them as a neighbour, so
        that no neighbourhood rests on a node that may not occur. None: any node is settled (GRAIN).
      absent: nodes that are taken not to occur.
      mixed: open nodes whose rows those of the settled ones add up to, and that no settled one has as a neighbour. They
        are left out as long as the rows of nodes are taken to be independent; None: they are not.
      restricted: some were left out at some time.
    """

    nodes: Nodes
    settled: dict[int, frozenset[int]] = dataclasses.field(default_factory=dict)
    tried: dict[int, tuple[frozenset[int], ...]] = dataclasses.field(default_factory=dict)
    occurring: frozenset[int] | None = None
    absent: frozenset[int] = frozenset()
    mixed: frozenset[int] | None = None
    restricted: bool = False

    @property
    def open(self) -> list[int]:
        """Nodes whose neighbourhoods are not settled."""
        return [v for v in range(self.nodes.degrees.size) if v not in self.settled and v not in self.absent]

    def certain(self, v: int) -> frozenset[int]:
        """Settled nodes that have ``v`` as a neighbour."""
        return frozenset(u for u, around in self.settled.items() if v in around)

    @property
    def free(self) -> Int[np.ndarray, " k"]:
        """Open nodes that lack neighbours."""
        known = [u for around in self.settled.values() for u in around]
        lacking = self.nodes.degrees > np.bincount(np.array(known, int), minlength=self.nodes.degrees.size)
        lacking[[*self.settled, *self.absent, *(self.mixed or ())]] = False
        return np.flatnonzero(lacking)

    def slots(self, v: int, free: Int[np.ndarray, " k"]) -> list[Slot] | None:
        """The neighbours that ``v`` may have, some of them ``free``; None where the settled nodes contradict its
        degree."""
        certain = self.certain(v)
        missing = int(self.nodes.degrees[v]) - len(certain)
        options = free[free != v]
        if missing < 0 or missing > options.size:
            return None
        known = [Slot(np.array([u]), 1) for u in sorted(certain)]
        return known + ([Slot(options, missing)] if missing else [])

    def real(self, v: int) -> bool:
        """True when ``v`` surely or probably occurs, and did not pass the node filter by accident."""
        likely = bool(self.certain(v) or self.tried.get(v)) or v in (self.occurring or ())
        return self.nodes.certain or (likely and v not in (self.mixed or ()))

    def reached(self, v: int) -> bool:
        """True when ``v`` may be settled."""
        return v not in (self.mixed or ()) and (self.occurring is None or v in self.occurring or bool(self.certain(v)))

    def mix(self) -> None:
        """Find the mixed nodes anew."""
        if self.mixed is None or self.nodes.certain or not self.settled:
            return
        open_ = np.array(self.open, int)
        settled, others = (self.nodes.rows[part] for part in ([*self.settled], open_))
        settled, others = (rows / np.maximum(np.linalg.norm(rows, axis=1), TINY)[:, None] for rows in (settled, others))
        _, sizes, axes = np.linalg.svd(settled, full_matrices=False)
        axes = axes[sizes > DEPENDENT * sizes.max()]
        near = np.linalg.norm(others - others @ axes.T @ axes, axis=1) <= DEPENDENT
        self.mixed = frozenset(v for v in open_[near].tolist() if not self.certain(v))
        self.restricted |= bool(self.mixed)

    def agrees(self, v: int, around: frozenset[int]) -> bool:
        """True when no settled node contradicts this neighbourhood."""
        return self.certain(v) <= around and all(u not in self.settled or v in self.settled[u] for u in around)


def settle(
    board: Board,
    observation: Observation,
    checks: Sequence[SpanCheck],
    limits: SpanLimits,
    clock: Clock,
    budget: Budget,
) -> int:
    """Settle nodes with only one candidate neighbourhood until nothing changes; returns how many candidates were
    checked. Nodes that have candidates already are not checked again."""
    nodes = board.nodes
    if not checks:
        return 0
    first = observation.model.layer_at(observation.params, 0)
    rows = encoded(observation.model, observation.params, nodes)
    fixed = fixed_rows(observation.model, nodes)
    search = BlockFilter(*first, rows, nodes.degrees, checks, fixed=fixed, distinct=True)
    checked = 0
    waiting = {v for v in board.open if not board.tried.get(v)}
    while (fewest := _fewest(board, waiting, clock)) is not None:
        v, slots = fewest
        waiting.remove(v)
        if slots is None:
            continue
        found = search.blocks([(v, slots)], clock=clock, budget=budget, limits=limits)
        checked += found.checked
        if not found.complete:
            continue
        board.tried[v] = tuple(frozenset(row) for row in found.neighbours)
        if len(board.tried[v]) == 1:
            board.settled[v] = board.tried[v][0]
            narrow(board)
            board.mix()
    return checked


def _fewest(board: Board, waiting: Collection[int], clock: Clock) -> tuple[int, list[Slot] | None] | None:
    """The waiting node that may be settled and has the fewest possible neighbourhoods; None: there is none, or no time.
    Only its slots are kept: each lists almost all nodes."""
    free, best = board.free, None
    for v in waiting:
        if clock.left <= 0:
            return None
        if board.reached(v):
            slots = board.slots(v, free)
            ways = total(slots or [], distinct=True)
            if best is None or (ways, v) < best[:2]:
                best = ways, v, slots
    return None if best is None else best[1:]


def narrow(board: Board) -> None:
    """Settle nodes with several candidates where the settled nodes exclude all but one."""
    changed = True
    while changed:
        changed = False
        for v, options in board.tried.items():
            if v in board.settled or not options:
                continue
            left = tuple(around for around in options if board.agrees(v, around))
            if len(left) == 1:
                board.settled[v] = left[0]
                changed = True
            board.tried[v] = left


Edges = frozenset[tuple[int, int]]


def completions(board: Board, clock: Clock) -> Iterator[Edges]:
    """Edge sets that respect every settled node, every degree and the candidates of nodes that have any; the settled
    edges alone if there are none."""
    edges = frozenset((min(u, v), max(u, v)) for u, around in board.settled.items() for v in around)
    missing = {v: int(board.nodes.degrees[v]) - len(board.certain(v)) for v in board.open}
    real = {v: left for v, left in missing.items() if left > 0 and board.real(v)}
    found = False
    for whole in _fill(board, sorted(real), real, edges, clock):
        found = True
        yield whole
    if not found:
        yield edges


def _fill(board: Board, order: list[int], missing: dict[int, int], edges: Edges, clock: Clock) -> Iterator[Edges]:
    """Simple graphs on the open nodes with the given remaining degrees, each once, as long as there is time."""
    if clock.left <= 0:
        return
    short = [v for v in order if missing[v] > 0]
    if not short:
        yield edges
        return
    first, *others = short
    for around in combinations(others, missing[first]):  # all of its neighbours: so no graph comes in two orders
        if clock.left <= 0:
            return
        left = missing | {first: 0} | {other: missing[other] - 1 for other in around}
        joined = edges.union((first, other) for other in around)
        if all(_allowed(board, v, joined) for v in (first, *around) if not left[v]):
            yield from _fill(board, order, left, joined, clock)


def _allowed(board: Board, v: int, edges: Collection[tuple[int, int]]) -> bool:
    """Whether the neighbours of a node, all of which are known, are one of its candidates, if it has any."""
    options = board.tried.get(v)
    return not options or frozenset(u + w - v for u, w in edges if v in (u, w)) in options


def graph_of(board: Board, edges: Collection[tuple[int, int]]) -> Graph:
    """The nodes that occur, renumbered, with these edges."""
    linked = {v for edge in edges for v in edge}
    everyone = range(board.nodes.degrees.size)
    used = [v for v in everyone if v in linked or board.real(v)] or list(everyone)
    place = {v: i for i, v in enumerate(used)}
    pairs = np.array([(place[u], place[v]) for u, v in sorted(edges)], np.int64).reshape(-1, 2)
    return Graph(board.nodes.codes[np.array(used)], pairs)
