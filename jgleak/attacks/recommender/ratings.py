"""Ratings of a known history: given the parameters, an update is linear in them.

With predictions ``p_k`` at the parameters sent and ``J`` their derivative by all that leaves the client, the loss
``mean_k ((p_k - t_k) / scale)^2`` has the gradient ``G = J^T (p - t) 2 / (K scale^2)``: linear in the ratings
``t``. Everything else is known: the parameters, the history, and dropout's masks, which are the zeros of ``G``. So
without noise the ratings are the solution of one linear least-squares problem, exact up to rounding as soon as the
rows of ``J`` are independent. It is the Gaussian posterior mean, for ``t ~ N(prior mean, prior variance)`` and

    precision = sum_rounds (2 / (K scale^2))^2 J diag(1 / v) J^T + 1 / prior variance,

with ``v`` an entry's variance: of rounding, the known noise, and, where noise hides the masks, dropout's
``p (1 - p)`` times the mean square of what it leaves of the expected tensor, clipped. Laplace noise of scale ``b``
is worth a variance of ``b^2``, half its own, when residuals enter by their score ``b sign(r)`` (Fisher scoring from
the Gaussian solution). Without noise, entries that are cut to the bound are seen and left out. With noise nobody
sees them: there clipping is the line that fits best over the prior (``clipped``). What the line misses is the same
in every round and alike in an item's whole row, and counts as an error of the rating. A misfit that noise does not
explain means that the history or the graph is wrong. Such errors may all point one way, so ``v`` grows as if only
as many entries as ratings were independent, and a wrong history gives the prior back instead of a confident guess.
Noise can hide a misfit, so there a ``certainty`` below 1 counts as a further, independent error of the ratings with
the variance ``(1 - certainty) ((p - prior mean)^2 + prior variance)``: a wrong graph errs in proportion to the
residual, however many rounds there are. It is one of what the device learns from.

Where devices keep the user's offset to themselves (``Recommender.own = p``), what they learn from is
``centre + S (t - centre)`` with ``S = 1 - 11^T / (K + p)``: linear in the ratings as well, and not singular, with
``S J`` in the place of ``J``.

Without noise one round says everything, and the first is used. Fixed neighbours are unknown: without noise they
are sought together with the ratings (``jgleak.attacks.recommender.unseen``); under noise they stay at the users'
mean embedding.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Float, Int

from jgleak.attacks.recommender.clipped import Clipped, clipped
from jgleak.attacks.recommender.noise import Noise, noise
from jgleak.attacks.recommender.observation import PublicKnowledge, Sighting, check
from jgleak.attacks.recommender.star import View, predictions, rate, view
from jgleak.attacks.recommender.tolerances import LIMITS, TOLERANCES, RatingLimits, RatingTolerances
from jgleak.attacks.recommender.unseen import with_neighbours
from jgleak.federated.recommender.model import Recommender

TOGETHER = 8
"""Rows of the information matrix that are computed side by side."""

TINY = 1e-60
"""Below the square of any gradient."""


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


def estimate(
    public: PublicKnowledge,
    sightings: Sequence[Sighting],
    items: Int[np.ndarray, " K"],
    *,
    certainty: float = 1.0,
    tolerances: RatingTolerances = TOLERANCES,
    limits: RatingLimits = LIMITS,
) -> Estimates:
    """The ratings that a user gave ``items``, supposed to be the history, from one or more rounds.

    The module's text says how.

    Args:
      public: what everyone knows.
      sightings: the user's rounds.
      items: the supposed history.
      certainty: the share of ``items`` expected to be rated.
      tolerances: what counts as rounding and as chance.
      limits: how long the ratings are searched for.

    Raises:
      ValueError: as ``check``; a certainty outside [0, 1]; an item was not sent in some round; a defence other than
        entrywise clipping and noise.
    """
    check(public, sightings)
    items = np.sort(np.asarray(items))
    _check_sent(sightings, items)
    if not 0 <= certainty <= 1:
        raise ValueError(f"certainty: a share in [0, 1], got {certainty}")
    if not len(items):
        return Estimates(np.zeros(0), np.zeros(0), 0.0)
    known = noise(public.protection)
    posterior = partial(_posterior, public, known, tolerances=tolerances, sweeps=limits.sweeps)
    if known.deviation:
        views = [view(public, one, items, masked=False) for one in sightings]
        same = all(one.params is sightings[0].params for one in sightings)
        return posterior([views] if same else [[one] for one in views], len(items), certainty)
    with jax.enable_x64(True):
        first = view(public, sightings[0], items, masked=True)
        if public.neighbours == "fixed":
            users = sightings[0].params.users
            first = with_neighbours(public, first, users, known.bound, tolerance=tolerances.change, limits=limits)
        return posterior([[first]], len(items), 1.0)


def _check_sent(sightings: Sequence[Sighting], items: Int[np.ndarray, " K"]) -> None:
    for number, (_, update) in enumerate(sightings):
        if not np.isin(items, update.items).all():
            raise ValueError(
                f"items: {np.setdiff1d(items, update.items)[:5]} were not sent in round {number}; a rated item is sent "
                "in every round"
            )


class _Unknowns(NamedTuple):
    """Rounds at the same parameters, entry by entry of the update laid out in one row of ``n``.

    Attributes:
      view: the first of them.
      now: predicted ratings.
      bend: what clipping leaves of an entry.
      centre: the entry expected at the prior's mean ratings, where ``bend`` was taken.
      seen: the updates.
      weight: 1 over an entry's variance; 0 where it says nothing.
      gain: the same for an entry's score.
      missed: ``gain`` times what the line misses, in units of the variance that one rating alone gives the entry.
    """

    view: View
    now: Float[np.ndarray, " K"]
    bend: Clipped
    centre: Float[np.ndarray, " n"]
    seen: Float[np.ndarray, "R n"]
    weight: Float[np.ndarray, " n"]
    gain: Float[np.ndarray, " n"]
    missed: Float[np.ndarray, " n"]


def _posterior(
    public: PublicKnowledge,
    known: Noise,
    rounds: list[list[View]],
    count: int,
    certainty: float,
    *,
    tolerances: RatingTolerances,
    sweeps: int,
) -> Estimates:
    """Scoring steps from the prior's mean on."""
    mean, prior, model = public.mean, public.deviation**-2 * np.eye(count), public.model
    kept = 0.0 if model.own is None else 1.0 / (count + model.own)
    less = np.eye(count) - kept  # S, which is symmetric
    groups = [_group(public, known, views, less, tolerances.rounding) for views in rounds]
    gram, missed = np.zeros((count, count)), np.zeros(count)
    for group in groups:
        one, bent = _information(model, group, less)
        gram, missed = gram + len(group.seen) * one, missed + len(group.seen) * bent
    entries = max(sum(len(group.seen) * np.count_nonzero(group.weight) for group in groups), 1)
    wrong = (1.0 - certainty) * (
        (groups[0].now - _learnt(model, less, np.full(count, mean))) ** 2 + public.deviation**2
    )
    more = np.linalg.inv(less)
    doubt = more * wrong @ more + np.diag(missed / np.maximum(np.diag(gram), TINY))
    ratings, misfit, wider, sharpness = np.full(count, mean), 0.0, 1.0, prior
    for sweep in range(sweeps):
        robust = known.kind == "laplace" and sweep > 0
        learnt = _learnt(model, less, ratings)
        slopes, squares = zip(*(_slope(model, known, group, learnt, robust) for group in groups), strict=True)
        if sweep == 1:
            misfit = sum(squares) / entries
            excess = max(misfit - 1.0 - tolerances.unsure / np.sqrt(entries), 0.0)
            wider = 1.0 + excess * entries / count
        duller = np.linalg.inv(np.eye(count) + gram / wider @ doubt) / wider  # (G^-1 + V)^-1 = (1 + G V)^-1 G
        sharpness = duller @ gram + prior
        step = np.linalg.solve(sharpness, duller @ less @ sum(slopes) + prior @ (mean - ratings))
        ratings = ratings + step
    deviations = np.sqrt(np.diag(np.linalg.inv(sharpness)))
    return Estimates(ratings, deviations, float(np.sqrt(misfit)))


