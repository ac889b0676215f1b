"""Federated matrix factorisation: item factors at the server, user factors on the devices, gradients in between."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Bool, Float, Int

from jgleak.federated.recommender.clients import Client, Clients, alone
from jgleak.federated.recommender.evaluate import error, requests
from jgleak.federated.recommender.rounds import deal
from jgleak.ratings import Ratings


class Factors(NamedTuple):
    """``r_ui ~ centre + scale x_u . y_i``.

    Attributes:
      users: the users' own factors ``(U, d)``, which never leave their devices.
      items: the items' factors ``(I, d)``, which the server holds.
    """

    users: Float[Array, "U d"]
    items: Float[Array, "I d"]


class Settings(NamedTuple):
    """How the factors are learnt.

    Attributes:
      width: number of factors ``d``.
      epochs: times that every user takes part.
      clients: users of a round.
      rate: the server's learning rate.
      optimiser: of the server, ``sgd`` or ``adam``.
      user_rate: learning rate on the devices; unused where they solve for their factors.
      decay: the penalty ``lambda`` on squared factors.
      centre: rating that a zero product stands for.
      scale: of the product.
      spread: standard deviation of the initial factors.
      patience: epochs without a better validation RMSE after which training stops; None never stops early.
    """

    width: int = 25
    epochs: int = 30
    clients: int = 128
    rate: float = 0.01
    optimiser: str = "adam"
    user_rate: float = 0.01
    decay: float = 1.0
    centre: float = 0.0
    scale: float = 1.0
    spread: float = 0.1
    patience: int | None = None


class Factorised(NamedTuple):
    """The outcome: the factors of the best epoch (of the last without validation ratings), as in ``Trained``."""

    factors: Factors
    epoch: int
    validation: list[float]
    seconds: list[float]
    clients_per_second: float


Method = Callable[
    [Settings, Float[Array, " d"], Float[Array, "K d"], Float[Array, " K"], Bool[Array, " K"]],
    tuple[Float[Array, " d"], Float[Array, "K d"]],
]
"""A client: own factors, its items' factors, its ratings (centred and scaled) and their mask to its new factors, which
stay, and the gradients of its items' factors, which leave."""


def factorise(
    method: Method, clients: Clients, settings: Settings, *, key: Array, validation: Ratings | None = None
) -> Factorised:
    """Rounds of clients with one method: the last outcome of ``factor_epochs``, which has the arguments' meaning."""
    return deque(factor_epochs(method, clients, settings, key=key, validation=validation), maxlen=1)[0]


def factor_epochs(
    method: Method, clients: Clients, settings: Settings, *, key: Array, validation: Ratings | None = None
) -> Iterator[Factorised]:
    """The outcome so far after every epoch; the server adds up the items' gradients of a round and steps.

    An epoch adds the items' penalty once, every round its share of it.

    Raises:
      ValueError: no epoch, no client with a rating, or patience without validation ratings.
    """
    if settings.patience is not None and validation is None:
        raise ValueError("patience: stopping early needs validation ratings; take them from the training ratings")
    if settings.epochs < 1:
        raise ValueError(f"epochs: must be at least 1, got {settings.epochs}")
    active = [np.flatnonzero(np.asarray(group.mask.any(axis=1))) for group in clients.groups]
    total = sum(rows.size for rows in active)
    if total == 0:
        raise ValueError("clients: no user has rated anything")
    first, second = jax.random.split(key)
    factors = Factors(
        settings.spread * jax.random.normal(first, (clients.n_users, settings.width)),
        settings.spread * jax.random.normal(second, (clients.n_items, settings.width)),
    )
    groups = tuple(map(alone, clients.groups))
    memory, scores, seconds, best = _optimiser(settings).init(factors.items), [], [], (factors, 0)
    rng = np.random.default_rng(np.asarray(jax.random.key_data(key)).tolist())
    for epoch in range(1, settings.epochs + 1):
        start = time.perf_counter()
        dealt = deal(active, -(-total // settings.clients), rng)
        factors, memory = jax.block_until_ready(_epoch(method, settings, factors, memory, groups, dealt))
        seconds.append(time.perf_counter() - start)
        if validation is not None:
            scores.append(factors_rmse(factors, settings, clients, validation))
        if validation is None or scores[-1] <= min(scores):
            best = (factors, epoch)
        yield Factorised(*best, list(scores), list(seconds), total / min(seconds))
        if settings.patience is not None and epoch - best[1] >= settings.patience:
            return


def factors_rmse(factors: Factors, settings: Settings, clients: Clients, wanted: Ratings) -> float:
    """RMSE of the ratings ``wanted``, predictions moved into the levels.

    Raises:
      ValueError: other numbers of users or items, or no rating.
    """
    asked = requests(clients, wanted)
    x, y = np.asarray(factors.users), np.asarray(factors.items)
    found = settings.centre + settings.scale * np.einsum("ud,uid->ui", x, y[asked.items])
    return error(asked, found, wanted, bounded=True)


def _optimiser(settings: Settings) -> optax.GradientTransformation:
    return optax.adam(settings.rate) if settings.optimiser == "adam" else optax.sgd(settings.rate)


@partial(jax.jit, static_argnames=("method", "settings"))
def _epoch(
    method: Method,
    settings: Settings,
    factors: Factors,
    memory: Any,
    groups: tuple[Client, ...],
    dealt: tuple[Int[Array, "R _n"], ...],
) -> tuple[Factors, Any]:
    optimiser = _optimiser(settings)

    def step(state: tuple[Factors, Any], rows: Any) -> tuple[tuple[Factors, Any], None]:
        (users, items), memory = state
        sums, changed = jnp.zeros_like(items), users
        for group, chosen in zip(groups, rows, strict=True):
            client = jax.tree.map(lambda leaf, chosen=chosen: leaf[chosen], group)
            values = (client.values - settings.centre) / settings.scale
            new, gradients = jax.vmap(partial(method, settings))(
                users[client.user], items[client.items], values, client.mask
            )
            there = chosen >= 0
            sums = sums.at[client.items].add(jnp.where(there[:, None, None], gradients, 0.0))
            changed = changed.at[jnp.where(there, client.user, users.shape[0])].set(new, mode="drop")
        penalty = 2.0 * settings.decay * items / dealt[0].shape[0]
        change, memory = optimiser.update(sums + penalty, memory, items)
        return (Factors(changed, jnp.asarray(optax.apply_updates(items, change))), memory), None

    return jax.lax.scan(step, (factors, memory), dealt)[0]
