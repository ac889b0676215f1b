"""Embeddings of neighbours that the server did not hand out: gradient matching over them and the ratings."""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from jgleak.attacks.recommender.public import Public
from jgleak.attacks.recommender.view import View, expected
from jgleak.federated.recommender.model import Recommender

STEPS = 40
"""Steps of the search at most."""

INNER = 60
"""Conjugate gradient iterations of a step at most."""

DONE = 1e-6
"""Relative distance at which the search is over; the update itself is rounded to about 1e-7."""


class _State(NamedTuple):
    rows: Array
    ratings: Array
    distance: Array
    damping: Array
    step: Array


def with_neighbours(public: Public, seen: View, users: Float[Array, "U w"], bound: float) -> View:
    """The view with the rows of fixed neighbours that explain the update best.

    A user's state hears ``P`` rows that the server does not know (which neighbours, and their dropout). The gradient is
    smooth in them and linear in the ratings, so Gauss-Newton steps with Levenberg and Marquardt's damping look for both at
    once; conjugate gradients solve each step without a matrix. The rows are not unique (a graph convolution hears their
    sum alone) and of no use of their own; what they do to the user's state is what counts.

    For one graph convolution the same can be had in closed form where nothing is dropped: item gradients are
    ``W (c_k h_u / 2 + b q)``, so their differences give ``c_k`` up to a factor and ``h_u`` up to the inverse factor, and
    the mean fixes the factor. It needs ``W`` inverted and ends with dropout, so the search serves all three networks.

    Args:
      public: what everyone knows.
      seen: the round.
      users: the users' embeddings; the search starts from some of them, spread over the table, for equal rows would
        stay equal.
      bound: of an entry; entries that reach it are left out.
    """
    start = users[jnp.linspace(0, users.shape[0] - 1, public.limit).astype(int)]
    seen = seen._replace(local=seen.local._replace(neighbours=jnp.asarray(start, seen.local.items.dtype)))
    ratings = jnp.full(seen.client.items.shape, public.mean)
    rows = _search(public.model, seen, ratings, jnp.std(seen.local.items), jnp.asarray(bound))
    return seen._replace(local=seen.local._replace(neighbours=rows))


@partial(jax.jit, static_argnames=("model",))
def _search(
    model: Recommender, seen: View, ratings: Float[Array, " K"], spread: Float[Array, ""], bound: Float[Array, ""]
) -> Float[Array, "P w"]:
    """Neighbours' rows, from the mean embedding on; a step is taken where the distance falls."""
    inside = jax.tree.map(lambda leaf, shown: shown * (jnp.abs(leaf) < bound * (1.0 - 1e-6)), seen.seen, seen.shown)
    sizes = jax.tree.map(lambda leaf, used: jnp.sqrt((used * leaf**2).sum()), seen.seen, inside)
    whole = jnp.maximum(jnp.sqrt(sum(size**2 for size in jax.tree.leaves(sizes))), jnp.finfo(spread.dtype).tiny)

    def residual(moved: tuple[Array, Array]) -> Array:
        rows, ratings = seen.local.neighbours + spread * moved[0], moved[1]
        says = expected(model, seen, seen.local._replace(neighbours=rows), ratings)
        parts = jax.tree.map(lambda a, b, used: (used * (a - b)).ravel() / whole, says, seen.seen, inside)
        return jnp.concatenate(jax.tree.leaves(parts))

    def go_on(state: _State) -> Array:
        return (state.step < STEPS) & (state.distance > DONE) & (state.damping < 1e8)

    def step(state: _State) -> _State:
        here = (state.rows, state.ratings)
        wrong, push = jax.linearize(residual, here)
        pull = jax.linear_transpose(push, here)

        def normal(x: tuple[Array, Array]) -> tuple[Array, Array]:
            return jax.tree.map(lambda a, b: a + state.damping * b, pull(push(x))[0], x)

        target = jax.tree.map(jnp.negative, pull(wrong)[0])
        change, _ = jax.scipy.sparse.linalg.cg(normal, target, maxiter=INNER, tol=1e-4)
        there = jax.tree.map(jnp.add, here, change)
        distance = jnp.linalg.norm(residual(there))
        better = distance < state.distance
        rows, ratings = jax.tree.map(lambda a, b: jnp.where(better, a, b), there, here)
        damping = jnp.where(better, state.damping / 10.0, state.damping * 10.0)
        return _State(rows, ratings, jnp.where(better, distance, state.distance), damping, state.step + 1)

    here = (jnp.zeros_like(seen.local.neighbours), ratings)
    first = jnp.linalg.norm(residual(here))
    start = _State(*here, first, jnp.asarray(1e-3, spread.dtype), jnp.asarray(0))
    return seen.local.neighbours + spread * jax.lax.while_loop(go_on, step, start).rows
