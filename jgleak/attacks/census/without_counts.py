"""Searches that count no blocks: all small graphs are tried, and graphs are searched at random."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

from jgleak.attacks.attack import Clock
from jgleak.attacks.census.answer import Answer
from jgleak.attacks.census.assemble import AnonymitySet
from jgleak.attacks.census.attempted import Attempted
from jgleak.attacks.census.candidates import CensusCandidates
from jgleak.attacks.census.enumerate import enumerated, may_be_small
from jgleak.attacks.census.problem import CensusProblem
from jgleak.attacks.census.search import searchable, searched
from jgleak.attacks.census.shares import shares


def small_graphs(
    problem: CensusProblem, candidates: CensusCandidates, clock: Clock, unsolved: Sequence[Attempted]
) -> tuple[Answer, dict[str, Any]]:
    """All small graphs: within bounds from the last equations that left counts open, or else of all possible nodes.
    Half of the time is kept for the random search, where that follows."""
    most = min(problem.most_nodes, problem.limits.enumerated_nodes)
    clock = clock.part(0.5) if searchable(problem) else clock
    largest, last = problem.knowledge.max_degree, unsolved[-1] if unsolved else None
    known = () if largest is None else (f"no node has more than {largest} neighbours, which is known",)
    if last is not None and last.solution is not None and problem.knowledge.space.degree is not None:
        part, nodes = clock.part(0.5), candidates.start.nodes
        found = enumerated(problem, nodes, shares(problem, last.levels, last.solution, part), part)
        if found.graphs:
            whole = dataclasses.replace(found, exhausted=found.exhausted and last.levels.complete)
            return Answer((*last.levels.conditions, *known), whole, most), {"enumerated": found.partials}
    starts = [start for start in candidates.enumerable if may_be_small(problem, start.nodes)]
    answer, partials = Answer((), AnonymitySet(exhausted=False), most), 0
    for left, start in zip(range(len(starts), 0, -1), starts, strict=True):
        found = enumerated(problem, start.nodes, None, clock.part(1.0 / left))
        answer, partials = Answer((*start.conditions, *known), found, most), partials + found.partials
        if found.graphs:
            break
    return answer, {"enumerated": partials}


def random_search(problem: CensusProblem, candidates: CensusCandidates, clock: Clock) -> tuple[Answer, dict[str, Any]]:
    """Graphs that parallel tempering finds."""
    if not candidates.enumerable:
        return Answer((), AnonymitySet(exhausted=False), 0), {}
    levels, found, facts = searched(problem, candidates.enumerable[0].nodes, clock)
    conditions = () if levels is None else levels.conditions
    return Answer(conditions, found, problem.rounds[0][-1]), facts
