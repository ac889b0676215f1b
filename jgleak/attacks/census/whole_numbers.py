"""Whole-number solutions of exact equations: the free directions, and every whole vector along them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from itertools import chain

import numpy as np
from jaxtyping import Float, Int
from scipy import linalg
from scipy.optimize import linprog

from jgleak.attacks.attack import Clock
from jgleak.attacks.census.settings import CensusLimits, CensusTolerances
from jgleak.attacks.census.sphere_decoder import within_sphere
from jgleak.attacks.census.system import Census, Solution

INFEASIBLE = 2
"""SciPy's status of a linear programme without any solution."""


def all_censuses(
    solution: Solution, sizes: Iterable[int], clock: Clock, tolerances: CensusTolerances, limits: CensusLimits
) -> Iterator[Census | None]:
    """Every census for the given numbers of nodes; None where a budget ended a search early.

    For each number of nodes the censuses whose residual rounding explains easily come first, the smallest residual
    first: the true census has a far smaller residual than most others that the equations hardly exclude.
    """
    mean, null = solution.mean, solution.null
    if null.shape[1] > limits.freedom or mean.size > limits.real_blocks:
        yield None
        return
    free = np.linalg.norm(null, axis=1) > tolerances.free_direction if null.shape[1] else np.zeros(mean.size, bool)
    share, whole = clock.part(limits.near_share), tolerances.whole_number
    for n in sizes:
        seen, base = set[bytes](), mean * solution.scale(n)
        fixed = base[~free]
        if np.any(np.abs(fixed - np.round(fixed)) > whole) or np.any(fixed < -whole):
            continue
        near = _near(solution, n, share, tolerances, limits) if free.any() else []
        vectors = whole_vectors(base, null, free, n=n, clock=clock, steps=limits.programmes, whole=whole)
        for found in chain(near, vectors):
            census = found if found is None or isinstance(found, Census) else _census(solution, found, n, tolerances)
            if found is None:
                yield None
            elif census is not None and census.counts.tobytes() not in seen:
                seen.add(census.counts.tobytes())
                yield census


def _census(solution: Solution, found: Int[np.ndarray, " k"], n: int, tolerances: CensusTolerances) -> Census | None:
    census = solution.census(found, n)
    return census if census is not None and census.residual <= tolerances.census_residual else None


def _near(solution: Solution, n: int, clock: Clock, tolerances: CensusTolerances, limits: CensusLimits) -> list[Census]:
    """Censuses whose residual rounding explains easily, the smallest first; incomplete where a budget ends, which is
    safe, since the whole search follows."""
    if solution.columns.size > limits.sphere_blocks:
        return []
    radius = tolerances.near_residual + tolerances.residual_margin * solution.residual
    system, steps = solution.system / solution.scale(n), limits.sphere_steps
    near = within_sphere(system, solution.goal, n=n, radius=radius, clock=clock, steps=steps)
    found = [_census(solution, some, n, tolerances) for some in near if some is not None]
    return sorted((census for census in found if census is not None), key=lambda census: census.residual)


def real_solution(
    system: Float[np.ndarray, "M K"], right: Float[np.ndarray, " M"], *, null: float, blur: float
) -> tuple[Float[np.ndarray, " K"], Float[np.ndarray, "K q"]]:
    """The smallest solution, columns scaled to one size, and the null space, its largest entry 1.

    A direction of singular value ``s`` magnifies the rounding of the equations by ``1 / s``. Where that moves a count
    by half of its tolerance (``s`` below ``blur``), the direction is treated as free; so is one whose singular value is
    below ``null`` of the largest.
    """
    size = np.linalg.norm(system, axis=0)
    size = np.where(size > 0, size, 1.0)
    left, values, across = linalg.svd(system / size, full_matrices=False, check_finite=False)
    floor = max(null * float(values[0]), blur) if values.size else 0.0
    real = values > floor
    mean = (across[real].T @ ((left[:, real].T @ right) / values[real])) / size
    free = across[~real].T / size[:, None]
    if size.size > values.size:
        free = linalg.null_space(system / size, rcond=floor / float(values[0])) / size[:, None]
    return mean, free / (np.abs(free).max() if free.size else 1.0)


def whole_vectors(
    base: Float[np.ndarray, " K"],
    null: Float[np.ndarray, "K q"],
    free: np.ndarray,
    *,
    n: int,
    clock: Clock,
    steps: int,
    whole: float,
) -> Iterator[Int[np.ndarray, " K"] | None]:
    """Whole non-negative vectors in ``base + null z``, depth first over pivot entries whose ranges linear programmes
    give; None where the budget ended the search.

    Args:
      base: one real vector.
      null: directions that are free.
      free: entries that move along them.
      n: largest entry.
      clock: ends the search.
      steps: most nodes of the search tree.
      whole: how far an entry may be from a whole number.
    """
    if not free.any():
        yield np.maximum(np.round(base), 0).astype(np.int64)
        return
    part, directions = base[free], null[free]
    # as many entries as free directions, as independent as possible: their values determine all others
    pivots = linalg.qr(directions.T, mode="r", pivoting=True)[-1][: directions.shape[1]]
    stack: list[tuple[tuple[int, ...], tuple[int, ...]]] = [((), ())]
    while stack:
        chosen, values = stack.pop()
        steps -= 1
        if steps < 0 or clock.left <= 0:
            yield None
            return
        if len(chosen) == pivots.size:
            z = np.linalg.solve(directions[list(chosen)], np.array(values) - part[list(chosen)])
            entries = part + directions @ z
            counts = np.round(base).astype(np.int64)
            counts[free] = np.round(entries)
            if np.all(np.abs(entries - np.round(entries)) <= whole) and np.all(counts >= 0):
                yield counts
            continue
        ranges: dict[int, tuple[int, int]] = {}
        for entry in sorted({*pivots.tolist()} - {*chosen}):
            if clock.left <= 0:
                yield None
                return
            ranges[entry] = _range(entry, part, directions, chosen, values, (n, whole))
        # the entry with the fewest values first, so that contradictions are found early
        pivot = min(ranges, key=lambda p: ranges[p][1] - ranges[p][0])
        low, high = ranges[pivot]
        stack += [((*chosen, pivot), (*values, value)) for value in range(high, low - 1, -1)]


def _range(
    entry: int,
    part: Float[np.ndarray, " k"],
    directions: Float[np.ndarray, "k q"],
    chosen: tuple[int, ...],
    values: tuple[int, ...],
    bounds: tuple[int, float],
) -> tuple[int, int]:
    """Smallest and largest whole value of one entry, the chosen ones fixed and none negative (high < low: none);
    ``bounds`` are the largest, and how far one may be from a whole number."""
    fixed, (n, whole) = list(chosen), bounds
    limits = {
        "A_ub": np.r_[-directions, directions],
        "b_ub": np.r_[part + whole, n + whole - part],
        "A_eq": directions[fixed] if fixed else None,
        "b_eq": np.array(values) - part[fixed] if fixed else None,
        "bounds": (None, None),
        "method": "highs",
    }
    low, high = (linprog(sign * directions[entry], **limits) for sign in (1.0, -1.0))
    if INFEASIBLE in (low.status, high.status):
        return 1, 0
    if low.status != 0 or high.status != 0:  # a programme that was not solved excludes nothing
        return 0, n
    return math.ceil(part[entry] + low.fun - whole), math.floor(part[entry] - high.fun + whole)
