"""The masked graph auto-encoder of FedGIG: which edges belong, learnt from public graphs of which some are hidden."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import linen as nn
from jaxtyping import Array, Bool, Float

from jgleak.attacks.public.training import PublicTraining, decaying, drawn, fit, small
from jgleak.attacks.relaxations import pairs
from jgleak.features import FeatureSpace
from jgleak.gnn.gcn import GCNConv
from jgleak.gnn.precise import Precise
from jgleak.graph import DenseGraph, Graph, GraphBatch

WIDTH = 64
"""Width of both layers of the encoder, and of the marks."""

MARK = 3.0
"""Length of a node's mark: about that of a normalised feature row of a few live columns."""

HIDDEN, FALSE = 0.6, 0.6
"""Training hides up to this share of a graph's edges, and adds false ones up to this share of their number."""

TRAINING = PublicTraining(training_steps=500, training_batch=32, training_rate=5e-3, training_nodes=40)
"""With a cosine decay of the rate."""


DRAWS = 8
"""Sets of marks that an answer is averaged over."""


Params = Any

Marks = Callable[[Array, int], Array]
"""From a key and the number of slots to a row a node."""


class Autoencoder(Precise):
    """``Z = GCN(ReLU(GCN([X | M], A)), A)`` and edges ``sigmoid(Z Zᵀ + s A + b)`` (FedGIG, eq. 8, 9).

    Three things differ from the print. ``Z Zᵀ`` of nodes that look alike is one number, so the six carbons of a ring
    would be joined all to all: marks ``M (N, WIDTH)``, a row a node, tell them apart. ``sigmoid(0)`` is a half: the
    learnt offset ``b`` lets unrelated nodes be unjoined. And ``s A`` with a learnt ``s`` lets the edges that went in
    speak for themselves: without it, Jaccard falls from 1 to .6 on Tox21 graphs that were right (.99 with it).
    """

    @nn.compact
    def __call__(
        self,
        nodes: Float[Array, "N m"],
        adjacency: Float[Array, "N N"],
        mask: Bool[Array, " N"],
        marks: Float[Array, f"N {WIDTH}"],
    ) -> Float[Array, "N N"]:
        rows = jnp.concatenate([nodes, marks], axis=-1)
        hidden = nn.relu(GCNConv(WIDTH, bias=True)(rows, adjacency, mask))
        latent = GCNConv(WIDTH, bias=True)(hidden, adjacency, mask)
        offset = self.param("offset", nn.initializers.constant(-2.0), ())
        own = self.param("own", nn.initializers.constant(2.0), ())
        return jnp.where(pairs(mask), jax.nn.sigmoid(latent @ latent.T + own * adjacency + offset), 0.0)


def random_marks(key: Array, slots: int) -> Float[Array, f"N {WIDTH}"]:
    """Rows of a random rotation: orthogonal for up to ``WIDTH`` nodes, and no node's is special."""
    size = max(slots, WIDTH)
    return MARK * jnp.sqrt(size / WIDTH) * jax.random.orthogonal(key, size)[:slots, :WIDTH]


def place_marks(key: Array, slots: int) -> Float[Array, f"N {WIDTH}"]:
    """The node's place in its file: what follows from the files' habit of node order is learnt too."""
    return MARK * jnp.eye(slots, WIDTH)


def corrupt(
    key: Array,
    adjacency: Float[Array, "N N"],
    mask: Bool[Array, " N"],
    hidden: float | Array,
    false: float | Array,
) -> Float[Array, "N N"]:
    """The 0/1 edges with a share ``hidden`` of them masked, and ``false`` times their number of wrong ones added.

    The paper only masks. What is recovered from a gradient has wrong edges too, so training shows some.
    """
    inside = pairs(mask)
    density = adjacency.sum() / jnp.maximum(inside.sum(), 1)
    draws = jnp.triu(jax.random.uniform(key, adjacency.shape), 1)
    draws = draws + draws.T
    rate = false * density / jnp.maximum(1.0 - density, 1e-6)
    return jnp.where(inside, jnp.where(adjacency > 0, draws >= hidden, draws < rate), False).astype(adjacency.dtype)


def error(
    marks: Marks,
    params: Params,
    key: Array,
    graphs: DenseGraph,
) -> Float[Array, ""]:
    """Mean squared error over the pairs of different nodes of what comes out for corrupted edges (equation 10)."""

    def one(key: Array, nodes: Any, adjacency: Any, mask: Any) -> tuple[Array, Array]:
        first, second, third = jax.random.split(key, 3)
        hidden, false = jax.random.uniform(third, (2,)) * jnp.array([HIDDEN, FALSE])
        seen = corrupt(first, adjacency, mask, hidden, false)
        out = Autoencoder().apply({"params": params}, nodes, seen, mask, marks(second, mask.size))
        return jnp.sum((jnp.asarray(out) - adjacency) ** 2), pairs(mask).sum()

    squares, count = jax.vmap(one)(jax.random.split(key, graphs.mask.shape[0]), *graphs)
    return squares.sum() / jnp.maximum(count.sum(), 1)


@lru_cache(maxsize=4)
def trained(
    graphs: tuple[Graph, ...], space: FeatureSpace, marks: Marks, training: PublicTraining
) -> tuple[Params, Float[np.ndarray, " T"]]:
    """Weights learnt from public graphs, and the loss of every step."""
    kept = small(graphs, training.training_nodes)
    batch = GraphBatch.from_graphs(kept, space)
    return jax.device_get(_fit(marks, training, jax.random.key(training.training_seed), batch.dense))


@partial(jax.jit, static_argnames=("marks", "training"))
def _fit(marks: Marks, training: PublicTraining, key: Array, graphs: DenseGraph) -> tuple[Params, Float[Array, " T"]]:
    first, second = jax.random.split(key)
    blank = *(part[0] for part in graphs), marks(first, graphs.mask.shape[1])
    params = Autoencoder().init(first, *blank)["params"]

    def one(params: Params, key: Array) -> Float[Array, ""]:
        return error(marks, params, key, drawn(key, training, graphs))

    return fit(one, params, decaying(training), jax.random.split(second, training.training_steps))


@partial(jax.jit, static_argnames=("marks",))
def complete(
    marks: Marks,
    params: Params,
    nodes: Float[Array, "G N m"],
    adjacency: Float[Array, "G N N"],
    mask: Bool[Array, "G N"],
) -> Float[Array, "G N N"]:
    """Recovered graphs through the trained auto-encoder: soft edges, the mean over ``DRAWS`` sets of marks."""

    def one(key: Array) -> Array:
        rows = marks(key, mask.shape[1])
        run = partial(Autoencoder().apply, {"params": params})
        return jax.vmap(lambda x, a, m: jnp.asarray(run(x, a, m, rows)))(nodes, adjacency, mask)

    return jax.vmap(one)(jax.random.split(jax.random.key(0), DRAWS)).mean(axis=0)
