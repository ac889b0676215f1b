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
    """What one attempt gave.

    Attributes:
      levels: the candidates.
      solution: their counts in real numbers; None where time ran out before.
      found: the graphs.
      most: no graph of more nodes was looked for.
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
        """What was looked at, for people and benchmarks."""
        return {
            "nodes": int(self.levels.nodes.degrees.size),
            "blocks": self.levels.top.size,
            "residual": None if self.solution is None else self.solution.residual,
            "null": 0 if self.solution is None else self.solution.null.shape[1],
            "censuses": self.found.censuses,
            "partials": self.found.partials,
        }


def excludes_others(problem: CensusProblem, solution: Solution) -> bool:
    """True where the weights went where the shares of the blocks say, and no other shares explain the update there:
    then the path is that of the one census, and graphs beside it were not missed because of a wrong path."""
    settled = solution.residual <= problem.tolerances.path_settled
    only = problem.knowledge.noise is None and not solution.null.shape[1]
    return followable(problem) and settled and only


def counted(problem: CensusProblem, levels: Levels, clock: Clock) -> Attempted:
    """Every graph of the candidate blocks whose gradient is the observed one, of the first numbers of nodes that have
    any."""
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
