"""The space that a weight gradient spans, and how far a row lies from it."""

from __future__ import annotations

import dataclasses

import numpy as np
from jaxtyping import Float
from scipy import linalg

from jgleak.attacks.noise import EDGE, allowances, edge

NOISE = 3e-7
"""Singular values below this share of the largest are rounding noise of float32 gradients, whatever the gap."""

GAP = 10.0
"""Smallest ratio between the singular values on both sides of the rank; below it there is no rank to be seen."""

ROUNDED = 1e-5
"""Relative distance of a row from the space that rounding alone explains, where noise is reckoned with."""

ZERO = "the gradient is zero"

FLOOR = 1e-2
"""Smallest scale of a coordinate, relative to the median: a coordinate without gradient must be zero in every row."""


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
    ``|S^-1 U^T z|``). So a row is allowed a distance of ``|spread * c|``. What no test can see: directions under the
    noise floor are dropped, and a row that has a part along one is rejected.

    Attributes:
      basis: orthonormal basis ``(d, r)`` of the scaled space, float64.
      scale: what each coordinate was divided by ``(d,)``.
      gap: ratio of the last singular value kept to the first one dropped (``inf`` when none was dropped).
      full: the rank is as large as the gradient's shape allows, so that further directions may be missing.
      spread: under noise, the distance allowed to a row for each unit along each direction ``(r,)``; None without.
      noise: deviation of the noise that was reckoned with, 0 without.
    """

    basis: Float[np.ndarray, "d r"]
    scale: Float[np.ndarray, " d"]
    gap: float
    full: bool = False
    spread: Float[np.ndarray, " r"] | None = None
    noise: float = 0.0

    @property
    def rank(self) -> int:
        """Dimension ``r`` of the space."""
        return self.basis.shape[1]

    @property
    def ambient(self) -> int:
        """Number of coordinates ``d``."""
        return self.basis.shape[0]

    @property
    def tolerance(self) -> float:
        """Relative distance below which a row counts as inside.

        The last direction kept is known up to about ``1 / gap``: ten times that, within [1e-5, 1e-2] (GRAIN finds any
        fixed threshold in [1e-4, 1e-2] to work, Figure 6; ours follows the noise of the gradient at hand).
        Under noise the allowance differs from row to row, and this is the largest.
        """
        if self.spread is not None:
            return float(np.hypot(ROUNDED, self.spread.max(initial=0.0)))
        return float(np.clip(10.0 / self.gap, 1e-5, 1e-2))

    @property
    def fault(self) -> str | None:
        """Why the space says nothing about any row, or None: it does."""
        if self.rank == 0:
            return f"no singular value stands above the noise of deviation {self.noise:.1e}" if self.noise else ZERO
        if self.full or self.rank >= self.ambient:
            return f"the span has rank {self.rank} and fills its space"
        if self.spread is None and self.gap < GAP:
            return f"the singular values show no rank (largest gap {self.gap:.1f})"
        return None

    @property
    def informative(self) -> bool:
        """False when the space is empty, fills everything or has no clear rank."""
        return self.fault is None

    @staticmethod
    def of_gradient(
        gradient: Float[np.ndarray, "d D"], *, most: int | None = None, noise: float | None = None
    ) -> Subspace:
        """The space spanned by a weight gradient, its rank read off the largest gap in the singular values.

        Args:
          gradient: ``dL/dW`` (in x out).
          most: the rank cannot exceed this (a bound on the number of nodes).
          noise: deviation of independent noise on every entry; directions that do not stand above it are dropped.
        """
        gradient = np.asarray(gradient, dtype=np.float64)
        if noise is not None:
            return _above(gradient, most, noise)
        size = np.linalg.norm(gradient, axis=1)
        if not np.any(size > 0):
            return Subspace(np.zeros((gradient.shape[0], 0)), np.ones(gradient.shape[0]), np.inf)
        scale = np.maximum(size, FLOOR * np.median(size[size > 0]))
        left, values, _ = linalg.svd(gradient / scale[:, None], full_matrices=False)
        rank = _rank(values, most)
        full = rank == values.size
        gap = np.inf if full or values[rank] == 0 else values[rank - 1] / values[rank]
        return Subspace(left[:, :rank], scale, float(gap), full)

    def distances(self, rows: Float[np.ndarray, "k d"]) -> Float[np.ndarray, " k"]:
        """Distance of each row from the space, relative to the row's length (0 inside, at most 1); scaled.

        A row of zeros lies in every space, so passing says nothing: its distance is 1. Under noise the distance is in
        units of what the row is allowed, times ``tolerance``, so that the same comparison decides.
        """
        scaled = np.asarray(rows, dtype=np.float64) / self.scale
        rest = scaled - (scaled @ self.basis) @ self.basis.T
        length = np.linalg.norm(scaled, axis=1)
        if self.spread is not None:
            allowed = np.hypot(ROUNDED * length, np.linalg.norm((scaled @ self.basis) * self.spread, axis=1))
            far = self.tolerance * np.linalg.norm(rest, axis=1) / np.where(length > 0, allowed, 1.0)
            return np.where(length > 0, far, 1.0 + self.tolerance)
        return np.where(length > 0, np.linalg.norm(rest, axis=1) / np.where(length > 0, length, 1.0), 1.0)


def _above(gradient: Float[np.ndarray, "d D"], most: int | None, noise: float) -> Subspace:
    """The directions that stand above the noise; rounding counts as noise of the size of ``NOISE``."""
    scale = np.ones(gradient.shape[0])
    left, values, _ = linalg.svd(gradient, full_matrices=False)
    rounding = NOISE * values[0] / edge(1.0, gradient.shape)
    total = float(np.hypot(noise, rounding))
    floor = EDGE * edge(total, gradient.shape)
    rank = min(int(np.sum(values > floor)), values.size if most is None else most)
    spread = np.zeros(rank)
    if rank:
        beside = tuple(max(size - rank, 1) for size in gradient.shape)
        spread = allowances(values[:rank], total, beside)
    gap = float(values[rank - 1] / floor) if rank else 0.0
    return Subspace(left[:, :rank], scale, gap, rank == values.size, spread, noise)


def _rank(values: Float[np.ndarray, " k"], most: int | None) -> int:
    """Number of singular values above the largest gap among those that are not noise."""
    real = int(np.sum(values > NOISE * values[0]))
    if most is not None:
        real = min(real, most)
    following = np.append(values, NOISE * values[0])[1 : real + 1]
    ratios = values[:real] / np.maximum(following, NOISE * 1e-2 * values[0])
    return int(np.argmax(ratios)) + 1
