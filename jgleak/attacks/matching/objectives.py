"""How far the gradient of a dummy graph is from the observed one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Num

from jgleak.attacks.matching import leaves
from jgleak.attacks.matching.problem import Problem, Setting
from jgleak.federated.factored_descent import factored_descent
from jgleak.federated.factors import factored_gradients
from jgleak.gnn import Params
from jgleak.graph import DenseGraph

TINY = 1e-30
"""Squared norms below this count as zero."""

STRETCH = 1e-6
"""A guess's gradient is stretched by the entries that were sent, but not as if they were less than this of it."""


class Guess(NamedTuple):
    """A relaxed client: what the model is shown.

    Attributes:
      nodes: ``(G, N, m)`` encoded features; padding rows are zero.
      adjacency: ``(G, N, N)`` with entries in [0, 1]; padding rows and columns are zero.
      labels: distributions ``(G, C)`` or ``(G, N, C)``, regression targets ``(G,)`` or ``(G, N)``, or rows ``(G, T)``
        of several tasks, NaN where a label is missing.
      masks: of dropout, a tree of entries in [0, 1], ``G`` in front (``gnn.dropout.MASKS``); None: the client draws
        none, or they are not searched for.
    """

    nodes: Float[Array, "G N m"]
    adjacency: Float[Array, "G N N"]
    labels: Num[Array, "..."]
    masks: Any = None


Objective = Callable[[Params, Params], Float[Array, ""]]
"""From two trees of ``T`` gradients (``leaves``), a guess's and the observed one; 0 where they agree."""


def gradients(setting: Setting, problem: Problem, guess: Guess) -> Params:
    """The gradients a guess would have sent, to be compared with ``problem.update``: an ``Outer`` a kernel.

    Of several local steps (``Setting.local``) they are the mean gradient along the guess's own (Geiping et al. 2020;
    Dimitrov et al. 2022). Under dropout they are those of the guess's own masks, or the mean over what
    ``problem.masks`` draws. Where the update was clipped as a whole (``Setting.scaled``), its length is not the
    gradient's: they are stretched to that length. A zero gradient stays one.
    """
    graphs, shares = DenseGraph(guess.nodes, guess.adjacency, jnp.asarray(problem.mask)), jnp.asarray(problem.shares)
    drawn = None if problem.masks is None else jax.random.wrap_key_data(jnp.asarray(problem.masks))
    masks = drawn if guess.masks is None else guess.masks
    given = setting.model, problem.params, graphs, guess.labels, setting.loss, shares
    if setting.local is None:
        found = factored_gradients(*given, masks, setting.trim)
    else:
        found = factored_descent(*given, setting.local.descent, masks)
    if not setting.scaled:
        return found
    square = jnp.maximum(
        _total(found, problem.update, leaves.sent_size), STRETCH * _total(found, problem.update, leaves.size)
    )
    live = square > TINY
    longer = jnp.where(live, _wanted(problem.update), 1.0) / jnp.where(live, square, 1.0)
    return leaves.stretched(found, jnp.sqrt(jnp.maximum(longer, TINY)))


def squared(found: Params, seen: Params) -> Float[Array, ""]:
    """``|g - g*|² / |g*|²``, the mean over the ``T`` gradients (DLG; relative, so that rates carry over)."""
    gap, wanted = _total(found, seen, leaves.gap), _wanted(seen)
    return jnp.mean(gap / jnp.maximum(wanted, TINY))


def cosine(found: Params, seen: Params) -> Float[Array, ""]:
    """``1 - <g, g*> / (|g| |g*|)``, the mean over the ``T`` gradients (InverGrad; GLG, equation 12).

    A zero gradient on either side has no direction and counts as orthogonal.
    """
    inner, size, wanted = _total(found, seen, leaves.inner), _total(found, seen, leaves.size), _wanted(seen)
    live = (size > TINY) & (wanted > TINY)
    size, wanted = (jax.lax.rsqrt(jnp.where(live, square, 1.0)) for square in (size, wanted))
    return jnp.mean(1.0 - jnp.where(live, inner * size * wanted, 0.0))


def entrywise(objective: Callable[[list[Array], list[Array]], Float[Array, ""]]) -> Objective:
    """An objective of plain arrays, for what the sums that gradients in factors allow cannot say.

    ``objective`` gets the leaves of both gradients, each with ``T`` gradients in front (1, but for single nodes). Every
    step forms all of them, so it is slower than ``squared``. Make it once, at module level: a recipe's functions are
    static arguments.
    """

    def formed(found: Params, seen: Params) -> Float[Array, ""]:
        return objective(*leaves.arrays(found, seen))

    return formed


def layerwise(weights: Mapping[str, float], objective: Objective = squared) -> Objective:
    """``objective`` of every layer on its own, averaged with ``weights`` (layers not named weigh 1).

    The names are the top ones of the parameters: ``layers_0``, ``layers_1``, ..., ``readout``.
    """

    def weighted(found: Params, seen: Params) -> Float[Array, ""]:
        names = sorted(layer for layer in seen if jax.tree.leaves(seen[layer]))
        total = sum(weights.get(layer, 1.0) for layer in names)
        return jnp.asarray(sum(weights.get(n, 1.0) * objective(found[n], seen[n]) for n in names)) / total

    return weighted


def distance(found: Params, seen: Params) -> Float[Array, ""]:
    """The relative gradient distance ``|g - g*| / |g*|`` over all parameters and all ``T`` gradients."""
    gap, wanted = _total(found, seen, leaves.exact_gap), _wanted(seen)
    return jnp.sqrt(gap.sum() / jnp.maximum(wanted.sum(), TINY))


def _total(found: Params, seen: Params, one: Callable[[Any, Any], Float[Array, " T"]]) -> Float[Array, " T"]:
    return jnp.stack([one(a, b) for a, b in leaves.pairs(found, seen)]).sum(axis=0)


def _wanted(seen: Params) -> Float[Array, " T"]:
    return _total(seen, seen, lambda _, b: leaves.wanted(b))
