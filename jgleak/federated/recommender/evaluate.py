"""Root mean square error of predicted ratings, each user's on their own device."""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from jgleak.federated.recommender.clients import Client, Clients, apart, padded
from jgleak.federated.recommender.model import Parameters, Recommender
from jgleak.federated.recommender.update import NO_NEIGHBOURS, NeighbourUsers
from jgleak.ratings import Ratings

SIDE_BY_SIDE = 64
"""Users that are computed at once."""


def rmse(
    model: Recommender,
    params: Parameters,
    clients: Clients,
    wanted: Ratings,
    *,
    neighbours: NeighbourUsers = NO_NEIGHBOURS,
    bounded: bool = True,
) -> float:
    """RMSE of the ratings ``wanted``, items that are not in the users' graphs.

    Args:
      model: the model.
      params: its parameters.
      clients: everyone's training data: the graphs.
      wanted: the true ratings.
      neighbours: whether neighbour users are in the graphs.
      bounded: predictions outside the levels are moved to the nearest level.

    Raises:
      ValueError: other numbers of users or items, or no rating.
    """
    asked, table = requests(clients, wanted), neighbours.table(params)
    found = np.zeros(asked.items.shape, np.float32)
    for group in clients.groups:
        users, graph = np.asarray(group.user), apart(group) if neighbours.mode == "off" else group
        found[users] = _predicted(model, params, table, graph, jnp.asarray(asked.items[users]))
    return error(asked, found, wanted, bounded=bounded)


class Requests(NamedTuple):
    """Ratings to predict, side by side for every user.

    Attributes:
      items: item numbers ``(U, m)``, padded with 0.
      order: the ratings sorted by user.
      place: the column of each sorted rating.
    """

    items: Int[np.ndarray, "U m"]
    order: Int[np.ndarray, " r"]
    place: Int[np.ndarray, " r"]


def requests(clients: Clients, wanted: Ratings) -> Requests:
    """What every user is asked to predict; see ``rmse``."""
    if (wanted.n_users, wanted.n_items) != (clients.n_users, clients.n_items) or not len(wanted):
        raise ValueError(
            f"wanted: {len(wanted)} ratings of {wanted.n_users} users and {wanted.n_items} items; the clients are "
            f"{clients.n_users} users with {clients.n_items} items"
        )
    counts = wanted.counts()
    order = np.argsort(wanted.users, kind="stable")
    place = np.arange(len(wanted)) - np.repeat(np.cumsum(counts) - counts, counts)
    items = np.zeros((wanted.n_users, padded(np.array([counts.max()])).item()), np.int32)
    items[wanted.users[order], place] = wanted.items[order]
    return Requests(items, order, place)


def error(asked: Requests, found: Float[np.ndarray, "U m"], wanted: Ratings, *, bounded: bool) -> float:
    """RMSE of predictions that stand where ``asked`` has their items."""
    predicted = found[wanted.users[asked.order], asked.place].astype(np.float64)
    predicted = np.clip(predicted, wanted.levels[0], wanted.levels[-1]) if bounded else predicted
    return float(np.sqrt(np.mean((predicted - wanted.values[asked.order]) ** 2)))


@partial(jax.jit, static_argnames=("model",))
def _predicted(
    model: Recommender,
    params: Parameters,
    handed_out: Float[Array, "H w"],
    group: Client,
    asked: Int[Array, "n m"],
) -> Float[Array, "n m"]:
    def one(client: Client, items: Array) -> Array:
        return model.predict(model.local(params, client, handed_out), client, params.items[items])

    count = asked.shape[0]
    # Beyond the last user JAX takes the last.
    rows = jnp.arange(-(-count // SIDE_BY_SIDE) * SIDE_BY_SIDE).reshape(-1, SIDE_BY_SIDE)
    chunks = jax.tree.map(lambda leaf: leaf[rows], (group, asked))
    return jax.lax.map(lambda chunk: jax.vmap(one)(*chunk), chunks).reshape(-1, asked.shape[1])[:count]
