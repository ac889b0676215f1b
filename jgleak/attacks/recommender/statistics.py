"""Real or pseudo? Numbers that an honest-but-curious server computes from the item gradients themselves."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce

import numpy as np
from jaxtyping import Bool, Float, Int

from jgleak.attacks.recommender.history import size
from jgleak.attacks.recommender.observation import PublicKnowledge, Sighting

Statistic = Callable[[PublicKnowledge, Sequence[Sighting], Int[np.ndarray, " S"]], Float[np.ndarray, " S"]]
"""From what everyone knows, one user's rounds and the items that were sent in any, to a score of each item."""

SURE = 1e6
"""A log-likelihood ratio that stands for certainty."""

TINY = 1e-30
"""Below the square of any gradient worth the name."""


def sent_items(sightings: Sequence[Sighting]) -> Int[np.ndarray, " S"]:
    """Every item that was sent in some round, ascending."""
    return reduce(np.union1d, [update.items for _, update in sightings])


def presence(sightings: Sequence[Sighting], items: Int[np.ndarray, " S"]) -> Bool[np.ndarray, "R S"]:
    """In which rounds each item was sent."""
    return np.stack([np.isin(items, update.items) for _, update in sightings])


def rows(sightings: Sequence[Sighting], items: Int[np.ndarray, " S"]) -> Float[np.ndarray, "R S w"]:
    """Each item's gradient in each round; zero where it was not sent."""
    width = sightings[0].update.item_gradients.shape[1]
    out = np.zeros((len(sightings), len(items), width), sightings[0].update.item_gradients.dtype)
    for own, (_, update) in zip(out, sightings, strict=True):
        own[np.searchsorted(items, update.items)] = update.item_gradients
    return out


def norm(
    public: PublicKnowledge, sightings: Sequence[Sighting], items: Int[np.ndarray, " S"]
) -> Float[np.ndarray, " S"]:
    """Length of the mean gradient over the rounds in which the item was sent."""
    there = presence(sightings, items).sum(axis=0)
    return np.linalg.norm(rows(sightings, items).sum(axis=0) / there[:, None], axis=1)


def direction(
    public: PublicKnowledge, sightings: Sequence[Sighting], items: Int[np.ndarray, " S"]
) -> Float[np.ndarray, " S"]:
    """Cosine of an item's gradient with the mean gradient of all items of the round, averaged over rounds.

    Pseudo gradients have the real ones' mean and covariance, so that the mean over all items, pseudo ones included, is
    an estimate of the real ones' mean ``sqrt((K + M) / K)`` times less noisy than theirs alone would be.
    """
    seen, there = rows(sightings, items), presence(sightings, items)
    mean = seen.sum(axis=1) / np.maximum(there.sum(axis=1), 1)[:, None]
    lengths = np.linalg.norm(seen, axis=2) * np.linalg.norm(mean, axis=1)[:, None]
    cosine = np.einsum("rsw,rw->rs", seen, mean) / np.maximum(lengths, TINY)
    return cosine.sum(axis=0) / there.sum(axis=0)


def zeros(
    public: PublicKnowledge, sightings: Sequence[Sighting], items: Int[np.ndarray, " S"]
) -> Float[np.ndarray, " S"]:
    """Log-likelihood ratio of the number of exact zeros, real against pseudo.

    Dropout with probability ``p`` leaves ``n ~ Binomial(D, p)`` zeros in a real item's gradient, and none in a pseudo
    item's, which mixes the real ones: ``n > 0`` is certainty, ``n = 0`` has the ratio ``(1 - p)^D``. Nothing is learnt
    without dropout, or where a defence does more than clip: noise hides zeros, pruning and rounding make them.
    """
    p, width = public.model.dropout, public.model.width
    out = np.zeros(len(items))
    if p == 0 or not all(step.kind.name.startswith("clip") for step in public.protection.defense.steps):
        return out
    there = presence(sightings, items)
    found = (rows(sightings, items)[:, :, :width] == 0).any(axis=2) & there
    return np.where(found.any(axis=0), SURE, there.sum(axis=0) * width * np.log1p(-p))


def repetition(
    public: PublicKnowledge, sightings: Sequence[Sighting], items: Int[np.ndarray, " S"]
) -> Float[np.ndarray, " S"]:
    """Log-likelihood ratio of the rounds in which an item was sent, if pseudo items are drawn anew each round.

    A rated item is sent in every round, an unrated one with probability ``q = M / (I - K)`` in each, so the ratio is
    ``-R log q`` for an item that never missed, and certainty against it otherwise. Where clients keep their pseudo
    items, all items sent have one score.
    """
    there = presence(sightings, items)
    unrated = public.model.n_items - size(public, sightings)
    chance = min(public.protection.pseudo / unrated, 1.0) if unrated > 0 else 1.0
    gain = min(-np.log(chance), SURE) if chance > 0 else 1.0
    return np.where(there.all(axis=0), len(sightings) * gain, -SURE + there.sum(axis=0))


def agreement(
    public: PublicKnowledge, sightings: Sequence[Sighting], items: Int[np.ndarray, " S"]
) -> Float[np.ndarray, " S"]:
    """What an item's gradients of different rounds have in common beyond what all items have.

    The mean over pairs of rounds of ``<g - mean, g' - mean'>``, each in units of the round's spread. Real items keep
    their rating, so theirs is ``|(c_k - mean c) a|^2``; fresh pseudo gradients are independent: 0 on average. A single
    round has no pairs and says nothing, and nor does an item sent once.
    """
    seen, there = rows(sightings, items), presence(sightings, items)
    mean = seen.sum(axis=1, keepdims=True) / np.maximum(there.sum(axis=1), 1)[:, None, None]
    centred = np.where(there[:, :, None], seen - mean, 0.0)
    centred = centred / np.sqrt(np.maximum((centred**2).sum(axis=(1, 2), keepdims=True), TINY))
    total, own = centred.sum(axis=0), (centred**2).sum(axis=(0, 2))
    return ((total**2).sum(axis=1) - own) / np.maximum(pairs(sightings, items), 1)


def pairs(sightings: Sequence[Sighting], items: Int[np.ndarray, " S"]) -> Int[np.ndarray, " S"]:
    """Ordered pairs of rounds in which each item was sent."""
    count = presence(sightings, items).sum(axis=0)
    return count * (count - 1)
