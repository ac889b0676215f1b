"""Features that state no degree: what a certificate then assumes, and the message where nothing is found."""

from __future__ import annotations

import numpy as np

from jgleak.attacks.census.candidates import Levels
from jgleak.attacks.census.settings import CensusLimits
from jgleak.attacks.span.levels import degree_bound
from jgleak.attacks.span.settings import SpanLimits
from jgleak.federated.knowledge import Knowledge


def degrees_assumed(knowledge: Knowledge, levels: Levels, limits: SpanLimits) -> tuple[str, ...]:
    """The condition on degrees where features do not state them and the start has no such condition."""
    degrees = levels.nodes.degrees
    if knowledge.space.degree is not None or not degrees.size or (levels.start and levels.start.some_degrees):
        return ()
    _, source = degree_bound(knowledge, limits)
    return (f"no node has more than {int(np.max(degrees))} neighbours, {source}",)


def degrees_unstated(knowledge: Knowledge, limits: CensusLimits) -> str:
    """The reason to report for a search that found nothing where features state no degree."""
    bound, source = degree_bound(knowledge, limits.span)
    return (
        f"features state no degree: nodes of more than {bound} neighbours were not searched ({source}), and graphs in "
        f"which two nodes of more than {limits.few_neighbours} are adjacent are seldom found; to make the search "
        "smaller, add the degree to the features, or give the largest one where it is known (max_degree of a schema "
        "or of Knowledge, --option unknown_degree=3)"
    )
