"""Everything the spans say: nodes, 1-hop and 2-hop blocks, and which of them fit together."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from jgleak.attacks.attack import Budget, Clock
from jgleak.attacks.span.check import SpanCheck
from jgleak.attacks.span.hops import Blocks, Nodes, one_hop, one_hop_count, reciprocal, two_hop, two_hop_count
from jgleak.attacks.span.nodes import passing_nodes
from jgleak.attacks.span.subspace import Subspace
from jgleak.attacks.span.words import passing_words, wordy
from jgleak.federated.observation import Knowledge, Observation

UNKNOWN_DEGREES = (1, 2, 3, 4)
"""Degrees tried where the features do not state them and ``Knowledge.max_degree`` gives no bound."""

UNCHECKED = {1: 500, 2: 5_000}
"""Most neighbourhoods of each hop count to keep unchecked, when the checked ones do not lead to the graph."""


@dataclasses.dataclass(frozen=True)
class Candidates:
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


def input_subspace(observation: Observation, knowledge: Knowledge) -> Subspace:
    """The span of the input rows: in the readout where it sees them, else in the first convolution."""
    model, update = observation.model, observation.update
    if model.readout == "node_mlp" and model.see_input:
        kernel = update["head"]["linears_0"]["kernel"][: model.in_features]
    else:
        kernel = update["conv_0"][model.convolution(0).span_kernel]
    return Subspace.of_gradient(kernel, most=knowledge.max_nodes)


def state_subspace(observation: Observation, knowledge: Knowledge, layer: int) -> tuple[Subspace, int]:
    """The span of the states after ``layer`` convolutions, and the width of the part that the centre decides."""
    model, update = observation.model, observation.update
    if layer < model.layers:
        kernel, fixed = update[f"conv_{layer}"][model.convolution(layer).span_kernel], 0
    else:
        kernel, fixed = update["head"]["linears_0"]["kernel"], model.in_features if model.see_input else 0
    return Subspace.of_gradient(kernel, most=knowledge.max_nodes), fixed


def find_nodes(observation: Observation, knowledge: Knowledge, *, clock: Clock) -> Nodes:
    """Feature vectors that pass the node filter, each with the degree it states or all degrees it might have.

    Raises:
      TooManyCandidates: the input span carries too little information.
    """
    space = knowledge.space
    span = input_subspace(observation, knowledge)
    codes = passing_words(space, span, clock=clock) if wordy(space) else passing_nodes(space, span, clock=clock)
    degrees = space.degrees(codes)
    certain = degrees is not None and codes.shape[0] == span.rank
    if degrees is None:
        tried = UNKNOWN_DEGREES if knowledge.max_degree is None else tuple(range(1, knowledge.max_degree + 1))
        degrees = np.tile(np.array(tried), codes.shape[0])
        codes = np.repeat(codes, len(tried), axis=0)
    possible = degrees < knowledge.max_nodes
    return Nodes(codes[possible], space.encode(codes[possible]), degrees[possible], certain)


def find_candidates(
    observation: Observation,
    knowledge: Knowledge,
    nodes: Nodes,
    *,
    levels: tuple[int, ...] = (1, 2),
    clock: Clock,
    budget: Budget,
) -> Candidates | None:
    """1-hop and 2-hop blocks, and the structure filter, with counts and times.

    Args:
      levels: hops whose span check is demanded. A singular adjacency can fail true 1-hop blocks, and nodes that share
        their activation pattern in the readout true 2-hop blocks; a hop left out keeps all its neighbourhoods.

    Returns:
      The candidates, or None when a hop left out, or one whose span says nothing, has more than ``UNCHECKED``
      neighbourhoods.
    """
    model, params = observation.model, observation.params
    begun = clock.elapsed
    ones_span, _ = state_subspace(observation, knowledge, 1)
    twos_span, fixed = state_subspace(observation, knowledge, 2)
    ones_check = _check(ones_span, 0) if 1 in levels else None
    if ones_check is None and one_hop_count(nodes) > UNCHECKED[1]:
        return None
    ones = one_hop(model, params, nodes, ones_check, clock=clock, budget=budget)
    seconds_ones = clock.elapsed
    twos_check = _check(twos_span, fixed) if 2 in levels else None
    if twos_check is None and two_hop_count(ones) > UNCHECKED[2]:
        return None
    twos = two_hop(model, params, nodes, ones, twos_check, clock=clock, budget=budget)
    filtered = reciprocal(twos)
    info = {
        "nodes": int(nodes.degrees.size),
        "one_hop_checked": ones.checked,
        "one_hop": ones.size,
        "two_hop_checked": twos.checked,
        "two_hop": twos.size,
        "blocks": filtered.size,
        "skipped_centres": ones.skipped + twos.skipped,
        "ranks": [ones_span.rank, twos_span.rank],
        "levels_checked": [level for level, check in ((1, ones_check), (2, twos_check)) if check is not None],
        "seconds_one_hop": seconds_ones - begun,
        "seconds_two_hop": clock.elapsed - seconds_ones,
    }
    return Candidates(nodes, ones, filtered, info)


def _check(span: Subspace, fixed: int) -> SpanCheck | None:
    return SpanCheck.of(span, fixed=fixed) if span.informative else None
