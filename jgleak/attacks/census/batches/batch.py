"""Every graph of a batch from one update: rows that the head's gradient tells apart, then a census for each."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

from jgleak.attacks.attack import Budget, Clock, Reconstruction
from jgleak.attacks.census.attempted import Attempted
from jgleak.attacks.census.batches import masks, rays
from jgleak.attacks.census.batches.answers import beside, certified, checked, of_all
from jgleak.attacks.census.batches.head import HeadGradient
from jgleak.attacks.census.batches.joint import each_gradient, remaining
from jgleak.attacks.census.batches.members import Member, taken
from jgleak.attacks.census.batches.parts import parts_of
from jgleak.attacks.census.batches.states import root_states
from jgleak.attacks.census.candidates import CensusCandidates, Levels
from jgleak.attacks.census.enumerate import enumerated, may_be_small
from jgleak.attacks.census.problem import CensusProblem
from jgleak.attacks.census.starts import Start
from jgleak.attacks.distance import MATCH
from jgleak.federated.knowledge import Knowledge
from jgleak.federated.loss import Loss
from jgleak.federated.observation import Observation


def alone_needed(observation: Observation, knowledge: Knowledge) -> str | None:
    """Why the census needs an update of one graph alone here, or None where it takes a batch."""
    graphs = f"the update mixes {observation.batch_size} graphs, and"
    if observation.model.readout.additive != "pooled":
        return (
            f"{graphs} in a batch the census tells graphs apart by the row that each of them pools; this readout adds "
            "nodes up one by one: record batches of one, or take gradient matching (as dlg)"
        )
    if knowledge.noise is not None or observation.pruned or observation.scaled:
        return (
            f"{graphs} it takes them apart by dimensions of the exact gradient, which noise, pruning and clipping "
            "change; record batches of one, or take gradient matching (as dlg)"
        )
    if knowledge.features is not None:
        return f"{graphs} it does not say whose the known feature rows are; leave them out"
    if observation.local is not None and observation.local.steps > 1:
        return f"{graphs} it takes them apart by one gradient, not by {observation.local.steps} local steps"
    return None


def of_each(knowledge: Knowledge) -> Knowledge:
    """What is known of each graph of a batch alone: where their sizes differ, only the largest."""
    if len(set(knowledge.sizes)) < 2:
        return knowledge
    return dataclasses.replace(knowledge, n=None, sizes=(), max_n=max(knowledge.sizes))


Single = Callable[[Observation, Clock], Reconstruction]
"""The census of an update of one graph, within some time."""


def reconstructed(problem: CensusProblem, clock: Clock, budget: Budget, single: Single) -> Reconstruction:
    """The graphs of a batch behind a pooled readout.

    What those that were found leave of the update is a smaller batch, whose candidates are fewer: the others are looked
    for in that.

    Args:
      problem: the batch's update and what is known.
      clock: ends the searches.
      budget: bounds them.
      single: what takes an update of one graph.
    """
    observation = problem.observation
    head, size = HeadGradient.of(observation), observation.batch_size
    info: dict[str, Any] = {"graphs": size, "rank": head.rank}
    rows = masks.pooled_rows(head, clock.part(problem.limits.hop_share))
    members = [] if rows is None else [Member.of(problem, part) for part in parts_of(head, rows)]
    info |= {"masks": rows is not None, "seconds_rows": clock.elapsed}
    candidates, answers = CensusCandidates(problem, clock, budget), list[Reconstruction]()
    for number, levels in enumerate(candidates.attempts(clock), start=1):
        states = root_states(observation.model, observation.params, levels, clock)
        if states is None:
            break
        info |= {"attempts": number, "candidates": candidates.checked, "blocks": levels.top.size}
        if not members:
            found = rays.pooled_rows(head, levels, states, problem.limits, clock.part(problem.limits.hop_share))
            members = [Member.of(problem, part) for part in parts_of(head, found)]
        new = False
        for place, member in enumerate(members):
            if not member.found.graphs:
                members[place] = taken(member, levels, states, clock.part(1.0 / (len(members) - place + 1)))
                new |= bool(members[place].found.graphs)
        answers = list(certified(problem, members, clock)) if new else answers
        if new and len(answers) < size:
            answers += _others(problem, answers, clock.part(0.5), budget, single)
        if len(answers) == size:
            break
    if len(answers) < size:
        some = dataclasses.replace(candidates.start.nodes, certain=False)  # all occur, but not in every graph
        start = dataclasses.replace(candidates.start, nodes=some)
        members = [_enumerated(member, start, clock) for member in members]
        more = list(certified(problem, members, clock))
        answers = more if len(more) > len(answers) else answers
    return _answered(problem, answers, info, clock)


def _enumerated(member: Member, start: Start, clock: Clock) -> Member:
    """The member, where it may be small and was not found with all small graphs of its pooled row."""
    if member.found.graphs or not may_be_small(member.problem, start.nodes):
        return member
    found = enumerated(member.problem, start.nodes, None, clock.part(0.5))
    levels = Levels(start.nodes, (), start.conditions, found.exhausted)
    most = min(member.problem.most_nodes, member.problem.limits.enumerated_nodes)
    return dataclasses.replace(member, answer=Attempted(levels, None, found, most))


def _others(
    problem: CensusProblem, answers: Sequence[Reconstruction], clock: Clock, budget: Budget, single: Single
) -> list[Reconstruction]:
    """Graphs of what those found leave of the update."""
    observation = problem.observation
    if Loss.of(observation.loss).masked:  # what a label counts may depend on labels that are not known yet
        return []
    parts = each_gradient(observation, problem.knowledge.space, [answer.graphs[0] for answer in answers])
    left = remaining(observation, parts)
    if left.batch_size == 1:
        return beside(single(left, clock))
    rest = CensusProblem.of(left, problem.knowledge, problem.settings)
    return beside(reconstructed(rest, clock, budget, single))


def _answered(
    problem: CensusProblem, answers: list[Reconstruction], info: dict[str, Any], clock: Clock
) -> Reconstruction:
    """What was found, checked as a whole where that is everything."""
    size, far = problem.observation.batch_size, None
    if len(answers) == size:
        answers, far = checked(problem, answers)
    matched = far is not None and far <= MATCH
    info |= {"found": len(answers), "seconds": clock.elapsed}
    if len(answers) < size:
        info["reason"] = f"{len(answers)} of {size} graphs were found; the head's gradient has rank {info['rank']}"
    return Reconstruction(
        graphs=tuple(answer.graphs[0] for answer in answers),
        gradient_distance=far,
        stop="match" if matched else "time" if clock.left <= 0 else "nothing assembled",
        certificate=of_all(answers, far) if far is not None and matched else None,
        info=info,
        members=tuple(answers),
    )
