"""What an observation offers the filters: the nodes to begin with, and the checks of each hop."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from jaxtyping import Int

from jgleak.attacks.attack import Clock
from jgleak.attacks.node_order import KnownRows
from jgleak.attacks.span.binary_features import passing_words, wordy
from jgleak.attacks.span.check import SpanCheck
from jgleak.attacks.span.hops import Nodes
from jgleak.attacks.span.leak_points import LeakPoint, leak_points
from jgleak.attacks.span.nodes import passing_nodes
from jgleak.attacks.span.subspace import Subspace
from jgleak.federated.observation import Knowledge, Observation

UNKNOWN_DEGREES = (0, 1, 2, 3, 4)
"""Degrees tried where the features do not state them and ``Knowledge.max_degree`` gives no bound."""


def input_site(observation: Observation, knowledge: Knowledge) -> LeakPoint:
    """Where most dimensions of the input rows show: in the readout where it sees them, or in the first convolution."""
    return max(leak_points(observation, 0), key=lambda site: _rank(site, knowledge))


def _rank(site: LeakPoint, knowledge: Knowledge) -> tuple[bool, int]:
    span = Subspace.of_gradient(site.gradient, most=knowledge.max_nodes, noise=knowledge.noise)
    return span.informative, span.rank


def input_subspace(observation: Observation, knowledge: Knowledge) -> Subspace:
    """The span of the input rows."""
    return Subspace.of_gradient(
        input_site(observation, knowledge).gradient, most=knowledge.max_nodes, noise=knowledge.noise
    )


def block_checks(observation: Observation, knowledge: Knowledge, hop: int, names: Sequence[str]) -> list[SpanCheck]:
    """The named checks of ``hop``-hop blocks that the model offers and that carry information, the strongest first."""
    found = [site for site in leak_points(observation, hop) if site.name in names]
    checks = [SpanCheck.at(site, most=knowledge.max_nodes, noise=knowledge.noise) for site in found]
    return [check for check in checks if check is not None]


def find_nodes(observation: Observation, knowledge: Knowledge, *, clock: Clock) -> Nodes:
    """Feature vectors, each with the degree it states or all degrees it might have: those told, or else those that pass
    the node filter.

    Raises:
      TooManyCandidates: the input span carries too little information.
    """
    space, told = knowledge.space, KnownRows.of(knowledge)
    if told is not None:
        codes, complete, certain = told.codes.astype(np.int32), True, True
    else:
        codes, complete, certain = _passing(observation, knowledge, clock)
    degrees = space.degrees(codes)
    certain &= degrees is not None
    if degrees is None:
        tried = UNKNOWN_DEGREES if knowledge.max_degree is None else tuple(range(knowledge.max_degree + 1))
        if knowledge.connected and knowledge.n is not None and knowledge.n > 1:
            tried = tuple(degree for degree in tried if degree)  # nobody is alone
        degrees = np.tile(np.array(tried), codes.shape[0])
        codes = np.repeat(codes, len(tried), axis=0)
    possible = degrees < knowledge.max_nodes
    return Nodes(codes[possible], space.encode(codes[possible]), degrees[possible], certain, complete)


def _passing(observation: Observation, knowledge: Knowledge, clock: Clock) -> tuple[Int[np.ndarray, "T G"], bool, bool]:
    """Feature vectors that pass; whether that is all that do, and whether as many passed as the span has dimensions."""
    space, span = knowledge.space, input_subspace(observation, knowledge)
    if wordy(space):
        codes, complete = passing_words(space, span, clock=clock)
    else:
        codes, complete = passing_nodes(space, span, clock=clock), True
    return codes, complete, codes.shape[0] == span.rank
