"""One attempt at a census: from candidate blocks to every graph that they allow."""

from __future__ import annotations

import dataclasses
from typing import Any

from jgleak.attacks.attack import Clock
from jgleak.attacks.census.assemble import CUT, AnonymitySet, assemble
from jgleak.attacks.census.candidates import Levels
from jgleak.attacks.census.equations import equations
from jgleak.attacks.census.followed import followable
from jgleak.attacks.census.problem import CensusProblem
from jgleak.attacks.census.settled import settled
from jgleak.attacks.census.solve import solve
from jgleak.attacks.census.system import Solution


@dataclasses.dataclass(frozen=True)
class Attempted:
    """The result of one attempt.

    Attributes:
      levels: the candidates.
      solution: their counts in real numbers; None where time ran out first.
      found: the graphs.
      most: largest number of nodes that was searched.
    """

    levels: Levels
    solution: Solution | None
    found: AnonymitySet
    most: int = 0

    @property
    def explained(self) -> bool:
        """False when a true block must be missing from the candidates, or time ran out before that was known."""
        return self.solution is not None and self.solution.explained

    @property
    def facts(self) -> dict[str, Any]:
        """What was examined, for ``Reconstruction.info``."""
        return {
            "nodes": int(self.levels.nodes.degrees.size),
            "blocks": self.levels.top.size,
            "residual": None if self.solution is None else self.solution.residual,
            "null": 0 if self.solution is None else self.solution.null.shape[1],
            "censuses": self.found.censuses,
            "partials": self.found.partials,
        }


def excludes_others(problem: CensusProblem, solution: Solution) -> bool:
    """True where the path of the weights agrees with the shares of the blocks, and no other shares explain the update
    along it. Then the path belongs to this one census, and no other graph was missed because of a wrong path."""
    settled = solution.residual <= problem.tolerances.path_settled
    only = problem.knowledge.noise is None and not solution.null.shape[1]
    return followable(problem) and settled and only


def counted(problem: CensusProblem, levels: Levels, clock: Clock) -> Attempted:
    """Every graph of the candidate blocks that has the observed gradient, for the first range of numbers of nodes in
    which there is any."""
    system = equations(problem, levels, clock)
    answer = Attempted(levels, None, CUT)
    if system is None:
        return answer
    problem, system = settled(problem, levels, system, clock)
    found = AnonymitySet(exhausted=levels.complete)
    for sizes in problem.rounds:
        solution = solve(problem, levels, system, sizes, clock)
        found = found.joined(assemble(problem, levels, solution, sizes, clock))
        if problem.several and not excludes_others(problem, solution):
            found = found.joined(CUT)
        answer = Attempted(levels, solution, found, sizes[-1])
        if found.graphs or not answer.explained or clock.left <= 0:
            break
    return answer
