"""Graphs whose nodes all differ: neighbourhoods are settled node by node, and nothing has to be counted.

This is GRAIN's uniqueness heuristic (``span/distinct.py``) with an end: every graph that the settled neighbourhoods
leave possible is compared with the update, and the conditions under which there is no other are stated.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

import numpy as np
from scipy import linalg

from jgleak.attacks.attack import Budget, Clock
from jgleak.attacks.census.assemble import AnonymitySet, ExplainingGraph
from jgleak.attacks.census.candidates import CensusCandidates
from jgleak.attacks.census.checks import Chosen
from jgleak.attacks.census.problem import CensusProblem
from jgleak.attacks.census.row_rank import ROUNDING, all_shown, scaled
from jgleak.attacks.census.screen import TOGETHER, passing
from jgleak.attacks.span.any_degree import SETTLING, applies, joined, settle_any_degree, vectors
from jgleak.attacks.span.distinct import Board, completions, graph_of, settle
from jgleak.attacks.span.hops import Nodes
from jgleak.graph import Graph
from jgleak.plural import counted

CHECKS, WEAKER = ("node", "hidden", "readout"), ("aggregate",)
"""The checks of a node's neighbourhood, and those of nodes around which none passes: a singular adjacency can hide
their own rows, while mixed ones stay inside the span."""

DEPENDENT = 1e-5
"""Coefficients of a row by others below this are zero: rows are encoded codes, exact to rounding (``ROUNDING``)."""

DIFFER = "no two nodes have the same features"
"""The condition of this search, which is known."""

DROPPED = (
    "the search that takes all nodes to differ (distinct_nodes) found nothing; in what follows two nodes of a graph "
    "may have the same features"
)
"""What an answer is told whose search had to leave the assumption."""

ONE_GRAPH = "distinct_nodes was not used: it is for an update of one graph"
"""The same of batches, whose graphs may share nodes."""


def unused(problem: CensusProblem, candidates: CensusCandidates) -> str | None:
    """Why this search cannot run, or None."""
    said = "distinct_nodes was not used: it needs "
    if problem.knowledge.space.degree is None and not applies(problem.seen, problem.knowledge):
        return (
            f"{said}a feature that states the number of neighbours ('degree' of the schema), or a convolution in which "
            "that of a neighbour does not count"
        )
    if candidates.start.nodes.classes > 1:
        return f"{said}edges of one class"
    if not candidates.checks_of(CHECKS, 1):
        return f"{said}a gradient whose span excludes neighbourhoods, and none of this model's does"
    return None


def differing(graph: Graph) -> bool:
    """True where no two nodes have the same features."""
    return np.unique(graph.x, axis=0).shape[0] == graph.n


def distinct(
    problem: CensusProblem, candidates: CensusCandidates, clock: Clock, budget: Budget
) -> tuple[tuple[str, ...], AnonymitySet]:
    """Every graph of nodes that all differ and that has the observed gradient, with the conditions of that.

    Neighbourhoods are settled outwards from nodes that certainly occur, so all settled ones are those of every such
    graph. What stays open is joined in every way. Exhausted where all feature vectors that passed were reached, or
    where nothing stays open: the graph is connected, so the others do not occur. If this gives no graph, the nodes are
    settled in any order, as GRAIN does, and the set stays open.
    """
    nodes, found, conditions = candidates.start.nodes, AnonymitySet(exhausted=False), ()
    if unused(problem, candidates) is not None:
        return conditions, found
    if nodes.degrees.size and applies(problem.seen, problem.knowledge):
        return _any_degree(problem, candidates, clock, budget)
    sure = _occurring(problem, nodes)
    if sure:
        part = clock if nodes.certain else clock.part(0.5)
        conditions, found = _settled(problem, candidates, Board(nodes, occurring=sure), part, budget)
    if nodes.degrees.size and not (found.graphs or nodes.certain):
        conditions, found = _settled(problem, candidates, Board(nodes), clock, budget)
    return conditions, found


def _settled(
    problem: CensusProblem, candidates: CensusCandidates, board: Board, clock: Clock, budget: Budget
) -> tuple[tuple[str, ...], AnonymitySet]:
    """The graphs with the neighbourhoods that the checks settle, and what was assumed."""
    start, limits = candidates.start, problem.limits
    strong, weak = (candidates.checks_of(names, 1) for names in (CHECKS, WEAKER))
    search = problem, clock.part(SETTLING), budget
    _settle(board, strong, *search)
    unsettled = {v for v in board.open if board.real(v)}
    board.absent = frozenset(board.open) - unsettled
    hidden = _hidden(board)
    if hidden:
        _settle(board, weak, *search)
    conditions = *_conditions(strong, hidden), *_conditions(weak * bool(hidden), _hidden(board))
    graphs, whole, compared = list[ExplainingGraph](), board.occurring is not None, 0
    joins = (graph_of(board, edges) for edges in completions(board, clock))
    for some in _together(graph for graph in joins if _possible(problem, graph)):
        compared += len(some)
        graphs += passing(problem, some, max(graph.n for graph in some), clock)
        if len(graphs) > limits.listed or clock.left <= 0:
            break
    whole &= len(graphs) <= limits.listed and clock.left > 0  # also where time ended among graphs that are not possible
    whole &= start.complete and not (unsettled and board.absent)
    found = AnonymitySet(tuple(graphs[: limits.listed]), whole, partials=compared)
    return (DIFFER, *start.conditions, *conditions), found.likely(problem.fit)


def _any_degree(
    problem: CensusProblem, candidates: CensusCandidates, clock: Clock, budget: Budget
) -> tuple[tuple[str, ...], AnonymitySet]:
    """The same where features state no degree: an open list, since around settled nodes larger neighbourhoods are not
    tried."""
    chosen, knowledge = candidates.checks_of(CHECKS, 1), problem.knowledge
    checks, board = [named.check for named in chosen], Board(vectors(candidates.start.nodes, knowledge.space))
    part = clock.part(SETTLING)
    settle_any_degree(board, problem.observation, knowledge, checks, problem.limits.span, part, budget)
    joins = (graph_of(board, edges) for edges in joined(board, clock, connected=True))
    parts = _together(graph for graph in joins if _possible(problem, graph))
    found = (passing(problem, some, max(graph.n for graph in some), clock) for some in parts)
    graphs = AnonymitySet(tuple(next(filter(None, found), ())), exhausted=False)
    return (DIFFER, *candidates.start.conditions, *_conditions(chosen, 0)), graphs.likely(problem.fit)


def _occurring(problem: CensusProblem, nodes: Nodes) -> frozenset[int]:
    """Nodes without whose rows those of the others do not span what the input's gradient spans."""
    if nodes.certain:
        return frozenset(range(nodes.degrees.size))
    if not all_shown(problem, nodes):
        return frozenset()
    # a basis of the rows among them: those that no other row's coefficients name are in every basis
    upper, order = (np.asarray(part) for part in linalg.qr(scaled(nodes.rows).T, mode="r", pivoting=True))
    sizes = np.abs(np.diag(upper))
    rank = int(np.sum(sizes > sizes.max() * ROUNDING))
    others = linalg.solve_triangular(upper[:rank, :rank], upper[:rank, rank:])
    return frozenset(order[:rank][np.all(np.abs(others) < DEPENDENT, axis=1)].tolist())


def _settle(board: Board, chosen: Chosen, problem: CensusProblem, clock: Clock, budget: Budget) -> None:
    checks = [named.check for named in chosen]
    settle(board, problem.observation, checks, problem.limits.span, clock, budget)


def _hidden(board: Board) -> int:
    """How many nodes occur around which no neighbourhood passes."""
    return sum(board.tried.get(v) == () for v in board.open)


def _conditions(chosen: Chosen, hidden: int) -> Iterator[str]:
    """What checks assume, where around ``hidden`` nodes that occur none passes."""
    but = f", except around {counted(hidden, 'node')}, where none passes" if hidden else ""
    yield from (f"{named.condition}{but}" for named in chosen)


def _possible(problem: CensusProblem, graph: Graph) -> bool:
    """True for a connected graph of a known size whose nodes have the degrees that they state, if they state any."""
    knowledge = problem.knowledge
    fits = knowledge.n in (None, graph.n) and graph.n <= (knowledge.max_n or graph.n)
    stated = knowledge.space.degrees(graph.x)
    return fits and graph.connected and (stated is None or np.array_equal(graph.degree, stated))


def _together(graphs: Iterator[Graph]) -> Iterator[list[Graph]]:
    while some := list(islice(graphs, TOGETHER)):
        yield some
