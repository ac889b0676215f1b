"""Offsets of users and items alone: no embedding, no graph; what every recommender has to beat."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from jgleak.ratings import Ratings


class Biases(NamedTuple):
    """``r_ui ~ centre + users_u + items_i``.

    Attributes:
      centre: mean of the training ratings.
      users: how far above it every user rates ``(U,)``; 0 without ratings.
      items: how far above it every item is rated ``(I,)``; 0 without ratings.
    """

    centre: float
    users: Float[np.ndarray, " U"]
    items: Float[np.ndarray, " I"]

    def predict(self, wanted: Ratings) -> Float[np.ndarray, " r"]:
        """Predictions of these pairs, moved into the levels."""
        found = self.centre + self.users[wanted.users] + self.items[wanted.items]
        return np.clip(found, wanted.levels[0], wanted.levels[-1])

    def rmse(self, wanted: Ratings) -> float:
        """RMSE of the ratings ``wanted``."""
        return float(np.sqrt(np.mean((self.predict(wanted) - wanted.values) ** 2)))


def biases(ratings: Ratings, *, users: float, items: float, rounds: int = 10) -> Biases:
    """Ridge regression on who rated and what was rated, by turns.

    Minimises ``sum (r_ui - centre - b_u - b_i)^2 + users sum b_u^2 + items sum b_i^2``. In each round all clients send
    ``r_ui - centre - b_u`` of their items, of which the server keeps ``b_i = sum / (count + items)``; then every device
    solves for its own ``b_u = sum (r_ui - centre - b_i) / (count + users)``, which stays there. Unprotected: the items
    and what is sent for them name the ratings up to one number.

    Args:
      ratings: training ratings.
      users: penalty on the users' offsets.
      items: penalty on the items' offsets.
      rounds: of all clients.

    Raises:
      ValueError: no rating, or a penalty that is not positive.
    """
    if not len(ratings):
        raise ValueError("ratings: there is no rating to learn from")
    if not users > 0 or not items > 0:
        raise ValueError(f"users, items: penalties must be positive, got {users} and {items}")
    centre, by_user, by_item = float(ratings.values.mean()), np.zeros(ratings.n_users), np.zeros(ratings.n_items)
    rated = np.bincount(ratings.items, minlength=ratings.n_items)
    for _ in range(rounds):
        sent = ratings.values - centre - by_user[ratings.users]
        by_item = np.bincount(ratings.items, sent, ratings.n_items) / (rated + items)
        own = ratings.values - centre - by_item[ratings.items]
        by_user = np.bincount(ratings.users, own, ratings.n_users) / (ratings.counts() + users)
    return Biases(centre, by_user, by_item)
