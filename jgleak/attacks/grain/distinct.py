"""GRAIN's uniqueness heuristic: the nodes of a client all differ (GRAIN, section 5.4)."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable
from functools import partial
from typing import Any, NamedTuple

from jgleak.attacks.attack import Budget, Clock, Reconstruction
from jgleak.attacks.distance import Fit, gradient_distances
from jgleak.attacks.grain.candidates import CHECKS
from jgleak.attacks.grain.settings import GrainSettings
from jgleak.attacks.span.any_degree import SETTLING, applies, joined, settle_any_degree, vectors
from jgleak.attacks.span.distinct import Board, Edges, completions, graph_of, settle
from jgleak.attacks.span.levels import block_checks, find_nodes
from jgleak.federated.knowledge import Knowledge
from jgleak.federated.observation import Observation
from jgleak.graph import Graph

WITHOUT_MIXTURES = 0.8
"""Share of the time in which no node's features are taken to be a sum of other nodes'."""


def reconstruct_distinct(
    observation: Observation, knowledge: Knowledge, settings: GrainSettings, *, clock: Clock, budget: Budget
) -> Reconstruction:
    """GRAIN for graphs whose nodes all differ.

    Nodes whose own row is lost (a singular adjacency) get their edges from their neighbours. The edges still unknown
    after that are enumerated, and every such graph's gradient is compared with the observed one.

    Of many feature vectors that pass most are mixtures of nodes' own, as one node's with the degree of another. So
    those that settled nodes add up to are left out at first, and looked at if no graph matches.
    """
    tolerances, limits = settings.tolerances.span, settings.limits.span
    nodes = find_nodes(observation, knowledge, clock=clock, tolerances=tolerances, limits=limits)
    seconds_nodes = clock.elapsed
    checks = block_checks(observation, knowledge, 1, CHECKS, tolerances)
    fit = partial(_closest, observation, knowledge)
    if applies(observation, knowledge):
        board = Board(vectors(nodes, knowledge.space))
        checked = settle_any_degree(board, observation, knowledge, checks, limits, clock.part(SETTLING), budget)
        seconds_settling = clock.elapsed - seconds_nodes
        found = fit(board, joined(board, clock, knowledge.connected), clock)
    else:
        board, part = Board(nodes, mixed=frozenset()), clock.part(WITHOUT_MIXTURES)
        checked = settle(board, observation, checks, limits, part, budget)
        if not board.restricted:
            part = clock
            checked += settle(board, observation, checks, limits, clock, budget)
        seconds_settling = clock.elapsed - seconds_nodes
        found = fit(board, completions(board, part), part)
        if board.restricted and found.stop != "match" and clock.left > 0:
            board, begun = Board(nodes), clock.elapsed
            checked += settle(board, observation, checks, limits, clock, budget)
            seconds_settling += clock.elapsed - begun
            found = found.or_closer(fit(board, completions(board, clock), clock))
    info: dict[str, Any] = {
        "nodes": int(board.nodes.degrees.size),
        "settled": len(board.settled),
        "one_hop_checked": checked,
        "seconds_nodes": seconds_nodes,
        "seconds_one_hop": seconds_settling,
        "graphs_tested": found.tests,
        "seconds_search": clock.elapsed - seconds_nodes - seconds_settling,
    }
    if found.graph is None:
        return Reconstruction((), None, "no candidates", info=info)
    return Reconstruction((found.graph,), found.distance, found.stop, info=info)


class _Found(NamedTuple):
    """The graph whose gradient is the closest, if any was compared; how far it is; why the search ended; how many."""

    graph: Graph | None
    distance: float
    stop: str
    tests: int

    def or_closer(self, later: _Found) -> _Found:
        """The closer one of two searches, as the later one ended."""
        best = later if later.graph is not None and later.distance < self.distance else self
        return best._replace(stop=later.stop, tests=self.tests + later.tests)


def _closest(
    observation: Observation, knowledge: Knowledge, board: Board, joins: Iterable[Edges], clock: Clock
) -> _Found:
    """Of the graphs with these edges the one whose gradient is the closest, until one matches."""
    found, most = _Found(None, math.inf, "exhausted", 0), Fit.of(observation, knowledge.noise).most
    for edges in joins if board.nodes.degrees.size else ():
        graph = graph_of(board, edges)
        distance, label = gradient_distances(observation, knowledge.space, [graph], most)[0]
        if found.graph is None or distance < found.distance:
            found = found._replace(graph=dataclasses.replace(graph, y=label), distance=distance)
        found = found._replace(tests=found.tests + 1)
        if distance <= most:
            return found._replace(stop="match")
        if clock.left <= 0:  # no other completion follows
            return found._replace(stop="time")
    return found
