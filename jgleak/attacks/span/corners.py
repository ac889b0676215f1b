"""Vectors of a small space on which given functionals are 0 or 1, all of them at once."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float
from scipy import linalg

from jgleak.attacks.span.settings import SpanTolerances

MOST = 12
"""Most dimensions: there are 2,048 choices of zeros and ones then."""


def corners(
    patterns: Float[np.ndarray, "K d"], one: Float[np.ndarray, " d"], tolerances: SpanTolerances
) -> Float[np.ndarray, "T d"] | None:
    """Every vector ``c`` with ``one . c = 1`` on which each of ``patterns`` is 0 or 1; None where too few of these are
    independent to leave finitely many, or there are more than ``MOST`` dimensions.

    With ``one``, ``d - 1`` patterns determine a vector, so that each choice of their zeros and ones is tried. Those
    that are the least dependent are taken, since a vector is known as well as their system can be solved.
    """
    size, scale = one.size, float(np.linalg.norm(one))
    if size > MOST:
        return None
    if scale <= 1e-9:
        return np.zeros((0, size))
    beside = patterns - np.outer(patterns @ one, one) / scale**2
    order = np.zeros(0, int)
    if len(patterns):
        upper, order = (np.asarray(part) for part in linalg.qr(beside.T, mode="r", pivoting=True))
        order = order[np.flatnonzero(np.abs(np.diag(upper)) > tolerances.word_entry * scale)]
    if len(order) < size - 1:
        return None
    system = np.vstack([one, patterns[order]])
    choices = (np.arange(1 << (size - 1))[:, None] >> np.arange(size - 1)) & 1
    vectors = np.linalg.solve(system, np.c_[np.ones(len(choices)), choices].T).T
    values = vectors @ patterns.T
    off = np.minimum(np.abs(values), np.abs(values - 1.0)).max(axis=1, initial=0.0)
    return vectors[off <= tolerances.word_row * tolerances.word_entry]
