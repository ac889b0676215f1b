"""How many nodes have each block: every whole-number solution of the census equations."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Iterator
from itertools import chain

import numpy as np
from jaxtyping import Float, Int
from scipy import linalg
from scipy.optimize import linprog

from jgleak.attacks.attack import Clock
from jgleak.attacks.census.presolve import possible
from jgleak.attacks.census.sphere_decoder import within_sphere
from jgleak.attacks.noise import largest
from jgleak.attacks.nonnegative import nonnegative
from jgleak.attacks.span.hops import Blocks

RESIDUAL = 1e-3
"""Relative residual of the best non-negative solution above which a true block must be missing."""

NULL = 2e-5
"""Singular values of the scaled system below this share of the largest are null directions (float32 columns)."""

WHOLE = 0.1
"""How far a count may be from a whole number."""

FREEDOM = 64
"""Most null directions; with more, whole-number solutions are not searched for."""

CLOSE = 1e-3
"""Relative residual of a whole-number solution."""

EXACT = 10.0
"""Under noise, the violation of one edge's balance weighs so many times what noise can leave."""

NEAR = 1e-5
"""Relative residual that rounding explains easily, and ten times that of the best non-negative solution more."""

SHARE = 0.5
"""Part of the time left that the search for such whole-number solutions may take, for all numbers of nodes together."""

INFEASIBLE = 2
"""SciPy's status of a linear programme without any solution."""

STEPS, COLUMNS, LISTED = 200_000, 400, 500
"""Under noise: most partial vectors for one number of nodes, most blocks to count, and most censuses looked at."""


@dataclasses.dataclass(frozen=True)
class Census:
    """One solution.

    Attributes:
      counts: nodes with each column's block (and label, for node tasks) ``(K,)``.
      n: number of nodes.
      residual: ``|A m - n b| / |n b|``.
    """

    counts: Int[np.ndarray, " K"]
    n: int
    residual: float


