"""The census of one graph of a batch, whose pooled row is known."""

from __future__ import annotations

import dataclasses

import numpy as np
from jaxtyping import Bool, Float

from jgleak.attacks.attack import Clock
from jgleak.attacks.census.assemble import AnonymitySet, assemble
from jgleak.attacks.census.batches.parts import Part
from jgleak.attacks.census.candidates import Levels
from jgleak.attacks.census.problem import CensusProblem
from jgleak.attacks.census.solve import solve
from jgleak.attacks.census.system import Equations
from jgleak.attacks.span.hops import partnered

BLUR = 1e-4
"""What rounding may leave in an entry of a pooled row, relative to the largest."""


@dataclasses.dataclass(frozen=True)
class Member:
    """What is known of one graph of a batch.

    Attributes:
      part: what the update shows of it.
      levels: the candidates that its graphs are made of; None where there are no graphs.
      found: graphs that explain it.
      most: no graph of more nodes was looked for.
      explained: no true block is missing from the candidates.
    """

    part: Part
    levels: Levels | None = None
    found: AnonymitySet = AnonymitySet(exhausted=False)
    most: int = 0
    explained: bool = False


def counted(
    problem: CensusProblem, part: Part, levels: Levels, states: Float[np.ndarray, "K D"], clock: Clock
) -> Member:
    """Every graph of the candidate blocks with the part's pooled row, of the first numbers of nodes that have any.

    Its pooled row is the sum of its blocks' states, over its number of nodes for a mean: the equations of the census.

    Args:
      problem: the batch's update and what is known.
      part: the graph.
      levels: candidate blocks of the batch.
      states: of their roots.
      clock: ends the search.
    """
    model = problem.observation.model
    own = CensusProblem.of(part.observation, problem.knowledge, problem.settings)
    pooled, member = model.readout.summed(part.row), Member(part)
    for sizes in own.rounds:
        if clock.left <= 0:
            break
        share = 1 if own.absolute else sizes[-1]
        mask = partnered(levels.top, _possible(states, pooled, share))
        if not mask.any():
            continue
        less = dataclasses.replace(levels, hops=(*levels.hops[:-1], levels.top.keep(mask)))
        solution = solve(own, less, _equations(states[mask], pooled), sizes, clock)
        found = assemble(own, less, solution, sizes, clock)
        member = Member(part, less, found, sizes[-1], solution.explained)
        if found.graphs or (mask.all() and not solution.explained):
            break
    return member


def _possible(states: Float[np.ndarray, "K D"], pooled: Float[np.ndarray, " D"], share: int) -> Bool[np.ndarray, " K"]:
    """The blocks that a graph of at most ``share`` nodes may have: where no state is negative, nothing cancels what one
    node adds to the pooled row."""
    if states.min(initial=0.0) < 0.0:
        return np.ones(len(states), bool)
    return np.all(states <= share * (pooled * (1.0 + BLUR) + BLUR * np.abs(pooled).max()), axis=1)


def _equations(states: Float[np.ndarray, "k D"], pooled: Float[np.ndarray, " D"]) -> Equations:
    """Those of the pooled row, in units of its typical entry."""
    size = float(np.linalg.norm(pooled) / np.sqrt(pooled.size)) or 1.0
    return Equations(states.T / size, pooled / size, np.arange(len(states)))
