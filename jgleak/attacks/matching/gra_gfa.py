"""GRA-GFA: gradients are matched by node embeddings, from which follow the edges, and from these the features.

Chen et al. (IEEE Trans. Netw. Sci. Eng. 2024) as GraphDLG describes them (appendix A.4): ``A = sigmoid(H Hᵀ)``, and a
generator makes the features from ``A`` and a random matrix. Where that says no more: the generator is a GCN, trained to
give public graphs their features back and frozen afterwards; ``H`` is as wide as there are node slots, since fewer
dimensions cannot hold sparse graphs (at most ``d + 1`` vectors are pairwise at obtuse angles in ``d`` dimensions).

Known edges leave ``H`` without effect: the features are then what the generator thinks of these edges, but for degrees
that the edges tell.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache, partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import linen as nn
from jaxtyping import Array, Bool, Float, Int

from jgleak.attacks.matching import starts
from jgleak.attacks.matching.gi_gan import encode, public
from jgleak.attacks.matching.loop import matching
from jgleak.attacks.matching.molgan import Params, PublicGraphs, initial
from jgleak.attacks.matching.objectives import Guess
from jgleak.attacks.matching.problem import Problem, Setting
from jgleak.attacks.matching.product import product_right
from jgleak.attacks.matching.recipe import Recipe, known_or, relaxed_labels
from jgleak.attacks.matching.starts import Variables
from jgleak.attacks.public.training import PublicTraining, decaying, drawn, fit
from jgleak.attacks.relaxations import Group, sigmoid_edges, softmax_features
from jgleak.federated.knowledge import Knowledge
from jgleak.federated.observation import Observation
from jgleak.gnn.gcn import GCNConv
from jgleak.gnn.precise import Precise
from jgleak.graph import DenseGraph

WIDTH = 32
"""Columns of the random matrix, and of the generator's hidden layers."""

TRAINING = PublicTraining(training_steps=1000, training_batch=32, training_rate=1e-2, training_nodes=40)
"""With a cosine decay of the rate."""


class Features(Precise):
    """Feature logits ``(N, m)`` from edges and random rows: two GCN layers, and a dense one that sees both."""

    width: int

    @nn.compact
    def __call__(
        self, rows: Float[Array, f"N {WIDTH}"], adjacency: Float[Array, "N N"], mask: Bool[Array, " N"]
    ) -> Float[Array, "N m"]:
        first = nn.relu(GCNConv(WIDTH, bias=True)(rows, adjacency, mask))
        second = nn.relu(GCNConv(WIDTH, bias=True)(first, adjacency, mask))
        return nn.Dense(self.width, name="last")(jnp.concatenate([first, second], axis=-1))


def features(
    params: Params,
    groups: tuple[Group, ...],
    rows: Float[Array, f"N {WIDTH}"],
    adjacency: Float[Array, "N N"],
    mask: Bool[Array, " N"],
) -> Float[Array, "N m"]:
    """Generated columns (see ``PublicGraphs``), a softmax a feature; padding rows are zero."""
    width = params["last"]["bias"].size
    logits: Any = Features(width).apply({"params": params}, rows, adjacency, mask)
    return jnp.where(mask[:, None], softmax_features(logits, groups), 0.0)


def error(params: Params, groups: tuple[Group, ...], key: Array, graphs: DenseGraph) -> Float[Array, ""]:
    """Mean squared error of the generated columns over the real nodes (of one-hot ones: the Brier score)."""
    rows = jax.random.uniform(key, (*graphs.mask.shape, WIDTH))
    make: Any = jax.vmap(partial(features, params, groups))
    made = make(rows, graphs.adjacency, graphs.mask)
    return jnp.sum((made - graphs.nodes) ** 2) / jnp.maximum(graphs.mask.sum(), 1) / made.shape[-1]


@lru_cache(maxsize=4)
def trained(public: PublicGraphs, training: PublicTraining) -> tuple[Params, Float[np.ndarray, " T"]]:
    """The generator's weights, and the loss of every step."""
    nodes, adjacency, mask = (part[0] for part in public.graphs)
    rows = np.zeros((mask.size, WIDTH), np.float32)
    params = initial(Features(nodes.shape[-1]), np.random.default_rng(training.training_seed), rows, adjacency, mask)
    return jax.device_get(_fit(public.groups, training, jax.random.key(training.training_seed), params, public.graphs))


@partial(jax.jit, static_argnames=("groups", "training"))
def _fit(
    groups: tuple[Group, ...], training: PublicTraining, key: Array, params: Params, graphs: DenseGraph
) -> tuple[Params, Float[Array, " T"]]:
    def one(params: Params, key: Array) -> Float[Array, ""]:
        first, second = jax.random.split(key)
        return error(params, groups, second, drawn(first, training, graphs))

    return fit(one, params, decaying(training), jax.random.split(key, training.training_steps))


def learn(observations: Sequence[Observation], knowledges: Sequence[Knowledge], training: PublicTraining) -> Params:
    """A generator trained on the auxiliary graphs of the first client (they are public)."""
    return trained(public(observations, knowledges, training.training_nodes), training)[0]


def start(setting: Setting, problem: Problem, key: Array) -> Variables:
    """Normal embeddings ``(G, N, N)`` whose inner products have unit deviation, and the random rows ``(G, N, d)``."""
    first, second, third = jax.random.split(key, 3)
    graphs, slots = problem.mask.shape
    embeddings = jax.random.normal(first, (graphs, slots, slots)) * slots**-0.25
    rows = jax.random.uniform(second, (graphs, slots, WIDTH))
    return {"embeddings": embeddings, "rows": rows} | starts.labels(setting, problem, third)


def relax(setting: Setting, problem: Problem, variables: Variables, step: Int[Array, ""]) -> Guess:
    """Edges ``sigmoid(H Hᵀ)`` and the features that go with them; the random rows stay as they were drawn."""
    mask = jnp.asarray(problem.mask)
    inner = product_right(variables["embeddings"], variables["embeddings"])
    adjacency = known_or(problem.adjacency, lambda: sigmoid_edges(inner, mask))
    rows = jax.lax.stop_gradient(variables["rows"])

    def nodes() -> Float[Array, "G N m"]:
        make = jax.vmap(partial(features, problem.prior, setting.groups))
        return encode(problem, setting.groups, make(rows, adjacency, mask))

    return Guess(known_or(problem.nodes, nodes), adjacency, relaxed_labels(setting, problem, variables))


RECIPE = Recipe(start=start, relax=relax, steps=500, learn=learn, training=TRAINING, latent=True)

GRA_GFA = matching(
    "gra-gfa",
    RECIPE,
    needs=("n", "auxiliary"),
)
