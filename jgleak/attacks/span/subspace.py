"""The space that a weight gradient spans, and how far a row lies from it."""

from __future__ import annotations

import dataclasses

import numpy as np
from jaxtyping import Float
from scipy import linalg

NOISE = 3e-7
"""Singular values below this share of the largest are rounding noise of float32 gradients, whatever the gap."""

GAP = 10.0
"""Smallest ratio between the singular values on both sides of the rank; below it there is no rank to be seen."""

FLOOR = 1e-2
"""Smallest scale of a coordinate, relative to the median: a coordinate without gradient must be zero in every row."""


@dataclasses.dataclass(frozen=True)
class Subspace:
    """The column space of ``dL/dW`` for a weight stored (in x out), in coordinates of comparable size.

    GRAIN (Theorem 5.1): the rows that entered the layer lie in it when their upstream gradients are independent.
    Coordinates are divided by the size of their gradient row first: normalised one-hot columns differ by two orders
    of magnitude, and rounding noise is relative, so without this the rare columns would decide every distance.

    Attributes:
      basis: orthonormal basis ``(d, r)`` of the scaled space, float64.
      scale: what each coordinate was divided by ``(d,)``.
      gap: ratio of the last singular value kept to the first one dropped (``inf`` when none was dropped).
      full: the rank is as large as the gradient's shape allows, so that further directions may be missing.
    """

    basis: Float[np.ndarray, "d r"]
    scale: Float[np.ndarray, " d"]
    gap: float
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
    def tolerance(self) -> float:
        """Relative distance below which a row counts as inside.

        The last direction kept is known up to about ``1 / gap``: ten times that, within [1e-5, 1e-2] (GRAIN finds any
        fixed threshold in [1e-4, 1e-2] to work, Figure 6; ours follows the noise of the gradient at hand).
        """
        return float(np.clip(10.0 / self.gap, 1e-5, 1e-2))

    @property
    def fault(self) -> str | None:
        """Why the space says nothing about any row, or None: it does."""
        if self.rank == 0:
            return "the gradient is zero"
        if self.full or self.rank >= self.ambient:
            return f"the span has rank {self.rank} and fills its space"
        if self.gap < GAP:
            return f"the singular values show no rank (largest gap {self.gap:.1f})"
        return None

    @property
    def informative(self) -> bool:
        """False when the space is empty, fills everything or has no clear rank."""
        return self.fault is None

    @staticmethod
    def of_gradient(gradient: Float[np.ndarray, "d D"], *, most: int | None = None) -> Subspace:
        """The space spanned by a weight gradient, its rank read off the largest gap in the singular values.

        Args:
          gradient: ``dL/dW`` (in x out).
          most: the rank cannot exceed this (a bound on the number of nodes).
        """
        gradient = np.asarray(gradient, dtype=np.float64)
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

        A row of zeros lies in every space, so passing says nothing: its distance is 1.
        """
        scaled = np.asarray(rows, dtype=np.float64) / self.scale
        rest = scaled - (scaled @ self.basis) @ self.basis.T
        length = np.linalg.norm(scaled, axis=1)
        return np.where(length > 0, np.linalg.norm(rest, axis=1) / np.where(length > 0, length, 1.0), 1.0)


def _rank(values: Float[np.ndarray, " k"], most: int | None) -> int:
    """Number of singular values above the largest gap among those that are not noise."""
    real = int(np.sum(values > NOISE * values[0]))
    if most is not None:
        real = min(real, most)
    following = np.append(values, NOISE * values[0])[1 : real + 1]
    ratios = values[:real] / np.maximum(following, NOISE * 1e-2 * values[0])
    return int(np.argmax(ratios)) + 1
