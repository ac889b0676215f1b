"""The answers to a batch: a list for each graph, the lists checked together, and their certificates."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from math import prod

from jgleak.attacks.attack import Clock, Reconstruction
from jgleak.attacks.census.batches.joint import distance, each_gradient, fitting, remaining, without
from jgleak.attacks.census.batches.members import Member
from jgleak.attacks.census.certify import certify
from jgleak.attacks.census.problem import CensusProblem
from jgleak.attacks.census.unstated_degrees import degrees_assumed
from jgleak.attacks.certificate import Certificate
from jgleak.attacks.distance import MATCH

TOLD_APART = "the head's gradient has as many dimensions as the batch has graphs of different pooled rows"
"""A condition of the certificate of each graph of a batch, besides the census's own."""

ROUNDS = 3
"""Most rounds in which every list is compared with the update minus the other lists' first graphs."""

NEAR = 1.01
"""Distances up to this multiple of the smallest count as equal: for graphs of equal gradient they differ by
rounding."""

OTHERS = "the other graphs of the batch are those that were found"
"""A condition of the certificate of a graph found in the update minus the graphs found before."""


def certified(problem: CensusProblem, member: Member, clock: Clock) -> Iterator[Reconstruction]:
    """The answer for a graph that was found; for equal graphs one answer each, with that graph's label."""
    answer = member.answer
    if answer is None or not answer.found.graphs:
        return
    degrees = degrees_assumed(problem.knowledge, answer.levels, problem.limits.span)
    conditions = (*answer.levels.conditions, *degrees, TOLD_APART)
    made = certify(member.problem, conditions, answer.found, answer.most, clock)
    for label in member.part.labels:
        graphs = made.graphs if label is None else tuple(dataclasses.replace(g, y=label) for g in made.graphs)
        yield Reconstruction(graphs, made.distance, "match", certificate=made.certificate)


def beside(others: Reconstruction) -> list[Reconstruction]:
    """The answers to graphs found in the update minus the graphs found before, with that condition added."""
    return [beside_others(answer) for answer in list(others.members) or ([others] if others.graphs else [])]


def beside_others(answer: Reconstruction) -> Reconstruction:
    """The answer on condition that the other graphs are those that were found."""
    if answer.certificate is None:
        return answer
    conditions = tuple(dict.fromkeys((*answer.certificate.conditions, OTHERS)))
    return dataclasses.replace(answer, certificate=dataclasses.replace(answer.certificate, conditions=conditions))


def checked(problem: CensusProblem, answers: Sequence[Reconstruction]) -> tuple[list[Reconstruction], float]:
    """The answers to all graphs of a batch, and the distance of the whole batch's gradient. Graphs that explain the
    update minus the other answers' first graphs come first in each list.

    If this distinguishes the graphs of one answer only, those that do not explain it are excluded: the remainder does
    not depend on which graph the other answers take. If it does so for several answers, combinations would have to be
    compared, and no claim is made about graphs outside the lists; neither, where an answer's first graph changed, about
    graphs outside the lists of those found in its remainder.
    """
    observation, space = problem.observation, problem.knowledge.space
    told, listed, answers, changed, again = dict[int, int](), answers, list(answers), False, False
    each = each_gradient(observation, space, [answer.graphs[0] for answer in answers])
    for _ in range(ROUNDS):
        again = False
        for place, answer in enumerate(listed):
            if len(answer.graphs) < 2:
                continue
            distances = fitting(remaining(observation, without(each, place)), space, answer.graphs)
            fits = [one <= MATCH * len(answers) for one in distances]
            # while another answer's first graph is wrong, none fits, and the nearest is the best guess, the likeliest
            # of those that are as near; of those that fit the likeliest is first, whatever an earlier guess was
            near = NEAR * min(distances)
            ranks = [0.0 if fit else 1.0 for fit in fits] if any(fits) else [max(one, near) for one in distances]
            graphs = tuple(answer.graphs[k] for k in sorted(range(len(fits)), key=ranks.__getitem__))
            told[place] = sum(fits) if any(fits) else len(fits)
            moved = graphs[0] is not answers[place].graphs[0]
            answers[place] = dataclasses.replace(answer, graphs=graphs)
            if moved:
                again = True
                each = each_gradient(observation, space, [answer.graphs[0] for answer in answers])
        changed |= again
        if not again:
            break
    far = distance(observation, each)
    fewer = [place for place, number in told.items() if number < len(answers[place].graphs)]
    for place in fewer:
        less = _first(answers[place], told[place])
        settled = far <= MATCH and len(fewer) == 1 and not again
        answers[place] = less if settled else cut(less)
    return [cut(answer) if changed and _rests_on_others(answer) else answer for answer in answers], far


def _rests_on_others(answer: Reconstruction) -> bool:
    return answer.certificate is not None and OTHERS in answer.certificate.conditions


def _first(answer: Reconstruction, number: int) -> Reconstruction:
    """The answer with its first ``number`` graphs only."""
    certificate = answer.certificate
    if certificate is not None:
        status = certificate.status if certificate.status == "at_least_k" else "unique" if number == 1 else "k_graphs"
        certificate = dataclasses.replace(certificate, status=status, size=number)
    return dataclasses.replace(answer, graphs=answer.graphs[:number], certificate=certificate)


def cut(answer: Reconstruction) -> Reconstruction:
    """The answer, with no claim about graphs outside its list."""
    certificate = answer.certificate
    made = None if certificate is None else dataclasses.replace(certificate, status="at_least_k")
    return dataclasses.replace(answer, certificate=made)


def of_all(answers: Sequence[Reconstruction], far: float) -> Certificate:
    """The certificate of a batch: each graph may be any of its list. Where lists share graphs, some combinations are
    the same batch, so they are not counted."""
    each = [answer.certificate for answer in answers if answer.certificate is not None]
    listed = [(graph.canonical_form(), str(graph.y)) for answer in answers for graph in answer.graphs]
    several = max(one.size for one in each) > 1 and len(set(listed)) < len(listed)
    ended = all(one.status != "at_least_k" for one in each) and not several
    size = 1 if several else prod(one.size for one in each)
    return Certificate(
        status="at_least_k" if not ended else "unique" if size == 1 else "k_graphs",
        size=size,
        n_max=max(one.n_max for one in each),
        n_known=all(one.n_known for one in each),
        residual=far,
        conditions=tuple(dict.fromkeys(condition for one in each for condition in one.conditions)),
    )
