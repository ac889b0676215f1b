"""Every graph of a batch from one update: rows that the head's gradient tells apart, then a census for each."""

from __future__ import annotations

from typing import Any

from jgleak.attacks.attack import Budget, Clock, Reconstruction
from jgleak.attacks.census.attempted import counted
from jgleak.attacks.census.batches import rays
from jgleak.attacks.census.batches.answers import certified, checked, of_all
from jgleak.attacks.census.batches.head import HeadGradient
from jgleak.attacks.census.batches.joint import each_gradient, remaining
from jgleak.attacks.census.batches.masks import pooled_rows
from jgleak.attacks.census.batches.members import Member, taken
from jgleak.attacks.census.batches.parts import parts_of
from jgleak.attacks.census.batches.states import root_states
from jgleak.attacks.census.candidates import CensusCandidates, Levels
from jgleak.attacks.census.problem import CensusProblem
from jgleak.attacks.distance import MATCH
from jgleak.federated.loss import Loss


def reconstructed(problem: CensusProblem, clock: Clock, budget: Budget, whole: Clock) -> Reconstruction:
    """The graphs of a batch behind a pooled readout.

    Args:
      problem: the batch's update and what is known.
      clock: ends the searches.
      budget: bounds them.
      whole: the clock of all.
    """
    observation = problem.observation
    head = HeadGradient.of(observation)
    size, info = observation.batch_size, dict[str, Any](graphs=observation.batch_size, rank=head.rank)
    rows = pooled_rows(head, clock.part(problem.limits.hop_share))
    members = [] if rows is None else [Member.of(problem, part) for part in parts_of(head, rows)]
    info |= {"masks": rows is not None, "seconds_rows": whole.elapsed}
    candidates = CensusCandidates(problem, clock, budget)
    for number, levels in enumerate(candidates.attempts(clock), start=1):
        states = root_states(observation.model, observation.params, levels, clock)
        if states is None:
            break
        info |= {"attempts": number, "candidates": candidates.checked, "blocks": levels.top.size}
        if not members:
            found = rays.pooled_rows(head, levels, states, problem.limits, clock.part(problem.limits.hop_share))
            members = [Member.of(problem, part) for part in parts_of(head, found)]
        for place, member in enumerate(members):
            if not member.found.graphs and member.part is not None:
                share = clock.part(1.0 / (len(members) - place + 1))
                members[place] = taken(member, member.part, levels, states, share)
        members = _last(problem, members, levels, clock)
        if sum(len(member.labels) for member in members if member.found.graphs) == size:
            break
    answers, far = list(certified(problem, members, whole)), None
    if len(answers) == size:
        answers, far = checked(problem, answers)
    matched = far is not None and far <= MATCH
    info |= {"found": len(answers), "seconds": whole.elapsed}
    if len(answers) < size:
        shown = "" if members else f"; the head's gradient, of rank {head.rank}, does not show their pooled rows"
        info["reason"] = f"{len(answers)} of {size} graphs were found{shown}"
    return Reconstruction(
        graphs=tuple(answer.graphs[0] for answer in answers),
        gradient_distance=far,
        stop="match" if matched else "time" if clock.left <= 0 else "nothing assembled",
        certificate=of_all(answers, far) if far is not None and matched else None,
        info=info,
        members=tuple(answers),
    )


def _last(problem: CensusProblem, members: list[Member], levels: Levels, clock: Clock) -> list[Member]:
    """The members, where one alone is missing with what the others leave of the whole gradient, which says more than a
    pooled row."""
    known = [member for member in members if member.found.graphs]
    found = [answer.graphs[0] for answer in certified(problem, known, clock)]
    # where a label counts differently beside others', no graph's part is known before all labels are
    if len(found) != problem.observation.batch_size - 1 or Loss.of(problem.observation.loss).masked or clock.left <= 0:
        return members
    each = each_gradient(problem.observation, problem.knowledge.space, [*found, found[0]])  # the last stands for none
    own = CensusProblem.of(remaining(problem.observation, each, len(found)), problem.knowledge, problem.settings)
    answer = counted(own, levels, clock.part(0.5))
    return [*known, Member(own, (None,), None, answer)] if answer.found.graphs else members
