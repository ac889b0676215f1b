"""Embeddings of neighbours that the server did not hand out: gradient matching over them and the ratings."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from functools import partial
from typing import Any, cast

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Float
from scipy.optimize import least_squares
from scipy.sparse.linalg import LinearOperator

from jgleak.attacks.recommender.observation import PublicKnowledge
from jgleak.attacks.recommender.star import View, expected
from jgleak.federated.recommender.model import Local, Recommender

STEPS = 100
"""Steps of the search at most."""

INNER = 100
"""Iterations of a step's linear least squares at most."""

DONE = 1e-12
"""Relative change, of the squared distance or of the unknowns, at which the search ends."""


def with_neighbours(public: PublicKnowledge, seen: View, users: Float[Array, "U w"], bound: float) -> View:
    """The view with the rows of fixed neighbours that explain the update best.

    A user's state hears ``P`` rows that the server does not know (which neighbours, and their dropout). Item gradients
    are smooth in what these do to the user's state (a sum for a graph convolution; a mean and the attention's
    denominators; a mean at each step of the gated network) and linear in the ratings, so Gauss-Newton steps within a
    trust region look for both at once (``scipy.optimize.least_squares``, whose steps need products with the Jacobian
    alone). The rows are not unique and of no use of their own.

    The gradients of the network and of the user also depend on *each* row, though weakly, and fitting those too makes
    the search stall far from the solution; the view that comes back does not show them. So the item gradients, ``K D``
    numbers, have to determine ``K`` ratings and about ``D`` to ``2 D`` unknowns: a history of one item does not.

    For one graph convolution the same can be had in closed form where nothing is dropped: item gradients are
    ``W (c_k h_u / 2 + b q)``, so their differences give ``c_k`` up to a factor and ``h_u`` up to the inverse factor,
    and the mean fixes the factor. It needs ``W`` inverted and ends with dropout, so the search serves all networks.

    Args:
      public: what everyone knows.
      seen: the round.
      users: the users' embeddings; the search starts from some of them, spread over the table, for equal rows would
        stay equal.
      bound: of an entry; entries that reach it are left out.
    """
    model = dataclasses.replace(public.model, dropout=0.0)  # the view has it
    start = users[jnp.linspace(0, users.shape[0] - 1, public.limit).astype(int)]
    local = seen.local._replace(neighbours=jnp.asarray(start, seen.local.items.dtype))
    seen, spread = seen._replace(local=local), float(jnp.std(local.items))
    network, user = jax.tree.map(jnp.zeros_like, (seen.shown.network, seen.shown.user))
    seen = seen._replace(shown=seen.shown._replace(network=network, user=user))
    count, size = int(seen.client.mask.sum()), seen.client.items.shape[0]
    weights = jax.tree.map(lambda leaf, shown: shown * (jnp.abs(leaf) < bound * (1.0 - 1e-6)), seen.seen, seen.shown)
    parts = zip(*map(jax.tree.leaves, (weights, seen.seen)), strict=True)
    whole = np.sqrt(sum(float((used * leaf**2).sum()) for used, leaf in parts))
    weights = jax.tree.map(lambda leaf: leaf / max(whole, np.finfo(float).tiny), weights)

    def unknowns(x: Float[np.ndarray, " u"]) -> tuple[Array, Array]:
        ratings = np.zeros(size)
        ratings[:count] = x[:count]
        return jnp.asarray(ratings), spread * jnp.asarray(x[count:]).reshape(start.shape)

    def back(change: tuple[Array, Array]) -> Float[np.ndarray, " u"]:
        return np.concatenate([np.asarray(change[0])[:count], spread * np.asarray(change[1]).ravel()])

    def jacobian(x: Float[np.ndarray, " u"]) -> LinearOperator:
        here = unknowns(x)
        return _Jacobian(
            (rows.size, x.size),
            lambda v: np.asarray(_push(model, seen, weights, here, unknowns(v))),
            lambda v: back(_pull(model, seen, weights, here, jnp.asarray(v))),
        )

    first = np.concatenate([np.full(count, public.mean), np.zeros(start.size)])
    rows = np.asarray(_residual(model, seen, weights, unknowns(first)))
    found = least_squares(
        lambda x: np.asarray(_residual(model, seen, weights, unknowns(x))),
        first,
        jac=cast(Any, jacobian),
        tr_solver="lsmr",
        tr_options={"maxiter": INNER},
        ftol=DONE,
        xtol=DONE,
        gtol=DONE,
        max_nfev=STEPS,
    )
    return seen._replace(local=local._replace(neighbours=local.neighbours + unknowns(found.x)[1]))


class _Jacobian(LinearOperator):
    """Products with a Jacobian and with its transpose."""

    def __init__(
        self, shape: tuple[int, int], push: Callable[[np.ndarray], np.ndarray], pull: Callable[[np.ndarray], np.ndarray]
    ) -> None:
        super().__init__(np.float64, shape)
        self.push, self.pull = push, pull

    def _matvec(self, x: np.ndarray) -> np.ndarray:
        return self.push(np.ravel(x))

    def _rmatvec(self, x: np.ndarray) -> np.ndarray:
        return self.pull(np.ravel(x))


def _difference(model: Recommender, seen: View, weights: Local, here: tuple[Array, Array]) -> Float[Array, " n"]:
    """What the update has beyond what ratings and moves of the neighbours' rows explain, relative to its length."""
    ratings, moves = here
    local = seen.local._replace(neighbours=seen.local.neighbours + moves)
    return ravel_pytree(
        jax.tree.map(lambda used, a, b: used * (a - b), weights, expected(model, seen, local, ratings), seen.seen)
    )[0]


_residual = jax.jit(_difference, static_argnums=0)


@partial(jax.jit, static_argnums=0)
def _push(model: Recommender, seen: View, weights: Local, here: tuple[Array, Array], v: tuple[Array, Array]) -> Array:
    return jax.jvp(partial(_difference, model, seen, weights), (here,), (v,))[1]


@partial(jax.jit, static_argnums=0)
def _pull(
    model: Recommender, seen: View, weights: Local, here: tuple[Array, Array], v: Float[Array, " n"]
) -> tuple[Array, Array]:
    return jax.vjp(partial(_difference, model, seen, weights), here)[1](v)[0]
