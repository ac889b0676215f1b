"""Non-negative least squares that may give up."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float, Int
from scipy.optimize import nnls

from jgleak.attacks.attack import Clock

DIRECT = 512
"""Up to so many unknowns are solved for at once. It decides speed alone."""

PRICED = 256
"""Most unknowns that one round adds to those that may be above zero."""

LOWER = 1.0 - 1e-9
"""A round that leaves more than this share of the residual is the last: rounding is left."""


def nonnegative(
    system: Float[np.ndarray, "M K"],
    right: Float[np.ndarray, " M"],
    rounds: int,
    clock: Clock,
    likely: Int[np.ndarray, " k"] | None = None,
) -> tuple[Float[np.ndarray, " K"], float] | None:
    """The best non-negative ``x`` for ``system @ x == right`` and its residual; None where it did not converge, or time
    ran out.

    Of many unknowns those above zero are found by their prices: a few are solved for, and those others are added whose
    column still shortens the residual, until none does. That is the best of all, and the clock is asked in between.

    Args:
      system: equations.
      right: their right-hand side.
      rounds: most steps of the active-set method, for each unknown (SciPy's default is 3).
      clock: ends the search.
      likely: unknowns to begin with, where there are many.
    """
    number = system.shape[1]
    if number <= DIRECT:
        return None if clock.left <= 0 else _solved(system, right, rounds)
    some = np.zeros(0, np.int64) if likely is None else likely
    solution, rest, best = np.zeros(number), right, np.inf
    rounding = 10 * max(system.shape) * np.finfo(np.float64).eps * np.linalg.norm(system, 1)  # SciPy's
    while clock.left > 0:
        prices = rest @ system
        prices[some] = 0.0
        paying = np.argpartition(-prices, PRICED)[:PRICED]
        paying = paying[prices[paying] > rounding]
        if not paying.size and best < np.inf:
            return solution, best
        chosen = np.r_[some, paying]
        found = _solved(system[:, chosen], right, rounds)
        if found is None:
            return None
        if found[1] > LOWER * best:
            return solution, best
        solution, best = np.zeros(number), found[1]
        solution[chosen] = found[0]
        some = chosen[found[0] > 0.0]
        rest = right - system[:, some] @ solution[some]
    return None


def _solved(
    system: Float[np.ndarray, "M k"], right: Float[np.ndarray, " M"], rounds: int
) -> tuple[Float[np.ndarray, " k"], float] | None:
    """All unknowns at once; many equations as the triangle of a QR decomposition."""
    if not system.size:  # where SciPy 1.17 frees memory twice, which ends the process
        return np.zeros(system.shape[1]), float(np.linalg.norm(right))
    if system.shape[0] > 2 * system.shape[1]:
        triangle: Float[np.ndarray, "k1 k1"] = np.asarray(np.linalg.qr(np.c_[system, right], mode="r"))
        system, right = triangle[:, :-1], triangle[:, -1]
    try:
        solution, rest = nnls(system, right, maxiter=rounds * system.shape[1])
    except RuntimeError:
        return None
    return solution, float(rest)