def _group(
    public: PublicKnowledge, known: Noise, views: list[View], less: Float[np.ndarray, "K K"], rounding: float
) -> _Unknowns:
    """Variances of all entries, one tensor at a time, at the prior's mean ratings."""
    view, model, count = views[0], public.model, len(less)
    now = np.asarray(_now(model, view), np.float64)[:count]
    seen = np.stack([np.concatenate([np.ravel(leaf) for leaf in jax.tree.leaves(one.seen)]) for one in views])
    shown = np.concatenate([np.ravel(leaf) for leaf in jax.tree.leaves(view.shown)]) > 0
    says = _pull(model, view, now - _learnt(model, less, np.full(count, public.mean)))
    bound = known.bound if known.deviation else np.inf
    hidden = model.dropout * (1.0 - model.dropout) if known.deviation else 0.0
    left = np.clip(says / (1.0 - model.dropout), -bound, bound)  # of an entry that dropout keeps
    sizes = [leaf.size for leaf in jax.tree.leaves(view.seen)]
    tensor = np.repeat(np.arange(len(sizes)), sizes)
    members = np.maximum(np.bincount(tensor, shown), 1.0)
    size, bent = (np.bincount(tensor, shown * row**2) / members for row in (seen[0], left))
    rounded = rounding**2 * np.maximum(size, max(rounding * size.max(), TINY))
    squares = _squares(model, view, less) if np.isfinite(bound) else np.zeros_like(says)
    bend = clipped(says, public.deviation**2 * squares, bound * _kept(model, view))
    variance = (known.deviation**2 + hidden * bent + rounded)[tensor]
    used = shown & (np.abs(seen[0]) < known.bound * (1.0 - rounding) if np.isinf(bound) else True)
    sharper = known.deviation**2 / 2.0 if known.kind == "laplace" else 0.0
    gain = used / (variance - sharper)
    return _Unknowns(view, now, bend, says, seen, used / variance, gain, gain * bend.left / np.maximum(squares, TINY))


