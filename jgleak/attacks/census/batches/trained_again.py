"""Lists of graphs of a client that took several local steps, of which those stay whose training returns the update."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from jgleak.attacks.attack import Clock, Reconstruction
from jgleak.attacks.census.batches.answers import of_all
from jgleak.attacks.census.batches.joint import replayed
from jgleak.attacks.certificate import Certificate
from jgleak.attacks.distance import MATCH
from jgleak.features import FeatureSpace
from jgleak.federated.observation import Observation
from jgleak.graph import Graph

LISTED = 200
"""Most graphs of one list that are trained with the others."""


def trained_again(
    seen: Observation, space: FeatureSpace, answers: Sequence[Reconstruction], firsts: Sequence[Graph], clock: Clock
) -> tuple[list[Reconstruction], float]:
    """The answers with those of their graphs that, trained with the first ones of the others, return the update, and
    with the largest distance of these as the residual of their certificates; and the distance of the update after
    training on the first graphs of the answers.

    Args:
      seen: the client's update.
      space: the feature space.
      answers: one for each graph, in the order of the steps.
      firsts: a graph of each list, which return the update together.
      clock: ends the training; graphs that are not reached are left out.
    """
    out = [_kept(seen, space, answer, list(firsts), place, clock) for place, answer in enumerate(answers)]
    far = replayed(seen, space, [answer.graphs[0] for answer in out])
    if far > MATCH:  # each returns the update beside the first graphs, and together they do not
        out = [_begun(answer, first) for answer, first in zip(out, firsts, strict=True)]
        far = replayed(seen, space, firsts)
    return out, far


def of_trained(answers: Sequence[Reconstruction], far: float) -> Certificate:
    """``of_all`` of the batches that were trained: those in which one graph is another than the first of its list."""
    furthest = [answer.certificate.residual for answer in answers if answer.certificate is not None]
    certificate = of_all(answers, max([far, *furthest]))
    trained = 1 + sum(len(answer.graphs) - 1 for answer in answers)
    return dataclasses.replace(certificate, size=min(certificate.size, trained))


def _kept(
    seen: Observation, space: FeatureSpace, answer: Reconstruction, firsts: list[Graph], place: int, clock: Clock
) -> Reconstruction:
    first, kept, furthest = firsts[place], list[Graph](), 0.0
    for graph in answer.graphs[:LISTED]:
        if clock.left <= 0 and not _same(graph, first):
            continue
        firsts[place] = graph
        off = 0.0 if _same(graph, first) else replayed(seen, space, firsts)
        if off <= MATCH:
            kept.append(graph)
            furthest = max(furthest, off)
    graphs = tuple(kept) if any(_same(one, first) for one in kept) else (first, *kept)
    certificate = answer.certificate and dataclasses.replace(answer.certificate, residual=furthest)
    return dataclasses.replace(answer, graphs=graphs, certificate=certificate)


def _begun(answer: Reconstruction, first: Graph) -> Reconstruction:
    """The answer with a graph of its list as the first one."""
    return dataclasses.replace(answer, graphs=(first, *(one for one in answer.graphs if not _same(one, first))))


def _same(one: Graph, other: Graph) -> bool:
    return one is other or (str(one.y) == str(other.y) and one.canonical_form() == other.canonical_form())
