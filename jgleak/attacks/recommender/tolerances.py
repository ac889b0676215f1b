"""What the attack on ratings puts down to rounding and chance, and how long it searches."""

from __future__ import annotations

import dataclasses


@dataclasses.dataclass(frozen=True)
class RatingTolerances:
    """What counts as equal.

    Attributes:
      rounding: deviation of an entry that single precision alone explains, in units of the root mean square of its
        tensor; float32 keeps seven digits, and sums lose one.
      unsure: standard deviations of the mean square of Laplace noise, ``sqrt(5 / entries)`` each, that count as
        chance: 12 in units of ``1 / sqrt(entries)`` are five of them.
      change: relative change, of the squared distance or of the unknowns, at which the search for neighbours ends;
        the search runs in float64, and stays well above its last digits.
    """

    rounding: float = 1e-6
    unsure: float = 12.0
    change: float = 1e-12


@dataclasses.dataclass(frozen=True)
class RatingLimits:
    """How long the attack tries.

    Attributes:
      sweeps: scoring steps: the first is exact where there is no noise; the others take Laplace noise for what it is.
      steps: of the search for neighbours.
      inner: iterations of the linear least squares of one such step.
    """

    sweeps: int = 3
    steps: int = 100
    inner: int = 100


@dataclasses.dataclass(frozen=True)
class RecommenderSettings:
    """What users may change (``--option``).

    Attributes:
      tolerances: of the attack on ratings.
      limits: how long it searches.
    """

    tolerances: RatingTolerances = RatingTolerances()
    limits: RatingLimits = RatingLimits()


TOLERANCES, LIMITS = RatingTolerances(), RatingLimits()
"""The defaults."""
