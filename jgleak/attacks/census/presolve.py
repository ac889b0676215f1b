"""Blocks that no solution of the census has, found by a few least-squares problems over whole groups of them.

With thousands of blocks the equations leave hundreds of directions free, but counts are not negative: the true counts
lie on a face of the polytope of solutions, and usually alone. So groups are tested, not directions: if the best
non-negative solution in which a group weighs as much as one node misses the gradient by more than rounding, no block of
the group occurs. A group that passes is split, without the blocks that its solution uses.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Bool, Float

from jgleak.attacks.attack import Clock
from jgleak.attacks.census.settings import CensusSettings
from jgleak.attacks.nonnegative import nonnegative


def possible(
    system: Float[np.ndarray, "M K"],
    right: Float[np.ndarray, " M"],
    *,
    solution: Float[np.ndarray, " K"],
    least: float,
    limit: float,
    settings: CensusSettings,
    clock: Clock,
) -> Bool[np.ndarray, " K"]:
    """The columns that may be at least ``least`` in a non-negative solution of ``system @ x == right``.

    Args:
      system: equations.
      right: their right-hand side, of length about one.
      solution: the best one.
      least: smallest entry that matters.
      limit: largest residual of an accepted solution.
      settings: the weight of a group's total among the equations, and how long it tests.
      clock: ends the tests.
    """
    number, weight, limits = system.shape[1], settings.tolerances.group_weight, settings.limits
    shown, excluded = solution >= least, np.zeros(number, bool)
    widened = np.c_[system, np.zeros(system.shape[0])]  # the last unknown: what a group weighs beyond ``least``
    groups, begun = [np.arange(number)], np.flatnonzero(solution > 0)
    for _ in range(limits.exclusions):
        groups = [rest for group in groups if (rest := group[~shown[group]]).size]
        if not groups or clock.left <= 0:
            break
        group = groups.pop()
        total = np.zeros((1, number + 1))
        total[0, group], total[0, -1] = weight, -weight
        found = nonnegative(np.r_[widened, total], np.r_[right, weight * least], limits.solver_rounds, clock, begun)
        if found is not None and found[1] > limit:
            excluded[group] = True
            continue
        if found is not None:
            shown |= found[0][:-1] >= least
        if group.size == 1:
            shown[group] = True
        half = group.size // 2
        groups += [group[:half], group[half:]]
    return ~excluded
