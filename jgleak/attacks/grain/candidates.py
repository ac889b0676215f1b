"""What passes the span checks: nodes, 1-hop and 2-hop blocks, and which of these fit together."""

from __future__ import annotations

import dataclasses
from typing import Any

from jgleak.attacks.attack import Budget, Clock
from jgleak.attacks.grain.settings import GrainSettings
from jgleak.attacks.span.hops import Blocks, Nodes, next_hop, next_hop_count, one_hop_count, reciprocal
from jgleak.attacks.span.levels import block_checks
from jgleak.attacks.span.onehop import one_hop
from jgleak.federated.knowledge import Knowledge
from jgleak.federated.observation import Observation

CHECKS = ("node", "hidden", "readout")
"""GRAIN's checks; the aggregate check is not one of them."""


@dataclasses.dataclass(frozen=True)
class GrainCandidates:
    """What passed each filter.

    Attributes:
      nodes: feature vectors with degrees.
      ones: 1-hop blocks.
      twos: 2-hop blocks after the structure filter (GRAIN, Algorithm 7).
      info: numbers and seconds by stage.
    """

    nodes: Nodes
    ones: Blocks
    twos: Blocks
    info: dict[str, Any]


def find_candidates(
    observation: Observation,
    knowledge: Knowledge,
    nodes: Nodes,
    *,
    settings: GrainSettings,
    levels: tuple[int, ...],
    grown: dict[bool, Blocks],
    clock: Clock,
    budget: Budget,
) -> GrainCandidates | None:
    """1-hop and 2-hop blocks that pass the span checks and the structure filter, with counts and times.

    Args:
      settings: tolerances and limits.
      levels: hops whose blocks must pass the span checks. True 1-hop blocks can fail them under a singular adjacency,
        and true 2-hop blocks where nodes share an activation pattern in the readout. Of a hop left out every
        neighbourhood is kept.
      grown: 1-hop blocks of earlier calls, by whether they were checked; filled in here.

    Returns:
      The candidates, or None where a hop that is not checked (left out, or without an informative span) has too many
      neighbourhoods.
    """
    model, params = observation.model, observation.params
    begun, limits = clock.elapsed, settings.limits
    ones_checks, twos_checks = (
        block_checks(observation, knowledge, hop, CHECKS, settings.tolerances.span) if hop in levels else []
        for hop in (1, 2)
    )
    if not ones_checks and one_hop_count(nodes) > limits.unchecked_one_hop:
        return None
    checked = bool(ones_checks)
    if checked not in grown:
        bounds = {"clock": clock.part(limits.filtering_share), "budget": budget, "limits": limits.span}
        grown[checked] = one_hop(model, params, nodes, ones_checks, **bounds)
    ones = grown[checked]
    seconds_ones = clock.elapsed
    if not twos_checks and next_hop_count(ones) > limits.unchecked_two_hop:
        return None
    bounds = {"clock": clock.part(limits.filtering_share), "budget": budget, "limits": limits.span}
    twos = next_hop(model, params, nodes, [ones], twos_checks, **bounds)
    filtered = reciprocal(twos)
    info = {
        "nodes": int(nodes.degrees.size),
        "one_hop_checked": ones.checked,
        "one_hop": ones.size,
        "two_hop_checked": twos.checked,
        "two_hop": twos.size,
        "blocks": filtered.size,
        "unsearched": [sum(part.size for part in hop.unsearched) for hop in (ones, twos)],
        "ranks": [checks[0].subspace.rank if checks else None for checks in (ones_checks, twos_checks)],
        "levels_checked": [level for level, checks in ((1, ones_checks), (2, twos_checks)) if checks],
        "seconds_one_hop": seconds_ones - begun,
        "seconds_two_hop": clock.elapsed - seconds_ones,
    }
    return GrainCandidates(nodes, ones, filtered, info)
