"""Every graph of a batch from one update: found by pooled rows or by weights, then in the update minus those found, and
checked together."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

from jgleak.attacks.attack import OUT_OF_TIME, Budget, Clock, Reconstruction
from jgleak.attacks.census.attempted import Attempted
from jgleak.attacks.census.batches import masks, rays
from jgleak.attacks.census.batches.answers import beside, certified, checked, cut, of_all
from jgleak.attacks.census.batches.head import HeadGradient
from jgleak.attacks.census.batches.in_turn import in_turn_unsupported
from jgleak.attacks.census.batches.joint import each_gradient, remaining
from jgleak.attacks.census.batches.members import Member, taken
from jgleak.attacks.census.batches.parts import parts_of
from jgleak.attacks.census.batches.shares import by_weights
from jgleak.attacks.census.batches.states import root_states
from jgleak.attacks.census.batches.upstream import unsupported
from jgleak.attacks.census.candidates import CensusCandidates, Levels
from jgleak.attacks.census.enumerate import enumerated, may_be_small
from jgleak.attacks.census.local_path import every_step_whole
from jgleak.attacks.census.problem import CensusProblem
from jgleak.attacks.census.starts import Start
from jgleak.attacks.distance import MATCH
from jgleak.federated.knowledge import Knowledge
from jgleak.federated.loss import Loss
from jgleak.federated.observation import Observation


def batch_unsupported(observation: Observation, knowledge: Knowledge) -> str | None:
    """Why the census cannot take this batch, or None."""
    graphs = f"the update mixes {observation.batch_size} graphs, and"
    if observation.model.readout.additive == "nodes" and (reason := unsupported(observation)) is not None:
        return f"{graphs} here {reason}"
    if (changed := _changes_rank(observation, knowledge)) is not None:
        return (
            f"{graphs} it separates them by the exact gradient's rank, which {changed} changes; record batches of one, "
            "or use gradient matching (such as dlg)"
        )
    if knowledge.features is not None or knowledge.adjacency is not None:
        return f"{graphs} it cannot assign known edges or feature rows to graphs; leave them out"
    if observation.local is not None and observation.local.steps > 1:
        return unsupported(observation) if every_step_whole(observation) else in_turn_unsupported(observation)
    return None


def _changes_rank(observation: Observation, knowledge: Knowledge) -> str | None:
    """What leaves the gradient's rank other than that of its graphs, or None."""
    if knowledge.noise is not None:
        rounded = " (what rounding left of a difference of weights counts as noise)" * (observation.local is not None)
        return f"noise{rounded}"
    return "pruning" if observation.pruned else "clipping" if observation.scaled else None


def of_each(knowledge: Knowledge) -> Knowledge:
    """The knowledge about a single graph of the batch: of sizes that differ, only the largest."""
    if len(set(knowledge.sizes)) < 2:
        return knowledge
    return dataclasses.replace(knowledge, n=None, sizes=(), max_n=max(knowledge.sizes))


Single = Callable[[Observation, Clock], Reconstruction]
"""The census of an update of one graph, within some time."""


def reconstructed(problem: CensusProblem, clock: Clock, budget: Budget, single: Single) -> Reconstruction:
    """The graphs of a batch, by the pooled rows that the head's gradient separates (``_Rows``), or otherwise by the
    weights of their blocks (``shares``).

    The update minus the graphs found is the update of a smaller batch with fewer candidates, in which the others are
    searched.

    Args:
      problem: the batch's update and what is known.
      clock: ends the searches.
      budget: bounds them.
      single: the census of an update of one graph.
    """
    size, pools = problem.observation.batch_size, problem.observation.model.readout.additive == "pooled"
    rows = _Rows(problem, clock) if pools else None
    info: dict[str, Any] = {"graphs": size} | ({} if rows is None else rows.facts)
    candidates, answers = CensusCandidates(problem, clock, budget), list[Reconstruction]()
    weighed = set[tuple[object, ...]]()
    for number, levels in enumerate(candidates.attempts(clock), start=1):
        info |= {"attempts": number, "candidates": candidates.checked, "blocks": levels.top.size}
        found = answers if rows is None else rows.answers(levels, clock)
        counted = levels.top.size <= problem.limits.blocks_counted
        blocks = tuple((hop.roots.tobytes(), *hop.neighbours) for hop in levels.hops)
        counted &= blocks not in weighed  # other checks may leave the same blocks
        if len(found) < size and counted and unsupported(problem.observation) is None:
            weighed.add(blocks)
            found = max(found, list(by_weights(problem, levels, clock.part(0.5))), key=len)
        if len(answers) < len(found) < size:
            found = [*found, *_others(problem, found, clock.part(0.5), budget, single)]
        answers = max(answers, found, key=len)
        if len(answers) >= size:
            break
    if len(answers) < size and rows is not None:
        answers = max(answers, rows.enumerated(candidates.start, clock), key=len)
    return _answered(problem, answers, info, clock)


