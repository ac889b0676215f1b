"""Every graph of a batch, from one update: the census of each, and a certificate for each and for all."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from math import prod
from typing import Any

from jgleak.attacks.attack import Budget, Clock, Reconstruction
from jgleak.attacks.census.assemble import AnonymitySet
from jgleak.attacks.census.batches.head import HeadGradient
from jgleak.attacks.census.batches.joint import distance, each_gradient, fitting, remaining
from jgleak.attacks.census.batches.masks import pooled_rows
from jgleak.attacks.census.batches.members import Member, counted
from jgleak.attacks.census.batches.parts import parts_of
from jgleak.attacks.census.batches.states import root_states
from jgleak.attacks.census.candidates import CensusCandidates, degrees_assumed
from jgleak.attacks.census.certify import certify
from jgleak.attacks.census.problem import CensusProblem
from jgleak.attacks.certificate import Certificate
from jgleak.attacks.distance import MATCH
from jgleak.graph import Graph

TOLD_APART = "the head's gradient has as many dimensions as the batch has graphs of different pooled rows"
"""What a certificate of a graph of a batch takes for granted beside the census."""


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
    info: dict[str, Any] = {"graphs": observation.batch_size, "rank": head.rank}
    rows = pooled_rows(head, clock.part(problem.limits.hop_share))
    if rows is None:
        reason = f"the head's gradient, of rank {head.rank}, does not show the pooled rows of its graphs"
        return Reconstruction((), None, "no information", info={**info, "reason": reason, "seconds": whole.elapsed})
    members = [Member(part) for part in parts_of(head, rows)]
    info |= {"rows": len(members), "seconds_rows": whole.elapsed}
    candidates = CensusCandidates(problem, clock, budget)
    for number, levels in enumerate(candidates.attempts(clock), start=1):
        states = root_states(observation.model, observation.params, levels, clock)
        if states is None:
            break
        info |= {"attempts": number, "candidates": candidates.checked, "blocks": levels.top.size}
        for place, member in enumerate(members):
            if not member.found.graphs:
                part = clock.part(1.0 / (len(members) - place))
                members[place] = counted(problem, member.part, levels, states, part)
        if all(member.found.graphs for member in members):
            break
    return _answer(problem, members, info, clock, whole)


def _answer(
    problem: CensusProblem, members: Sequence[Member], info: Mapping[str, Any], clock: Clock, whole: Clock
) -> Reconstruction:
    """What was found of every graph, and of all together."""
    size, found = problem.observation.batch_size, [member for member in members if member.found.graphs]
    answers = list(_certified(problem, found, whole))
    graphs = [answer.best for answer in answers if answer.best is not None]
    info = {**info, "found": len(graphs)}
    far, certificate = None, None
    if len(graphs) == size:
        answers, far = _checked(problem, answers)
        graphs = [answer.best for answer in answers if answer.best is not None]
        certificate = _of_all(answers, far) if far <= MATCH else None
    stop = "match" if certificate is not None else "time" if clock.left <= 0 else "nothing assembled"
    if len(graphs) < size:
        info["reason"] = f"{len(graphs)} of {size} graphs were found"
    return Reconstruction(
        tuple(graphs), far, stop, certificate=certificate, info={**info, "seconds": whole.elapsed},
        members=tuple(answers),
    )


def _certified(problem: CensusProblem, members: Sequence[Member], clock: Clock) -> Iterator[Reconstruction]:
    """The answer for every graph; of equal ones the same several times, each with its own label."""
    for member in members:
        assert member.levels is not None
        own = CensusProblem.of(member.part.observation, problem.knowledge, problem.settings)
        degrees = degrees_assumed(problem.knowledge, member.levels.nodes, problem.limits.span)
        conditions = (*member.levels.conditions, *degrees, TOLD_APART)
        certified = certify(own, conditions, member.found, member.most, clock)
        for label in member.part.labels:
            graphs = tuple(graph if label is None else dataclasses.replace(graph, y=label) for graph in certified.graphs)
            yield Reconstruction(graphs, certified.distance, "match", certificate=certified.certificate)


def _checked(problem: CensusProblem, answers: list[Reconstruction]) -> tuple[list[Reconstruction], float]:
    """The answers with graphs before others that explain what the rest of the batch leaves, and the distance of the
    whole batch's gradient.

    Where the graphs of one answer alone are told apart by that, the others are excluded: the rest does not change.
    """
    observation, space = problem.observation, problem.knowledge.space
    graphs = [answer.graphs[0] for answer in answers]
    each = each_gradient(observation, space, graphs)
    far = distance(observation, each)
    several = [place for place, answer in enumerate(answers) if len(answer.graphs) > 1]
    kept = dict[int, list[bool]]()
    for _ in range(2):
        for place in several:
            left = remaining(observation, each, place)
            distances = fitting(left, space, answers[place].graphs)
            best = min(distances)
            kept[place] = [one <= max(MATCH, 2.0 * best) for one in distances]
            order = sorted(range(len(distances)), key=lambda k: not kept[place][k])
            answers[place] = dataclasses.replace(
                answers[place], graphs=tuple(answers[place].graphs[k] for k in order)
            )
            kept[place] = [kept[place][k] for k in order]
            if answers[place].graphs[0] is not graphs[place]:
                graphs[place] = answers[place].graphs[0]
                each = each_gradient(observation, space, graphs)
        far = distance(observation, each)
        if far <= MATCH:
            break
    refuted = [place for place in several if not all(kept[place])]
    if far <= MATCH and len(refuted) == 1:
        place = refuted[0]
        answers[place] = _only(answers[place], sum(kept[place]))
    return answers, far


def _only(answer: Reconstruction, number: int) -> Reconstruction:
    """The answer with the first graphs alone."""
    certificate = answer.certificate
    if certificate is not None:
        status = certificate.status if certificate.status == "at_least_k" else "unique" if number == 1 else "k_graphs"
        certificate = dataclasses.replace(certificate, status=status, size=number)
    return dataclasses.replace(answer, graphs=answer.graphs[:number], certificate=certificate)


def _of_all(answers: Sequence[Reconstruction], far: float) -> Certificate:
    """What is known of other batches with the same gradient."""
    each = [answer.certificate for answer in answers if answer.certificate is not None]
    ended = all(certificate.status != "at_least_k" for certificate in each)
    size = prod(certificate.size for certificate in each)
    conditions = tuple(dict.fromkeys(condition for certificate in each for condition in certificate.conditions))
    return Certificate(
        status="at_least_k" if not ended else "unique" if size == 1 else "k_graphs",
        size=size,
        n_max=max(certificate.n_max for certificate in each),
        n_known=all(certificate.n_known for certificate in each),
        residual=far,
        conditions=conditions,
    )
