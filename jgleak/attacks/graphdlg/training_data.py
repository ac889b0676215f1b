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
from jgleak.attacks.side_information import size
from jgleak.features import FeatureSpace
from jgleak.federated.observation import Knowledge, Observation
from jgleak.gnn import GNN, Params
from jgleak.graph import Graph, bucket, distinct

LARGEST = 64
"""Public graphs of more nodes than this, and than every client, are left out where smaller ones remain."""


def training_graphs(observations: Sequence[Observation], knowledges: Sequence[Knowledge]) -> Lesson:
    """The public graphs of the first client, each once up to isomorphism, and all clients' embeddings.

    The decoder has a place for each node of the largest client; edges of public graphs beyond are cut.

    Raises:
      ConditionFailed: the gradient of some client's head is zero.
    """
    model, params, space = observations[0].model, observations[0].params, knowledges[0].space
    largest = max(size(o, k) or 1 for o, k in zip(observations, knowledges, strict=True))
    public = distinct(knowledges[0].auxiliary)
    public = [g for g in public if g.n <= max(LARGEST, largest)] or [min(public, key=lambda g: g.n)]
    rows, edges, mask = padded(public, space)
    slots = bucket(largest)
    places = np.zeros((len(public), slots, slots), np.float32)
    kept = min(slots, edges.shape[-1])
    places[:, :kept, :kept] = edges[:, :kept, :kept]
    embeddings = np.asarray(_embed(model, params, rows, edges, mask))
    victims = np.stack([pooled_embedding(o.model, o.update) for o in observations]).astype(np.float32)
    return Lesson(embeddings, places, victims)


def padded(
    graphs: Sequence[Graph], space: FeatureSpace
) -> tuple[Float[np.ndarray, "P N m"], Float[np.ndarray, "P N N"], np.ndarray]:
    """Rows, edges and masks of public graphs."""
    slots = bucket(max(g.n for g in graphs))
    rows = np.zeros((len(graphs), slots, space.width), np.float32)
    edges = np.zeros((len(graphs), slots, slots), np.float32)
    mask = np.zeros((len(graphs), slots), bool)
    for i, g in enumerate(graphs):
        rows[i, : g.n] = encoded(g, space)
        edges[i, : g.n, : g.n], mask[i, : g.n] = g.adjacency, True
    return rows, edges, mask


def encoded(graph: Graph, space: FeatureSpace) -> Float[np.ndarray, "n m"]:
    """The rows of a public graph as the model takes them.

    A graph with as many feature entries as the space has *columns* (where that is more than features) holds such rows
    already: random real-valued features that are no codes of the space (GraphDLG, Table 3).
    """
    return graph.x if graph.x.shape[1] == space.width != len(space.features) else space.encode(graph.x)


@partial(jax.jit, static_argnames=("model",))
def _embed(model: GNN, params: Params, rows: Array, edges: Array, mask: Array) -> Float[Array, "P D"]:
    run = partial(model.apply, {"params": params}, method="embed")
    return jax.vmap(lambda *parts: jnp.asarray(run(*parts)))(rows, edges, mask)
