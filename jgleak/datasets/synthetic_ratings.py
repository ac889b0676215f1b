"""Made-up ratings for tries without any download: offsets and a low-rank taste, plus noise, rounded to stars."""

from __future__ import annotations

import numpy as np

from jgleak.ratings import Ratings, RatingSplit

SYNTHETIC = "synthetic-ratings"
"""The name of the set."""

LEAST = 8
"""Items that every user rates, where there are so many."""

LEVELS = (1.0, 2.0, 3.0, 4.0, 5.0)


def synthetic_ratings(
    *,
    users: int = 200,
    items: int = 60,
    mean_rated: float = 20.0,
    rank: int = 2,
    noise: float = 0.4,
    test_share: float = 0.1,
    seed: int = 0,
) -> RatingSplit:
    """``r_ui = round(3.5 + a_u + b_i + x_u . y_i + noise)``, cut to 1..5, with a random test part.

    Offsets ``a``, ``b`` have standard deviations 0.4 and 0.5; the entries of ``x`` and ``y`` are scaled so that
    ``x_u . y_i`` has 0.6. How many items a user rates varies by a log-normal factor, from ``LEAST`` on, and popular
    items are rated more often, as in real sets.

    Args:
      users: number of users ``U``.
      items: number of items ``I``.
      mean_rated: mean number of items that a user rates.
      rank: of the taste; 0 for offsets alone.
      noise: standard deviation.
      test_share: share of the ratings that is held out.
      seed: of all draws.

    Raises:
      ValueError: no user, fewer than two items, or more rated items than there are.
    """
    if users < 1 or items < 2 or not 1 <= mean_rated <= items:
        raise ValueError(
            f"users, items, mean_rated: need a user, two items and 1..{items} rated, got {users}, {items}, {mean_rated}"
        )
    rng = np.random.default_rng(seed)
    score = 3.5 + 0.4 * rng.normal(size=(users, 1)) + 0.5 * rng.normal(size=items)
    if rank:
        taste = rng.normal(size=(users, rank)) @ rng.normal(size=(rank, items)) / np.sqrt(rank)
        score = score + 0.6 * taste
    score = score + noise * rng.normal(size=(users, items))
    wanted = mean_rated * np.exp(0.7 * rng.normal(size=users) - 0.7**2 / 2)
    counts = np.clip(np.round(wanted), min(LEAST, items - 1), items - 1).astype(int)
    appeal = rng.gumbel(size=(users, items)) + 0.8 * rng.normal(size=items)
    rated = np.argsort(np.argsort(-appeal, axis=1), axis=1) < counts[:, None]
    who, what = np.nonzero(rated)
    values = np.clip(np.round(score[rated]), LEVELS[0], LEVELS[-1])
    whole = Ratings(who, what, values, users, items, LEVELS)
    return RatingSplit(SYNTHETIC, *whole.validation(test_share, rng))
