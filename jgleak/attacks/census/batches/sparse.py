"""Linear equations with few unknowns above zero, of either sign: reweighted least squares."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int
from scipy import linalg

from jgleak.attacks.attack import Clock

ROUNDS = 16
"""Most rounds; where few unknowns are above zero, two or three do."""

CUTOFF = 1e-7
"""Singular values below this share of the largest are rounding of float32 columns."""

DROPPED = 1e-6
"""A group this much smaller than the largest is zero from then on."""

FREE = 1e-6
"""An unknown is open where the directions that the equations leave open have this share of it, squared."""

SETTLED = 1e-4
"""The last round changes no group by more than this share of itself."""

HOPELESS = 1e-2
"""Where the best solution leaves more than this share of the right-hand side, it says nothing of single groups."""

PACE = 2e10
"""Products a second of a decomposition, which no clock interrupts (one core)."""


class Support(NamedTuple):
    """Which groups of unknowns are above zero.

    Attributes:
      groups: their numbers ``(k,)``.
      open: groups that other solutions change, of those that have not fewer above zero ``(K,)``.
    """

    groups: Int[np.ndarray, " k"]
    open: Bool[np.ndarray, " K"]


def support(system: Float[np.ndarray, "M K r"], right: Float[np.ndarray, " M"], clock: Clock) -> Support | None:
    """The groups of the solution that has few of them; None where there is no solution, or time does not suffice.

    Each round solves ``min |x / size|`` over all solutions, where ``size`` is the length of each group in the round
    before (FOCUSS, Gorodnitsky and Rao 1997, by groups): what is small becomes smaller, what is zero stays so. Where
    the equations leave nothing open the first round is exact.
    """
    equations, number, width = system.shape
    unknowns = number * width
    if 12 * unknowns * min(equations, unknowns) ** 2 + 2 * equations * unknowns**2 > PACE * clock.left:
        return None
    values, reduced, goal, free = _shortest(*_triangle(system.reshape(equations, unknowns), right))
    if np.sqrt(max(0.0, right @ right - goal @ goal)) > HOPELESS * np.linalg.norm(right):
        return None
    values, live = values.reshape(number, width), np.arange(number)
    for _ in range(ROUNDS):
        size = np.linalg.norm(values, axis=1)
        kept = np.flatnonzero(size > DROPPED * size.max(initial=0.0))
        settled, live, before = kept.size == live.size, kept, values
        if clock.left <= 0:
            return None
        columns, scale = _columns(live, width), np.repeat(size[live], width)
        found: Any = linalg.lstsq(reduced[:, columns] * scale, goal, cond=CUTOFF, lapack_driver="gelsy")
        values = np.zeros((number, width))
        values[live] = (found[0] * scale).reshape(-1, width)
        if settled and np.all(np.linalg.norm(values - before, axis=1)[live] <= SETTLED * size[live]):
            break
    return Support(live, np.asarray(free.reshape(number, width).any(axis=1)))


class LeastSquares(NamedTuple):
    """Unknowns in groups.

    Attributes:
      values: the unknowns ``(K, r)``.
      deviations: what the equations' residual leaves open of each ``(K, r)``, as one standard deviation.
      residual: what they leave, relative to the right-hand side.
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


def _columns(groups: Int[np.ndarray, " k"], width: int) -> Int[np.ndarray, " kr"]:
    return (groups[:, None] * width + np.arange(width)).ravel()


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
    """The shortest solution, the equations that stand above rounding, and which unknowns other solutions change."""
    left, values, across = linalg.svd(system, full_matrices=False, check_finite=False)
    real = values > CUTOFF * values[0]
    goal, rows = left[:, real].T @ right, across[real]
    return rows.T @ (goal / values[real]), values[real, None] * rows, goal, 1.0 - (rows**2).sum(axis=0) > FREE