class Counting:
    """The equations ``A mu = b`` with what every graph obeys: shares add up to one, and edges have two ends.

    For two classes ``a`` and ``b`` of the level below, the nodes of ``a`` have as many neighbours in ``b`` as the other
    way round. These balances are exact and separate many blocks that the gradient does not.

    Args:
      equations: contributions ``(M, K)``.
      observed: right-hand side ``(M,)``.
      blocks: top blocks.
      block: the block of each column ``(K,)``.
      absolute: the right-hand side is that of whole counts (sum pooling), not of shares.
      most: largest number of nodes.
      clock: ends the exclusion of blocks.
      rows: which of the told feature rows each column's node has ``(K,)``, and how many nodes have each; None where
        none are told.
      slack: under noise, when equations come with independent errors of deviation one, what else may be off (see
        ``Contributions``); None: the equations are exact up to rounding.

    Under noise the residual of the true counts is a chi-square number of as many degrees of freedom as there are
    equations, and falls into two independent parts: the distance of the right-hand side from what any real counts
    explain, and a part among the ``K`` columns. Both are tested at the stated rate (``noise.RATE``), and the second
    says which whole counts are possible.

    Attributes:
      residual: that of the best non-negative solution, relative to the right-hand side.
      columns: those that a solution may have; the others are zero in every one.
      null: directions that the equations leave free among ``columns``.
    """

    def __init__(
        self,
        equations: Float[np.ndarray, "M K"],
        observed: Float[np.ndarray, " M"],
        blocks: Blocks,
        block: Int[np.ndarray, " K"],
        *,
        absolute: bool,
        most: int,
        clock: Clock,
        rows: tuple[Int[np.ndarray, " K"], Int[np.ndarray, " R"]] | None = None,
        slack: float | None = None,
    ) -> None:
        self.equations, self.observed, self.absolute = equations, observed, absolute
        out, back, loops = _ends(blocks)
        self.degrees = blocks.degrees[block]
        self.balance, self.loops = (out - back)[:, block], loops[:, block]
        self.told = _told(*rows) if rows is not None else np.zeros((0, block.size), np.int64)
        told = self.told / max(1, np.abs(self.told).max(initial=1))
        weight = float(np.linalg.norm(observed) or 1.0)
        exact, self.limit = 1.0, RESIDUAL
        if slack is not None:
            exact = max(1.0, EXACT * most * (largest(observed.size) + slack) / weight)
        parts = [equations / weight, exact * self.balance, exact * told]
        right = [observed / weight, np.zeros(self.balance.shape[0] + told.shape[0])]
        if not absolute:
            parts.append(np.full((1, equations.shape[1]), exact))
            right.append(np.full(1, exact))
        whole = np.c_[np.concatenate(parts), np.concatenate(right)]
        triangle: Float[np.ndarray, "R K1"] = np.asarray(np.linalg.qr(whole, mode="r"))
        system, goal = triangle[:, :-1], triangle[:, -1]
        solution, rest = nonnegative(system, goal) or (np.zeros(system.shape[1]), np.inf)
        self.residual = rest if np.any(observed) else np.inf
        limit = None
        if slack is not None:
            self.limit = limit = _limit(system, goal, observed.size, slack, weight)
        mask = np.ones(solution.size, bool)
        if self.explained:
            least = (1.0 - WHOLE) / (1 if absolute else most)
            rest = self.residual
            mask = possible(system, goal, solution=solution, residual=rest, least=least, clock=clock, limit=limit)
        self.columns = np.flatnonzero(mask)
        self.slack, self.weight, self.reduced = slack, weight, (system[:, mask], goal)
        nothing = np.zeros(self.columns.size), np.zeros((self.columns.size, 0))
        wanted = slack is None and self.explained
        blur = (1 if absolute else most) * self.residual / (WHOLE / 2)
        self.mean, self.null = _solved(system[:, mask], goal, blur) if wanted else nothing

    @property
    def explained(self) -> bool:
        """False when a true block must be missing from the columns."""
        return self.residual <= self.limit

    def solutions(self, sizes: Iterable[int], clock: Clock, *, budget: int) -> Iterator[Census | None]:
        """Every census for the given numbers of nodes, smallest first; None where the budget ended a search early.

        Of one number of nodes those come first, the nearest before the others, whose residual rounding explains easily:
        of the true census it is far below that of most others which the equations hardly tell apart. Under noise all
        come in this order.
        """
        if self.slack is not None:
            yield from self._nearest(sizes, self.slack, clock)
            return
        if self.null.shape[1] > FREEDOM:
            yield None
            return
        free = np.linalg.norm(self.null, axis=1) > 1e-6 if self.null.shape[1] else np.zeros(self.mean.size, bool)
        share = clock.part(SHARE)
        for n in sizes:
            scale, seen = 1 if self.absolute else n, set[bytes]()
            base = self.mean * scale
            fixed = base[~free]
            if np.any(np.abs(fixed - np.round(fixed)) > WHOLE) or np.any(fixed < -WHOLE):
                continue
            close = self._close(n, scale, share) if free.any() else []
            for found in chain(close, _whole(base, self.null, free, n, clock, budget)):
                census = found if found is None or isinstance(found, Census) else self._census(found, n, scale)
                if found is None:
                    yield None
                elif census is not None and census.counts.tobytes() not in seen:
                    seen.add(census.counts.tobytes())
                    yield census

    def _close(self, n: int, scale: int, clock: Clock) -> list[Census]:
        """Censuses whose residual rounding explains easily, nearest first; not all where the clock ends."""
        if self.columns.size > COLUMNS:
            return []
        system, right = self.reduced
        radius = NEAR + 10.0 * self.residual
        near = within_sphere(system / scale, right, n=n, radius=radius, clock=clock, steps=STEPS)
        found = [self._census(some, n, scale) for some in near if some is not None]
        return sorted((census for census in found if census is not None), key=lambda census: census.residual)

    def _census(self, found: Int[np.ndarray, " k"], n: int, scale: int) -> Census | None:
        counts = np.zeros(self.degrees.size, np.int64)
        counts[self.columns] = found
        return self._checked(counts, n, scale)

    def _nearest(self, sizes: Iterable[int], slack: float, clock: Clock) -> Iterator[Census | None]:
        if self.columns.size > COLUMNS:
            yield None
            return
        system, right = (part * self.weight for part in self.reduced)
        radius = largest(self.columns.size) + slack
        for n in sizes:
            scale, found = 1 if self.absolute else n, []
            for some in within_sphere(system / scale, right, n=n, radius=radius, clock=clock, steps=STEPS):
                if some is None or len(found) >= LISTED:
                    yield None
                    break
                census = self._census(some, n, scale)
                if census is not None:
                    found.append(census)
            yield from sorted(found, key=lambda census: census.residual)

    def _checked(self, counts: Int[np.ndarray, " K"], n: int, scale: int) -> Census | None:
        if counts.sum() != n or counts @ self.degrees < 2 * (n - 1):
            return None
        if np.any(self.balance @ counts) or np.any(self.told @ counts) or np.any(self.loops @ counts % 2):
            return None
        right = self.observed * scale
        residual = float(np.linalg.norm(self.equations @ counts - right) / np.linalg.norm(right))
        return Census(counts, n, residual) if self.slack is not None or residual <= CLOSE else None


def _limit(
    system: Float[np.ndarray, "R K"], goal: Float[np.ndarray, " R"], equations: int, slack: float, weight: float
) -> float:
    """Largest relative residual of the true counts under noise; 0 where no real counts explain the right-hand side."""
    rest = float(np.linalg.norm(goal - system @ np.linalg.lstsq(system, goal)[0]))
    dof = min(system.shape[1], equations)
    if equations > dof and rest * weight > largest(equations - dof) + slack:
        return 0.0
    return float(np.hypot(rest, (largest(dof) + slack) / weight))


