"""Tests at a stated rate, for an update to whose every entry somebody added independent noise of known deviation."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float
from scipy.special import chdtri, ndtri

from jgleak.federated.observation import Observation
from jgleak.precision import smallest_noise

RATE = 1e-5
"""How often one test rejects what is true. A graph of 40 nodes meets some hundreds of tests, so that about one in 300
such graphs is lost to all of them together. Certificates state it and ``jgleak verify`` tests by it, which sees no
settings: so it is none."""


UNITS = 30.0
"""Numbers below so many deviations of the smallest numbers' rounding (about 8 spacings) are rounded far from at random.
"""


def largest(dof: int, rate: float = RATE) -> float:
    """Length that ``dof`` independent standard normal numbers exceed at a rate of ``rate``."""
    return float(np.sqrt(chdtri(max(dof, 1), rate)))


def deviations(count: int) -> float:
    """Standard deviations that the largest of ``count`` normal numbers exceeds at a rate of ``RATE``."""
    return -float(ndtri(RATE / max(count, 1)))


def tail(count: int) -> float:
    """Standard deviations that the largest of ``count`` numbers exceeds at a rate of at most ``RATE``, if they are
    Laplace or normal: a single entry shows the shape of its noise, which sums over many hide.

    Laplace noise of deviation 1 has ``P(|x| > t) = exp(-sqrt(2) t)``, the heavier tail of the two at such rates.
    """
    return float(np.log(max(count, 1) / RATE) / np.sqrt(2.0))


def deviation(observation: Observation, noise: float, tensor: Float[np.ndarray, "*shape"]) -> float:
    """Deviation of an entry's noise in one of the update's tensors: of what was added to every entry, and of what the
    client rounded off.

    Rounding is relative to each entry. One number stands for a whole tensor: that of the row or the column whose
    entries are largest, beside rows and columns of zeros, which have none (of a vector, of its largest entry), so that
    bounds for noise of equal size hold. Numbers of a few units of the smallest spacing have errors that are no noise;
    for these it is what makes ``edge`` as large as all of them together.
    """
    if observation.rounding is None or not np.any(tensor):
        return noise
    entries = np.abs(np.asarray(tensor, np.float64)).reshape(-1, np.shape(tensor)[-1])
    entries = entries[np.ix_(entries.any(axis=1), entries.any(axis=0))]
    squares, (rows, columns) = np.square(entries), entries.shape
    loudest = float(max(np.max(squares.mean(axis=0)), np.max(squares.mean(axis=1)))) if rows > 1 else np.max(squares)
    structured = in_few_units(observation.rounding, entries) / edge(1.0, (rows, columns))
    return float(np.linalg.norm([noise, observation.rounding * np.sqrt(loudest), structured]))


def in_few_units(rounding: float, entries: Float[np.ndarray, "*shape"]) -> float:
    """The most, in length, that rounding changes of the numbers of a few units: half a unit each."""
    smallest = smallest_noise(rounding)
    return float(np.sqrt(3.0 * np.sum(np.abs(entries) < UNITS * smallest))) * smallest


def added(observation: Observation, noise: float | None) -> bool:
    """Noise was added, which moves zeros too; rounding leaves them."""
    return noise is not None and (observation.rounding is None or noise > smallest_noise(observation.rounding))


def described(noise: float | None, rounding: float | None) -> str:
    """Noise of this deviation and rounding of this relative error in words."""
    rounded = f"rounding of {rounding:.1e} of each entry" if rounding else ""
    added = f"noise of deviation {noise or 0.0:.1e}" if noise or not rounded else ""
    return " and ".join(filter(None, (added, rounded)))


def edge(noise: float, shape: tuple[int, ...]) -> float:
    """The largest singular value of a matrix of noise, ``noise (sqrt(d) + sqrt(D))`` (Marchenko and Pastur, 1967)."""
    return noise * float(np.sqrt(shape[0]) + np.sqrt(shape[1]))


def tilts(values: Float[np.ndarray, " r"], noise: float, shape: tuple[int, ...]) -> Float[np.ndarray, " r"]:
    """How far noise tilts left singular vectors: the tangent of the angle, for each singular value seen.

    For ``G = U S V^T + N`` with ``N`` of deviation ``noise`` and few directions, ``y = s_hat`` shows
    ``s^2 = (y^2 - a + sqrt((y^2 - a)^2 - 4 b)) / 2`` with ``a = noise^2 (d + D)`` and ``b = noise^4 d D``, and the sine
    of the angle is ``noise^2 d (noise^2 D + s^2) / (s^2 (s^2 + noise^2 d))`` squared (Benaych-Georges and Nadakuditi,
    2012, section 3). Far from the edge this is the first order ``noise sqrt(d) / s``.

    Args:
      values: singular values of the noisy matrix, all above ``edge``.
      noise: deviation of an entry.
      shape: dimensions in which the noise is free ``(d, D)``, those of the matrix without the directions' own.
    """
    left, right = noise**2 * shape[0], noise**2 * shape[1]
    rest = values**2 - left - right
    square = (rest + np.sqrt(np.maximum(rest**2 - 4.0 * left * right, 0.0))) / 2.0
    sine = left * (right + square) / (square * (square + left))
    return np.sqrt(sine / (1.0 - sine))


def allowances(values: Float[np.ndarray, " r"], noise: float, shape: tuple[int, ...]) -> Float[np.ndarray, " r"]:
    """Distance from the space that a true row may have, for each unit along each direction (arguments as ``tilts``).

    The part outside is normal in ``d`` dimensions, hence a chi-square quantile. Near the edge the angle itself is
    unsure, since a singular value is only known to ``noise``, and the quantile of the product of both is wider.
    """
    angles = tilts(values, noise, shape)
    unsure = tilts(np.maximum(values - noise, 1.02 * edge(noise, shape)), noise, shape) / angles - 1.0
    alone = 2.0 / shape[0]
    wider = deviations(1) * (np.sqrt(alone + 4.0 * unsure**2) - np.sqrt(alone))
    return angles * np.sqrt(largest(shape[0]) ** 2 / shape[0] + wider)
