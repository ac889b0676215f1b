"""Real or pseudo? The trace that a rated item leaves in the rest of the update, beside items that were not sent."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from jgleak.attacks.recommender.history import size
from jgleak.attacks.recommender.observation import PublicKnowledge, Sighting
from jgleak.attacks.recommender.statistics import TINY, presence
from jgleak.federated.recommender.clients import SMALLEST
from jgleak.federated.recommender.model import Parameters, Recommender
from jgleak.federated.recommender.star import NETWORKS, Star, Weights
from jgleak.gnn.precise import precise

CONTROLS = 10
"""Items that were not sent, at least, to compare with; with fewer, the items sent are compared with each other. No
setting: the statistics have one form, by which certainty is computed (``combined``)."""


def network(
    public: PublicKnowledge, sightings: Sequence[Sighting], items: Int[np.ndarray, " S"]
) -> Float[np.ndarray, " S"]:
    """Agreement of an item's embedding with the network's gradient; see ``traces``."""
    return traces(public, sightings, items, "network").sum(axis=0)


def user(
    public: PublicKnowledge, sightings: Sequence[Sighting], items: Int[np.ndarray, " S"]
) -> Float[np.ndarray, " S"]:
    """Agreement of an item's embedding with the gradient of the user's embedding; see ``traces``."""
    return traces(public, sightings, items, "user").sum(axis=0)


def traces(
    public: PublicKnowledge,
    sightings: Sequence[Sighting],
    items: Int[np.ndarray, " S"],
    part: Literal["network", "user"],
) -> Float[np.ndarray, "R S"]:
    """How well each item explains a part of each round's update; zero where it was not sent.

    A rated item is in the update three times: by its own row, which pseudo items imitate, and by its share
    ``c_k d s_k`` of the network's and of the user's gradient, which they do not. The share is looked for with a matched
    filter ``<G, d s_k>``, where ``s_k = h_k . h_u``:

    - ``network``: the derivative by the weights of ``h_k . v``, where ``v`` stands for ``h_u`` times the sign of the
      residuals: the mean of all item gradients of the round (see ``direction``), carried from an embedding to a hidden
      state by the derivative ``d h / d x``.
    - ``user``: the derivative by the user's embedding of ``h_u . h_k`` at fixed ``h_k``, times the sign of the
      residuals, that of the prediction less the prior's mean rating.

    Neither needs the history; where a star graph is needed (its size, and what the user hears), the items that were
    sent most often stand in for it. Items that were *not* sent in the round are surely unrated: their mean and
    deviation are the null distribution, and scores are in its units.
    """
    counts = presence(sightings, items).sum(axis=0)
    length = max(size(public, sightings), 1)
    reference = items[np.sort(np.argsort(-counts, kind="stable")[:length])]
    padding = max(SMALLEST, 1 << int(np.ceil(np.log2(max(len(reference), 1)))))
    leaves = np.zeros(padding, np.int32)
    leaves[: len(reference)] = reference
    stand_in = ReferenceItems(leaves, jnp.asarray(np.arange(padding) < len(reference)))
    out = np.zeros((len(sightings), len(items)))
    for own, (params, update) in zip(out, sightings, strict=True):
        mean = update.item_gradients.mean(axis=0) if len(update.items) else np.zeros(params.items.shape[1])
        sent = SentGradients(update.user, update.network, jnp.asarray(update.user_gradient), jnp.asarray(mean))
        every = np.asarray(_traces(public.model, public.mean, part, params, sent, stand_in))
        own[np.searchsorted(items, update.items)] = _standard(every, update.items)
    return out


def _standard(every: Float[np.ndarray, " I"], sent: Int[np.ndarray, " S"]) -> Float[np.ndarray, " S"]:
    unsent = np.delete(every, sent)
    null = unsent if len(unsent) >= CONTROLS else every
    return (every[sent] - null.mean()) / np.sqrt(null.var() + TINY)


class SentGradients(NamedTuple):
    """What one update shows of the rated items together.

    Attributes:
      user: the row of the user's embedding.
      network: gradient of the network's weights.
      embedding: gradient of the user's embedding ``(w,)``.
      items: mean of all item gradients ``(w,)``.
    """

    user: int | Int[Array, ""]
    network: Weights
    embedding: Float[Array, " w"]
    items: Float[Array, " w"]


class ReferenceItems(NamedTuple):
    """Items that stand in for the history, padded.

    Attributes:
      items: their numbers ``(K,)``.
      mask: False at padding ``(K,)``.
    """

    items: Int[Array | np.ndarray, " K"]
    mask: Bool[Array, " K"]


@partial(jax.jit, static_argnames=("model", "part"))
@precise
def _traces(
    model: Recommender,
    prior: Float[Array, ""],
    part: Literal["network", "user"],
    params: Parameters,
    sent: SentGradients,
    reference: ReferenceItems,
) -> Float[Array, " I"]:
    """``traces`` of every item there is, without units."""
    width, (leaves, mask) = model.width, reference
    everything, centre = params.items[:, :width], params.users[sent.user][:width]
    star = Star(centre, everything[leaves], mask, everything)

    def states(weights: Weights, own: Array, asked: Array) -> tuple[Array, Array]:
        out = NETWORKS[model.network](weights, star._replace(user=own, asked=asked))
        return out.user, out.asked

    hidden, outer = states(params.network, centre, everything)
    if part == "network":
        shift = jnp.broadcast_to(sent.items[:width], everything.shape)
        _, moved = jax.jvp(lambda x: states(params.network, centre, x)[1], (everything,), (shift,))
        _, trace = jax.jvp(lambda w: states(w, centre, everything)[1], (params.network,), (sent.network,))
        return trace @ moved.mean(axis=0)
    _, moved = jax.jvp(lambda x: states(params.network, x, everything)[0], (centre,), (sent.embedding[:width],))
    guess = model.centre + model.scale * (outer[leaves] @ hidden * mask).sum() / jnp.maximum(mask.sum(), 1)
    return (outer @ moved) * jnp.sign(guess - prior)
