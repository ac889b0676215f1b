"""What the filters get from an observation: the nodes, and the checks of each hop."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np
from jaxtyping import Int

from jgleak.attacks.attack import Clock
from jgleak.attacks.node_order import KnownRows
from jgleak.attacks.noise import deviation
from jgleak.attacks.span.binary_features import passing_words, unread, wordy
from jgleak.attacks.span.check import SpanCheck
from jgleak.attacks.span.hops import Nodes
from jgleak.attacks.span.leak_points import LeakPoint, leak_points
from jgleak.attacks.span.nodes import passing_nodes
from jgleak.attacks.span.settings import LIMITS, TOLERANCES, SpanLimits, SpanTolerances
from jgleak.attacks.span.subspace import Subspace
from jgleak.features import FeatureSpace
from jgleak.federated.knowledge import Knowledge
from jgleak.federated.observation import Observation


def most_rows(observation: Observation, knowledge: Knowledge) -> int | None:
    """As many nodes as all graphs of the update may have, a bound on every rank; None where none is known."""
    return None if knowledge.max_n is None else knowledge.max_n * observation.batch_size


def noise_at(site: LeakPoint, observation: Observation, knowledge: Knowledge) -> float | None:
    """Deviation of the noise in the gradient of one place; None where the update has none."""
    return None if knowledge.noise is None else deviation(observation, knowledge.noise, site.gradient)


def input_site(observation: Observation, knowledge: Knowledge, tolerances: SpanTolerances = TOLERANCES) -> LeakPoint:
    """Where most dimensions of the input rows show: in the readout where it sees them, or in the first convolution."""
    return _widest(observation, knowledge, tolerances)[0]


def input_subspace(observation: Observation, knowledge: Knowledge, tolerances: SpanTolerances = TOLERANCES) -> Subspace:
    """The span of the input rows."""
    return _widest(observation, knowledge, tolerances)[1]


def _widest(observation: Observation, knowledge: Knowledge, tolerances: SpanTolerances) -> tuple[LeakPoint, Subspace]:
    most = most_rows(observation, knowledge)

    def span(site: LeakPoint) -> Subspace:
        noise = noise_at(site, observation, knowledge)
        return Subspace.of_gradient(site.gradient, most=most, noise=noise, tolerances=tolerances)

    both = ((site, span(site)) for site in leak_points(observation, 0))
    return max(both, key=lambda found: (found[1].informative, found[1].rank))


def block_checks(
    observation: Observation,
    knowledge: Knowledge,
    hop: int,
    names: Sequence[str],
    tolerances: SpanTolerances = TOLERANCES,
) -> list[SpanCheck]:
    """The named checks of ``hop``-hop blocks that the model offers and that carry information, the strongest first."""
    most = most_rows(observation, knowledge)
    checks = [
        SpanCheck.at(site, most=most, noise=noise_at(site, observation, knowledge), tolerances=tolerances)
        for site in leak_points(observation, hop)
        if site.name in names
    ]
    return [check for check in checks if check is not None]


KNOWN_EDGES = (
    "it looks for edges and does not read known ones, so that its list would be as long; leave 'adjacency' out"
)
"""Why an attack that lists graphs refuses known edges."""


def unlisted(knowledge: Knowledge, limits: SpanLimits = LIMITS) -> str | None:
    """Why no list of feature vectors can be made from a gradient, or None."""
    if not knowledge.space.discrete:
        return (
            "it enumerates feature values, and this feature space has real-valued ones; use discrete features "
            "(--no-attributes leaves the others out)"
        )
    return unread(knowledge.space, limits) if knowledge.features is None else None


def find_nodes(
    observation: Observation,
    knowledge: Knowledge,
    *,
    clock: Clock,
    tolerances: SpanTolerances = TOLERANCES,
    limits: SpanLimits = LIMITS,
) -> Nodes:
    """Feature vectors, each with the degree it states or all degrees it might have. They are the known ones, or else
    those that pass the node filter; a vector whose row is zero is always kept, since no gradient can exclude it.

    Raises:
      TooManyCandidates: the input span carries too little information.
    """
    space, known = knowledge.space, KnownRows.of(knowledge)
    if known is not None:
        codes, complete, certain = known.codes.astype(np.int32), True, True
    else:
        span = input_subspace(observation, knowledge, tolerances)
        blank = _blank(space)
        if span.rank == 0 and blank.size:  # rows of zeros, or no gradient at all
            codes, complete = blank[:0], False
        else:
            codes, complete = _passing(space, span, clock, limits)
        certain = complete and codes.shape[0] == span.rank and not blank.size
        codes = np.concatenate([codes, blank])
    return with_degrees(observation, knowledge, codes, certain=certain, complete=complete, limits=limits)


def with_degrees(
    observation: Observation,
    knowledge: Knowledge,
    codes: Int[np.ndarray, "T G"],
    *,
    certain: bool = False,
    complete: bool = True,
    limits: SpanLimits = LIMITS,
) -> Nodes:
    """Feature vectors, each with the degree it states or all degrees it might have.

    Args:
      observation: the update.
      knowledge: what is known of the graph.
      codes: the feature vectors.
      certain: all of them occur.
      complete: no other occurs.
      limits: the degrees that are tried where features state none.
    """
    space = knowledge.space
    degrees = space.degrees(codes)
    certain &= degrees is not None
    if degrees is None:
        tried = tuple(range(degree_bound(knowledge, limits)[0] + 1))
        if knowledge.connected and knowledge.n is not None and knowledge.n > 1:
            tried = tuple(degree for degree in tried if degree)  # in a connected graph no node is alone
        degrees = np.tile(np.array(tried), codes.shape[0])
        codes = np.repeat(codes, len(tried), axis=0)
    possible = degrees < (np.inf if knowledge.max_n is None else knowledge.max_n)
    nodes = Nodes(codes[possible], space.encode(codes[possible]), degrees[possible], certain, complete)
    return dataclasses.replace(nodes, classes=observation.model.edge_classes or 1)


def degree_bound(knowledge: Knowledge, limits: SpanLimits = LIMITS) -> tuple[int, str]:
    """Where features state no degree, the largest that is tried, and the source of that number in words."""
    if knowledge.max_degree is not None:
        return knowledge.max_degree, "which is known"
    public = [g.degree.max() for g in knowledge.auxiliary]
    published = max([int(degree) for degree in public] + [knowledge.space.max_degree or 0])
    if published > limits.unknown_degree:
        return published, "as in the public data"
    return limits.unknown_degree, "the most that is tried where features state no degree"


def _blank(space: FeatureSpace) -> Int[np.ndarray, "_k G"]:
    """The feature vector whose row is zero, if there is one."""
    codes = space.decode(np.zeros((1, space.width))).astype(np.int32)
    return codes[~np.any(space.encode(codes), axis=1)]


def _passing(
    space: FeatureSpace, span: Subspace, clock: Clock, limits: SpanLimits
) -> tuple[Int[np.ndarray, "T G"], bool]:
    """Feature vectors that pass, and whether they are complete."""
    if wordy(space, limits):
        return passing_words(space, span, clock=clock, limits=limits)
    return passing_nodes(space, span, clock=clock, limits=limits), True
