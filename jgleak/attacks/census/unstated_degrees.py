"""Features that state no degree: what a certificate takes for granted then, and what is said where nothing is found."""

from __future__ import annotations

import numpy as np

from jgleak.attacks.census.candidates import Levels
from jgleak.attacks.census.settings import CensusLimits
from jgleak.attacks.span.levels import degree_bound
from jgleak.attacks.span.settings import SpanLimits
from jgleak.federated.knowledge import Knowledge


def degrees_assumed(knowledge: Knowledge, levels: Levels, limits: SpanLimits) -> tuple[str, ...]:
    """The condition that comes with features that do not state degrees, where the start does not say it."""
    degrees = levels.nodes.degrees
    if knowledge.space.degree is not None or not degrees.size or (levels.start and levels.start.some_degrees):
        return ()
    _, source = degree_bound(knowledge, limits)
    return (f"no node has more than {int(np.max(degrees))} neighbours, {source}",)


def degrees_unstated(knowledge: Knowledge, limits: CensusLimits) -> str:
    """What to say of a search that found nothing where features state no degree."""
    bound, source = degree_bound(knowledge, limits.span)
    return (
        f"features state no degree: nodes of more than {bound} neighbours were not counted ({source}), and graphs in "
        f"which nodes of more than {limits.few_neighbours} stand side by side are seldom found; the degree among the "
        "features, or the largest one where it is known (max_degree of a schema or of Knowledge, --option "
        "unknown_degree=3), makes the search smaller"
    )