def _solved(
    system: Float[np.ndarray, "M K"], right: Float[np.ndarray, " M"], blur: float
) -> tuple[Float[np.ndarray, " K"], Float[np.ndarray, "K q"]]:
    """The smallest solution, columns scaled to one size, and the null space, its largest entry 1.

    A direction of singular value ``s`` magnifies what rounding has left in the equations by ``1 / s``: where that moves
    a count by ``WHOLE / 2`` (``s`` below ``blur``), the direction is taken to be free.
    """
    size = np.linalg.norm(system, axis=0)
    size = np.where(size > 0, size, 1.0)
    left, values, across = linalg.svd(system / size, full_matrices=False, check_finite=False)
    floor = max(NULL * float(values[0]), blur) if values.size else 0.0
    real = values > floor
    mean = (across[real].T @ ((left[:, real].T @ right) / values[real])) / size
    null = across[~real].T / size[:, None]
    if size.size > values.size:
        null = linalg.null_space(system / size, rcond=floor / float(values[0])) / size[:, None]
    return mean, null / (np.abs(null).max() if null.size else 1.0)


def _ends(
    blocks: Blocks,
) -> tuple[Int[np.ndarray, "P K"], Int[np.ndarray, "P K"], Int[np.ndarray, "R K"]]:
    """For every pair of classes ``a < b`` the edges that a block of ``a`` sends to ``b`` and of ``b`` to ``a``; and for
    every class the edges within."""
    across: dict[tuple[int, int], int] = {}
    within: dict[int, int] = {}
    entries = []
    for k, (root, neighbours) in enumerate(zip(blocks.roots.tolist(), blocks.neighbours, strict=True)):
        for other in neighbours:
            if other == root:
                entries.append((2, within.setdefault(root, len(within)), k))
            else:
                pair = (min(root, other), max(root, other))
                entries.append((int(root > other), across.setdefault(pair, len(across)), k))
    tables = [np.zeros((size, blocks.size), np.int64) for size in (len(across), len(across), len(within))]
    for which, row, k in entries:
        tables[which][row, k] += 1
    return tables[0], tables[1], tables[2]


def _told(row: Int[np.ndarray, " K"], counts: Int[np.ndarray, " R"]) -> Int[np.ndarray, "R K"]:
    """For every told row an equation that is zero where it has its share of the nodes."""
    return counts.sum() * (row == np.arange(counts.size)[:, None]) - counts[:, None]


def _whole(
    base: Float[np.ndarray, " K"],
    null: Float[np.ndarray, "K q"],
    free: np.ndarray,
    n: int,
    clock: Clock,
    budget: int,
) -> Iterator[Int[np.ndarray, " K"] | None]:
    """Whole non-negative vectors in ``base + null z``, depth first over pivot entries whose ranges linear programmes
    give."""
    if not free.any():
        yield np.maximum(np.round(base), 0).astype(np.int64)
        return
    part, directions = base[free], null[free]
    pivots = linalg.qr(directions.T, mode="r", pivoting=True)[-1][: directions.shape[1]]
    steps = 0
    stack: list[tuple[tuple[int, ...], tuple[int, ...]]] = [((), ())]
    while stack:
        chosen, values = stack.pop()
        steps += 1
        if steps > budget or clock.left <= 0:
            yield None
            return
        if len(chosen) == pivots.size:
            z = np.linalg.solve(directions[list(chosen)], np.array(values) - part[list(chosen)])
            entries = part + directions @ z
            counts = np.round(base).astype(np.int64)
            counts[free] = np.round(entries)
            if np.all(np.abs(entries - np.round(entries)) <= WHOLE) and np.all(counts >= 0):
                yield counts
            continue
        ranges: dict[int, tuple[int, int]] = {}
        for entry in sorted({*pivots.tolist()} - {*chosen}):
            if clock.left <= 0:
                yield None
                return
            ranges[entry] = _range(entry, part, directions, chosen, values, n)
        pivot = min(ranges, key=lambda p: ranges[p][1] - ranges[p][0])
        low, high = ranges[pivot]
        stack += [((*chosen, pivot), (*values, value)) for value in range(high, low - 1, -1)]


def _range(
    entry: int,
    part: Float[np.ndarray, " k"],
    directions: Float[np.ndarray, "k q"],
    chosen: tuple[int, ...],
    values: tuple[int, ...],
    n: int,
) -> tuple[int, int]:
    """Smallest and largest whole value of one entry, the chosen ones fixed and none negative (high < low: none)."""
    fixed = list(chosen)
    limits = {
        "A_ub": np.r_[-directions, directions],
        "b_ub": np.r_[part + WHOLE, n + WHOLE - part],
        "A_eq": directions[fixed] if fixed else None,
        "b_eq": np.array(values) - part[fixed] if fixed else None,
        "bounds": (None, None),
        "method": "highs",
    }
    low, high = (linprog(sign * directions[entry], **limits) for sign in (1.0, -1.0))
    if INFEASIBLE in (low.status, high.status):
        return 1, 0
    if low.status != 0 or high.status != 0:  # a programme that was not solved cuts nothing off
        return 0, n
    return math.ceil(part[entry] + low.fun - WHOLE), math.floor(part[entry] - high.fun + WHOLE)
