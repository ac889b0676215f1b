"""The space that a weight gradient spans, and how far a row lies from it."""

from __future__ import annotations

import dataclasses
from functools import lru_cache

import numpy as np
from jaxtyping import Bool, Float
from scipy import linalg

from jgleak.attacks.noise import allowances, edge
from jgleak.attacks.span.margin import Margin, NoiseMargin, RoundingMargin
from jgleak.attacks.span.settings import TOLERANCES, SpanTolerances

KEPT = 8
"""Decompositions that are cached: every hop, check and attempt needs the same client's gradients."""


@dataclasses.dataclass(frozen=True)
class Subspace:
    """The column space of ``dL/dW`` for a weight stored (in x out), in coordinates of comparable size.

    GRAIN (Theorem 5.1): the rows that entered the layer lie in it when their upstream gradients are independent.
    Coordinates are divided by the size of their gradient row first: normalised one-hot columns differ by two orders
    of magnitude, and rounding noise is relative, so without this the rare columns would decide every distance.

    Under noise of known deviation nothing is divided, so that the noise stays alike in all coordinates, and whether a
    row ``z`` is inside is a test. Its part outside the space seen is, to first order, normal in ``d - r`` dimensions
    with variance ``sum_j (t_j c_j)^2 / (d - r)`` in each, ``c`` the row's coordinates and ``t_j`` the tangent of the
    angle by which noise tilts direction ``j`` (``noise.tilts``; far from the floor this is the noise's deviation times
    ``|S^-1 U^T z|``). So a row is allowed a distance of ``|spread * c|``. Directions below the noise floor are dropped,
    so a true row with a part along one of them is rejected.

    Attributes:
      basis: orthonormal basis ``(d, r)`` of the scaled space, float64.
      scale: what each coordinate was divided by ``(d,)``.
      margin: how far off a true row may be, after rounding or under noise.
      full: the rank is as large as the gradient's shape allows, so that further directions may be missing.
    """

    basis: Float[np.ndarray, "d r"]
    scale: Float[np.ndarray, " d"]
    margin: Margin
    full: bool = False

    @property
    def rank(self) -> int:
        """Dimension ``r`` of the space."""
        return self.basis.shape[1]

    @property
    def ambient(self) -> int:
        """Number of coordinates ``d``."""
        return self.basis.shape[0]

    @property
    def gap(self) -> float:
        """How clearly the last direction kept stands above what was dropped, as a ratio of singular values."""
        return self.margin.gap

    @property
    def tolerance(self) -> float:
        """Relative distance below which a row counts as inside."""
        return self.margin.tolerance

    @property
    def fault(self) -> str | None:
        """Why the space carries no information about rows, or None where it does."""
        if self.rank == 0:
            return self.margin.empty
        if self.full or self.rank >= self.ambient:
            return f"the span has rank {self.rank} and fills its space"
        return self.margin.fault

    @property
    def informative(self) -> bool:
        """False when the space is empty, fills everything or has no clear rank."""
        return self.fault is None

    @staticmethod
    def of_gradient(
        gradient: Float[np.ndarray, "d D"],
        *,
        most: int | None = None,
        noise: float | None = None,
        tolerances: SpanTolerances = TOLERANCES,
        place: int = 0,
    ) -> Subspace:
        """The space spanned by a weight gradient, its rank read off the largest gap in the singular values.

        Args:
          gradient: ``dL/dW`` (in x out).
          most: the rank cannot exceed this (a bound on the number of nodes).
          noise: deviation of independent noise on every entry; directions that do not stand above it are dropped.
          tolerances: what counts as rounding.
          place: which gap decides the rank, 0 for the largest, 1 for the second (not under noise).
        """
        gradient = np.asarray(gradient, dtype=np.float64)
        if noise is not None:
            return _above(gradient, most, noise, tolerances)
        size = np.linalg.norm(gradient, axis=1)
        if not np.any(size > 0):
            nothing = np.zeros((gradient.shape[0], 0)), np.ones(gradient.shape[0])
            return Subspace(*nothing, RoundingMargin(np.inf, tolerances))
        scale = np.maximum(size, tolerances.coordinate_floor * np.median(size[size > 0]))
        left, values = _decomposed(gradient / scale[:, None])
        rank = _rank(values, most, tolerances, place)
        full = rank == values.size
        gap = np.inf if full or values[rank] == 0 else values[rank - 1] / values[rank]
        return Subspace(left[:, :rank], scale, RoundingMargin(float(gap), tolerances), full)

    def distances(self, rows: Float[np.ndarray, "k d"]) -> Float[np.ndarray, " k"]:
        """Distance of each row from the space, relative to what its margin compares it with; scaled.

        A row of zeros lies in every space, so passing says nothing: its distance is 1, or more.
        """
        scaled = rows / self.scale
        along = scaled @ self.basis
        rest = np.linalg.norm(scaled - along @ self.basis.T, axis=1)
        return self.margin.distances(rest, along, np.linalg.norm(scaled, axis=1))


