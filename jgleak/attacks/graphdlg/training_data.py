"""What GraphDLG's decoder learns from: public graphs under the attacked model, beside the leaked embeddings."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from jgleak.attacks.closed_form.pooled_embedding import pooled_embedding
from jgleak.attacks.graphdlg.decoder import Lesson
from jgleak.attacks.public.rows import padded
from jgleak.attacks.public.training import small
from jgleak.attacks.side_information import size
from jgleak.federated.knowledge import Knowledge
from jgleak.federated.observation import Observation
from jgleak.gnn import GNN, Params
from jgleak.graph import DenseGraph, bucket, distinct


def training_graphs(observations: Sequence[Observation], knowledges: Sequence[Knowledge], nodes: int) -> Lesson:
    """The public graphs of the first client, each once up to isomorphism, and all clients' embeddings.

    The decoder has a place for each node of the largest client; edges of public graphs beyond are cut. Public graphs of
    more than ``nodes`` nodes, and than every client, are left out where smaller ones remain.

    Raises:
      ConditionFailed: the gradient of some client's head is zero.
    """
    model, params, space = observations[0].model, observations[0].params, knowledges[0].space
    largest = max(size(o, k) or 1 for o, k in zip(observations, knowledges, strict=True))
    public = small(distinct(knowledges[0].auxiliary), max(nodes, largest))
    shown = padded(public, space)
    slots = bucket(largest)
    places = np.zeros((len(public), slots, slots), np.float32)
    kept = min(slots, shown.mask.shape[-1])
    places[:, :kept, :kept] = shown.adjacency[:, :kept, :kept]
    embeddings = np.asarray(_embed(model, params, shown))
    victims = np.stack([pooled_embedding(o.model, o.update) for o in observations]).astype(np.float32)
    return Lesson(embeddings, places, victims)


@partial(jax.jit, static_argnames=("model",))
def _embed(model: GNN, params: Params, shown: DenseGraph) -> Float[Array, "P D"]:
    run = partial(model.apply, {"params": params}, method="embed")
    return jax.vmap(lambda graph: jnp.asarray(run(*graph)))(shown)
