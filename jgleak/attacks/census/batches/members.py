"""The census of one graph of a batch."""

from __future__ import annotations

import dataclasses

import numpy as np
from jaxtyping import Bool, Float

from jgleak.attacks.attack import Clock
from jgleak.attacks.census.assemble import AnonymitySet, assemble
from jgleak.attacks.census.attempted import Attempted
from jgleak.attacks.census.batches.parts import Part
from jgleak.attacks.census.candidates import Levels
from jgleak.attacks.census.problem import CensusProblem
from jgleak.attacks.census.solve import solve
from jgleak.attacks.census.system import Equations
from jgleak.attacks.span.hops import partnered

BLUR = 1e-4
"""Largest rounding error of an entry of a pooled row, relative to the largest entry."""


@dataclasses.dataclass(frozen=True)
class Member:
    """One graph of a batch, or several equal ones.

    Attributes:
      problem: its own gradient, as far as it is known, and the knowledge about it.
      part: what the batch's update shows of it.
      answer: its graphs and how they were found; None before any search.
    """

    problem: CensusProblem
    part: Part
    answer: Attempted | None = None

    @staticmethod
    def of(problem: CensusProblem, part: Part) -> Member:
        """The member of one part of a batch's problem.

        For a row that moved, counts are searched only near the best real-valued ones: searching all that its equations
        allow takes the time that larger graphs need, and training on the graphs found decides in the end.
        """
        settings = problem.settings
        if part.moved:
            settings = dataclasses.replace(settings, limits=dataclasses.replace(settings.limits, programmes=0))
        own = CensusProblem.of(part.observation, problem.knowledge, settings)
        return Member(own, part)

    @property
    def found(self) -> AnonymitySet:
        """Its graphs."""
        return AnonymitySet(exhausted=False) if self.answer is None else self.answer.found


def taken(member: Member, levels: Levels, states: Float[np.ndarray, "K D"], clock: Clock) -> Member:
    """Every graph of the candidate blocks with the member's pooled row, of the first numbers of nodes that have any.

    That row is the sum of the blocks' states, over the number of nodes for a mean: the equations of the census. For a
    row that moved there are no others: the readout's gradient at it differs from that at the true row, and differs much
    where a unit is lit at only one of the two.

    Args:
      member: the graph.
      levels: candidate blocks of the batch.
      states: of their roots.
      clock: ends the search.
    """
    problem, moved = member.problem, member.part.moved
    blur = problem.tolerances.moved_batch_row if moved else BLUR
    pooled, answer = problem.observation.model.readout.summed(member.part.row), member.answer
    found = AnonymitySet(exhausted=levels.complete)
    for sizes in problem.rounds:
        if clock.left <= 0:
            break
        share = 1 if problem.absolute else sizes[-1]
        mask = partnered(levels.top, _possible(states, pooled, share, blur))
        if not mask.any():
            continue
        less = dataclasses.replace(levels, hops=(*levels.hops[:-1], levels.top.keep(mask)))
        solution = solve(problem, less, _equations(states[mask], pooled), sizes, clock)
        told = (solution.residual, None) if moved else None
        found = found.joined(assemble(problem, less, solution, sizes, clock, told))
        answer = Attempted(less, solution, found, sizes[-1])
        if found.graphs or (mask.all() and not solution.explained):
            break
    return dataclasses.replace(member, answer=answer)


def _possible(
    states: Float[np.ndarray, "K D"], pooled: Float[np.ndarray, " D"], share: int, blur: float
) -> Bool[np.ndarray, " K"]:
    """The blocks that a graph of at most ``share`` nodes may have: where no state is negative, nothing cancels what one
    node adds to the pooled row, whose entries may be off by ``blur`` of the largest."""
    if states.min(initial=0.0) < 0.0:
        return np.ones(len(states), bool)
    return np.all(states <= share * (pooled * (1.0 + blur) + blur * np.abs(pooled).max()), axis=1)


def _equations(states: Float[np.ndarray, "k D"], pooled: Float[np.ndarray, " D"]) -> Equations:
    """The equations of the pooled row, in units of its typical entry."""
    size = float(np.linalg.norm(pooled) / np.sqrt(pooled.size)) or 1.0
    return Equations(states.T / size, pooled / size, np.arange(len(states)))
