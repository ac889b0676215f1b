"""The graphs that an attempt found, looked for again under fewer conditions."""

from __future__ import annotations

import dataclasses

from jgleak.attacks.attack import Clock
from jgleak.attacks.census.attempted import Attempted, counted
from jgleak.attacks.census.candidates import CensusCandidates, Levels
from jgleak.attacks.census.problem import CensusProblem


def taken_again(problem: CensusProblem, candidates: CensusCandidates, answer: Attempted, clock: Clock) -> Attempted:
    """The answer under fewer conditions, where the limits allow: with all degrees, where nodes of few neighbours were
    tried first, and then, where its search was exhausted or its candidates alone leave it open (``conic``), under the
    conditions of ``checks.WEAKEST``."""
    all_degrees = candidates.of_all_degrees(answer.levels)
    answer = _wider(problem, answer, all_degrees, clock)
    start = answer.levels.start
    some_blocks = start is not None and start.complete and not answer.levels.complete
    weakest = candidates.weakest(answer.levels) if answer.found.exhausted or some_blocks else None
    answer = _wider(problem, answer, weakest, clock)
    candidates.hurried |= clock.left <= 0 and not (all_degrees is None and weakest is None)
    return answer


def _wider(problem: CensusProblem, answer: Attempted, weaker: Levels | None, clock: Clock) -> Attempted:
    """The answer from ``weaker``, candidates under fewer conditions (None: there are none). It replaces the first one
    if its search was exhausted and it has every graph of the first. Otherwise graphs that only it has refute the first
    one's conditions: they are added, and the search counts as not exhausted.
    """
    if weaker is None or (weaker.nodes is answer.levels.nodes and weaker.conditions == answer.levels.conditions):
        return answer
    again = counted(problem, weaker, clock)
    if again.found.exhausted and answer.found.forms <= again.found.forms:
        return again
    both = answer.found.joined(again.found)
    if len(both.graphs) == len(answer.found.graphs):
        return answer
    likely = dataclasses.replace(both, exhausted=False).likely(problem.fit)
    return dataclasses.replace(again, found=likely, most=max(answer.most, again.most))
