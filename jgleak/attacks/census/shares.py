"""Bounds on how many nodes have each feature vector, from equations that do not determine the counts of blocks. Under a
smooth activation the contributions of blocks are nearly dependent, so that very many counts fit. Sums of counts are
often determined all the same: the largest and the smallest share of a feature vector, over all non-negative solutions
up to rounding, are two linear programmes.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Float
from scipy.optimize import linprog

from jgleak.attacks.attack import Clock
from jgleak.attacks.census.candidates import Levels
from jgleak.attacks.census.problem import CensusProblem
from jgleak.attacks.census.system import Solution

Bounds = tuple[Float[np.ndarray, " T"], Float[np.ndarray, " T"]]
"""The smallest and the largest share of the nodes that have each feature vector; numbers of nodes under sum pooling."""

FAINT = 1e-4
"""Directions of the system below this share of the largest are lost in rounding, and are left out."""


def shares(problem: CensusProblem, levels: Levels, solution: Solution, clock: Clock) -> Bounds:
    """Bounds for every entry of ``levels.nodes``; zero and infinity where time ran out, or all blocks are excluded.

    Solutions are accepted up to the residual that rounding explains, as in the exclusion of blocks. Equations that are
    left out make the bounds wider.
    """
    number = levels.nodes.degrees.size
    least, most = np.zeros(number), np.full(number, np.inf)
    if not solution.columns.size:
        return least, most
    left, sizes, right = np.linalg.svd(solution.system, full_matrices=False)
    loud = sizes > FAINT * sizes[0]
    rows, goal = sizes[loud, None] * right[loud], left[:, loud].T @ solution.goal
    off = problem.arithmetic.exclusion(solution.residual, solution.limit)
    bounds = {"A_ub": np.r_[rows, -rows], "b_ub": np.r_[goal + off, off - goal], "method": "highs-ds"}
    own = levels.top.kinds[solution.equations.blocks[solution.columns]]
    for entry in range(number):
        share = (own == entry).astype(np.float64)
        for sign, bound in ((1.0, least), (-1.0, most)):
            if clock.left <= 0:
                return least, most
            found = linprog(sign * share, **bounds, options={"time_limit": clock.left})
            if found.status == 0:
                bound[entry] = sign * found.fun
    return least, most
