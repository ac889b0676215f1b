"""Blocks of every hop for the census, from the strongest checks to the weakest that can be afforded."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence

import numpy as np

from jgleak.attacks.attack import Budget, Clock
from jgleak.attacks.span.check import SpanCheck
from jgleak.attacks.span.hops import Blocks, Nodes, next_hop, next_hop_count, one_hop, one_hop_count, reciprocal
from jgleak.attacks.span.levels import find_nodes
from jgleak.attacks.span.sites import Site, sites
from jgleak.federated.observation import Knowledge, Observation

UNCHECKED = 20_000
"""Most blocks of a hop to keep when no check is demanded of it."""

MOST = 3_000
"""Most top blocks whose contributions are computed."""

SHARE = 0.5
"""Part of the time left that one hop of one attempt may take."""


@dataclasses.dataclass(frozen=True)
class Attempt:
    """Which checks are demanded: of the blocks below the last hop, and of the last hop's."""

    below: tuple[str, ...]
    top: tuple[str, ...]


ATTEMPTS = (
    Attempt(("node", "hidden"), ("readout", "node", "hidden")),
    Attempt(("aggregate", "hidden"), ("readout", "hidden")),
    Attempt((), ("readout", "hidden")),
    Attempt(("node", "hidden"), ("aggregate",)),
    Attempt(("node", "hidden"), ()),
    Attempt(("aggregate", "hidden"), ("aggregate",)),
    Attempt((), ()),
)
"""Widened one after another while a true block is missing."""


@dataclasses.dataclass(frozen=True)
class Levels:
    """Candidate blocks of every hop.

    Attributes:
      nodes: feature vectors.
      hops: blocks of 1, 2, .. L hops, each entry of the last with a partner for every neighbour.
      conditions: what was assumed to leave other blocks out.
      checked: candidates looked at.
    """

    nodes: Nodes
    hops: tuple[Blocks, ...]
    conditions: tuple[str, ...]
    checked: int


def attempts(observation: Observation, knowledge: Knowledge, clock: Clock, budget: Budget) -> Iterator[Levels]:
    """Candidates of ever weaker checks; attempts that cannot be afforded or repeat an earlier one are left out.

    Raises:
      TooManyCandidates: the input span says too little about nodes.
    """
    nodes = find_nodes(observation, knowledge, clock=clock.part(SHARE))
    first = sites(observation, 0)[0]
    seen: set[tuple[tuple[str, ...], ...]] = set()
    grown: dict[tuple[tuple[str, ...], ...], Blocks] = {}
    for attempt in ATTEMPTS:
        chosen = _chosen(observation, knowledge, attempt)
        names = tuple(tuple(site.name for site, _ in hop) for hop in chosen)
        if names in seen or clock.left <= 0:
            continue
        seen.add(names)
        levels = _levels(observation, nodes, chosen, first, grown, clock, budget)
        if levels is not None and levels.hops[-1].size:
            yield levels


Chosen = Sequence[tuple[Site, SpanCheck]]


def _chosen(observation: Observation, knowledge: Knowledge, attempt: Attempt) -> list[Chosen]:
    hops = []
    for hop in range(1, observation.model.layers + 1):
        wanted = attempt.top if hop == observation.model.layers else attempt.below
        pairs = [(s, SpanCheck.at(s, most=knowledge.max_nodes)) for s in sites(observation, hop) if s.name in wanted]
        hops.append([(site, check) for site, check in pairs if check is not None])
    return hops


def _levels(
    observation: Observation,
    nodes: Nodes,
    chosen: Sequence[Chosen],
    first: Site,
    grown: dict[tuple[tuple[str, ...], ...], Blocks],
    clock: Clock,
    budget: Budget,
) -> Levels | None:
    """``grown`` holds the blocks of earlier attempts, by the checks of every hop up to theirs."""
    model, params = observation.model, observation.params
    conditions = [f"{first.name} check of nodes: {first.condition}"]
    hops: list[Blocks] = []
    checked = 0
    for hop, pairs in enumerate(chosen, start=1):
        if not pairs and (one_hop_count(nodes) if hop == 1 else next_hop_count(hops[-1])) > UNCHECKED:
            return None
        checks = [check for _, check in pairs]
        part = clock.part(SHARE)
        key = tuple(tuple(site.name for site, _ in earlier) for earlier in chosen[:hop])
        if key not in grown:
            if hop == 1:
                grown[key] = one_hop(model, params, nodes, checks, clock=part, budget=budget)
            else:
                grown[key] = next_hop(model, params, nodes, hops[-1], checks, hop=hop, clock=part, budget=budget)
            checked += grown[key].checked
        blocks = grown[key]
        conditions += [f"{site.name} check of {hop}-hop blocks: {site.condition}" for site, _ in pairs]
        if blocks.unsearched:
            left = sum(part.size for part in blocks.unsearched)
            conditions.append(f"{left} candidates of {hop}-hop blocks were not looked at")
        hops.append(blocks)
    top = reciprocal(hops[-1])
    if top.size > MOST:
        return None
    return Levels(nodes, (*hops[:-1], top), tuple(conditions), checked)


def degrees_assumed(knowledge: Knowledge, nodes: Nodes) -> tuple[str, ...]:
    """The condition that comes with features that do not state degrees."""
    if knowledge.space.degree is not None or not nodes.degrees.size:
        return ()
    return (f"no node has more than {int(np.max(nodes.degrees))} neighbours",)
