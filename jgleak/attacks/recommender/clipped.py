"""What clipping leaves of a number that is only known to be normal."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import Float
from scipy.special import ndtr


class Clipped(NamedTuple):
    """``clip(g, +-bound)`` as ``expected + slope (g - mean)`` and an error that is uncorrelated with ``g``.

    Attributes:
      expected: its mean ``(n,)``.
      slope: the probability that nothing is cut, which is the slope of the best line (Stein's lemma) ``(n,)``.
      left: the variance of what the line does not explain ``(n,)``.
    """

    expected: Float[np.ndarray, " n"]
    slope: Float[np.ndarray, " n"]
    left: Float[np.ndarray, " n"]


def clipped(
    mean: Float[np.ndarray, " n"], variance: Float[np.ndarray, " n"], bound: Float[np.ndarray, " n"]
) -> Clipped:
    """Statistical linearisation of clipping under ``g ~ N(mean, variance)``; exact for infinite bounds.

    Args:
      mean: of ``g``.
      variance: of ``g``.
      bound: above 0; all of them may be infinite.
    """
    if np.isinf(bound).all():
        return Clipped(mean, np.ones_like(mean), np.zeros_like(mean))
    deviation = np.sqrt(np.maximum(variance, (1e-9 * bound) ** 2))
    low, high = (-bound - mean) / deviation, (bound - mean) / deviation
    inside, below, above = ndtr(high) - ndtr(low), ndtr(low), ndtr(-high)
    at_low, at_high = (np.exp(-(z**2) / 2.0) / np.sqrt(2.0 * np.pi) for z in (low, high))
    expected = mean * inside + deviation * (at_low - at_high) + bound * (above - below)
    square = (
        (mean**2 + deviation**2) * inside
        + 2.0 * mean * deviation * (at_low - at_high)
        + deviation**2 * (low * at_low - high * at_high)
        + bound**2 * (above + below)
    )
    return Clipped(expected, inside, np.maximum(square - expected**2 - (inside * deviation) ** 2, 0.0))
