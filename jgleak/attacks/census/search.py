"""A random search for graphs, the last resort where there are few feature vectors and these state no degree."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
from jaxtyping import Int

from jgleak.attacks.attack import Clock
from jgleak.attacks.census.assemble import AnonymitySet, Growing
from jgleak.attacks.census.candidates import Levels
from jgleak.attacks.census.moves import Linked, Moves
from jgleak.attacks.census.node_sums import NodeSums
from jgleak.attacks.census.problem import CensusProblem
from jgleak.attacks.census.receptive_field import ends_linear, hops
from jgleak.attacks.census.tempering import tempered
from jgleak.attacks.node_order import KnownRows
from jgleak.attacks.span.hops import Blocks, Nodes

SEARCHED = "no graph has this gradient other than those that a random search found"
"""The condition of its graphs."""

AGAIN = 4.0
"""The search goes on until it has taken this multiple of the time to its first census that rounding explains."""


def searchable(problem: CensusProblem) -> bool:
    """True where neighbourhoods are too many and too alike to be counted, and graphs can be searched for.

    That is where features state no degree, the model does not end linear (its blocks would have a hop less, and be
    few), and the update is one whole gradient without noise or pruning.
    """
    seen, knowledge = problem.seen, problem.knowledge
    model = seen.model
    if knowledge.space.degree is not None or ends_linear(model) or knowledge.noise is not None or seen.pruned:
        return False
    return not (model.node_level or model.edge_classes or model.returns_statistics or problem.several)


def searched(problem: CensusProblem, nodes: Nodes, clock: Clock) -> tuple[Levels | None, AnonymitySet, dict[str, Any]]:
    """The graphs of every census that parallel tempering finds, until the clock or ``AGAIN`` ends the search.

    Args:
      problem: the update and what is known.
      nodes: feature vectors that may occur, each with all degrees that are tried.
      clock: ends the search.

    Returns:
      Blocks of the last census, for its conditions; all graphs; and what was examined, for ``Reconstruction.info``.
    """
    if not nodes.degrees.size:
        return None, AnonymitySet(exhausted=False), {}
    codes, fixed, most = *_kinds(problem, nodes), int(nodes.degrees.max())
    sums = NodeSums(problem, codes, most)
    sizes = range(max(problem.rounds[0][0], 2), problem.rounds[0][-1] + 1)
    found, levels, known = AnonymitySet(exhausted=False), None, set[object]()
    begun, first, rounds = clock.elapsed, np.inf, 0
    if not sizes:
        return None, found, {}
    moves, limits = Moves(codes.shape[0], most, sizes, fixed), problem.limits
    for near in tempered(sums, moves, replicas=limits.replicas, most=problem.fit.most, clock=clock):
        rounds += near is None
        if near is not None and (key := tuple(sorted(_unfolded(problem, near.graph)[-1]))) not in known:
            known.add(key)
            here, counts = levels_of(problem, near.graph, codes, most)
            more = Growing(problem, here, clock).every(found, counts, limits.partial_graphs)
            found = found.joined(dataclasses.replace(more, censuses=1))
            if more.graphs:
                levels = here
            if more.graphs and near.residual <= problem.tolerances.near_residual:
                first = min(first, clock.elapsed - begun)
        if clock.elapsed - begun > AGAIN * first or len(found.graphs) >= limits.listed:
            break
    return levels, found, {"rounds": rounds, "censuses": found.censuses, "partials": found.partials}


def levels_of(
    problem: CensusProblem, graph: Linked, codes: Int[np.ndarray, "T G"], most: int
) -> tuple[Levels, Int[np.ndarray, " K"]]:
    """The blocks of one graph's nodes, and how many nodes have each top block.

    Args:
      problem: states how many hops a block has.
      graph: the graph; its kinds are rows of ``codes``.
      codes: feature vectors.
      most: most neighbours of a node.
    """
    codes, degrees = np.repeat(codes, most + 1, axis=0), np.tile(np.arange(most + 1), codes.shape[0])
    nodes = Nodes(codes, problem.knowledge.space.encode(codes), degrees)
    kinds = graph.kinds * (most + 1) + graph.adjacency.sum(axis=1)
    below, found, counts = kinds.tolist(), list[Blocks](), np.zeros(0, np.int64)
    around = [np.flatnonzero(row).tolist() for row in graph.adjacency]
    for _ in range(hops(problem.observation.model)):
        stars = [(below[v], tuple(sorted(below[u] for u in beside))) for v, beside in enumerate(around)]
        different = sorted(set(stars))
        places = [stars.index(star) for star in different]
        nothing = np.zeros((len(different), 0))
        found.append(
            Blocks(
                roots=np.array([root for root, _ in different]),
                kinds=kinds[places],
                neighbours=tuple(neighbours for _, neighbours in different),
                states=nothing,
                below=nothing,
                distances=np.zeros(len(different)),
                checked=0,
            )
        )
        below = [different.index(star) for star in stars]
        counts = np.bincount(below)
    return Levels(nodes, tuple(found), (SEARCHED,), complete=False), counts


def _unfolded(problem: CensusProblem, graph: Linked) -> list[list[Any]]:
    """Every node's rooted neighbourhoods of 0, 1, .. hops, as nested tuples that are equal for equal neighbourhoods."""
    around = [np.flatnonzero(row).tolist() for row in graph.adjacency]
    unfolded: list[list[Any]] = [[(kind,) for kind in graph.kinds.tolist()]]
    for _ in range(hops(problem.observation.model)):
        below = unfolded[-1]
        unfolded.append([(below[v], tuple(sorted(below[u] for u in beside))) for v, beside in enumerate(around)])
    return unfolded


def _kinds(problem: CensusProblem, nodes: Nodes) -> tuple[Int[np.ndarray, "T G"], Int[np.ndarray, " n"] | None]:
    """The feature vectors that nodes may have, and which of them each node has, where that is known."""
    known = KnownRows.of(problem.knowledge)
    if known is not None:
        return known.codes.astype(np.int32), known.order
    return np.unique(nodes.codes, axis=0), None
