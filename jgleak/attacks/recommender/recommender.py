"""The whole attack on one user: who is real, then what they were rated."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float, Int

from jgleak.attacks.recommender.combined import certainty, combined
from jgleak.attacks.recommender.history import size
from jgleak.attacks.recommender.observation import Profile, PublicKnowledge, Sighting, check
from jgleak.attacks.recommender.ratings import estimate
from jgleak.attacks.recommender.statistics import (
    Statistic,
    agreement,
    direction,
    norm,
    presence,
    repetition,
    sent_items,
    zeros,
)
from jgleak.attacks.recommender.tolerances import LIMITS, TOLERANCES, RatingLimits, RatingTolerances
from jgleak.attacks.recommender.trace import network, user

STATISTICS: dict[str, Statistic] = {
    "combined": combined,
    "repetition": repetition,
    "zeros": zeros,
    "network": network,
    "user": user,
    "agreement": agreement,
    "direction": direction,
    "norm": norm,
}
"""Scores of real against pseudo items, by the name that users type."""


def real_scores(
    public: PublicKnowledge, sightings: Sequence[Sighting], statistic: str = "combined"
) -> tuple[Int[np.ndarray, " S"], Float[np.ndarray, " S"]]:
    """Every item that the user sent, ascending, and how surely it is rated (higher is surer).

    Raises:
      ValueError: an unknown statistic, or sightings that ``check`` refuses.
    """
    if statistic not in STATISTICS:
        raise ValueError(f"statistic: unknown {statistic!r}; choose one of {', '.join(STATISTICS)}")
    check(public, sightings)
    items = sent_items(sightings)
    return items, STATISTICS[statistic](public, sightings, items)


def attack(
    public: PublicKnowledge,
    sightings: Sequence[Sighting],
    *,
    statistic: str = "combined",
    tolerances: RatingTolerances = TOLERANCES,
    limits: RatingLimits = LIMITS,
) -> Profile:
    """What the server learns of one user: the history by ``statistic``, then its ratings (``estimate``).

    The ``K`` items with the best scores are reported, of those sent in every round; equal scores go by item number.

    Args:
      public: what everyone knows.
      sightings: the user's rounds.
      statistic: one of ``STATISTICS``.
      tolerances: what counts as rounding and as chance in ``estimate``.
      limits: how long that searches.

    Raises:
      ValueError: as ``real_scores`` and ``estimate``.
    """
    items, scores = real_scores(public, sightings, statistic)
    always = presence(sightings, items).all(axis=0)
    length = size(public, sightings)
    best = np.argsort(np.where(always, -scores, np.inf), kind="stable")[: min(length, int(always.sum()))]
    reported = np.zeros(len(items), bool)
    reported[best] = True
    ratings, deviations = np.full(len(items), public.mean), np.full(len(items), public.deviation)
    ratios = scores if statistic == "combined" else combined(public, sightings, items)
    sure = certainty(ratios[reported], length / len(items))
    found = estimate(public, sightings, items[reported], certainty=sure, tolerances=tolerances, limits=limits)
    ratings[reported], deviations[reported] = found.ratings, found.deviations
    info = {"rounds": float(len(sightings)), "size": float(length), "misfit": found.misfit, "certainty": sure}
    return Profile(items, scores, reported, ratings, deviations, info)
