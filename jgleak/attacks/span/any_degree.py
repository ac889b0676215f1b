"""Nodes that all differ and whose features state no degree: neighbourhoods are settled without one.

A node may have any of the others as neighbours, which is too many sets to try. But most nodes have few neighbours, and
sets of few are tried soon; each settled node then decides whether it is a neighbour of the others, so that little is
left open around a hub. What a neighbour adds must not depend on its own degree: ``Convolution.weighs_by_degree``.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Sequence
from itertools import combinations
from typing import NamedTuple

import networkx as nx
import numpy as np
from jaxtyping import Float

from jgleak.attacks.attack import Budget, Clock
from jgleak.attacks.span.check import SpanCheck
from jgleak.attacks.span.combinations import Slot
from jgleak.attacks.span.distinct import Board, Edges, narrow
from jgleak.attacks.span.filter import BlockFilter
from jgleak.attacks.span.hops import Nodes, encoded, fixed_rows
from jgleak.attacks.span.settings import SpanLimits
from jgleak.features import FeatureSpace
from jgleak.federated.knowledge import Knowledge
from jgleak.federated.observation import Observation

TOGETHER = 1 << 12
"""Neighbourhoods of one size are checked around all nodes together that have at most so many."""

DOUBTED = 1 << 16
"""Before more neighbourhoods than these are tried around a node, states that several nodes may have are given to one
of them."""

STEPS = 2_000
"""Most choices in all that are looked at to give every state to a node."""

SAME, ALIKE = 2.0, 0.1
"""States whose relative difference is below this multiple of the checks' tolerance, and below this, may both pass where
one occurs."""

MOST_VECTORS, MOST_PASSES = 256, 1_000
"""Where there are more vectors, or more neighbourhoods have passed, the checks exclude too little to go on."""

SETTLING = 0.8
"""Share of the time for the checks; the rest is for comparing graphs."""


def applies(observation: Observation, knowledge: Knowledge) -> bool:
    """True where features state no degree, and neighbourhoods can be checked without those of the neighbours."""
    return knowledge.space.degree is None and not observation.model.layers[0].conv.weighs_by_degree


def vectors(nodes: Nodes, space: FeatureSpace) -> Nodes:
    """The different feature vectors, each once, none with a neighbour yet."""
    codes = np.unique(nodes.codes, axis=0)
    return dataclasses.replace(nodes, codes=codes, rows=space.encode(codes), degrees=np.zeros(len(codes), np.int64))


Pass = tuple[int, frozenset[int]]
"""A node and a neighbourhood that passed."""


class Passing(NamedTuple):
    """A neighbourhood that passed the checks, and the state that it gives its node."""

    around: frozenset[int]
    state: Float[np.ndarray, " D"]


class Settling:
    """Neighbourhoods that were tried and those that were not, by their sizes.

    A state may be that of several nodes: under attention, of all that have the same neighbours when each counts as its
    own. Then it shows that one of them has this neighbourhood, not which. Such passes wait until others decide.

    Args:
      board: what is settled.
      most: largest number of neighbours.
      connected: no node is alone.
      same: states whose relative difference is below this count as one.
    """

    def __init__(self, board: Board, most: int, connected: bool, same: float) -> None:
        self.board, self.same, self.steps = board, same, [STEPS]
        self.left = {v: set(range(int(connected), most + 1)) for v in range(board.nodes.degrees.size)}
        self.passed: dict[int, list[Passing]] = {v: [] for v in self.left}

    def slots(self, v: int, size: int) -> list[Slot] | None:
        """The neighbours that ``v`` may have if there are so many; None where the settled nodes exclude it."""
        certain = sorted(self.board.certain(v))
        options, missing = self._options(v), size - len(certain)
        if not 0 <= missing <= len(options):
            return None
        known = [Slot(np.array([u]), 1) for u in certain]
        return known + ([Slot(np.array(options), missing)] if missing else [])

    def next(self, most: int) -> tuple[int, list[int]] | None:
        """The size of which some node has the fewest neighbourhoods left, and the nodes that have few of this size;
        None where all have more than ``most``."""
        open_, ways = self.board.open, list[tuple[int, int, int]]()
        for v in open_:
            options, certain = len(open_) - 1, len(self.board.certain(v))
            some = ((_ways(options, size - certain), size, v) for size in self.left[v])
            ways += (one for one in some if one[0])
        if not ways or min(ways)[0] > most:
            return None
        fewest, chosen, _ = min(ways)
        return chosen, [v for number, size, v in ways if size == chosen and number <= max(fewest, TOGETHER)]

    def settle(self) -> bool:
        """Settle nodes of which only one pass is left whose state no other node may have; True where any was."""
        before, states = len(self.board.settled), self._states()
        for v in self.board.open:
            self.board.tried[v] = tuple(around for ((u, around), *others) in states if u == v and not others)
        narrow(self.board)
        return len(self.board.settled) > before

    def settle_doubtful(self) -> bool:
        """Settle nodes so that every state is that of one, if that is possible, or those of which one pass is left;
        True where any was."""
        owners = _owners(self.board, self._states(), self.steps)
        for v in self.board.open if not owners else ():
            left = [passing.around for passing in self.passed[v] if self.board.agrees(v, passing.around)]
            if len(left) == 1:
                owners = {v: left[0]}
                break
        for v, around in (owners or {}).items():
            self.board.settled[v], self.board.tried[v] = around, (around,)
        return bool(owners)

    def _states(self) -> list[list[Pass]]:
        """Passes of open nodes that the settled ones allow, together where they have the same state, and without the
        states that settled nodes have."""
        allowed = [(v, one) for v, some in self.passed.items() for one in some if self._allowed(v, one.around)]
        states = np.array([one.state for _, one in allowed])
        sizes, left, out = self.same * np.linalg.norm(states, axis=-1), list(range(len(allowed))), list[list[Pass]]()
        while left:
            first = left[0]
            near = np.linalg.norm(states[left] - states[first], axis=1) <= sizes[first]
            alike = [allowed[k] for k, same in zip(left, near, strict=True) if same]
            left = [k for k, same in zip(left, near, strict=True) if not same]
            if not any(v in self.board.settled for v, _ in alike):
                out.append([(v, one.around) for v, one in alike])
        return out

    def _allowed(self, v: int, around: frozenset[int]) -> bool:
        """True for the neighbourhood of a settled node, and one that the settled nodes leave to an open one."""
        settled = self.board.settled.get(v)
        return self.board.agrees(v, around) if settled is None else settled == around

    def _options(self, v: int) -> list[int]:
        return [u for u in self.board.open if u != v]


def _ways(options: int, missing: int) -> int:
    """How many sets of so many options there are; of more than half of them as many as of half, so that small ones come
    first. 0: there is none."""
    return math.comb(options, min(missing, options // 2)) if 0 <= missing <= options else 0


def _owners(board: Board, states: list[list[Pass]], steps: list[int]) -> dict[int, frozenset[int]] | None:
    """A node for every state, none with two, that the settled nodes and each other allow; None where there is no such
    choice, or it takes more steps than are left."""
    steps[0] -= 1
    if not states or steps[0] < 0 or len(states) > MOST_VECTORS:
        return None if states else {}
    left = [[one for one in passes if one[0] not in board.settled and board.agrees(*one)] for passes in states]
    first = min(left, key=len)
    for v, around in first:
        following = dataclasses.replace(board, settled=board.settled | {v: around})
        others = _owners(following, [passes for passes in left if passes is not first], steps)
        if others is not None:
            return {v: around, **others}
    return None


def settle_any_degree(
    board: Board,
    observation: Observation,
    knowledge: Knowledge,
    checks: Sequence[SpanCheck],
    limits: SpanLimits,
    clock: Clock,
    budget: Budget,
) -> int:
    """Settle nodes with only one candidate neighbourhood among those that were tried, the fewest of a size first;
    returns how many candidates were checked.

    Around a settled node no others are tried, although they might pass as well.
    """
    number, checked = board.nodes.degrees.size, 0
    if not checks or not 2 <= number <= MOST_VECTORS:
        return checked
    bounds = knowledge.max_degree, *(n - 1 for n in (knowledge.n, knowledge.max_n) if n is not None)
    most = min([number - 1, *(bound for bound in bounds if bound is not None)])
    same = min(ALIKE, SAME * max(check.subspace.tolerance for check in checks))
    settling = Settling(board, most, knowledge.connected, same)
    rows = encoded(observation.model, observation.params, board.nodes)
    first, fixed = observation.model.layer_at(observation.params, 0), fixed_rows(observation.model, board.nodes)
    while clock.left > 0 and sum(map(len, settling.passed.values())) <= MOST_PASSES:
        following = settling.next(DOUBTED)
        if following is None and settling.settle_doubtful():
            continue
        following = following or settling.next(budget.candidates)
        if following is None:
            break
        size, some = following
        search = BlockFilter(*first, rows, np.full(number, size), checks, fixed=fixed, distinct=True)
        for v in some:
            slots = settling.slots(v, size)
            settling.left[v].discard(size)
            if slots is not None:
                found = search.blocks([(v, slots)], clock=clock, budget=budget, limits=limits)
                checked += found.checked
                if found.complete:
                    settling.passed[v] += map(Passing, map(frozenset, found.neighbours), found.states)
        settling.settle()
    while settling.settle_doubtful():
        settling.settle()
    return checked


def joined(board: Board, clock: Clock, connected: bool) -> Iterator[Edges]:
    """The settled edges with every set of edges between open nodes, the smallest sets first. ``connected``: those alone
    that connect their nodes. If there are none, or time ends before the first, the settled edges as they are."""
    settled = frozenset((min(u, v), max(u, v)) for u, around in board.settled.items() for v in around)
    found, open_ = False, board.open
    for more in _subsets(list(combinations(open_, 2))) if len(open_) <= MOST_VECTORS else ():
        if clock.left <= 0:
            break
        edges = settled.union(more)
        if not connected or (edges and nx.is_connected(nx.Graph(edges))):
            found = True
            yield edges
    if not found:
        yield settled


def _subsets(pairs: list[tuple[int, int]]) -> Iterator[tuple[tuple[int, int], ...]]:
    for size in range(len(pairs) + 1):
        yield from combinations(pairs, size)
