"""Third stage: how many nodes have each block, first in real numbers."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float

from jgleak.attacks.attack import Clock
from jgleak.attacks.census.arithmetic import Reduced
from jgleak.attacks.census.candidates import Levels
from jgleak.attacks.census.presolve import possible
from jgleak.attacks.census.problem import CensusProblem
from jgleak.attacks.census.system import Equations, Rules, Solution
from jgleak.attacks.nonnegative import nonnegative

PRODUCTS = 5_000_000_000
"""Largest number of equations times unknowns squared for a QR decomposition."""

ROUNDING = float(np.finfo(np.float32).eps)
"""Rounding of a gradient in single precision, relative to its length."""


def solve(problem: CensusProblem, levels: Levels, equations: Equations, sizes: range, clock: Clock) -> Solution:
    """Solve the equations ``A mu = b`` with the rules of every graph: shares add up to one, and edges have two ends.
    The best non-negative solution shows whether a true block is missing. If none is, blocks that no solution has are
    excluded, and the rest is solved; whole numbers follow from there (``Arithmetic.censuses``).

    Args:
      problem: the update and what is known.
      levels: candidate blocks.
      equations: what they contribute.
      sizes: the numbers of nodes that are tried.
      clock: ends the exclusion of blocks.
    """
    arithmetic, tolerances = problem.arithmetic, problem.tolerances
    rules, exact, (system, goal) = posed(problem, levels, equations, sizes)
    best, residual = fitted(problem, equations, (system, goal), clock)
    limit = arithmetic.limit((system, goal), equations, exact) if residual < np.inf else 0.0
    # without a weight that shows the number of nodes, unknowns are shares, and one node is a share of 1 / n
    columns, unit = np.arange(system.shape[1]), 1 if problem.absolute else sizes[-1]
    mean, null = np.zeros(columns.size), np.zeros((columns.size, 0))
    if residual <= limit:
        mask = possible(
            system,
            goal,
            solution=best,
            least=(1.0 - tolerances.whole_number) / unit,
            limit=arithmetic.exclusion(residual, limit),
            settings=problem.settings,
            clock=clock,
        )
        columns = np.flatnonzero(mask)
        system, goal = _triangle(system[:, mask], goal)
        # with thousands of blocks the best solution leaves less than the gradient's rounding, which the true one leaves
        mean, null = arithmetic.real((system, goal), unit * max(residual, ROUNDING))
    return Solution(equations, rules, problem.absolute, residual, limit, columns, system, goal, mean, null)


def posed(
    problem: CensusProblem, levels: Levels, equations: Equations, sizes: range
) -> tuple[Rules, Float[np.ndarray, "F K"], Reduced]:
    """The rules of every graph, the linear ones over real counts, and the equations together with these."""
    top, blocks = levels.top, equations.blocks
    rules = Rules.of(top, blocks, problem.known_rows(levels.nodes.codes[top.kinds[blocks]]))
    weight = problem.arithmetic.rules_weight(equations, sizes[-1])
    exact = rules.matrix(problem.absolute)
    return rules, exact, _stacked(equations, exact, weight, problem.absolute)


def fitted(
    problem: CensusProblem, equations: Equations, reduced: Reduced, clock: Clock
) -> tuple[Float[np.ndarray, " K"], float]:
    """The best non-negative solution and its residual; infinite where none was found, or nothing is observed."""
    system, goal = reduced
    found = nonnegative(system, goal, problem.limits.solver_rounds, clock)
    best, rest = found or (np.zeros(system.shape[1]), np.inf)
    return best, rest if np.any(equations.observed) else np.inf


def _stacked(
    equations: Equations, exact: Float[np.ndarray, "F K"], weight: float, absolute: bool
) -> tuple[Float[np.ndarray, "R K"], Float[np.ndarray, " R"]]:
    """The equations, scaled to length one, with the rules, each multiplied by ``weight``."""
    right = np.zeros(exact.shape[0])
    right[-1:] = 0.0 if absolute else 1.0  # shares add up to one
    # rules hold exactly and equations up to rounding, so rules weigh far more: no solution may violate them
    system = np.r_[equations.matrix / equations.length, weight * exact]
    return _triangle(system, np.r_[equations.observed / equations.length, weight * right])


def _triangle(
    system: Float[np.ndarray, "M K"], right: Float[np.ndarray, " M"]
) -> tuple[Float[np.ndarray, "R K"], Float[np.ndarray, " R"]]:
    """The same least-squares problem in fewer equations, where that pays and takes less than about a second."""
    rows, columns = system.shape
    if rows <= columns + 1 or rows * columns**2 > PRODUCTS:
        return system, right
    triangle: Float[np.ndarray, "R K1"] = np.asarray(np.linalg.qr(np.c_[system, right], mode="r"))
    return triangle[:, :-1], triangle[:, -1]
