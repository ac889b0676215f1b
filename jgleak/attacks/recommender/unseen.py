"""Embeddings of neighbours that the server did not hand out: gradient matching over them and the ratings."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple, cast

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Float
from scipy.optimize import least_squares
from scipy.sparse.linalg import LinearOperator

from jgleak.attacks.recommender.observation import PublicKnowledge
from jgleak.attacks.recommender.star import View, expected
from jgleak.attacks.recommender.tolerances import RatingLimits
from jgleak.federated.recommender.model import Local, Recommender


def with_neighbours(
    public: PublicKnowledge,
    seen: View,
    users: Float[Array, "U w"],
    bound: float,
    *,
    tolerance: float,
    limits: RatingLimits,
) -> View:
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
      tolerance: relative change at which the search ends.
      limits: its steps.
    """
    model = dataclasses.replace(public.model, dropout=0.0)  # the view has it
    start = users[jnp.linspace(0, users.shape[0] - 1, public.limit).astype(int)]
    local = seen.local._replace(neighbours=jnp.asarray(start, seen.local.items.dtype))
    seen, spread = seen._replace(local=local), float(jnp.std(local.items))
    network, user = jax.tree.map(jnp.zeros_like, (seen.shown.network, seen.shown.user))
    seen = seen._replace(shown=seen.shown._replace(network=network, user=user))
    search = _Search(model, seen, _weights(seen, bound), int(seen.client.mask.sum()), spread)
    found = least_squares(
        search.residual,
        np.concatenate([np.full(search.count, public.mean), np.zeros(start.size)]),
        jac=cast(Any, search.jacobian),
        tr_solver="lsmr",
        tr_options={"maxiter": limits.inner},
        ftol=tolerance,
        xtol=tolerance,
        gtol=tolerance,
        max_nfev=limits.steps,
    )
    return seen._replace(local=local._replace(neighbours=local.neighbours + search.unknowns(found.x)[1]))


def _weights(seen: View, bound: float) -> Local:
    """1 over the update's length where an entry counts, 0 elsewhere."""
    weights = jax.tree.map(lambda leaf, shown: shown * (jnp.abs(leaf) < bound * (1.0 - 1e-6)), seen.seen, seen.shown)
    parts = zip(*map(jax.tree.leaves, (weights, seen.seen)), strict=True)
    whole = np.sqrt(sum(float((used * leaf**2).sum()) for used, leaf in parts))
    return jax.tree.map(lambda leaf: leaf / max(whole, np.finfo(float).tiny), weights)


class _Search(NamedTuple):
    """What is searched for, in one row: ``K`` ratings, then moves of the neighbours' rows in units of ``spread``."""

    model: Recommender
    seen: View
    weights: Local
    count: int
    spread: float

    def unknowns(self, x: Float[np.ndarray, " u"]) -> tuple[Array, Array]:
        """The ratings, padded, and the moves ``(P, w)``."""
        ratings = np.zeros(self.seen.client.items.shape[0])
        ratings[: self.count] = x[: self.count]
        moves = jnp.asarray(x[self.count :]).reshape(self.seen.local.neighbours.shape)
        return jnp.asarray(ratings), self.spread * moves

    def residual(self, x: Float[np.ndarray, " u"]) -> Float[np.ndarray, " n"]:
        """``_difference`` on the host."""
        return np.asarray(_residual(self.model, self.seen, self.weights, self.unknowns(x)))

    def jacobian(self, x: Float[np.ndarray, " u"]) -> LinearOperator:
        """Its derivative."""
        given, here = (self.model, self.seen, self.weights), self.unknowns(x)
        rows = sum(leaf.size for leaf in jax.tree.leaves(self.weights))

        def back(change: tuple[Array, Array]) -> Float[np.ndarray, " u"]:
            return np.concatenate([np.asarray(change[0])[: self.count], self.spread * np.asarray(change[1]).ravel()])

        return _Jacobian(
            (rows, x.size),
            lambda v: np.asarray(_push(*given, here, self.unknowns(v))),
            lambda v: back(_pull(*given, here, jnp.asarray(v))),
        )


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
