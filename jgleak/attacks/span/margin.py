"""How far from a span a true row may lie: after rounding alone, or under noise of known deviation."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Protocol, runtime_checkable

import numpy as np
from jaxtyping import Float

from jgleak.attacks.noise import deviations, largest
from jgleak.attacks.span.settings import TOLERANCES, SpanTolerances

Deviations = Callable[[Float[np.ndarray, " r"]], Float[np.ndarray, " T"]]
"""The deviation that noise gives relations between some coordinates of each row, from the tilt of every direction."""


@runtime_checkable
class Margin(Protocol):
    """The interface of ``RoundingMargin`` and ``NoiseMargin``.

    Attributes:
      gap: how clearly the span's last direction stands above what was dropped.
      tolerances: what counts as rounding.
    """

    @property
    def gap(self) -> float: ...

    @property
    def tolerances(self) -> SpanTolerances: ...

    @property
    def tolerance(self) -> float:
        """Relative distance below which a row counts as inside (``distances``)."""
        ...

    @property
    def share(self) -> float:
        """What a row may be off whatever its direction, relative to its length."""
        ...

    @property
    def spread(self) -> Float[np.ndarray, " r"]:
        """The distance allowed beyond that for each unit along each direction; empty where there is none."""
        ...

    @property
    def empty(self) -> str:
        """Why a span has no direction at all."""
        ...

    @property
    def fault(self) -> str | None:
        """Why a span's rank is unclear, or None."""
        ...

    def distances(
        self, rest: Float[np.ndarray, " k"], along: Float[np.ndarray, "k r"], length: Float[np.ndarray, " k"]
    ) -> Float[np.ndarray, " k"]:
        """Relative distances of rows from their parts outside, their coordinates inside, and their lengths."""
        ...

    def bound(self, basis: Float[np.ndarray, "C r"], values: Float[np.ndarray, " r"], vectors: int) -> float:
        """Largest residual of a true row on a few null vectors, relative to the row's chosen coordinates.

        Args:
          basis: the span's basis on the chosen coordinates.
          values: its singular values.
          vectors: number of null vectors.
        """
        ...

    def partial(
        self,
        before: Float[np.ndarray, " T"],
        residual: Float[np.ndarray, " T"],
        relations: int,
        deviation: Deviations,
    ) -> tuple[Float[np.ndarray, " T"], Float[np.ndarray, " T"] | float]:
        """For parts of rows the residual that is tested, and what it may be beyond a share of the part's length.

        Args:
          before: residuals of the relations tested earlier.
          residual: those of the new ones.
          relations: number of relations so far.
          deviation: what noise makes of them.
        """
        ...

    def loosened(self, factor: float) -> Margin:
        """One that allows ``factor`` times as much."""
        ...


@dataclasses.dataclass(frozen=True)
class RoundingMargin:
    """A row may be off by a share of its length, which follows from the gap in the singular values (``Margin``).

    Attributes:
      gap: ratio of the last singular value kept to the first one dropped (``inf`` when none was dropped).
      tolerances: what counts as rounding.
    """

    gap: float
    tolerances: SpanTolerances = TOLERANCES

    empty = "the gradient is zero"

    @property
    def tolerance(self) -> float:
        """The last direction kept is known up to about ``1 / gap``: ``row_margin`` times that, within bounds.

        GRAIN finds fixed thresholds to work; ours follows the noise of the gradient at hand.
        """
        allowed = self.tolerances
        return float(np.clip(allowed.row_margin / self.gap, allowed.row_least, allowed.row_most))

    @property
    def share(self) -> float:
        """The tolerance."""
        return self.tolerance

    @property
    def spread(self) -> Float[np.ndarray, " 0"]:
        """Empty: nothing beyond ``share`` is allowed."""
        return np.zeros(0)

    @property
    def fault(self) -> str | None:
        """A gap too small."""
        if self.gap >= self.tolerances.rank_gap:
            return None
        return f"the singular values show no rank (largest gap {self.gap:.1f})"

    def distances(
        self, rest: Float[np.ndarray, " k"], along: Float[np.ndarray, "k r"], length: Float[np.ndarray, " k"]
    ) -> Float[np.ndarray, " k"]:
        """Relative to the row's length (0 inside, at most 1)."""
        return np.divide(rest, length, out=np.ones_like(rest), where=length > 0)

    def bound(self, basis: Float[np.ndarray, "C r"], values: Float[np.ndarray, " r"], vectors: int) -> float:
        """A row's length is at most its chosen coordinates' by the smallest singular value of the basis on them."""
        reach = 1.0 / max(values[-1] - 2.0 * self.tolerance, 0.5 * self.tolerance)
        return self.tolerance * reach + self.tolerances.device_rounding

    def partial(
        self,
        before: Float[np.ndarray, " T"],
        residual: Float[np.ndarray, " T"],
        relations: int,
        deviation: Deviations,
    ) -> tuple[Float[np.ndarray, " T"], float]:
        """The new relations alone: the others were tested, and stay valid."""
        return residual, 0.0

    def loosened(self, factor: float) -> RoundingMargin:
        """A smaller gap."""
        return dataclasses.replace(self, gap=self.gap / factor)


