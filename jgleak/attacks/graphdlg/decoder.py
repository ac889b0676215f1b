"""GraphDLG's decoder: edges from the pooled embedding, learnt from public graphs under the attacked model's weights.

The embedding goes through an MLP of widths 100 and 250 to ``S^2`` numbers; symmetrised, they are log odds of edges
between places of the file's node order, which the embedding itself says nothing of (GraphDLG, section 4.2).

**The adapter's missing gradient.** Equation 21 adds ``lambda |mean phi(p_public) - mean phi(p_victims)|``, with the
identity for ``phi`` and embeddings ``p`` of an encoder that is the attacked model and stays as it is. This is a
constant: it has no derivative by the decoder's weights, and training does not notice it. Here ``phi`` is the decoder's
last hidden layer, so that the term asks the decoder to see public and attacked graphs alike.
"""

from __future__ import annotations

import dataclasses
from functools import lru_cache, partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import linen as nn
from jaxtyping import Array, Float

from jgleak.attacks.hashing import HashedByContents
from jgleak.attacks.options import from_zero
from jgleak.attacks.public.training import fit
from jgleak.attacks.relaxations import pairs, symmetric
from jgleak.gnn.precise import Precise

WIDTHS = (100, 250)
"""Of the hidden layers (GraphDLG, section 5.1)."""


TINY = 1e-12
"""Squared lengths below this have no direction."""

Params = Any


@dataclasses.dataclass(frozen=True)
class DecoderTraining:
    """How the decoder learns: what the paper leaves open, and what its ablation changes.

    Attributes:
      steps: of Adam, each on all public graphs.
      adapter: its weight ``lambda``; 0 leaves it out.
      rate: the learning rate, the paper's.
      nodes: public graphs of more nodes than this, and than every client, are left out where smaller ones remain.
      seed: training draws from a key of its own: the same public graphs give the same weights, whoever is attacked.
    """

    steps: int = 200
    adapter: float = from_zero(0.2)
    rate: float = 1e-3
    nodes: int = 64
    seed: int = from_zero(0)


@dataclasses.dataclass(frozen=True, eq=False)
class Lesson(HashedByContents):
    """What is learnt from.

    Attributes:
      embeddings: ``(P, D)`` of the public graphs.
      edges: ``(P, S, S)`` their adjacencies, cut or filled up to ``S`` nodes.
      victims: ``(V, D)`` embeddings leaked by the attacked clients.
    """

    embeddings: Float[np.ndarray, "P D"]
    edges: Float[np.ndarray, "P S S"]
    victims: Float[np.ndarray, "V D"]


class DecoderNetwork(Precise):
    """The last hidden layer and the log odds of edges, of one standardised embedding."""

    slots: int

    @nn.compact
    def __call__(self, embedding: Float[Array, " D"]) -> tuple[Float[Array, " H"], Float[Array, "S S"]]:
        hidden = embedding
        for width in WIDTHS:
            hidden = nn.relu(nn.Dense(width)(hidden))
        logits = nn.Dense(self.slots**2)(hidden).reshape(self.slots, self.slots)
        return hidden, symmetric(logits, jnp.ones(self.slots, bool))


class Decoder(NamedTuple):
    """A trained decoder.

    Attributes:
      params: of the network.
      mean: of the public embeddings.
      scale: one over their deviation; 0 where they are all alike.
      low: the least of every standardised column among them.
      high: the greatest.
    """

    params: Params
    mean: Float[Array | np.ndarray, " D"]
    scale: Float[Array | np.ndarray, " D"]
    low: Float[Array | np.ndarray, " D"]
    high: Float[Array | np.ndarray, " D"]

    def logits(self, embedding: Float[Array | np.ndarray, " D"]) -> Float[Array, "S S"]:
        """Log odds of the edges between ``S`` places; 0 on the diagonal.

        What lies beyond all public embeddings is moved to their range: nothing was learnt there, and the embedding of a
        batch, whose weights may be negative (``pooled_embedding``), is often far outside.
        """
        slots = round(self.params[f"Dense_{len(WIDTHS)}"]["bias"].size ** 0.5)
        within = jnp.clip((embedding - self.mean) * self.scale, self.low, self.high)
        found: Any = DecoderNetwork(slots).apply({"params": self.params}, within)
        return found[1]


@lru_cache(maxsize=8)
def trained(lesson: Lesson, training: DecoderTraining) -> Decoder:
    """A decoder that has learnt a lesson."""
    mean, deviation = lesson.embeddings.mean(axis=0), lesson.embeddings.std(axis=0)
    live = deviation > 1e-6 * np.abs(lesson.embeddings).max()
    scale = np.where(live, 1.0 / np.where(live, deviation, 1.0), 0.0).astype(np.float32)
    public, victims = ((part - mean) * scale for part in (lesson.embeddings, lesson.victims))
    low, high = public.min(axis=0), public.max(axis=0)
    seen = np.clip(victims, low, high)  # the adapter compares what the decoder will be shown (``Decoder.logits``)
    params = jax.device_get(
        _fit(training.steps, training.rate, training.adapter, public, lesson.edges, seen, jax.random.key(training.seed))
    )
    return Decoder(params, mean, scale, low, high)


@partial(jax.jit, static_argnames=("steps", "rate"))
def _fit(steps: int, rate: float, weight: Array, public: Array, edges: Array, victims: Array, key: Array) -> Params:
    network = DecoderNetwork(edges.shape[-1])

    def error(params: Params, _: Array) -> Float[Array, ""]:
        return loss(network, params, public, edges, victims, weight=weight)

    return fit(error, network.init(key, public[0])["params"], optax.adam(rate), jnp.arange(steps))[0]


def loss(
    network: DecoderNetwork,
    params: Params,
    public: Float[Array | np.ndarray, "P D"],
    edges: Float[Array | np.ndarray, "P S S"],
    victims: Float[Array | np.ndarray, "V D"],
    *,
    weight: float | Array,
) -> Float[Array, ""]:
    """Squared error of a graph's edges, the mean over public graphs (equation 19), plus the adapter (20, 21)."""
    run = jax.vmap(lambda p: network.apply({"params": params}, p))
    found: Any = run(public)
    inside = pairs(jnp.ones(edges.shape[-1], bool))
    errors = jnp.where(inside, jax.nn.sigmoid(found[1]) - edges, 0.0)
    apart: Any = found[0].mean(axis=0) - run(victims)[0].mean(axis=0)
    return jnp.sum(errors**2) / len(edges) + weight * jnp.sqrt(jnp.sum(apart**2) + TINY)
