"""Whole-number solutions by distance: every vector of counts within a given distance of the best real one."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator

import numpy as np
from jaxtyping import Float, Int

from jgleak.attacks.attack import Clock
from jgleak.attacks.census.settings import CensusLimits
from jgleak.attacks.census.system import Census, Solution

RIDGE = 1e-9
"""Weight of the counts themselves, as a share of the largest singular value: it bounds directions that no equation
restricts."""

INVERTIBLE = 1e-13
"""Share of the largest eigenvalue that is added to all of them for the order of the entries, which affects time
alone."""


def nearest_censuses(
    solution: Solution, sizes: Iterable[int], clock: Clock, radius: float, limits: CensusLimits
) -> Iterator[Census | None]:
    """Every census for the given numbers of nodes within ``radius`` of the best real counts, in units of the equations.

    Of one number of nodes the nearest come first; None where a budget ended a search early.
    """
    if solution.columns.size > limits.sphere_blocks:
        yield None
        return
    length = solution.equations.length
    system, right = solution.system * length, solution.goal * length
    for n in sizes:
        found: list[Census] = []
        part, steps = system / solution.scale(n), limits.sphere_steps
        for some in within_sphere(part, right, n=n, radius=radius, clock=clock, steps=steps):
            if some is None or len(found) >= limits.sphere_censuses:
                yield None
                break
            census = solution.census(some, n)
            if census is not None:
                found.append(census)
        yield from sorted(found, key=lambda census: census.residual)


def within_sphere(
    system: Float[np.ndarray, "M K"],
    right: Float[np.ndarray, " M"],
    *,
    n: int,
    radius: float,
    clock: Clock,
    steps: int,
) -> Iterator[Int[np.ndarray, " K"] | None]:
    """Whole non-negative ``x`` with ``sum(x) == n`` and ``|system @ (x - best)| <= radius``, depth first.

    ``best`` is the least-squares solution. Entries are fixed one by one, each given the later ones (Fincke and Pohst,
    1985); the entry with the smallest variance comes first, its nearest value first. None where the budget ends the
    search.

    Args:
      system: equations.
      right: their right-hand side.
      n: sum of the counts.
      radius: largest distance, in units of the equations.
      clock: ends the search.
      steps: most partial vectors looked at.
    """
    order = _order(system)
    number = order.size
    scale = np.linalg.norm(system, 2)
    # where the equations leave directions open, a pivot would be zero and its range infinite
    ridge = np.r_[system[:, order], RIDGE * scale * np.eye(number)]
    whole = np.c_[ridge, np.r_[right, np.zeros(number)]]
    triangle: Float[np.ndarray, "K1 K1"] = np.asarray(np.linalg.qr(whole, mode="r"))
    upper, goal = triangle[:number, :number], triangle[:number, number]
    stack: list[tuple[tuple[int, ...], float, int]] = [((), radius**2, n)]  # last entries, what is left of both bounds
    while stack:
        later, slack, left = stack.pop()
        row = number - 1 - len(later)
        if row < 0:
            if left == 0:
                counts = np.zeros(number, np.int64)
                counts[order] = later
                yield counts
            continue
        steps -= 1
        if steps < 0 or (steps % 256 == 0 and clock.left <= 0):
            yield None
            return
        pivot = upper[row, row]
        centre = (goal[row] - upper[row, row + 1 :] @ np.array(later, float)) / pivot
        reach = math.sqrt(slack) / abs(pivot)
        low, high = max(math.ceil(max(centre - reach, 0.0)), 0), min(math.floor(min(centre + reach, left)), left)
        # the last entry takes all that is left of ``n``
        values = range(low, high + 1) if row else range(max(low, left), high + 1)
        for value in sorted(values, key=lambda v: -abs(v - centre)):  # the stack returns the nearest one first
            rest = slack - (pivot * (value - centre)) ** 2
            if rest >= 0:
                stack.append(((value, *later), rest, left - value))


def _order(system: Float[np.ndarray, "M K"]) -> Int[np.ndarray, " K"]:
    """An order of columns: the last has the smallest variance, the one before it the smallest given the last, and so
    on."""
    gram = system.T @ system
    number = gram.shape[0]
    inverse = np.linalg.inv(gram + INVERTIBLE * np.linalg.norm(gram, 2) * np.eye(number))
    waiting, order = list(range(number)), []
    while waiting:
        variance = np.diag(inverse)
        place = int(np.argmin(variance))
        order.append(waiting.pop(place))
        keep = np.arange(variance.size) != place  # the covariance of the others, given that one (Schur complement)
        inverse = inverse[np.ix_(keep, keep)] - np.outer(inverse[keep, place], inverse[place, keep]) / variance[place]
    return np.array(order[::-1], np.int64)
