"""Ratings of a known history: given the parameters, an update is linear in them."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from jgleak.attacks.recommender.noise import Noise, noise
from jgleak.attacks.recommender.public import Public, Sighting, check
from jgleak.attacks.recommender.unseen import with_neighbours
from jgleak.attacks.recommender.view import View, predictions, rate, view
from jgleak.federated.recommender.model import Local, Recommender

ROUNDING = 1e-6
"""Deviation of an entry that single precision alone explains, in units of the root mean square of its tensor."""

SWEEPS = 3
"""Newton steps: one is exact where nothing was clipped; under Laplace noise and clipping the next ones count more."""

TOGETHER = 16
"""Rows of the information matrix that are computed side by side."""


class Estimates(NamedTuple):
    """Ratings of a supposed history.

    Attributes:
      ratings: posterior means ``(K,)``, in the levels' unit.
      deviations: posterior standard deviations ``(K,)``.
      misfit: root mean square of the residuals in units of the noise; 1 where the model explains the updates.
    """

    ratings: Float[np.ndarray, " K"]
    deviations: Float[np.ndarray, " K"]
    misfit: float


def estimate(public: Public, sightings: Sequence[Sighting], items: Int[np.ndarray, " K"]) -> Estimates:
    """The ratings that a user gave ``items``, supposed to be the history, from one or more rounds.

    With predictions ``p_k`` at the parameters sent and ``J`` their derivative by all that leaves the client, the loss
    ``mean_k ((p_k - t_k) / scale)^2`` has the gradient ``G = J^T (p - t) 2 / (K scale^2)``: linear in the ratings
    ``t``. Everything else is known: the parameters, the history, and dropout's masks, which are the zeros of ``G``. So
    without noise the ratings are the solution of one linear least-squares problem, exact up to rounding as soon as the
    rows of ``J`` are independent. It is the Gaussian posterior mean, for ``t ~ N(prior mean, prior variance)`` and

        precision = sum_rounds (2 / (K scale^2))^2 J diag(1 / v) J^T + 1 / prior variance,

    with ``v`` an entry's variance: of rounding, the known noise, and, where noise hides the masks, dropout's
    ``p / (1 - p)`` times the mean square of the expected tensor. Laplace noise of scale ``b`` is worth a variance of
    ``b^2``, half its own, when residuals enter by their score ``b sign(r)`` (Fisher scoring from the Gaussian
    solution). Entries that are, or are expected to be, cut to the bound are left out. A misfit above 1 widens ``v``
    until the residuals fit, so that a wrong history or an unknown graph gives the prior back instead of a confident
    guess.

    Fixed neighbours are unknown: without noise they are sought together with the ratings
    (``jgleak.attacks.recommender.unseen``); under noise they stay at the users' mean embedding.

    Raises:
      ValueError: as ``check``; an item was not sent in some round; a defence other than entrywise clipping and noise.
    """
    check(public, sightings)
    items = np.sort(np.asarray(items))
    for number, (_, update) in enumerate(sightings):
        if not np.isin(items, update.items).all():
            raise ValueError(
                f"items: {np.setdiff1d(items, update.items)[:5]} were not sent in round {number}; a rated item is sent "
                "in every round"
            )
    if not len(items):
        return Estimates(np.zeros(0), np.zeros(0), 0.0)
    known = noise(public.protection)
    with jax.enable_x64(True):
        views = [view(public, one, items, masked=known.deviation == 0) for one in sightings]
        if public.neighbours == "fixed" and known.deviation == 0:
            views = [
                with_neighbours(public, one, seen.params.users, known.bound)
                for one, seen in zip(views, sightings, strict=True)
            ]
        return _solve(public, known, views, len(items))


def _solve(public: Public, known: Noise, views: list[View], count: int) -> Estimates:
    size, model = views[0].client.items.shape[0], public.model
    prior, ratings, misfit, wider = public.deviation**-2, np.full(size, public.mean), 0.0, 1.0
    hidden = model.dropout / (1.0 - model.dropout) if known.deviation else 0.0
    precision = np.eye(size)
    for sweep in range(SWEEPS):
        robust = known.kind == "laplace" and sweep > 0
        numbers = [jnp.asarray(value) for value in (known.bound, known.deviation, hidden, robust)]
        parts = [_normal(model, one, jnp.asarray(ratings), *numbers) for one in views]
        gram, slope, squares = (sum(np.asarray(part[i]) for part in parts) for i in range(3))
        if sweep == 1:
            misfit = float(np.sqrt(squares / len(views)))
            wider = max(misfit, 1.0)
        precision = gram / wider**2 + prior * np.eye(size)
        ratings = ratings + np.linalg.solve(precision, slope / wider**2 + prior * (public.mean - ratings))
    deviations = np.sqrt(np.diag(np.linalg.inv(precision)))
    return Estimates(ratings[:count], deviations[:count], misfit)


@partial(jax.jit, static_argnames=("model",))
def _normal(
    model: Recommender,
    seen: View,
    ratings: Float[Array, " K"],
    bound: Float[Array, ""],
    deviation: Float[Array, ""],
    hidden: Float[Array, ""],
    robust: Bool[Array, ""],
) -> tuple[Float[Array, "K K"], Float[Array, " K"], Float[Array, ""]]:
    """One round's precision, the derivative of its log-likelihood by the ratings, and its mean squared residual."""
    now, push = jax.linearize(partial(predictions, model, seen), seen.local)
    transposed = jax.linear_transpose(push, seen.local)
    step, mask = rate(model, seen), seen.client.mask

    def pull(change: Array) -> Local:
        return transposed(step * jnp.where(mask, change, 0.0))[0]

    overall = _mean_square(seen.seen, seen.shown)

    def weigh(leaf: Array, shown: Array, says: Array) -> tuple[Array, Array, Array]:
        """Precision, score and squared residual of every entry of one tensor."""
        count = jnp.maximum(shown.sum(), 1.0)
        size, bent = (shown * leaf**2).sum() / count, hidden * (shown * says**2).sum() / count
        used = shown * (jnp.abs(jnp.where(deviation > 0, says, leaf)) < bound * (1.0 - ROUNDING))
        residual = leaf - jnp.clip(says, -bound, bound)
        variance = deviation**2 + bent + ROUNDING**2 * jnp.maximum(size, ROUNDING * overall)
        squares = used * residual**2 / variance
        variance = jnp.where(robust, variance - deviation**2 / 2.0, variance)
        score = jnp.where(robust, deviation / jnp.sqrt(2.0) * jnp.sign(residual), residual)
        return used / variance, used / variance * score, squares

    triples: Any = jax.tree.map(weigh, seen.seen, seen.shown, pull(now - ratings))
    weights, scores, squares = jax.tree.transpose(jax.tree.structure(seen.seen), None, triples)
    used = sum((leaf > 0).sum() for leaf in jax.tree.leaves(weights))
    total = sum(leaf.sum() for leaf in jax.tree.leaves(squares))

    def row(one: Array) -> Array:
        return step * push(jax.tree.map(jnp.multiply, weights, pull(one)))

    gram = jnp.where(mask, jax.lax.map(row, jnp.eye(mask.size, dtype=step.dtype), batch_size=TOGETHER), 0.0)
    return gram, jnp.where(mask, -step * push(scores), 0.0), total / jnp.maximum(used, 1)


def _mean_square(tree: Local, shown: Local) -> Float[Array, ""]:
    total = sum((part * leaf**2).sum() for leaf, part in zip(*map(jax.tree.leaves, (tree, shown)), strict=True))
    return total / sum(part.sum() for part in jax.tree.leaves(shown))
