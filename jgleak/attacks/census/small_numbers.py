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

Single = Callable[[CensusSettings, Knowledge, Clock], Reconstruction]
"""The census of the update under other settings and with more knowledge, within some time."""


def small_numbers(observation: Observation, knowledge: Knowledge, settings: CensusSettings) -> range:
    """The numbers that are tried: at most as many nodes as graphs that are enumerated, and at least as many as their
    rows span dimensions, of which the statistics' rounding may show one too many."""
    most = min(settings.limits.enumerated_nodes, rounds_of(knowledge, settings.limits)[-1][-1])
    span = input_subspace(observation, knowledge, settings.tolerances.span)
    return range(max(2, span.rank - 1 if span.informative else 0), most + 1)


def of_small_numbers(
    single: Single, sizes: range, settings: CensusSettings, knowledge: Knowledge, clock: Clock
) -> Reconstruction | None:
    """The graphs of the first number of nodes that has any, as an open list; None where none has.

    All graphs of each number are enumerated, and then each gets the whole census. Every number gets the same share of
    the time that is left.

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
