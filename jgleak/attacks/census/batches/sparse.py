"""Linear equations with few nonzero unknowns: reweighted least squares.

The solution with the fewest nonzero groups of unknowns is sought. Each round takes the solution with the shortest ``x /
size``, where ``size`` is each group's length in the round before. That alone ends in a poor local minimum where
unknowns are several times the equations: groups that are small by chance at first stay small. So sizes are smoothed,
``(|x|^2 + eps^2)^(1/2 - p/4)`` relative to the largest, and ``eps`` falls round by round (Chartrand and Yin, 2008, by
groups): large groups are settled first, and the others can still grow later.

A few more equations than nonzero unknowns suffice, so the rounds run on random mixtures of all equations; whether the
groups found are right is checked on all equations.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int
from scipy import linalg, sparse

from jgleak.attacks.attack import Clock

POWER, FALL, LAST = 0.5, 0.3, 1e-8
"""``p``, the factor by which ``eps`` falls each round, and its last value."""

CUTOFF = 1e-7
"""Singular values below this share of the largest are rounding of float32 columns."""

RIDGES = (1e-13, 1e-12, 1e-11, 1e-10, 1e-9)
"""What is added to the diagonal of a Gram matrix, relative to its mean: the first that gives it a Cholesky factor."""

DROPPED = 1e-9
"""A group this much smaller than the largest is zero from then on. Rounding errors spread over the other groups: where
these are few too early, the errors make them large."""

FREE = 1e-6
"""An unknown is open where the directions that the equations leave open have this share of it, squared."""

SETTLED = 1e-4
"""The last round changes no group by more than this share of itself."""

ZERO = 1e-6
"""A group this much smaller than the largest is rounding, where the rounds end without groups that stand out."""

GAP = 30.0
"""Groups stand out where the next one is so many times smaller than the smallest of them."""

EXACT = 2e-6
"""Largest relative residual of true groups (measured: up to 2e-6)."""

FILLED = 1 / 3
"""Most unknowns per equation of groups that stand out; with more, they would fit anything."""

HOPELESS = 1e-2
"""With a larger relative residual, the best solution determines no single group."""

MIXTURES = (1_200, 2_400)
"""Random mixtures of equations, tried before all of them."""

MIXED = 4
"""Number of mixtures that each equation is part of."""

PACE = 2e10
"""Products per second of a decomposition (one core), which cannot be interrupted."""

DECOMPOSED = 2e11
"""Products of the largest decomposition of all equations, which takes ten seconds; it finds the unknowns that are
open."""


class Support(NamedTuple):
    """Which groups of unknowns are nonzero.

    Attributes:
      groups: their numbers ``(k,)``.
      open: groups that differ in other solutions with as many nonzero groups or more; all of them where the equations
        were too many to decide ``(K,)``.
    """

    groups: Int[np.ndarray, " k"]
    open: Bool[np.ndarray, " K"]


def support(system: Float[np.ndarray, "M K r"], right: Float[np.ndarray, " M"], clock: Clock) -> Support | None:
    """The groups of the solution that has few of them; None where there is no solution, or time does not suffice."""
    equations, number, width = system.shape
    unknowns, flat = number * width, system.reshape(equations, number * width)
    products = 12 * unknowns * min(equations, unknowns) ** 2 + 2 * equations * unknowns**2
    if products > DECOMPOSED:
        groups = _of_mixtures(flat, right, width, clock)
        return None if groups is None else Support(groups, np.ones(number, bool))
    if products > PACE * clock.left:
        return None
    values, reduced, goal, free = _shortest(*_triangle(flat, right))
    if np.sqrt(max(0.0, right @ right - goal @ goal)) > HOPELESS * np.linalg.norm(right):
        return None
    groups = _fewest(_Equations(reduced, goal, width), _Equations(flat, right, width), values, clock)
    return None if groups is None else Support(groups, np.asarray(free.reshape(number, width).any(axis=1)))


class _Equations(NamedTuple):
    """Some equations for unknowns in groups of ``width``."""

    matrix: Float[np.ndarray, "q k"]
    right: Float[np.ndarray, " q"]
    width: int

    def only(self, groups: Int[np.ndarray, " g"]) -> Float[np.ndarray, "q _"]:
        """The columns of some groups."""
        return self.matrix[:, (groups[:, None] * self.width + np.arange(self.width)).ravel()]

    def explained(self, groups: Int[np.ndarray, " g"]) -> bool:
        """Whether these groups alone solve them, and there are few enough of them for that to say something."""
        if groups.size * self.width > FILLED * self.right.size:
            return False
        columns = self.only(groups)
        found: Any = linalg.lstsq(columns, self.right, cond=CUTOFF, lapack_driver="gelsy")
        return bool(np.linalg.norm(self.right - columns @ found[0]) <= EXACT * np.linalg.norm(self.right))


def _of_mixtures(
    matrix: Float[np.ndarray, "M k"], right: Float[np.ndarray, " M"], width: int, clock: Clock
) -> Int[np.ndarray, " g"] | None:
    """The same by ever more random mixtures of the equations."""
    whole, rng = _Equations(matrix, right, width), np.random.default_rng(0)
    for most in (*MIXTURES, right.size):
        number = min(most, right.size)
        if 2 * number**2 * matrix.shape[1] > PACE * clock.left:  # a single round
            return None
        few = whole if number == right.size else _mixed(whole, number, rng)
        groups = _fewest(few, whole, None, clock)
        if number == right.size or (groups is not None and whole.explained(groups)):
            return groups
    return None


def _mixed(whole: _Equations, number: int, rng: np.random.Generator) -> _Equations:
    """So many sums of equations with random signs, each in ``MIXED`` of them."""
    equations = whole.right.size
    places = rng.integers(number, size=(MIXED, equations)).ravel()
    signs, columns = rng.choice([-1.0, 1.0], MIXED * equations), np.tile(np.arange(equations), MIXED)
    mixing = sparse.csr_matrix((signs, (places, columns)), shape=(number, equations))
    return _Equations(mixing @ whole.matrix, mixing @ whole.right, whole.width)


def _fewest(
    few: _Equations, whole: _Equations, values: Float[np.ndarray, " k"] | None, clock: Clock
) -> Int[np.ndarray, " g"] | None:
    """The groups of the sparsest solution of some equations; None where most stay, or time runs out.

    Args:
      few: what each round solves.
      whole: all equations, on which the groups that stand out are checked.
      values: the shortest solution, where it is known.
      clock: ends it.
    """
    number, width = few.matrix.shape[1] // few.width, few.width
    live, size, eps, before = np.arange(number), np.ones(number), 1.0, np.zeros(number)
    while eps > LAST:
        if clock.left <= 0:
            return None
        if values is None:
            scale = np.repeat(size[live], width)
            try:
                some = _least(few.only(live) * scale, few.right) * scale
            except linalg.LinAlgError:  # no ridge gives a Cholesky factor
                return None
            lengths = np.zeros(number)
            lengths[live] = np.linalg.norm(some.reshape(-1, width), axis=1)
        else:
            lengths, values = np.linalg.norm(values.reshape(number, width), axis=1), None
        largest = lengths.max()
        if largest == 0.0:
            return None
        kept = np.flatnonzero(lengths > DROPPED * largest)
        still = kept.size == live.size and np.all(np.abs(lengths - before)[kept] <= SETTLED * lengths[kept])
        if still and kept.size * width <= whole.right.size:
            return np.flatnonzero(lengths > ZERO * largest)
        out = _standing_out(lengths, int(FILLED * few.right.size) // width)
        if out.size and whole.explained(out):
            return out
        live, before = kept, lengths
        size = ((lengths / largest) ** 2 + eps**2) ** (0.5 - POWER / 4)
        eps *= FALL
    last = np.flatnonzero(before > ZERO * before.max())
    return last if last.size * width <= whole.right.size else None


def _standing_out(lengths: Float[np.ndarray, " g"], most: int) -> Int[np.ndarray, " o"]:
    """The groups before the largest gap between sizes, at most so many; none where no gap is ``GAP``."""
    order = np.argsort(-lengths)[: most + 1]
    falling = np.maximum(lengths[order], 1e-300)
    ratios = falling[:-1] / falling[1:]
    if not ratios.size or ratios.max() < GAP:
        return order[:0]
    return np.sort(order[: int(ratios.argmax()) + 1])


def _least(matrix: Float[np.ndarray, "q k"], right: Float[np.ndarray, " q"]) -> Float[np.ndarray, " k"]:
    """The shortest solution, or the best where there is none."""
    equations, unknowns = matrix.shape
    if unknowns <= equations:
        found: Any = linalg.lstsq(matrix, right, cond=CUTOFF, lapack_driver="gelsy")
        return found[0]
    factor = _factor(matrix @ matrix.T)
    found = matrix.T @ linalg.cho_solve(factor, right, check_finite=False)
    return found + matrix.T @ linalg.cho_solve(factor, right - matrix @ found, check_finite=False)


def _factor(gram: Float[np.ndarray, "q q"]) -> tuple[Float[np.ndarray, "q q"], bool]:
    """A Cholesky factor of the matrix with as small a ridge as it needs."""
    mean, diagonal = float(np.trace(gram)) / len(gram), np.diag_indices(len(gram))
    for ridge in RIDGES:
        ridged = gram.copy()
        ridged[diagonal] += ridge * mean
        with suppress(linalg.LinAlgError):  # rounding of the Gram matrix itself
            return linalg.cho_factor(ridged, lower=True, overwrite_a=True, check_finite=False)
    raise linalg.LinAlgError("the matrix is not positive")


class LeastSquares(NamedTuple):
    """Unknowns in groups.

    Attributes:
      values: the unknowns ``(K, r)``.
      deviations: standard deviation of each, from the equations' residual ``(K, r)``.
      residual: relative residual of the equations.
    """

    values: Float[np.ndarray, "K r"]
    deviations: Float[np.ndarray, "K r"]
    residual: float


def least_squares(system: Float[np.ndarray, "M K r"], right: Float[np.ndarray, " M"]) -> LeastSquares:
    """The best solution; of several the shortest."""
    equations, number, width = system.shape
    flat = system.reshape(equations, number * width)
    left, values, across = linalg.svd(flat, full_matrices=False, check_finite=False)
    real = values > CUTOFF * values[0]
    back = across[real].T / values[real]
    found = back @ (left[:, real].T @ right)
    rest = float(np.linalg.norm(right - flat @ found))
    deviations = rest / np.sqrt(max(1, equations - found.size)) * np.linalg.norm(back, axis=1)
    shape = number, width
    return LeastSquares(found.reshape(shape), deviations.reshape(shape), rest / (float(np.linalg.norm(right)) or 1.0))


def _triangle(
    system: Float[np.ndarray, "M k"], right: Float[np.ndarray, " M"]
) -> tuple[Float[np.ndarray, "R k"], Float[np.ndarray, " R"]]:
    """The same least-squares problem in fewer equations."""
    if system.shape[0] <= system.shape[1] + 1:
        return system, right
    triangle = np.asarray(np.linalg.qr(np.c_[system, right], mode="r"))
    return triangle[:, :-1], triangle[:, -1]


def _shortest(
    system: Float[np.ndarray, "M k"], right: Float[np.ndarray, " M"]
) -> tuple[Float[np.ndarray, " k"], Float[np.ndarray, "q k"], Float[np.ndarray, " q"], Bool[np.ndarray, " k"]]:
    """The shortest solution, the equations above rounding, and which unknowns differ in other solutions."""
    left, values, across = linalg.svd(system, full_matrices=False, check_finite=False)
    real = values > CUTOFF * values[0]
    goal, rows = left[:, real].T @ right, across[real]
    return rows.T @ (goal / values[real]), values[real, None] * rows, goal, 1.0 - (rows**2).sum(axis=0) > FREE
