"""Non-negative least squares that may give up."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float
from scipy.optimize import nnls


def nonnegative(
    system: Float[np.ndarray, "M K"], right: Float[np.ndarray, " M"], rounds: int
) -> tuple[Float[np.ndarray, " K"], float] | None:
    """The best non-negative ``x`` for ``system @ x == right`` and its residual; None where it did not converge.

    Args:
      system: equations.
      right: their right-hand side.
      rounds: most steps of the active-set method, for each unknown (SciPy's default is 3).
    """
    try:
        solution, rest = nnls(system, right, maxiter=rounds * system.shape[1])
    except RuntimeError:
        return None
    return solution, float(rest)
