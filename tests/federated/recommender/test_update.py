"""What leaves a client: everything it says, nothing it does not have, and the protections."""

from __future__ import annotations

import dataclasses
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jgleak.defenses import parse
from jgleak.federated.recommender import Clients, Protection, Recommender, observe
from jgleak.federated.recommender.update import OPEN, NeighbourUsers, pseudo_items, upload
from jgleak.ratings import Ratings

KEY = jax.random.key(3)


def test_open_updates_name_the_rated_items(made: Ratings, model: Recommender, clients: Clients) -> None:
    params = model.initial(key=jax.random.key(0))
    (seen,), (nothing,) = observe(model, params, clients, [40, 7], key=KEY)
    assert seen.user == 40 and seen.items.tolist() == made.items[made.users == 40].tolist()
    assert np.abs(seen.item_gradients).max(axis=1).min() > 0 and np.any(seen.user_gradient)
    assert nothing.items.size == 0 and seen.neighbours.size == 0


def test_neighbours_have_the_embeddings_that_were_handed_out(model: Recommender) -> None:
    """Current ones where they are trained, or where nobody handed out any."""
    params = model.initial(key=jax.random.key(0))
    others = params.users + 1.0
    assert NeighbourUsers("fixed", others).table(params) is others
    assert NeighbourUsers("trainable", others).table(params) is params.users
    assert NeighbourUsers("fixed").table(params) is params.users


def test_the_gradient_is_that_of_the_masks_of_the_first_key(model: Recommender, clients: Clients) -> None:
    """Of dropout; the others are those of pseudo items and of the defence. Fixed neighbours have none that leaves."""
    model, client = dataclasses.replace(model, dropout=0.5), clients.one(40)
    params, first = model.initial(key=jax.random.key(0)), jax.random.split(KEY, 3)[0]
    sent = partial(upload, model, params, params.users, client, protection=OPEN, key=KEY)

    @jax.jit
    def both():
        local = model.local(params, client, params.users)
        return sent(neighbours="trainable").gradient, jax.grad(model.loss)(local, client, key=first)

    jax.tree.map(partial(np.testing.assert_allclose, atol=1e-6), *both())
    assert jax.eval_shape(lambda: sent(neighbours="fixed")).gradient.neighbours.shape == (0, 9)


def test_a_batch_is_its_clients_one_by_one(model: Recommender, clients: Clients) -> None:
    """And what is no item, or no neighbour, has no noise."""
    model = dataclasses.replace(model, dropout=0.2)
    params, group = model.initial(key=jax.random.key(0)), clients.groups[-1]
    keys = jax.random.split(KEY, group.user.size)
    protection = Protection(5, parse("clip-inf:0.05+laplace:0.1"))

    def one(client, key):
        return upload(model, params, params.users, client, neighbours="trainable", protection=protection, key=key)

    batch = jax.jit(jax.vmap(one))(group, keys)
    alone = jax.jit(one)(jax.tree.map(lambda leaf: leaf[2], group), keys[2])
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a[2], b, atol=1e-5), batch, alone)
    for rows, there in ((batch.gradient.items, batch.sent), (batch.gradient.neighbours, group.near)):
        assert np.asarray(rows)[np.asarray(there)].all() and not np.asarray(rows)[~np.asarray(there)].any()
        assert not np.all(there)


def test_no_client_reads_anothers_data(made: Ratings, model: Recommender) -> None:
    params = model.initial(key=jax.random.key(0))
    others = made.users != 40
    changed = dataclasses.replace(made, values=np.where(others, 6 - made.values, made.values))
    protection = Protection(6, parse("clip-inf:0.1+laplace:0.1"))
    seen = [
        observe(model, params, Clients.from_ratings(ratings), [40], key=KEY, protection=protection)[0][0]
        for ratings in (made, changed, made.take(~others))
    ]
    for other in seen[1:]:
        jax.tree.map(np.testing.assert_array_equal, dataclasses.asdict(seen[0]), dataclasses.asdict(other))


def test_neighbours_gradients_leave_only_where_they_are_trained(model: Recommender, clients: Clients) -> None:
    params = model.initial(key=jax.random.key(0))
    alone, fixed, learnt = (
        observe(model, params, clients, [40], key=KEY, neighbours=NeighbourUsers(mode))[0][0]
        for mode in ("off", "fixed", "trainable")
    )
    assert fixed.neighbours.size == 0 and learnt.neighbours.tolist() == [39] and np.any(learnt.neighbour_gradients)
    np.testing.assert_allclose(fixed.item_gradients, learnt.item_gradients, atol=1e-6)
    assert not np.allclose(alone.item_gradients, fixed.item_gradients)


