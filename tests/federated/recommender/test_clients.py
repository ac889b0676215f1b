"""Star graphs in padded groups, and neighbours by common items."""

from __future__ import annotations

import jax
import numpy as np
import pytest

from jgleak.federated.recommender import Clients, neighbour_users
from jgleak.federated.recommender import clients as recommender_clients
from jgleak.federated.recommender.clients import alone, apart, padded
from jgleak.ratings import Ratings


@pytest.mark.usefixtures("unchecked")
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
    users = np.arange(made.n_users)
    for wrong in (np.zeros((3, 2), int), users, np.full((made.n_users, 1), made.n_users)):
        with pytest.raises(ValueError, match="one row of user numbers"):
            Clients.from_ratings(made, wrong)
    Clients.from_ratings(made, np.full((made.n_users, 1), made.n_users - 1))


def test_items_stand_in_the_order_of_the_ratings(made: Ratings) -> None:
    mixed = made.take(np.random.default_rng(0).permutation(len(made)))
    for user in (3, 20, 59):
        client, own = Clients.from_ratings(mixed).one(user), mixed.users == user
        assert np.asarray(client.items)[client.mask].tolist() == mixed.items[own].tolist()
        assert np.asarray(client.values)[client.mask].tolist() == mixed.values[own].tolist()


@pytest.mark.usefixtures("unchecked")
def test_neighbours_stand_beside_their_users_and_padding_is_the_first_row(made: Ratings) -> None:
    """Given at first or later; and a device can do without them."""
    near = np.stack([np.roll(np.arange(made.n_users), 1), np.full(made.n_users, -1)], axis=1)
    bare = Clients.from_ratings(made)
    for clients in (Clients.from_ratings(made, near), bare.with_neighbours(near)):
        for user in range(made.n_users):
            client = clients.one(user)
            assert np.asarray(client.neighbours).tolist() == [near[user, 0], 0]
            assert np.asarray(client.near).tolist() == [True, False]
    for group, with_some in zip(bare.groups, clients.groups, strict=True):
        assert group.near.shape == group.neighbours.shape == (group.user.size, 0)
        jax.tree.map(np.testing.assert_array_equal, alone(with_some), group)
        there = apart(with_some)
        assert not there.near.any() and there.near.shape == there.neighbours.shape == (group.user.size, 2)
    for rows in (near[:3], near[:, 0]):
        with pytest.raises(ValueError, match=f"a row of neighbours for each of {made.n_users} users"):
            bare.with_neighbours(rows)


def test_few_small_clients_join_a_larger_group() -> None:
    counts = np.repeat([2, 10, 50, 200], [8, 200, 2400, 340])
    assert np.unique(padded(counts)).tolist() == [64, 256]
    counts = np.repeat([2, 10, 50, 200], [1700, 800, 400, 20])
    assert np.unique(padded(counts)).tolist() == [4, 16, 64, 256]
    assert np.all(padded(counts) >= counts)
    counts = np.repeat([2, 16], [5000, 1])  # the largest group is no larger than it must be
    assert np.unique(padded(counts)).tolist() == [4, 16]
    for few, joined in ((4, [16]), (5, [4, 16])):  # 12 places more each: 48 are a tenth of 480
        assert np.unique(padded(np.repeat([2, 10], [few, 29]))).tolist() == joined


def test_neighbours_have_most_items_in_common(made: Ratings, monkeypatch: pytest.MonkeyPatch) -> None:
    rated = np.zeros((made.n_users, made.n_items), int)
    rated[made.users, made.items] = 1
    common = rated @ rated.T
    np.fill_diagonal(common, 0)
    everyone = made.n_users + 3
    for limit, block in ((5, 1024), (5, 16), (1, 1024), (everyone, 1024)):  # users are looked at a block at a time
        monkeypatch.setattr(recommender_clients, "BLOCK", block)
        found = neighbour_users(made, limit, np.random.default_rng(0))
        assert found.shape == (made.n_users, limit) and found.min() == -1
        for user, row in enumerate(found):
            own = row[row >= 0]
            assert user not in own and np.unique(own).size == own.size
            assert sorted(common[user, own]) == sorted(common[user])[::-1][: own.size][::-1]
            assert own.size == min(limit, np.count_nonzero(common[user]))
    with pytest.raises(ValueError, match="limit"):
        neighbour_users(made, 0, np.random.default_rng(0))
