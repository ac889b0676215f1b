"""Federated matrix factorisation by gradient descent, before any encryption."""

from __future__ import annotations

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from jgleak.federated.recommender.factors import Settings
from jgleak.gnn.precise import precise


@precise
def fedmf(
    settings: Settings,
    own: Float[Array, " d"],
    items: Float[Array, "K d"],
    values: Float[Array, " K"],
    mask: Bool[Array, " K"],
) -> tuple[Float[Array, " d"], Float[Array, "K d"]]:
    """A client of FedMF: a step on its own factors, and its items' gradients at the factors it had.

    ``x <- x + 2 rate (sum_i (r_i - x . y_i) y_i - lambda x)``, ``dJ/dy_i = -2 (r_i - x . y_i) x``; the penalty on the
    items is the server's. These gradients are what FedMF encrypts; its "part text" variant sends those of rated items,
    as here, its "full text" variant adds zeros for all others.

    Source: Chai, Wang, Chen, Yang, "Secure federated matrix factorization", IEEE Intelligent Systems 2020, equations 3
    to 6.
    """
    wrong = jnp.where(mask, values - items @ own, 0.0)
    step = wrong @ items - settings.decay * own
    return own + 2.0 * settings.user_rate * step, -2.0 * wrong[:, None] * own
