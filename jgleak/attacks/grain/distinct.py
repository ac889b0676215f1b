"""The uniqueness heuristic (GRAIN, section 5.4), extended.

Where no two nodes share a feature vector, a feature vector *is* a node, and a passing 1-hop block *is* that node's
neighbourhood. So there is nothing to glue: neighbourhoods are settled one by one, the one with the fewest candidates
first, and every settled one decides for each other node whether the two are neighbours. A hub with thirty leaves has
too many candidates to enumerate, but is known once its leaves are.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from itertools import combinations
from typing import Any

import numpy as np

from jgleak.attacks.attack import Budget, Clock, Reconstruction
from jgleak.attacks.distance import Fit, gradient_distances
from jgleak.attacks.grain.candidates import CHECKS
from jgleak.attacks.grain.settings import GrainSettings
from jgleak.attacks.span.check import SpanCheck
from jgleak.attacks.span.combinations import Slot, total
from jgleak.attacks.span.filter import BlockFilter
from jgleak.attacks.span.hops import Nodes, encoded
from jgleak.attacks.span.levels import block_checks, find_nodes
from jgleak.attacks.span.settings import SpanLimits
from jgleak.federated.knowledge import Knowledge
from jgleak.federated.observation import Observation
from jgleak.graph import Graph


@dataclasses.dataclass
class _Board:
    """What is known so far: settled neighbourhoods, and what they imply for the rest."""

    nodes: Nodes
    settled: dict[int, frozenset[int]] = dataclasses.field(default_factory=dict)
    tried: dict[int, tuple[frozenset[int], ...]] = dataclasses.field(default_factory=dict)

    @property
    def open(self) -> list[int]:
        return [v for v in range(self.nodes.degrees.size) if v not in self.settled]

    def certain(self, v: int) -> frozenset[int]:
        """Settled nodes that have ``v`` as a neighbour."""
        return frozenset(u for u, around in self.settled.items() if v in around)

    def slots(self, v: int) -> list[Slot] | None:
        """The neighbours that ``v`` may have; None where the settled nodes contradict its degree."""
        certain = self.certain(v)
        missing = int(self.nodes.degrees[v]) - len(certain)
        options = [u for u in self.open if u != v and self.nodes.degrees[u] > len(self.certain(u))]
        if missing < 0 or missing > len(options):
            return None
        known = [Slot(np.array([u]), 1) for u in sorted(certain)]
        return known + ([Slot(np.array(options), missing)] if missing else [])

    def real(self, v: int) -> bool:
        """True when ``v`` surely or probably occurs, and did not pass the node filter by accident."""
        return self.nodes.certain or bool(self.certain(v)) or bool(self.tried.get(v))

    def agrees(self, v: int, around: frozenset[int]) -> bool:
        """True when no settled node contradicts this neighbourhood."""
        return self.certain(v) <= around and all(u not in self.settled or v in self.settled[u] for u in around)


def reconstruct_distinct(
    observation: Observation, knowledge: Knowledge, settings: GrainSettings, *, clock: Clock, budget: Budget
) -> Reconstruction:
    """GRAIN for graphs whose nodes all differ.

    Nodes whose own row is lost (a singular adjacency) get their edges from their neighbours. The edges still unknown
    after that are enumerated, and every such graph's gradient is compared with the observed one.
    """
    tolerances, limits = settings.tolerances.span, settings.limits.span
    nodes = find_nodes(observation, knowledge, clock=clock, tolerances=tolerances, limits=limits)
    seconds_nodes = clock.elapsed
    board = _Board(nodes)
    checks = block_checks(observation, knowledge, 1, CHECKS, tolerances)
    checked = _settle(board, observation, checks, limits, clock, budget)
    info: dict[str, Any] = {
        "nodes": int(nodes.degrees.size),
        "settled": len(board.settled),
        "one_hop_checked": checked,
        "seconds_nodes": seconds_nodes,
        "seconds_one_hop": clock.elapsed - seconds_nodes,
    }
    if nodes.degrees.size == 0:
        return Reconstruction((), None, "no candidates", info=info)
    best: tuple[float, Graph] | None = None
    stop, tests, most = "exhausted", 0, Fit.of(observation, knowledge.noise).most
    for edges in _completions(board, clock):
        graph = _graph(board, edges)
        tests += 1
        distance, label = gradient_distances(observation, knowledge.space, [graph])[0]
        if best is None or distance < best[0]:
            best = (distance, dataclasses.replace(graph, y=label))
        if distance <= most:
            stop = "match"
            break
        if clock.left <= 0:
            stop = "time"
            break
    info |= {"graphs_tested": tests, "seconds_search": clock.elapsed - seconds_nodes - info["seconds_one_hop"]}
    assert best is not None
    return Reconstruction((best[1],), best[0], stop, info=info)


def _settle(
    board: _Board,
    observation: Observation,
    checks: Sequence[SpanCheck],
    limits: SpanLimits,
    clock: Clock,
    budget: Budget,
) -> int:
    """Settle nodes with only one candidate neighbourhood until nothing changes; returns how many candidates were
    checked."""
    nodes = board.nodes
    if not checks:
        return 0
    first = observation.model.layer_at(observation.params, 0)
    rows = encoded(observation.model, observation.params, nodes)
    search = BlockFilter(*first, rows, nodes.degrees, checks, distinct=True)
    checked = 0
    waiting = {v for v in board.open}
    while waiting and clock.left > 0:
        plans = {v: board.slots(v) for v in waiting}
        v = min(waiting, key=lambda v: (total(plans[v] or [], distinct=True), v))
        waiting.remove(v)
        slots = plans[v]
        if slots is None:
            continue
        found = search.blocks([(v, slots)], clock=clock, budget=budget, limits=limits)
        checked += found.checked
        if not found.complete:
            continue
        board.tried[v] = tuple(frozenset(row) for row in found.neighbours)
        if len(board.tried[v]) == 1:
            board.settled[v] = board.tried[v][0]
            _narrow(board)
    return checked


def _narrow(board: _Board) -> None:
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


def _completions(board: _Board, clock: Clock) -> Iterator[set[tuple[int, int]]]:
    """Edge sets that respect every settled node and every degree, the settled edges alone if there are none."""
    edges = {(min(u, v), max(u, v)) for u, around in board.settled.items() for v in around}
    missing = {v: int(board.nodes.degrees[v]) - len(board.certain(v)) for v in board.open}
    real = {v: left for v, left in missing.items() if left > 0 and board.real(v)}
    found = False
    for more in _fill(sorted(real), real, clock):
        found = True
        yield edges | more
    if not found:
        yield edges


def _fill(order: list[int], missing: dict[int, int], clock: Clock) -> Iterator[frozenset[tuple[int, int]]]:
    """Simple graphs on the open nodes with the given remaining degrees, each once, as long as there is time."""
    if clock.left <= 0:
        return
    short = [v for v in order if missing[v] > 0]
    if not short:
        yield frozenset()
        return
    first, *others = short
    for around in combinations(others, missing[first]):  # all of its neighbours: so no graph comes in two orders
        if clock.left <= 0:
            return
        left = missing | {first: 0} | {other: missing[other] - 1 for other in around}
        for more in _fill(order, left, clock):
            yield more.union((first, other) for other in around)


def _graph(board: _Board, edges: set[tuple[int, int]]) -> Graph:
    """The nodes that occur, renumbered, with these edges."""
    linked = {v for edge in edges for v in edge}
    everyone = range(board.nodes.degrees.size)
    used = [v for v in everyone if v in linked or board.real(v)] or list(everyone)
    place = {v: i for i, v in enumerate(used)}
    pairs = np.array([(place[u], place[v]) for u, v in sorted(edges)], np.int64).reshape(-1, 2)
    return Graph(board.nodes.codes[np.array(used)], pairs)
