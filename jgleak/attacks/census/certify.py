"""Last stage: the order of the explaining graphs, and what is known of others."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

import numpy as np

from jgleak.attacks.census.assemble import AnonymitySet
from jgleak.attacks.census.candidates import Levels, degrees_assumed
from jgleak.attacks.census.neighbourhood_prior import NeighbourhoodPrior
from jgleak.attacks.census.prior import PRIORS, resolved
from jgleak.attacks.census.problem import CensusProblem
from jgleak.attacks.certificate import Certificate
from jgleak.attacks.node_order import numbered
from jgleak.graph import Graph


@dataclasses.dataclass(frozen=True)
class Certified:
    """An anonymity set as it is answered.

    Attributes:
      graphs: best first, nodes in the order that is known or likely.
      distance: relative gradient distance of the first.
      certificate: what the set proves.
    """

    graphs: tuple[Graph, ...]
    distance: float
    certificate: Certificate


def certify(problem: CensusProblem, levels: Levels, found: AnonymitySet) -> Certified:
    """Order the graphs of a set, of which there is one at least, and say what the search proves.

    Gradients nearer than ``near_distance`` come before others, then the smallest negative log-likelihood (that of the
    prior, of neighbourhoods where there are public graphs, and of the distance under noise, rounded), then what the
    prior breaks ties by.
    """
    knowledge, size = problem.knowledge, len(found.graphs)
    order = _ranked(problem, found)
    certificate = Certificate(
        status="at_least_k" if not found.exhausted else "unique" if size == 1 else "k_graphs",
        size=size,
        n_max=problem.most_nodes,
        n_known=knowledge.n is not None,
        residual=max(found.distances),
        conditions=tuple(_conditions(problem, levels)),
        noise=knowledge.noise,
    )
    graphs = [found.graphs[i].graph for i in order]
    by_rows = dataclasses.replace(knowledge, auxiliary=())  # the likeliest order takes longer: of the first graph alone
    order_of = problem.limits.order
    ordered = (numbered(graphs[0], knowledge, order_of), *(numbered(graph, by_rows, order_of) for graph in graphs[1:]))
    return Certified(ordered, found.graphs[order[0]].distance, certificate)


def _ranked(problem: CensusProblem, found: AnonymitySet) -> list[int]:
    """The places of a set's graphs, best first."""
    knowledge, graphs = problem.knowledge, [one.graph for one in found.graphs]
    prior = PRIORS[resolved(knowledge.prior, knowledge.space)]
    scores = prior.scores(graphs, knowledge.space, problem.limits.bond_orders)
    if knowledge.auxiliary:
        scores = np.add(scores, NeighbourhoodPrior(knowledge.auxiliary).of_graphs(graphs))
    scores = scores + np.round(problem.fit.excess(found.distances))
    far = np.array(found.distances) > problem.tolerances.near_distance
    return sorted(range(len(scores)), key=lambda i: (far[i], scores[i], prior.ties(graphs[i])))


def _conditions(problem: CensusProblem, levels: Levels) -> Iterator[str]:
    """What was assumed: of blocks, and what every search here takes for granted of rows and of the update."""
    observation, knowledge, space = problem.observation, problem.knowledge, problem.knowledge.space
    yield from levels.conditions
    yield from degrees_assumed(knowledge, levels.nodes, problem.limits.span)
    if any(space.possible(g).size < len(f.values) for g, f in enumerate(space.features)):
        yield "no node has a feature value that the public statistics lack"
    yield "no row that a check looks at is zero"
    if problem.n_counted:
        yield f"the graph has {knowledge.n} nodes, the number whose 1-hop blocks have the statistics that came back"
    if problem.batch:
        yield "the running statistics that came back are those of the graph alone"
    if observation.local is not None:
        yield f"the update of {observation.local.steps} local steps is that of one gradient"
    yield from problem.arithmetic.conditions()
    if observation.pruned:
        yield "whole gradients are compared by the entries that were sent; the update was pruned"
    if knowledge.connected:
        yield "the graph is connected"