def _kept(model: Recommender, view: View) -> Float[np.ndarray, " n"]:
    """The share ``q`` of the rounds in which dropout keeps an entry: ``clip(g / q, bound)`` then, in the mean
    ``clip(g, q bound)``. Biases and the network have no dropout."""

    here = np.where(np.arange(view.seen.user.size) < model.width, 1.0 - model.dropout, 1.0)
    network = [np.ones(leaf.size) for leaf in jax.tree.leaves(view.seen.network)]
    rows = [np.tile(here, leaf.size // here.size) for leaf in (view.seen.user, view.seen.items, view.seen.neighbours)]
    return np.concatenate([*network, *rows])


def _learnt(
    model: Recommender, less: Float[np.ndarray, "K K"], ratings: Float[np.ndarray, " K"]
) -> Float[np.ndarray, " K"]:
    """What a device learns from: the ratings, less the user's offset where it keeps that."""
    return model.centre + less @ (ratings - model.centre)


def _squares(model: Recommender, view: View, less: Float[np.ndarray, "K K"]) -> Float[np.ndarray, " n"]:
    """Every entry's variance, for ratings of variance one."""
    squares = (np.square(np.asarray(rows, np.float64)).sum(axis=0) for rows in _columns(model, view, less))
    return np.sum(list(squares), axis=0)


def _information(
    model: Recommender, group: _Unknowns, less: Float[np.ndarray, "K K"]
) -> tuple[Float[np.ndarray, "K K"], Float[np.ndarray, " K"]]:
    """``(2 / (K scale^2))^2 S J diag(slope^2 / v) J^T S``, some rows at a time, and what of it the lines miss."""
    gain, count = group.gain * group.bend.slope**2, len(less)
    gram, missed = [], []
    for rows in _columns(model, group.view, less):
        gram.append(np.asarray(_pushed(model, group.view, gain * rows)))
        missed.append(np.square(np.asarray(rows, np.float64)) @ group.missed)
    return np.concatenate(gram)[:count, :count].astype(np.float64) @ less, np.concatenate(missed)[:count]


def _columns(model: Recommender, view: View, less: Float[np.ndarray, "K K"]) -> Iterator[Array]:
    """``J^T S 2 / (K scale^2)``, ``TOGETHER`` ratings at a time."""
    rows = np.zeros((-(-len(less) // TOGETHER) * TOGETHER, view.client.items.shape[0]))
    rows[: len(less), : len(less)] = less
    return (_pulled(model, view, some) for some in rows.reshape(-1, TOGETHER, rows.shape[1]))


def _slope(
    model: Recommender, known: Noise, group: _Unknowns, learnt: Float[np.ndarray, " K"], robust: bool
) -> tuple[Float[np.ndarray, " K"], float]:
    """Derivative of the log-likelihood by what is learnt from, and the squared residuals in units of their variance."""
    bend = group.bend
    says = bend.expected + bend.slope * (_pull(model, group.view, group.now - learnt) - group.centre)
    residual = group.seen - says
    score = known.deviation / np.sqrt(2.0) * np.sign(residual) if robust else residual
    scores = np.zeros((TOGETHER, says.size))
    scores[0] = group.gain * bend.slope * score.sum(axis=0)
    slope = -np.asarray(_pushed(model, group.view, scores))[0, : len(learnt)]
    return slope.astype(np.float64), float((group.weight * residual**2).sum())


def _pull(model: Recommender, seen: View, change: Float[np.ndarray, " K"]) -> Float[np.ndarray, " n"]:
    changes = np.zeros((TOGETHER, seen.client.items.shape[0]))
    changes[0, : len(change)] = change
    return np.asarray(_pulled(model, seen, changes)[0], np.float64)


def _open(function: Callable[..., Array]) -> Callable[..., Array]:
    """Compiled, for a model without its dropout, which the view has: one compilation serves all."""
    compiled = jax.jit(function, static_argnums=0)
    return lambda model, *arguments: compiled(dataclasses.replace(model, dropout=0.0), *arguments)


@_open
def _now(model: Recommender, seen: View) -> Float[Array, " K"]:
    return predictions(model, seen, seen.local)


@_open
def _pulled(model: Recommender, seen: View, changes: Float[Array, "B K"]) -> Float[Array, "B n"]:
    """``J^T (p - t) 2 / (K scale^2)`` for many ``p - t``."""
    _, pull = jax.vjp(partial(predictions, model, seen), seen.local)

    def one(change: Float[Array, " K"]) -> Float[Array, " n"]:
        weighted = rate(model, seen) * jnp.where(seen.client.mask, change.astype(seen.local.user.dtype), 0.0)
        return ravel_pytree(pull(weighted)[0])[0]

    return jax.vmap(one)(changes)


@_open
def _pushed(model: Recommender, seen: View, scores: Float[Array, "B n"]) -> Float[Array, "B K"]:
    """The transpose of ``_pulled``."""
    _, push = jax.linearize(partial(predictions, model, seen), seen.local)
    _, lay_out = ravel_pytree(seen.local)
    some = jax.vmap(lambda row: push(lay_out(row)))(scores.astype(seen.local.user.dtype))
    return rate(model, seen) * jnp.where(seen.client.mask, some, 0.0)
