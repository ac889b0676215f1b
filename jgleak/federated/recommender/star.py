"""Graph networks on a user's star graph, without the rest of its adjacency matrix.

The user is the centre; rated items and neighbour users are leaves, each linked to the user alone. So one layer costs
as much as the nodes there are, not their square. An item that the user has not rated may be *asked*: it hangs on the
user and hears the user, while the user does not hear it. That is how a rating is predicted that is not in the graph;
the paper says nothing about it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from jgleak.gnn.attention import NEGATIVE_SLOPE
from jgleak.gnn.precise import precise

HEADS = 2
"""Attention heads; the paper names no number."""

STEPS = 2
"""Steps of the gated network; the paper names no number."""

Weights = Any
"""The network's weights: a dict of arrays."""


class Star(NamedTuple):
    """Embeddings of a star graph: the user, its leaves, and the items that are asked."""

    user: Float[Array, " D"]
    leaves: Float[Array, "n D"]
    mask: Bool[Array, " n"]
    asked: Float[Array, "m D"]


class States(NamedTuple):
    """Hidden states of the user and of the items that are asked."""

    user: Float[Array, " D"]
    asked: Float[Array, "m D"]


@precise
def gat(weights: Weights, star: Star) -> States:
    """Graph attention (Velickovic et al., ICLR 2018) with self-loops; ``jgleak.gnn.gat.GATConv`` on the star.

    A leaf has two to attend to, itself and the user, so its softmax is a logistic function.
    """
    heads, width = weights["target"].shape

    def projected(rows: Array) -> tuple[Array, Array, Array]:
        values = (rows @ weights["kernel"]).reshape(-1, heads, width)
        return values, (values * weights["target"]).sum(axis=-1), (values * weights["source"]).sum(axis=-1)

    user, user_target, user_source = projected(star.user[None])
    leaves, _, leaf_source = projected(star.leaves)
    asked, target, source = projected(star.asked)
    values, sources = jnp.concatenate([user, leaves]), jnp.concatenate([user_source, leaf_source])
    heard = jnp.concatenate([jnp.ones(1, bool), star.mask])[:, None]
    share = jax.nn.softmax(_leaky(user_target + sources), axis=0, where=heard)
    own = jax.nn.sigmoid(_leaky(target + source) - _leaky(target + user_source))[:, :, None]
    centre = jnp.einsum("nh,nhd->hd", share, values).reshape(-1)
    return States(centre, (own * asked + (1.0 - own) * user).reshape(-1, heads * width))


@precise
def gcn(weights: Weights, star: Star) -> States:
    """Graph convolution (Kipf and Welling, ICLR 2017); ``jgleak.gnn.gcn.GCNConv`` on the star."""
    degree = star.mask.sum() + 1.0  # self-loops count
    user, leaves, asked = (rows @ weights["kernel"] for rows in (star.user, star.leaves, star.asked))
    between = jax.lax.rsqrt(2.0 * degree)
    centre = user / degree + between * (star.mask @ leaves)
    return States(centre, asked / 2.0 + between * user)


@precise
def ggnn(weights: Weights, star: Star) -> States:
    """Gated graph network (Li et al., ICLR 2016) on the star.

    ``h' = GRU(h, m)`` for ``STEPS`` steps, where ``m_v`` is the *mean* of ``W h_u + b`` over the neighbours ``u`` of
    ``v``; the original sums, which drives the gates of a user with hundreds of items to their limits.
    """
    user, leaves, mask, asked = star
    count = jnp.maximum(mask.sum(), 1.0)
    for _ in range(STEPS):
        mean = mask @ leaves / count
        to_user = jnp.where(mask.any(), mean @ weights["message"] + weights["message_bias"], 0.0)
        to_leaf = user @ weights["message"] + weights["message_bias"]
        user, leaves, asked = (
            _gru(weights, user, to_user),
            _gru(weights, leaves, to_leaf),
            _gru(weights, asked, to_leaf),
        )
    return States(user, asked)


def initial(network: str, width: int, *, key: Array) -> Weights:
    """Glorot-uniform kernels, zero biases, for a network of equal input and output width ``D``."""
    glorot = jax.nn.initializers.glorot_uniform()
    first, second, third = jax.random.split(key, 3)
    if network == "gcn":
        return {"kernel": glorot(first, (width, width))}
    if network == "gat":
        heads = (HEADS, width // HEADS)
        kernel = glorot(first, (width, width))
        return {"kernel": kernel, "target": glorot(second, heads), "source": glorot(third, heads)}
    return {
        "message": glorot(first, (width, width)),
        "message_bias": jnp.zeros(width),
        "input": glorot(second, (width, 3 * width)),
        "hidden": glorot(third, (width, 3 * width)),
        "bias": jnp.zeros(3 * width),
    }


NETWORKS: dict[str, Callable[[Weights, Star], States]] = {"gat": gat, "gcn": gcn, "ggnn": ggnn}


def _leaky(scores: Array) -> Array:
    return jax.nn.leaky_relu(scores, NEGATIVE_SLOPE)


def _gru(weights: Weights, state: Float[Array, "... D"], message: Float[Array, "... D"]) -> Float[Array, "... D"]:
    """Gated recurrent unit (Cho et al., 2014): gates from the message and the state."""
    width = state.shape[-1]
    gates, candidate = jnp.split(message @ weights["input"] + weights["bias"], [2 * width], axis=-1)
    recurrent, own = jnp.split(weights["hidden"], [2 * width], axis=1)
    update, reset = jnp.split(jax.nn.sigmoid(gates + state @ recurrent), 2, axis=-1)
    return (1.0 - update) * state + update * jnp.tanh(candidate + (reset * state) @ own)
