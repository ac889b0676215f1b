"""A user's star graph rebuilt from what the server has: its own parameters, the items sent, the zeros of dropout."""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from jgleak.attacks.recommender.observation import PublicKnowledge, Sighting
from jgleak.federated.recommender.clients import Client
from jgleak.federated.recommender.model import Local, Recommender

SMALLEST = 4
"""Items are padded to this times a power of two, so that few shapes compile."""


class View(NamedTuple):
    """One round of one user with a supposed history of ``K`` items, padded.

    Attributes:
      client: the supposed star graph; its values are unknown and zero.
      local: the parameters that the user downloaded.
      factor: what dropout multiplies rows by, ``kept / (1 - dropout)``; ones for the network, and where masks are not
        seen.
      seen: the gradient as it left; zero at padding.
      shown: 1 at the parts of the gradient that leave, 0 at padding and at fixed neighbours.
    """

    client: Client
    local: Local
    factor: Local
    seen: Local
    shown: Local


def view(public: PublicKnowledge, sighting: Sighting, items: Int[np.ndarray, " K"], *, masked: bool) -> View:
    """The view of one round, in double precision where that is switched on.

    Dropout sets entries of an embedding to zero, and the gradient of such an entry is exactly zero, while that of a
    kept one is not. So, as long as no noise is added (``masked``), the update shows each mask.

    Fixed neighbours are unknown. Their number is not, and it enters the normalisation; their rows start as the mean
    embedding of all users.
    """
    (params, update), size = sighting, max(SMALLEST, 1 << (len(items) - 1).bit_length())
    mask, numbers = np.arange(size) < len(items), np.zeros(size, np.int32)
    numbers[: len(items)] = items
    item_rows: Any = np.zeros((size, params.items.shape[1]))
    item_rows[: len(items)] = update.item_gradients[np.searchsorted(update.items, items)]
    near, seen_near = _neighbours(public, sighting)
    local: Any = Local(params.network, params.users[update.user], params.items[numbers], near)
    of_user: Any = update.user_gradient
    seen: Any = Local(update.network, of_user, item_rows, seen_near)
    factor: Any = jax.tree.map(np.ones_like, seen)
    if masked and public.model.dropout:
        hidden = near if public.neighbours == "fixed" else seen_near
        factor = Local(factor.network, *(_factor(public.model, rows) for rows in (of_user, item_rows, hidden)))
    shown: Any = jax.tree.map(np.ones_like, seen)._replace(
        items=np.ones_like(item_rows) * mask[:, None],
        neighbours=np.full_like(seen_near, public.neighbours == "trainable"),
    )
    zeros, there = np.zeros(len(near), np.int32), np.ones(len(near), bool)
    star = Client(*map(jnp.asarray, (update.user, numbers, np.zeros(size), mask, zeros, there)))
    return View(
        star, *(jax.tree.map(lambda leaf: jnp.asarray(leaf, float), part) for part in (local, factor, seen, shown))
    )


def predictions(model: Recommender, seen: View, local: Local) -> Float[Array, " K"]:
    """Predictions for the supposed history at ``local``, with the view's dropout, less the user's offset."""
    rows = (leaf * factor for leaf, factor in zip(local[1:], seen.factor[1:], strict=True))
    return model.shared(Local(local.network, *rows), seen.client)


def rate(model: Recommender, seen: View) -> Float[Array, ""]:
    """``2 / (K scale^2)``: the loss' derivative by a prediction, for each unit that it is off; ``K`` is 1 for sums."""
    return 2.0 / (model.addends(seen.client) * model.scale**2)


def expected(model: Recommender, seen: View, local: Local, ratings: Float[Array, " K"]) -> Local:
    """The gradient that a user with these ratings, less the own offset, computes: ``J^T (p - t) 2 / (K scale^2)``."""
    now, pull = jax.vjp(partial(predictions, model, seen), local)
    return pull(rate(model, seen) * jnp.where(seen.client.mask, now - ratings, 0.0))[0]


def _factor(model: Recommender, rows: Float[np.ndarray, "... w"]) -> Any:
    """Dropout's factors from a gradient's zeros; a row of zeros alone (its residuals vanish) counts as kept."""
    kept = (rows != 0) | np.all(rows == 0, axis=-1, keepdims=True)
    factor = np.where(kept, 1.0 / (1.0 - model.dropout), 0.0)
    factor[..., model.width :] = 1.0
    return factor


def _neighbours(public: PublicKnowledge, sighting: Sighting) -> tuple[Any, Any]:
    """Rows ``(P, w)`` of the neighbours as the server knows them, and their gradients."""
    users, update = np.asarray(sighting.params.users), sighting.update
    if public.neighbours == "trainable":
        return users[update.neighbours], update.neighbour_gradients
    rows = np.tile(users.mean(axis=0), (public.limit, 1))
    return rows, np.zeros_like(rows)
