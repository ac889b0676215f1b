"""What one of the census's searches found, and the reconstruction that it becomes."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, NamedTuple

from jgleak.attacks.attack import MORE_CONDITIONS, OUT_OF_TIME, Clock, Reconstruction
from jgleak.attacks.census.assemble import AnonymitySet
from jgleak.attacks.census.certify import certify
from jgleak.attacks.census.distinct import DIFFER, differing
from jgleak.attacks.census.problem import CensusProblem


class Answer(NamedTuple):
    """What one of the searches found.

    Attributes:
      conditions: what was assumed.
      found: the graphs.
      most: largest number of nodes that was searched.
      late: the search, or a part of it, ran out of time.
      again: so did the search under fewer conditions.
    """

    conditions: tuple[str, ...]
    found: AnonymitySet
    most: int
    late: bool = False
    again: bool = False


def beside(settled: Answer, other: Answer) -> Answer:
    """Two answers where all nodes are known to differ: an open list of graphs whose neighbourhoods were settled
    (``distinct``), and the later answer of a search that does not use this.

    Where the later list is complete and has all of the first one: its graphs whose nodes differ, so that what is known
    makes no list weaker; else those of both, open. The times are those of the later search.
    """
    kept = tuple(one for one in other.found.graphs if differing(one.graph))
    found = dataclasses.replace(other.found, graphs=kept)
    if found.exhausted and settled.found.forms <= found.forms:
        return other._replace(conditions=(DIFFER, *other.conditions), found=found)
    return settled._replace(found=settled.found.joined(found), late=other.late, again=other.again)


def certified(problem: CensusProblem, answer: Answer, info: Mapping[str, Any], clock: Clock) -> Reconstruction:
    """The graphs of an answer, at least one, with their certificate."""
    listed = certify(problem, answer.conditions, answer.found, answer.most, clock)
    if answer.found.exhausted:
        cut = MORE_CONDITIONS if answer.again else None
    else:
        cut = OUT_OF_TIME if answer.late or answer.again else None
    info = {**info, **({} if cut is None else {"reason": cut}), "seconds": clock.elapsed}
    return Reconstruction(listed.graphs, listed.distance, "match", certificate=listed.certificate, info=info)
