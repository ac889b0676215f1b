"""Last stage: the order of the explaining graphs, and the certificate."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from itertools import groupby

import numpy as np

from jgleak.attacks.attack import Clock
from jgleak.attacks.census.assemble import AnonymitySet
from jgleak.attacks.census.neighbourhood_prior import NeighbourhoodPrior
from jgleak.attacks.census.prior import PRIORS, resolved
from jgleak.attacks.census.problem import CensusProblem
from jgleak.attacks.certificate import Certificate
from jgleak.attacks.node_order import numbered
from jgleak.graph import Graph


@dataclasses.dataclass(frozen=True)
class Certified:
    """An anonymity set in its final order, with its certificate.

    Attributes:
      graphs: best first; their nodes in the known or the most likely order.
      distance: relative gradient distance of the first.
      certificate: what the set proves.
    """

    graphs: tuple[Graph, ...]
    distance: float
    certificate: Certificate


def certify(problem: CensusProblem, assumed: Sequence[str], found: AnonymitySet, most: int, clock: Clock) -> Certified:
    """Order the graphs of a set, at least one, and state what the search proves of graphs of up to ``most`` nodes,
    under the conditions that its candidates ``assumed``.

    Graphs whose gradients are nearer than ``near_distance`` come first. Then graphs are sorted by their negative
    log-likelihood (of the prior, of the neighbourhoods where there are public graphs, and of the distance under noise,
    rounded), then by the prior's tie-breaker. ``clock`` ends the ranking of long lists: graphs that were not ranked
    come last.
    """
    knowledge, size = problem.knowledge, len(found.graphs)
    order = _ranked(problem, found, clock)
    certificate = Certificate(
        status="at_least_k" if not found.exhausted else "unique" if size == 1 else "k_graphs",
        size=size,
        n_max=most,
        n_known=knowledge.n is not None,
        residual=max(found.distances),
        conditions=(*assumed, *_conditions(problem)),
        noise=knowledge.noise,
    )
    graphs = [found.graphs[i].graph for i in order]
    by_rows = dataclasses.replace(knowledge, auxiliary=())  # the likeliest order takes long: only for the first graph
    order_of = problem.limits.order
    ordered = (numbered(graphs[0], knowledge, order_of), *(numbered(graph, by_rows, order_of) for graph in graphs[1:]))
    return Certified(ordered, found.graphs[order[0]].distance, certificate)


def _ranked(problem: CensusProblem, found: AnonymitySet, clock: Clock) -> list[int]:
    """The places of a set's graphs, best first."""
    knowledge, graphs = problem.knowledge, [one.graph for one in found.graphs]
    if len(graphs) == 1:
        return [0]
    prior = PRIORS[resolved(knowledge.prior, knowledge.space)]
    scores = prior.scores(graphs, knowledge.space, problem.limits.bond_orders, clock)
    if knowledge.auxiliary:
        scores = np.add(scores, NeighbourhoodPrior(knowledge.auxiliary).of_graphs(graphs))
    scores = scores + np.round(problem.fit.excess(found.distances))
    far = np.array(found.distances) > problem.tolerances.near_distance
    keys = [(bool(far[i]), float(score)) for i, score in enumerate(scores)]
    order = list[int]()
    for _, tied in groupby(sorted(range(len(keys)), key=lambda i: keys[i]), key=lambda i: keys[i]):
        places = list(tied)
        ties = {i: prior.ties(graphs[i]) for i in places if len(places) > 1 and clock.left > 0}
        order += [*sorted(ties, key=lambda i: ties[i]), *(i for i in places if i not in ties)]
    return order


def _conditions(problem: CensusProblem) -> Iterator[str]:
    """What every search assumes of rows and of the update."""
    observation, knowledge, space = problem.observation, problem.knowledge, problem.knowledge.space
    if any(space.possible(g).size < len(f.values) for g, f in enumerate(space.features)):
        yield "no node has a feature value that the public statistics lack"
    yield "no row that a span check tests is zero"
    if problem.n_counted:
        yield f"the graph has {knowledge.n} nodes, the number for which 1-hop blocks have the returned statistics"
    if problem.batch:
        yield "the returned running statistics are those of this graph alone"
    if observation.local is not None and observation.local.steps > 1:
        yield f"the local path of {observation.local.steps} steps is that of the listed graphs"
        yield "along it the rows of blocks move by less than their span checks allow"
    yield from problem.arithmetic.conditions()
    if observation.pruned:
        yield "the entries that pruning left distinguish the gradients of different graphs"
    if knowledge.connected:
        yield "the graph is connected"
