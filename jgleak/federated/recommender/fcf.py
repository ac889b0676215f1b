"""Federated collaborative filtering: devices solve for their users' factors and send the items' gradients."""

from __future__ import annotations

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from jgleak.federated.recommender.factors import Settings
from jgleak.federated.recommender.linear import solve
from jgleak.gnn.precise import precise


@precise
def fcf(
    settings: Settings,
    own: Float[Array, " d"],
    items: Float[Array, "K d"],
    values: Float[Array, " K"],
    mask: Bool[Array, " K"],
) -> tuple[Float[Array, " d"], Float[Array, "K d"]]:
    """A client of FCF: ``x = (Y^T Y + lambda I)^-1 Y^T r`` exactly, then ``dJ/dy_i = -2 (r_i - x . y_i) x``.

    Only rated items count. The paper weighs implicit feedback (``c = 1 + alpha r`` on everything seen, 1 on the rest),
    so that its clients send gradients of *all* items; a recommender that is judged by the ratings' RMSE, as in FedGNN's
    table, has nothing to say about items without a rating.

    Source: Ammad-ud-din et al., "Federated collaborative filtering for privacy-preserving personalized recommendation
    system", 2019, equations 4 to 8.
    """
    held = jnp.where(mask[:, None], items, 0.0)
    gram = held.T @ held + settings.decay * jnp.eye(items.shape[1])
    x = solve(gram, held.T @ values)
    wrong = jnp.where(mask, values - items @ x, 0.0)
    return x, -2.0 * wrong[:, None] * x