def test_pseudo_items_are_unrated_with_the_real_ones_moments(clients: Clients) -> None:
    client = clients.one(55)
    k, many = int(client.mask.sum()), 40000
    real = np.asarray(jax.random.normal(KEY, (client.items.size, 3))) * [1.0, 2.0, 0.5] + [0.0, 1.0, -3.0]
    rows = real[:k]
    made_up = jax.jit(pseudo_items, static_argnums=(2, 3))
    one = made_up(jnp.asarray(real), client, clients.n_items, 8, key=KEY)
    assert np.all(one[1]) and np.unique(one[0]).size == 8
    assert not np.isin(one[0], np.asarray(client.items)[:k]).any()
    _, there, _ = made_up(jnp.asarray(real), client, clients.n_items, clients.n_items, key=KEY)
    assert there.sum() == clients.n_items - k
    _, _, drawn = made_up(jnp.asarray(real), client, many, many - k, key=KEY)
    np.testing.assert_allclose(np.mean(drawn, axis=0), rows.mean(axis=0), atol=0.05)
    np.testing.assert_allclose(np.cov(np.asarray(drawn).T), np.cov(rows.T, bias=True), atol=0.1)


def test_pseudo_items_of_one_rating_have_its_gradient(clients: Clients) -> None:
    """It is its own mean, and nothing varies; without ratings all is zero."""
    real = jnp.asarray(np.random.default_rng(0).normal(size=(3, 4)).astype(np.float32))
    client = clients.one(0)._replace(items=jnp.arange(3), values=jnp.ones(3), mask=jnp.arange(3) < 1)
    for some, wanted in ((client, real[0]), (client._replace(mask=jnp.zeros(3, bool)), jnp.zeros(4))):
        items, there, drawn = pseudo_items(real, some, 6, 5, key=KEY)
        assert items.shape == there.shape == (5,) and np.all(there)
        np.testing.assert_allclose(drawn, np.tile(wanted, (5, 1)), atol=1e-6)


def test_protected_updates_stay_in_bounds_and_differ_by_round(model: Recommender, clients: Clients) -> None:
    params = model.initial(key=jax.random.key(0))
    bound = 1e-3
    protection = Protection(8, parse(f"clip-inf:{bound}"))
    (rounds,) = observe(model, params, clients, [20], key=KEY, protection=protection, rounds=2)
    real = observe(model, params, clients, [20], key=KEY)[0][0]
    for seen in rounds:
        tensors = [*jax.tree.leaves(seen.network), seen.item_gradients, seen.user_gradient]
        assert max(np.abs(t).max() for t in tensors) <= bound * (1 + 1e-6)
        assert seen.items.size == real.items.size + 8 and np.isin(real.items, seen.items).all()
        own = np.isin(seen.items, real.items)
        np.testing.assert_allclose(seen.item_gradients[own], np.clip(real.item_gradients, -bound, bound), atol=1e-6)
    assert rounds[0].items.tolist() != rounds[1].items.tolist()


def test_laplace_noise_has_the_papers_scale(model: Recommender, clients: Clients) -> None:
    params = model.initial(key=jax.random.key(0))
    protection = Protection(0, parse(f"laplace:{0.2 * np.sqrt(2)}"))
    (noisy,) = observe(model, params, clients, [55], key=KEY, protection=protection, rounds=100)
    real = observe(model, params, clients, [55], key=KEY)[0][0]
    noise = np.stack([seen.item_gradients - real.item_gradients for seen in noisy])
    assert abs(np.abs(noise).mean() - 0.2) < 0.01  # the mean of |Laplace(0, lambda)| is lambda


@pytest.mark.usefixtures("unchecked")
def test_impossible_requests_are_refused(model: Recommender, clients: Clients) -> None:
    params = model.initial(key=jax.random.key(0))
    with pytest.raises(ValueError, match="pseudo: must not be negative"):
        Protection(-1)
    with pytest.raises(ValueError, match="disturbs layers"):
        Protection(0, parse("activations:0.1"))
    with pytest.raises(ValueError, match="rounds"):
        observe(model, params, clients, [1], key=KEY, protection=OPEN, rounds=0)
    with pytest.raises(ValueError, match="neighbours: unknown 'some'"):
        observe(model, params, clients, [1], key=KEY, neighbours=NeighbourUsers("some"))  # type: ignore[arg-type]
