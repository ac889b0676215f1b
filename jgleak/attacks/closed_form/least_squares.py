"""Least squares that keeps to a prior where the gradient says less than its rounding or noise would."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from jgleak.attacks.closed_form.propositions import ConditionFailed
from jgleak.attacks.closed_form.tolerances import TOLERANCES

ROUNDING = 2.0**-24
"""Relative error of a float32."""


class Regularised(NamedTuple):
    """All answers ``H (n, F)`` of ``Hᵀ E = G`` between least squares and a prior, from one decomposition of ``E``.

    With noise of variance ``s²`` on the entries of ``G`` and rows that differ from the prior by ``t²``, the mean of
    ``H`` given ``G`` keeps ``v² / (v² + s² / t²)`` of what least squares finds along a direction of singular value
    ``v`` (Wiener's filter), and 0 where ``E`` has nothing. ``s²`` is what least squares leaves, with rounding as the
    least that it can be; ``t²`` the median over the better half of the directions, less what noise adds there.

    Attributes:
      left: directions of the ``n`` rows ``(n, r)``.
      values: their singular values ``(r,)``.
      right: the directions in each block ``(B, D, r)``, blocks weighted to the same size.
      seen: the gradients along them ``(F, r)``.
      gap: what least squares finds, less the prior ``(F, r)``.
      prior: ``(n, F)``.
      ratio: ``s² / t²``.
      noise: the noise's share of the gradients (of their norm).
      missed: what least squares leaves of ``G``, as a share.
    """

    left: Float[np.ndarray, "n r"]
    values: Float[np.ndarray, " r"]
    right: Float[np.ndarray, "B D r"]
    seen: Float[np.ndarray, "F r"]
    gap: Float[np.ndarray, "F r"]
    prior: Float[np.ndarray, "n F"]
    ratio: float
    noise: float
    missed: float

    def rows(self, strength: float = 1.0) -> Float[np.ndarray, "n F"]:
        """``H`` where the noise is ``strength`` times as large (in variance) as it looks."""
        return self.prior + self.left @ (self.gap * self._kept(strength)).T

    def doubt(self, strength: float = 1.0) -> Float[np.ndarray, " n"]:
        """How far each row is expected to be off, from 0 (it shows) to 1 (it is the prior's)."""
        return np.sqrt(np.clip(1.0 - np.square(self.left) @ self._kept(strength), 0.0, 1.0))

    def _kept(self, strength: float) -> Float[np.ndarray, " r"]:
        square = np.square(self.values)
        return square / (square + max(strength * self.ratio, np.finfo(np.float64).tiny))


def regularised(
    design: Float[np.ndarray, "B n D"],
    gradients: Float[np.ndarray, "B F D"],
    prior: Float[np.ndarray, "n F"],
    *,
    smallest: float = TOLERANCES.smallest,
) -> Regularised:
    """``Hᵀ E_b = G_b`` for all blocks ``b``, each counted by its own size, as rounding is relative to it.

    Raises:
      ConditionFailed: the design or all gradients are zero.
    """
    weights = block_weights(gradients)
    left, values, right = np.linalg.svd(np.hstack([w * e for w, e in zip(weights, design, strict=True)]), False)
    live = values > np.finfo(np.float64).eps * values.max() * max(design.shape[1:])
    if not live.any() or not weights.any():
        raise ConditionFailed("no gradient reaches the layer (it is zero), so its states do not show")
    left, values = left[:, live], values[live]
    parts = right[live].T.reshape(len(design), design.shape[2], -1)
    seen = sum((w * (g @ part) for w, g, part in zip(weights, gradients, parts, strict=True)), start=np.zeros(()))
    gap = seen / values - prior.T @ left
    total, size = float(np.sum(weights > 0)), gradients.shape[1]
    rest = max(total - float(np.sum(np.square(seen))), 0.0)
    columns = design.shape[2] * int(total)
    count = columns - len(values)
    noise = max(rest / (size * count) if count > 0 else 0.0, ROUNDING**2 * total / (size * columns))
    spread = (np.mean(np.square(gap), axis=0) - noise / np.square(values))[: (len(values) + 1) // 2]
    ratio = noise / max(float(np.median(spread)), noise * smallest, np.finfo(np.float64).tiny)
    share = float(np.sqrt(noise * size * columns / total))
    return Regularised(left, values, parts, seen, gap, prior, ratio, share, float(np.sqrt(rest / total)))


def block_weights(gradients: Sequence[np.ndarray] | np.ndarray) -> Float[np.ndarray, " B"]:
    """What brings each block to norm 1; 0 for one that is zero."""
    sizes = np.array([np.sqrt(np.sum(np.square(g, dtype=np.float64))) for g in gradients])
    return np.divide(1.0, sizes, out=np.zeros_like(sizes), where=sizes > 0)