@dataclasses.dataclass(frozen=True)
class NoiseMargin:
    """Every test rejects a true row at the rate of ``jgleak.attacks.noise`` (``Margin``, ``Subspace``).

    Attributes:
      spread: the distance allowed to a row for each unit along each direction ``(r,)``.
      deviation: of the noise on every entry of the gradient.
      gap: ratio of the last singular value kept to the noise's largest.
      free: number of directions outside the span.
      tolerances: what counts as rounding.
    """

    spread: Float[np.ndarray, " r"]
    deviation: float
    gap: float
    free: int
    tolerances: SpanTolerances = TOLERANCES

    fault = None

    @property
    def empty(self) -> str:
        """The noise hides every direction."""
        return f"no singular value stands above the noise of deviation {self.deviation:.1e}"

    @property
    def tolerance(self) -> float:
        """The allowance differs from row to row, and this is the largest."""
        return float(np.hypot(self.share, self.spread.max(initial=0.0)))

    @property
    def share(self) -> float:
        """Rounding."""
        return self.tolerances.row_rounding

    @property
    def tilt(self) -> Float[np.ndarray, " r"]:
        """The spread without its quantile: a deviation for each direction."""
        return self.spread / largest(self.free)

    def distances(
        self, rest: Float[np.ndarray, " k"], along: Float[np.ndarray, "k r"], length: Float[np.ndarray, " k"]
    ) -> Float[np.ndarray, " k"]:
        """In units of what the row is allowed, times ``tolerance``, so that the same comparison decides."""
        allowed = np.hypot(self.share * length, np.linalg.norm(along * self.spread, axis=1))
        far = np.full_like(rest, 1.0 + self.tolerance)
        return np.divide(self.tolerance * rest, allowed, out=far, where=length > 0)

    def bound(self, basis: Float[np.ndarray, "C r"], values: Float[np.ndarray, " r"], vectors: int) -> float:
        """What noise leaves of a true row.

        With ``c`` the row's coordinates in the basis ``B``, the residual has deviation ``|t * c|`` in each direction,
        ``t`` the tilt. ``|t * c| <= rho |B_chosen c|`` with ``rho = |diag(t) B_chosen^+|``, and the row's part along
        ``B_chosen c`` is at least ``|B_chosen c| - q |t * c|``, ``q`` a normal quantile. ``inf`` where ``rho q >= 1``.
        """
        inverse = np.linalg.pinv(basis)
        rho = float(np.linalg.norm(self.tilt[:, None] * inverse, 2))
        left = 1.0 - rho * deviations(1)
        rounding = self.share * float(np.linalg.norm(inverse, 2)) + self.tolerances.device_rounding
        return largest(vectors) * rho / left + rounding if left > 0 else np.inf

    def partial(
        self,
        before: Float[np.ndarray, " T"],
        residual: Float[np.ndarray, " T"],
        relations: int,
        deviation: Deviations,
    ) -> tuple[Float[np.ndarray, " T"], Float[np.ndarray, " T"]]:
        """All relations so far together, since what noise may do shrinks as features are added."""
        return np.hypot(before, residual), deviation(self.tilt) * largest(relations)

    def loosened(self, factor: float) -> NoiseMargin:
        """A wider spread."""
        return dataclasses.replace(self, spread=factor * self.spread)