class _Rows:
    """The graphs whose pooled rows the head's gradient shows: a census for each, attempt by attempt.

    Args:
      problem: the batch's update and what is known.
      clock: ends the search for rows that need no candidates.

    Attributes:
      facts: numbers for ``Reconstruction.info``.
    """

    def __init__(self, problem: CensusProblem, clock: Clock) -> None:
        self.problem, self.head = problem, HeadGradient.of(problem.observation)
        rows = masks.pooled_rows(self.head, clock.part(problem.limits.hop_share))
        self.members = [] if rows is None else [Member.of(problem, part) for part in parts_of(self.head, rows)]
        self.known: dict[int, list[Reconstruction]] = {}
        self.facts = {"rank": self.head.rank, "masks": rows is not None}

    def answers(self, levels: Levels, clock: Clock) -> list[Reconstruction]:
        """The answers to the graphs found with these candidates or with earlier ones."""
        problem, members = self.problem, self.members
        states = root_states(problem.observation.model, problem.observation.params, levels, clock)
        if states is None:
            return []
        if not members:
            part = clock.part(problem.limits.hop_share)
            shown = rays.pooled_rows(self.head, levels, states, problem.limits, part)
            members += [Member.of(problem, part) for part in parts_of(self.head, shown)]
        for place, member in enumerate(members):
            if not member.found.graphs:
                members[place] = taken(member, levels, states, clock.part(1.0 / (len(members) - place + 1)))
        return self._certified(clock)

    def enumerated(self, start: Start, clock: Clock) -> list[Reconstruction]:
        """The same after all small graphs were tried for the pooled rows of graphs that were not found."""
        some = dataclasses.replace(start.nodes, certain=False)  # all occur in the batch, but not in every graph
        start = dataclasses.replace(start, nodes=some)
        self.members = [_enumerated(one, start, clock) for one in self.members]
        return self._certified(clock)

    def _certified(self, clock: Clock) -> list[Reconstruction]:
        for place, member in enumerate(self.members):
            if place not in self.known and member.found.graphs:
                self.known[place] = list(certified(self.problem, member, clock))
        return [answer for place in sorted(self.known) for answer in self.known[place]]


def _enumerated(member: Member, start: Start, clock: Clock) -> Member:
    """The member; where it may be small and was not found, after all small graphs were tried for its pooled row."""
    if member.found.graphs or not may_be_small(member.problem, start.nodes):
        return member
    found = enumerated(member.problem, start.nodes, None, clock.part(0.5))
    levels = Levels(start.nodes, (), start.conditions, found.exhausted)
    most = min(member.problem.most_nodes, member.problem.limits.enumerated_nodes)
    return dataclasses.replace(member, answer=Attempted(levels, None, found, most))


def _others(
    problem: CensusProblem, answers: Sequence[Reconstruction], clock: Clock, budget: Budget, single: Single
) -> list[Reconstruction]:
    """Graphs found in the update minus the graphs found before."""
    observation = problem.observation
    if Loss.of(observation.loss).masked:  # a label's weight may depend on labels that are not known yet
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
    """The reconstruction; checked as a whole where all graphs were found."""
    size, far = problem.observation.batch_size, None
    if len(answers) == size:
        answers, far = checked(problem, answers)
    matched = far is not None and far <= MATCH
    if len(answers) > size or (far is not None and not matched):  # some are wrong, and it is not known which
        answers = [cut(answer) for answer in answers]
    info |= {"found": len(answers), "seconds": clock.elapsed}
    if len(answers) != size:
        rank = f"; the head's gradient has rank {info['rank']}" if "rank" in info else ""
        info["reason"] = f"{len(answers)} of {size} graphs were found{rank}"
    certificate = of_all(answers, far) if far is not None and matched else None
    if certificate is not None and certificate.status == "at_least_k" and clock.left <= 0:
        info["reason"] = OUT_OF_TIME
    return Reconstruction(
        graphs=tuple(answer.graphs[0] for answer in answers),
        gradient_distance=far,
        stop="match" if matched else "time" if clock.left <= 0 else "nothing assembled",
        certificate=certificate,
        info=info,
        members=tuple(answers),
    )
