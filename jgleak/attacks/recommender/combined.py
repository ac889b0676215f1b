"""One score from all statistics: the sum of their log-likelihood ratios."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float, Int
from scipy.special import expit

from jgleak.attacks.recommender.history import size
from jgleak.attacks.recommender.observation import PublicKnowledge, Sighting
from jgleak.attacks.recommender.statistics import TINY, agreement, pairs, repetition, zeros
from jgleak.attacks.recommender.trace import network, user

ITERATIONS = 100
"""Of expectation maximisation in one unknown, where ten would do: numerics."""


def combined(
    public: PublicKnowledge, sightings: Sequence[Sighting], items: Int[np.ndarray, " S"]
) -> Float[np.ndarray, " S"]:
    """Log of ``P(seen | rated) / P(seen | pseudo)``, taking the parts of an update as independent.

    Two ratios are known: of the rounds in which an item was sent (``repetition``) and of dropout's zeros (``zeros``).
    The others are scores ``z`` with a standard normal null; a rated item's is normal about some ``m >= 0`` that depends
    on unknown ratings and noise. With the known share ``q`` of rated items among those sent, ``m`` is the maximum
    likelihood of the mixture ``(1 - q) N(0, 1) + q N(m, 1)``, and the ratio is ``m z - m^2 / 2``. A statistic that says
    nothing (one round has no agreement) gets an ``m`` near 0 and drops out.
    """
    scores = (rule(public, sightings, items) for rule in (network, user))
    scaled = [score / np.sqrt(len(sightings)) for score in scores]
    scaled.append(_standard(agreement(public, sightings, items), pairs(sightings, items)))
    share = min(size(public, sightings) / len(items), 1.0)
    known = repetition(public, sightings, items) + zeros(public, sightings, items)
    return known + sum(ratio(score, share) for score in scaled)


def certainty(ratios: Float[np.ndarray, " K"], share: float) -> float:
    """The share of the reported items that are expected to be rated, by their posterior odds.

    Args:
      ratios: ``combined`` at the items that are reported.
      share: of rated items among all that were sent; at 1 there is nothing else.
    """
    if share >= 1.0 or not len(ratios):
        return 1.0
    odds = np.log(share / (1.0 - share)) + ratios
    return float(np.mean(expit(odds)))


def ratio(score: Float[np.ndarray, " S"], share: float) -> Float[np.ndarray, " S"]:
    """``m z - m^2 / 2`` with the maximum-likelihood ``m >= 0`` of the mixture; see ``combined``."""
    m = max(float(np.quantile(score, 1.0 - share / 2.0)), 0.1)
    for _ in range(ITERATIONS):
        odds = np.log(max(share, TINY)) - np.log(max(1.0 - share, TINY)) + m * score - m**2 / 2.0
        weight = expit(odds)
        m = max(float(weight @ score / max(weight.sum(), TINY)), 0.0)
    return m * score - m**2 / 2.0


def _standard(score: Float[np.ndarray, " S"], pairs: Int[np.ndarray, " S"]) -> Float[np.ndarray, " S"]:
    """Means over ``pairs`` in units of the bulk: less the median, by the deviation that the median absolute deviation
    stands for, after the square root of ``pairs`` has made them alike. 0 where there is no pair, or no spread."""
    out, paired = np.zeros(len(score)), pairs > 0
    if paired.any():
        alike = score[paired] * np.sqrt(pairs[paired])
        centred = alike - np.median(alike)
        spread = 1.4826 * np.median(np.abs(centred))
        out[paired] = centred / spread if spread > 0 else 0.0
    return out
