"""How far the gradient of a dummy graph is from the observed one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Num

from jgleak.attacks.matching.problem import Problem, Setting
from jgleak.federated.loss import graph_loss
from jgleak.gnn import Params

TINY = 1e-30
"""Squared norms below this count as zero."""


class Guess(NamedTuple):
    """A relaxed client: what the model is shown.

    Attributes:
      nodes: ``(G, N, m)`` encoded features; padding rows are zero.
      adjacency: ``(G, N, N)`` with entries in [0, 1]; padding rows and columns are zero.
      labels: distributions ``(G, C)`` or ``(G, N, C)``, or regression targets ``(G,)`` or ``(G, N)``.
    """

    nodes: Float[Array, "G N m"]
    adjacency: Float[Array, "G N N"]
    labels: Num[Array, "..."]


Objective = Callable[[Params, Params], Float[Array, ""]]
"""From two pytrees of gradients, leaves ``(T, ...)``, to a number that is 0 where they agree."""


def gradients(setting: Setting, problem: Problem, guess: Guess) -> Params:
    """The gradients a guess would have sent, every leaf ``(T, ...)`` like ``problem.update``."""
    model, node_level = setting.model, setting.model.node_level

    def loss(params: Params, shares: Float[Array, "G N"]) -> Float[Array, ""]:
        def one(nodes: Array, adjacency: Array, mask: Array, label: Array, share: Array) -> Float[Array, ""]:
            return graph_loss(model, params, nodes, adjacency, mask, label, setting.loss, share if node_level else None)

        losses = jax.vmap(one)(guess.nodes, guess.adjacency, problem.mask, guess.labels, shares)
        return losses.sum() if node_level else losses.mean()

    if problem.shares.shape[0] == 1:
        return jax.tree.map(lambda leaf: leaf[None], jax.grad(loss)(problem.params, problem.shares[0]))
    return jax.vmap(jax.grad(loss), (None, 0))(problem.params, problem.shares)


def squared(found: Params, seen: Params) -> Float[Array, ""]:
    """``|g - g*|² / |g*|²``, the mean over the ``T`` gradients (DLG; relative, so that rates carry over)."""
    gap, _, wanted = _products(jax.tree.map(jnp.subtract, found, seen), seen)
    return jnp.mean(gap / jnp.maximum(wanted, TINY))


def cosine(found: Params, seen: Params) -> Float[Array, ""]:
    """``1 - <g, g*> / (|g| |g*|)``, the mean over the ``T`` gradients (InverGrad; GLG, equation 12).

    A zero gradient on either side has no direction and counts as orthogonal.
    """
    size, inner, wanted = _products(found, seen)
    product = size * wanted
    live = product > TINY
    return jnp.mean(1.0 - jnp.where(live, inner * jax.lax.rsqrt(jnp.where(live, product, 1.0)), 0.0))


def layerwise(weights: Mapping[str, float], objective: Objective = squared) -> Objective:
    """``objective`` of every layer on its own, averaged with ``weights`` (layers not named weigh 1).

    The names are the top ones of the parameters: ``conv_0``, ``conv_1``, ..., ``head``.
    """

    def weighted(found: Params, seen: Params) -> Float[Array, ""]:
        names = sorted(layer for layer in seen if jax.tree.leaves(seen[layer]))
        total = sum(weights.get(layer, 1.0) for layer in names)
        return jnp.asarray(sum(weights.get(n, 1.0) * objective(found[n], seen[n]) for n in names)) / total

    return weighted


def distance(found: Params, seen: Params) -> Float[Array, ""]:
    """The relative gradient distance ``|g - g*| / |g*|`` over all parameters and all ``T`` gradients."""
    gap, _, wanted = _products(jax.tree.map(jnp.subtract, found, seen), seen)
    return jnp.sqrt(gap.sum() / jnp.maximum(wanted.sum(), TINY))


def _products(first: Params, second: Params) -> tuple[Float[Array, " T"], Float[Array, " T"], Float[Array, " T"]]:
    """``|a|²``, ``<a, b>`` and ``|b|²`` over all leaves, a number for each of the ``T`` gradients."""

    def inner(a: Params, b: Params) -> Float[Array, " T"]:
        parts = jax.tree.map(lambda u, v: jnp.sum(u * v, axis=tuple(range(1, u.ndim))), a, b)
        return jnp.stack(jax.tree.leaves(parts)).sum(axis=0)

    return inner(first, first), inner(first, second), inner(second, second)