def nonzero(matrix: Float[np.ndarray, "d D"]) -> tuple[Bool[np.ndarray, " d"], Bool[np.ndarray, " D"]]:
    """Which rows and columns are not all zeros; the others add nothing but singular values of zero.

    They are many: columns of values that do not occur, and units that are off at every node.
    """
    return np.any(matrix, axis=1), np.any(matrix, axis=0)


def _decomposed(matrix: Float[np.ndarray, "d D"]) -> tuple[Float[np.ndarray, "d k"], Float[np.ndarray, " k"]]:
    """Left singular vectors and singular values; vectors of values that are zero are zeros."""
    return _known(matrix.shape, matrix.tobytes())


@lru_cache(KEPT)
def _known(shape: tuple[int, int], entries: bytes) -> tuple[Float[np.ndarray, "d k"], Float[np.ndarray, " k"]]:
    matrix, left, values = np.frombuffer(entries).reshape(shape), np.zeros((shape[0], min(shape))), np.zeros(min(shape))
    rows, columns = nonzero(matrix)
    vectors, found, _ = linalg.svd(matrix[np.ix_(rows, columns)], full_matrices=False)
    left[rows, : found.size], values[: found.size] = vectors, found
    left.flags.writeable = values.flags.writeable = False  # whoever asks again gets the same arrays
    return left, values


def _above(gradient: Float[np.ndarray, "d D"], most: int | None, noise: float, tolerances: SpanTolerances) -> Subspace:
    """The directions that stand above the noise; rounding counts as noise of the size of ``rank_floor``."""
    scale = np.ones(gradient.shape[0])
    left, values = _decomposed(gradient)
    rounding = tolerances.rank_floor * values[0] / edge(1.0, gradient.shape)
    total = float(np.hypot(noise, rounding))
    floor = tolerances.noise_edge * edge(total, gradient.shape)
    rank = min(int(np.sum(values > floor)), values.size if most is None else most)
    spread = np.zeros(rank)
    if rank:
        beside = tuple(max(size - rank, 1) for size in gradient.shape)
        spread = allowances(values[:rank], total, beside)
    gap = float(values[rank - 1] / floor) if rank else 0.0
    margin = NoiseMargin(spread, noise, gap, gradient.shape[0] - rank, tolerances)
    return Subspace(left[:, :rank], scale, margin, rank == values.size)


def _rank(values: Float[np.ndarray, " k"], most: int | None, tolerances: SpanTolerances, place: int) -> int:
    """Number of singular values above the largest gap among those that are not noise, or above one of the next; of all
    that are not, where no gap is looked for."""
    floor = tolerances.rank_floor
    real = int(np.sum(values > floor * values[0]))
    if not tolerances.rank_gap:
        return real
    if most is not None:
        real = min(real, most)
    # Rounding stands behind the last value, so that a full rank has a gap too. A value that is exactly 0 counts as a
    # hundredth of that, or the gap before it would be infinite whatever the others are.
    following = np.append(values, floor * values[0])[1 : real + 1]
    ratios = values[:real] / np.maximum(following, floor * 1e-2 * values[0])
    return int(np.argsort(-ratios, kind="stable")[min(place, real - 1)]) + 1
