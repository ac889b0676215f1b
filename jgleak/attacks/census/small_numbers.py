"""Small numbers of nodes one after another, where the returned statistics do not determine the number."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

from jgleak.attacks.attack import Clock, Reconstruction
from jgleak.attacks.census.problem import rounds_of
from jgleak.attacks.census.settings import CensusSettings
from jgleak.attacks.span.levels import input_subspace
from jgleak.federated.knowledge import Knowledge
from jgleak.federated.observation import Observation

TRIED = "the graph has {} nodes, the first number of those tried with which a graph was found"
"""The condition of what is found."""

WithNumber = Callable[[CensusSettings, Knowledge, Clock], Reconstruction]
"""The census of the update under other settings and with more knowledge, within some time."""


def possible_numbers(observation: Observation, knowledge: Knowledge, settings: CensusSettings) -> range:
    """The numbers that are tried: from 2 nodes, or as many as their rows span dimensions (the statistics' rounding may
    show one too many), to the most of which all graphs are enumerated."""
    most = min(settings.limits.enumerated_nodes, rounds_of(knowledge, settings.limits)[-1][-1])
    span = input_subspace(observation, knowledge, settings.tolerances.span)
    return range(max(2, span.rank - 1 if span.informative else 0), most + 1)


def with_each_number(
    single: WithNumber, sizes: range, settings: CensusSettings, knowledge: Knowledge, clock: Clock
) -> Reconstruction | None:
    """The graphs of the first number of nodes that has any, as an open list; None where none has.

    First every number gets a census that keeps all of its time for small graphs, then one that keeps as much as the
    settings say. Every census gets the same share of the time that is left.

    Args:
      single: the census, by settings, knowledge and time.
      sizes: the numbers.
      settings: those of the census.
      knowledge: what is known, without the number.
      clock: ends the search.
    """
    shares = (1.0, settings.limits.enumeration_share)
    tries = [(share, n) for share in shares for n in sizes]
    for left, (share, n) in zip(range(len(tries), 0, -1), tries, strict=True):
        if clock.left <= 0:
            break
        limits = dataclasses.replace(settings.limits, enumeration_share=share)
        told = dataclasses.replace(knowledge, n=n)
        found = single(dataclasses.replace(settings, limits=limits), told, clock.part(1.0 / left))
        if found.certificate is not None:
            conditions = (*found.certificate.conditions, TRIED.format(n))
            given = {"status": "at_least_k", "n_known": False, "conditions": conditions}
            return dataclasses.replace(found, certificate=dataclasses.replace(found.certificate, **given))
    return None
