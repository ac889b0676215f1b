"""Star graphs in padded groups, and neighbours by common items."""

from __future__ import annotations

import numpy as np
import pytest

from jgleak.federated.recommender import Clients, neighbour_users
from jgleak.federated.recommender.clients import padded
from jgleak.ratings import Ratings


def test_every_rating_is_on_one_device(made: Ratings, clients: Clients) -> None:
    seen = set()
    for group in clients.groups:
        for user, items, values, mask in zip(*map(np.asarray, group[:4]), strict=True):
            seen |= {(int(user), int(i), float(v)) for i, v in zip(items[mask], values[mask], strict=True)}
            assert not mask[mask.sum() :].any()
    assert seen == set(zip(made.users.tolist(), made.items.tolist(), made.values.tolist(), strict=True))
    assert sorted(np.concatenate([g.user for g in clients.groups]).tolist()) == list(range(made.n_users))
    assert not clients.one(7).mask.any()
    with pytest.raises(ValueError, match="user: there is no user 60"):
        clients.one(60)
    with pytest.raises(ValueError, match="one row of user numbers"):
        Clients.from_ratings(made, np.zeros((3, 2), int))


def test_few_small_clients_join_a_larger_group() -> None:
    counts = np.repeat([2, 10, 50, 200], [8, 200, 2400, 340])
    assert np.unique(padded(counts)).tolist() == [64, 256]
    counts = np.repeat([2, 10, 50, 200], [1700, 800, 400, 20])
    assert np.unique(padded(counts)).tolist() == [4, 16, 64, 256]
    assert np.all(padded(counts) >= counts)


def test_neighbours_have_most_items_in_common(made: Ratings) -> None:
    rated = np.zeros((made.n_users, made.n_items), int)
    rated[made.users, made.items] = 1
    common = rated @ rated.T
    np.fill_diagonal(common, 0)
    found = neighbour_users(made, 5, np.random.default_rng(0))
    for user, row in enumerate(found):
        own = row[row >= 0]
        assert user not in own and np.unique(own).size == own.size
        assert sorted(common[user, own]) == sorted(common[user])[::-1][: own.size][::-1]
        assert own.size == min(5, np.count_nonzero(common[user]))
    with pytest.raises(ValueError, match="limit"):
        neighbour_users(made, 0, np.random.default_rng(0))
