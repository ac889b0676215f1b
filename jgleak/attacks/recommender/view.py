"""A user's star graph rebuilt from what the server has: its own parameters, the items sent, the zeros of dropout."""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from jgleak.attacks.recommender.public import Public, Sighting
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


def view(public: Public, sighting: Sighting, items: Int[np.ndarray, " K"], *, masked: bool) -> View:
    """The view of one round, in double precision where that is switched on.

    Dropout sets entries of an embedding to zero, and the gradient of such an entry is exactly zero, while that of a
    kept one is not. So, as long as nobody adds noise (``masked``), the update shows each mask.

    Fixed neighbours are unknown. Their number is not, and it enters the normalisation; their rows start as the mean
    embedding of all users.
    """
    model, (params, update) = public.model, sighting
    count = max(SMALLEST, 1 << int(np.ceil(np.log2(max(len(items), 1)))))
    mask = np.arange(count) < len(items)
    numbers = np.zeros(count, np.int32)
    numbers[: len(items)] = items
    real = np.float64 if jax.config.jax_enable_x64 else np.float32

    def padded(rows: np.ndarray) -> np.ndarray:
        return np.pad(np.asarray(rows, real), ((0, count - len(items)), (0, 0)))

    item_rows = padded(update.item_gradients[np.searchsorted(update.items, items)])
    near, seen_near = _neighbours(public, sighting, real)
    network = jax.tree.map(lambda leaf: np.asarray(leaf, real), params.network)
    local = Local(network, np.asarray(params.users[update.user], real), np.asarray(params.items, real)[numbers], near)
    seen = Local(
        jax.tree.map(lambda leaf: np.asarray(leaf, real), update.network),
        np.asarray(update.user_gradient, real),
        item_rows,
        seen_near,
    )
    factor = jax.tree.map(np.ones_like, local)
    if masked and model.dropout:
        factor = Local(factor.network, *(_factor(model, rows) for rows in seen[1:]))
        if public.neighbours == "fixed":
            factor = factor._replace(neighbours=np.ones_like(near))
    shown = Local(
        jax.tree.map(np.ones_like, local.network),
        np.ones_like(local.user),
        np.broadcast_to(mask[:, None], item_rows.shape).astype(real),
        np.full_like(near, public.neighbours == "trainable"),
    )
    there = np.ones(len(near), bool)
    client = Client(np.int32(update.user), numbers, np.zeros(count, real), mask, np.zeros(len(near), np.int32), there)
    return jax.tree.map(jnp.asarray, View(client, local, factor, seen, shown))


def predictions(model: Recommender, seen: View, local: Local) -> Float[Array, " K"]:
    """Predicted ratings of the supposed history at ``local``, with the view's dropout."""
    rows = (leaf * factor for leaf, factor in zip(local[1:], seen.factor[1:], strict=True))
    return model.predict(Local(local.network, *rows), seen.client)


def rate(model: Recommender, seen: View) -> Float[Array, ""]:
    """``2 / (K scale^2)``: the loss' derivative by a prediction, for each unit that it is off."""
    return 2.0 / (seen.client.mask.sum() * model.scale**2)


def expected(model: Recommender, seen: View, local: Local, ratings: Float[Array, " K"]) -> Local:
    """The gradient that a user with these ratings computes: ``J^T (p - t) 2 / (K scale^2)``."""
    now, pull = jax.vjp(partial(predictions, model, seen), local)
    return pull(rate(model, seen) * jnp.where(seen.client.mask, now - ratings, 0.0))[0]


def _factor(model: Recommender, rows: Float[np.ndarray, "... w"]) -> Float[np.ndarray, "... w"]:
    """Dropout's factors from a gradient's zeros; a row of zeros alone (its residuals vanish) counts as kept."""
    kept = (rows != 0) | np.all(rows == 0, axis=-1, keepdims=True)
    factor = np.where(kept, 1.0 / (1.0 - model.dropout), 0.0)
    factor[..., model.width :] = 1.0
    return factor.astype(rows.dtype)


def _neighbours(public: Public, sighting: Sighting, real: type) -> tuple[np.ndarray, np.ndarray]:
    """Rows of the neighbours as the server knows them, and their gradients."""
    params, update = sighting
    if public.neighbours == "trainable":
        rows = np.asarray(params.users, real)[update.neighbours]
        return rows, np.asarray(update.neighbour_gradients, real)
    rows = np.tile(np.asarray(params.users, real).mean(axis=0), (public.limit, 1))
    return rows, np.zeros_like(rows)
