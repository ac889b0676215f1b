"""GRAIN's uniqueness heuristic: the nodes of a client all differ (GRAIN, section 5.4)."""

from __future__ import annotations

import dataclasses
from typing import Any

from jgleak.attacks.attack import Budget, Clock, Reconstruction
from jgleak.attacks.distance import Fit, gradient_distances
from jgleak.attacks.grain.candidates import CHECKS
from jgleak.attacks.grain.settings import GrainSettings
from jgleak.attacks.span.any_degree import SETTLING, applies, joined, settle_any_degree, vectors
from jgleak.attacks.span.distinct import Board, completions, graph_of, settle
from jgleak.attacks.span.levels import block_checks, find_nodes
from jgleak.federated.knowledge import Knowledge
from jgleak.federated.observation import Observation
from jgleak.graph import Graph


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
    checks = block_checks(observation, knowledge, 1, CHECKS, tolerances)
    if applies(observation, knowledge):
        board = Board(vectors(nodes, knowledge.space))
        checked = settle_any_degree(board, observation, knowledge, checks, limits, clock.part(SETTLING), budget)
        joins = joined(board, clock, knowledge.connected)
    else:
        board = Board(nodes)
        checked = settle(board, observation, checks, limits, clock, budget)
        joins = completions(board, clock)
    info: dict[str, Any] = {
        "nodes": int(board.nodes.degrees.size),
        "settled": len(board.settled),
        "one_hop_checked": checked,
        "seconds_nodes": seconds_nodes,
        "seconds_one_hop": clock.elapsed - seconds_nodes,
    }
    if nodes.degrees.size == 0:
        return Reconstruction((), None, "no candidates", info=info)
    best: tuple[float, Graph] | None = None
    stop, tests, most = "exhausted", 0, Fit.of(observation, knowledge.noise).most
    for edges in joins:
        graph = graph_of(board, edges)
        tests += 1
        distance, label = gradient_distances(observation, knowledge.space, [graph], most)[0]
        if best is None or distance < best[0]:
            best = (distance, dataclasses.replace(graph, y=label))
        if distance <= most:
            stop = "match"
            break
        if clock.left <= 0:  # no other completion follows
            stop = "time"
    info |= {"graphs_tested": tests, "seconds_search": clock.elapsed - seconds_nodes - info["seconds_one_hop"]}
    assert best is not None
    return Reconstruction((best[1],), best[0], stop, info=info)
