"""The graph expansion during training: three parties exchange ciphertexts, and clients keep some of what comes back."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from jgleak.federated.expansion import Neighbours, expand
from jgleak.federated.recommender.rounds import Expand
from jgleak.ratings import Ratings


def encrypted(ratings: Ratings, *, limit: int, per_item: int, key: Array) -> Expand:
    """The expansion by ``jgleak.federated.expansion.expand``, for ``train``.

    The third party shows every client up to ``per_item`` others an item; the client keeps the ``limit`` that it met at
    most of its items (ties as they came, which is in random order). Unlike with ``neighbour_users`` nobody here knows
    which user an embedding is of, and co-raters who were not drawn are missed. In the table that is handed out client
    ``u`` has the rows from ``u limit`` on.

    Args:
      ratings: training ratings, of which the items are used.
      limit: most neighbours of a client.
      per_item: most others that the third party shows for an item.
      key: of ``expand``.

    Raises:
      ValueError: ``limit`` is below 1; or, when expanding, as ``expand``.
    """
    if limit < 1:
        raise ValueError(f"limit: must be at least 1, got {limit}; for no neighbours at all leave the expansion out")
    order = np.argsort(ratings.users, kind="stable")
    items = np.split(ratings.items[order], np.cumsum(ratings.counts())[:-1])

    def exchange(users: Float[Array, "U w"]) -> tuple[Int[np.ndarray, "U P"], Float[Array, "H w"]]:
        table = np.zeros((len(items) * limit, users.shape[1]), np.float32)
        rows = np.full((len(items), limit), -1)
        for user, found in enumerate(expand(items, jax.device_get(users), neighbours=per_item, key=key)):
            kept = nearest(found, limit)
            rows[user, : kept.size] = user * limit + np.arange(kept.size)
            table[rows[user, : kept.size]] = found.embeddings[kept]
        return rows, jnp.asarray(table)

    return exchange


def nearest(found: Neighbours, limit: int) -> Int[np.ndarray, " p"]:
    """The ``limit`` neighbours met at most items, as rows of ``found.embeddings``."""
    met = np.bincount(found.index[found.mask], minlength=len(found.embeddings))
    return np.argsort(-met, kind="stable")[:limit]
