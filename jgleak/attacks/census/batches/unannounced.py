"""Attacks on updates whose number of graphs is not given."""

from __future__ import annotations

import dataclasses
from typing import NamedTuple

from jaxtyping import Array

from jgleak.attacks.attack import Attack, Budget, Reconstruction
from jgleak.attacks.census.batches.number_of_graphs import numbers_of_graphs
from jgleak.federated.knowledge import Knowledge
from jgleak.federated.observation import Observation

FEWEST = "the update is the mean over the fewest graphs that explain it"
"""A condition of a certificate, besides the attack's own."""


class Counted(NamedTuple):
    """What was found.

    Attributes:
      observation: the update, with the number of graphs that was used.
      found: the attack's answer.
    """

    observation: Observation
    found: Reconstruction


def counted(
    attack: Attack, observation: Observation, knowledge: Knowledge, *, key: Array, budget: Budget | None = None
) -> Counted:
    """Attack an update of an unknown number of graphs: the numbers that it allows, the fewest first, until one explains
    it (``numbers_of_graphs``). Where none does, the answer with most graphs, without any certificate.

    Args:
      attack: what to run, one that says whether its graphs explain the update (``stop`` is ``match``).
      observation: the update; its ``batch_size`` is ignored.
      knowledge: what is known beside it.
      key: as for the attack.
      budget: of all numbers together; each takes half of the time that is left.

    Raises:
      ValueError: the attack cannot work here, whatever the number.
    """
    budget = budget or Budget()
    clock, best, refused = budget.start(), None, None
    for number in numbers_of_graphs(observation, clock.part(0.25)):
        if clock.left <= 0 and best is not None:
            break
        try:
            one = dataclasses.replace(observation, batch_size=number)
            seconds = max(0.5 * clock.left, 0.0)
            found = attack(one, knowledge, key=key, budget=dataclasses.replace(budget, time_limit=seconds))
        except ValueError as error:
            refused = error
            continue
        if best is None or len(found.graphs) > len(best.found.graphs) or found.stop == "match":
            best = Counted(one, _assuming(found))
        if found.stop == "match":
            return best
    if best is None:
        raise refused or ValueError("batch_size: no number of graphs explains the update; give the number")
    return best._replace(found=_unconfirmed(best.found))


def _unconfirmed(found: Reconstruction) -> Reconstruction:
    """The answer where no number was confirmed: it has no certificates, and a message states that the number is a
    guess."""
    members = tuple(dataclasses.replace(member, certificate=None) for member in found.members)
    why = "how many graphs are behind the update is not known, and no number that was tried explains it"
    info = {**found.info, "reason": "; ".join(filter(None, (why, found.info.get("reason"))))}
    return dataclasses.replace(found, certificate=None, members=members, info=info)


def _assuming(found: Reconstruction) -> Reconstruction:
    """The answer, whose certificates name what is assumed."""
    certificate = found.certificate
    if certificate is not None:
        certificate = dataclasses.replace(certificate, conditions=(*certificate.conditions, FEWEST))
    members = tuple(_assuming(member) for member in found.members)
    return dataclasses.replace(found, certificate=certificate, members=members)
