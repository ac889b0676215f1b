"""The search for neighbours that nobody handed out: its residual, its derivative, and what it is asked."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jgleak.attacks.recommender import PublicKnowledge, Sighting, unseen
from jgleak.attacks.recommender.star import View, view
from jgleak.attacks.recommender.tolerances import LIMITS
from jgleak.attacks.recommender.unseen import _Search, _weights, with_neighbours
from jgleak.federated.recommender import neighbour_users
from jgleak.ratings import Ratings

Watch = Callable[..., tuple[PublicKnowledge, list[list[Sighting]]]]

USER = 28


class Seen(NamedTuple):
    """One round of one user whose three neighbours are fixed, and the truth behind it."""

    public: PublicKnowledge
    first: View
    users: Any
    near: np.ndarray
    values: np.ndarray


@pytest.fixture
def seen(made: Ratings, watch: Watch) -> Iterator[Seen]:
    """In double precision, as the search has it."""
    public, ((one,),) = watch([USER], neighbours="fixed")
    near = neighbour_users(made, public.limit, np.random.default_rng(1))[USER]
    assert (near >= 0).all()
    with jax.enable_x64(True):
        users, mine = jnp.asarray(one.params.users, float), made.users == USER
        yield Seen(public, view(public, one, made.items[mine], masked=True), users, near, made.values[mine])


def searched(seen: Seen, neighbours: Any, bound: float = np.inf) -> _Search:
    first = seen.first._replace(local=seen.first.local._replace(neighbours=neighbours))
    model = dataclasses.replace(seen.public.model, dropout=0.0)
    return _Search(model, first, _weights(first, bound), len(seen.values), 0.25)


def test_nothing_is_left_of_the_true_ratings_and_neighbours(seen: Seen) -> None:
    """And all of the update, by its length, where nothing is expected of it; a step is in units of the spread."""
    truth = np.r_[seen.values, np.zeros(seen.first.local.neighbours.size)]
    assert np.linalg.norm(searched(seen, seen.users[seen.near]).residual(truth)) < 1e-5
    moved = np.r_[seen.values, np.full(seen.first.local.neighbours.size, 4.0)]
    assert np.linalg.norm(searched(seen, seen.users[seen.near] - 1.0).residual(moved)) < 1e-5
    assert np.linalg.norm(searched(seen, seen.users[:3]).residual(truth)) > 1e-3


def test_products_with_the_derivative_are_those_of_differences_and_of_its_transpose(seen: Seen) -> None:
    rng, search = np.random.default_rng(0), searched(seen, seen.users[:3])
    x, v = rng.normal(size=(2, len(seen.values) + seen.first.local.neighbours.size))
    derivative, step = search.jacobian(x), 1e-5
    pushed = np.asarray(derivative @ v)
    differences = (search.residual(x + step * v) - search.residual(x - step * v)) / (2 * step)
    assert derivative.shape == (differences.size, x.size) and derivative.dtype == np.float64
    np.testing.assert_allclose(pushed, differences, atol=1e-6 * np.abs(differences).max())
    back = rng.normal(size=differences.size)
    assert float(back @ pushed) == pytest.approx(float(derivative.rmatvec(back) @ v), rel=1e-9)


def test_entries_that_are_shown_and_not_cut_count_alike(seen: Seen) -> None:
    """Together the update has length one."""
    shown = seen.first.shown._replace(user=jnp.zeros_like(seen.first.shown.user))
    first = seen.first._replace(shown=shown)
    every, there = (np.concatenate([np.ravel(leaf) for leaf in jax.tree.leaves(part)]) for part in (first.seen, shown))
    for bound in (np.inf, float(np.quantile(np.abs(every[there > 0]), 0.7))):
        found = np.concatenate([np.ravel(leaf) for leaf in jax.tree.leaves(_weights(first, bound))])
        counted = (there > 0) & (np.abs(every) < bound * (1 - 1e-5))
        np.testing.assert_allclose(found, counted / np.linalg.norm(every[counted]), rtol=1e-9)
    cut = first._replace(seen=jax.tree.map(lambda leaf: jnp.sign(leaf), first.seen))
    for bound, counts in ((1.0, False), (1.0 + 5e-7, False), (1.0 + 2e-6, True)):
        assert any(np.any(leaf) for leaf in jax.tree.leaves(_weights(cut, bound))) is counts


def test_the_search_begins_at_users_from_all_over_the_table_and_the_mean_rating(
    seen: Seen, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its answer moves the rows by the spread of the items; what depends on each row is neither fitted nor shown."""
    asked: dict[str, Any] = {}

    def solve(residual: Any, x: np.ndarray, **given: Any) -> Any:
        asked.update(given, x=x, search=residual.__self__)
        return SimpleNamespace(x=x + np.r_[np.zeros(len(seen.values)), np.ones(x.size - len(seen.values))])

    monkeypatch.setattr(unseen, "least_squares", solve)
    limits = dataclasses.replace(LIMITS, steps=7, inner=5)
    dropping = dataclasses.replace(seen.public, model=dataclasses.replace(seen.public.model, dropout=0.3))
    found = with_neighbours(dropping, seen.first, seen.users, np.inf, tolerance=1e-9, limits=limits)
    last, spread = len(seen.users) - 1, float(jnp.std(seen.first.local.items))
    np.testing.assert_allclose(found.local.neighbours, seen.users[np.array([0, last // 2, last])] + spread, rtol=1e-6)
    assert asked["x"].tolist() == [seen.public.mean] * len(seen.values) + [0.0] * found.local.neighbours.size
    assert (asked["max_nfev"], asked["tr_options"], asked["tr_solver"]) == (7, {"maxiter": 5}, "lsmr")
    assert [asked[name] for name in ("ftol", "xtol", "gtol")] == [1e-9] * 3
    assert asked["jac"] == asked["search"].jacobian and asked["search"].model.dropout == 0.0
    for hidden in (found.shown.network, found.shown.user):
        assert not any(np.any(leaf) for leaf in jax.tree.leaves(hidden))
    np.testing.assert_array_equal(found.shown.items, seen.first.shown.items)
