"""Which items a user rated, read off the updates."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

import numpy as np
from jaxtyping import Int

from jgleak.attacks.recommender.observation import PublicKnowledge, Sighting, check


def history(public: PublicKnowledge, sightings: Sequence[Sighting]) -> Int[np.ndarray, " K"]:
    """Items with a non-zero gradient in every round, ascending.

    Without pseudo items this is the history, whatever the noise: clipping and noise change values, not which rows are
    sent (FedGNN, section 3.3: "the server can directly recover the full history based on the non-zero item embedding
    gradients"). With pseudo items that are drawn anew each round, as the paper has them, an unrated item stays with
    probability ``(M / (I - K))^R`` after ``R`` rounds.

    Raises:
      ValueError: the sightings are not one user's, or damaged (``jgleak.attacks.recommender.observation.check``).
    """
    check(public, sightings)
    sent = [update.items[np.any(update.item_gradients != 0, axis=1)] for _, update in sightings]
    return reduce(np.intersect1d, sent)


def size(public: PublicKnowledge, sightings: Sequence[Sighting]) -> int:
    """The history's length ``K``: an update has ``min(K + M, I)`` items, so it shows ``K`` unless it has all items.

    An update of all ``I`` items only shows ``K >= I - M``, and this lower bound is returned (1 at least).
    """
    sent, pseudo, everything = (
        min(len(update.items) for _, update in sightings),
        public.protection.pseudo,
        public.model.n_items,
    )
    if pseudo == 0:
        return len(history(public, sightings))
    return sent - pseudo if sent < everything else max(everything - pseudo, 1)
