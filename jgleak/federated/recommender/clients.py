"""Users as clients: everyone's own star graph, in padded groups of about equal size."""

from __future__ import annotations

import dataclasses
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import scipy.sparse as sp
from jaxtyping import Array, Bool, Float, Int

from jgleak.ratings import Ratings

SMALLEST = 4
"""Items in the smallest group."""

GROWTH = 4
"""Factor from one group's items to the next one's: few shapes compile, at the price of some padding."""

WASTE = 0.1
"""Share of padding for which one group less is worth it."""

BLOCK = 1024
"""Users whose common items with everyone are counted at once."""


class Client(NamedTuple):
    """What one user's device holds, padded; or many of them, with leading axes.

    Attributes:
      user: the user's number ``()``.
      items: rated items ``(K,)``; padding is item 0.
      values: their ratings ``(K,)``.
      mask: True at rated items ``(K,)``.
      neighbours: anonymous neighbours ``(P,)``: rows of the table of embeddings that the third party handed out.
      near: True at neighbours ``(P,)``.
    """

    user: Int[Array, "..."]
    items: Int[Array, "... K"]
    values: Float[Array, "... K"]
    mask: Bool[Array, "... K"]
    neighbours: Int[Array, "... P"]
    near: Bool[Array, "... P"]


@dataclasses.dataclass(frozen=True, eq=False)
class Clients:
    """All users, grouped by the padded number of their items.

    Attributes:
      groups: clients of one padded size, stacked; users in ascending order. Users without ratings are in the first.
      n_users: number of users.
      n_items: number of items.
    """

    groups: tuple[Client, ...]
    n_users: int
    n_items: int

    @classmethod
    def from_ratings(cls, ratings: Ratings, neighbours: Int[np.ndarray, "U P"] | None = None) -> Clients:
        """Every user's star graph.

        Args:
          ratings: training ratings.
          neighbours: neighbour users of every user, -1 where there are no more; None for none at all.

        Raises:
          ValueError: ``neighbours`` has not one row a user, or names users that do not exist.
        """
        near = np.full((ratings.n_users, 0), -1) if neighbours is None else np.asarray(neighbours)
        if near.ndim != 2 or near.shape[0] != ratings.n_users or near.max(initial=-1) >= ratings.n_users:
            raise ValueError(
                f"neighbours: expected one row of user numbers (or -1) for each of {ratings.n_users} users, "
                f"got shape {near.shape} with numbers up to {near.max(initial=-1)}"
            )
        counts = ratings.counts()
        order = np.argsort(ratings.users, kind="stable")
        place = np.arange(len(ratings)) - np.repeat(np.cumsum(counts) - counts, counts)
        sizes = padded(counts)
        groups = []
        for size in np.unique(sizes):
            users = np.flatnonzero(sizes == size)
            row = np.full(ratings.n_users, -1)
            row[users] = np.arange(users.size)
            mine = row[ratings.users[order]] >= 0
            at = row[ratings.users[order[mine]]], place[mine]
            items, values = np.zeros((users.size, size), np.int32), np.zeros((users.size, size), np.float32)
            mask = np.zeros((users.size, size), bool)
            items[at], values[at], mask[at] = ratings.items[order[mine]], ratings.values[order[mine]], True
            local = np.maximum(near[users], 0).astype(np.int32)
            held = (users.astype(np.int32), items, values, mask, local, near[users] >= 0)
            groups.append(Client(*map(jnp.asarray, held)))
        return cls(tuple(groups), ratings.n_users, ratings.n_items)

    def with_neighbours(self, rows: Int[np.ndarray, "U P"]) -> Clients:
        """The same devices with other neighbours: rows of a table of embeddings, -1 where there are no more.

        Raises:
          ValueError: not one row of numbers a user.
        """
        if rows.ndim != 2 or len(rows) != self.n_users:
            raise ValueError(f"rows: expected a row of neighbours for each of {self.n_users} users, got {rows.shape}")
        groups = []
        for group in self.groups:
            own = rows[np.asarray(group.user)]
            near = jnp.asarray(np.maximum(own, 0), jnp.int32)
            groups.append(group._replace(neighbours=near, near=jnp.asarray(own >= 0)))
        return dataclasses.replace(self, groups=tuple(groups))

    def one(self, user: int) -> Client:
        """One user's device.

        Raises:
          ValueError: there is no such user.
        """
        for group in self.groups:
            rows = np.flatnonzero(np.asarray(group.user) == user)
            if rows.size:
                return jax.tree.map(lambda leaf, row=int(rows[0]): leaf[row], group)
        raise ValueError(f"user: there is no user {user}; users are 0..{self.n_users - 1}")


def alone(client: Client) -> Client:
    """The client without its neighbours."""
    return client._replace(neighbours=client.neighbours[..., :0], near=client.near[..., :0])


def apart(client: Client) -> Client:
    """The client whose neighbours are not in its graph (yet); the arrays keep their shapes."""
    return client._replace(near=jnp.zeros_like(client.near))


def padded(counts: Int[np.ndarray, "..."]) -> Int[np.ndarray, "..."]:
    """The padded sizes of groups that hold so many items: ``SMALLEST`` times a power of ``GROWTH``.

    A group joins the next larger one where that adds little padding (``WASTE`` of all): every group is compiled.
    """
    sizes = [SMALLEST]
    while sizes[-1] < np.max(counts):
        sizes.append(sizes[-1] * GROWTH)
    held = np.array(sizes)[np.searchsorted(sizes, counts)]
    for size in sizes[:-1]:
        joined = np.where(held == size, size * GROWTH, held)
        held = joined if np.sum(joined) <= (1.0 + WASTE) * np.sum(held) else held
    return held


def neighbour_users(ratings: Ratings, limit: int, rng: np.random.Generator) -> Int[np.ndarray, "U P"]:
    """For every user, the users who share most items with them, as the matching third party finds them.

    FedGNN's expansion links all users with a common item. On a dense set that is nearly everybody, so we keep the
    ``limit`` with most items in common (the third party sees which ciphertexts are equal, hence their number); ties are
    broken at random. This is the protocol's outcome without its encryption.

    Returns:
      ``(n_users, limit)``, -1 where a user has fewer.

    Raises:
      ValueError: ``limit`` is below 1.
    """
    if limit < 1:
        raise ValueError(f"limit: must be at least 1, got {limit}; for no neighbours at all leave them out")
    rated = sp.csr_array(
        (np.ones(len(ratings), np.float32), (ratings.users, ratings.items)), shape=(ratings.n_users, ratings.n_items)
    )
    found = np.full((ratings.n_users, limit), -1, np.int64)
    kept = min(limit, ratings.n_users)
    for start in range(0, ratings.n_users, BLOCK):
        common = (rated[start : start + BLOCK] @ rated.T).toarray()
        own = np.arange(common.shape[0])
        common[own, start + own] = 0.0
        ranked = common + rng.random(common.shape, np.float32) * 0.5
        best = np.argpartition(-ranked, kept - 1, axis=1)[:, :kept]
        shared = np.take_along_axis(common, best, axis=1) > 0
        found[start : start + BLOCK, :kept] = np.where(shared, best, -1)
    return found
