"""A small MolGAN: random graphs from a latent vector, learnt from public ones (De Cao and Kipf 2018).

Kept from the paper: one MLP emits all nodes and all edges at once, the critic does not see node order, and both are
trained as a Wasserstein GAN with gradient penalty: its critic's slope stays useful where real (0/1) and generated
(soft) graphs are easily told apart, while the logarithmic loss saturates there. Left out: the reward network
(chemistry) and edge types. With a single type, a relational convolution is a sum over neighbours.

One thing is ours. MolGAN decides the number of nodes by a node type "none"; an attacker knows it, so a graph of
``n`` nodes is the generator's first ``n``, in training as in the attack. (A generator that is shown ``n`` makes one
graph for each ``n``, whatever the latent vector: of 64 drawn on MUTAG, 4 differed, and 12 where it is not shown.)
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
from jaxtyping import Array, Bool, Float

from jgleak.attacks.hashing import HashedByContents
from jgleak.attacks.public.training import PublicTraining
from jgleak.attacks.relaxations import Group, sigmoid_edges, softmax_features
from jgleak.gnn.precise import Precise
from jgleak.graph import DenseGraph

LATENT = 32
"""Length of the latent vector (MolGAN, section 4)."""

WIDTHS = (128, 256)
"""Of the generator's hidden layers."""

CRITIC = 64
"""Width of all layers of the critic."""

TRAINING = PublicTraining(training_steps=600, training_batch=32, training_rate=1e-3, training_nodes=40)
"""Steps of the generator, with Adam (0, 0.9)."""

CRITICS, PENALTY = 3, 10.0
"""Steps of the critic for each of the generator's, and the weight of its gradient penalty."""


Params = Any


class Draws(NamedTuple):
    """Everything random of all steps, drawn on the host: random numbers take long to compile.

    Attributes:
      rows: ``(.., B)`` which public graphs, or whose sizes.
      latents: ``(.., B, L)``.
      shares: ``(.., B, 1, 1)`` between a real graph (1) and a generated one (0), where the critic's slope is seen.
    """

    rows: Any
    latents: Any
    shares: Any


@dataclasses.dataclass(frozen=True, eq=False)
class PublicGraphs(HashedByContents):
    """Public graphs side by side, as the networks see them.

    Attributes:
      graphs: their nodes with one-hot and binary columns as they are and normalised real ones; the real nodes in front.
      groups: what the columns mean.
    """

    graphs: DenseGraph
    groups: tuple[Group, ...]


class Generator(Precise):
    """Feature logits ``(S, m)`` and edge logits ``(S, S)`` from a latent vector."""

    slots: int
    width: int

    @nn.compact
    def __call__(self, latent: Float[Array, f" {LATENT}"]) -> tuple[Float[Array, "S m"], Float[Array, "S S"]]:
        hidden = latent
        for width in WIDTHS:
            hidden = nn.tanh(nn.Dense(width)(hidden))
        return (
            nn.DenseGeneral((self.slots, self.width), name="nodes")(hidden),
            nn.DenseGeneral((self.slots, self.slots), name="edges")(hidden),
        )


class Critic(Precise):
    """How real one graph looks: two sums over neighbours, a mean over nodes, an MLP; blind to node order."""

    @nn.compact
    def __call__(
        self, nodes: Float[Array, "N m"], adjacency: Float[Array, "N N"], mask: Bool[Array, " N"]
    ) -> Float[Array, ""]:
        rows = nodes
        for _ in range(2):
            rows = nn.leaky_relu(nn.Dense(CRITIC)(rows) + adjacency @ nn.Dense(CRITIC, use_bias=False)(rows))
        rows = nn.leaky_relu(nn.Dense(CRITIC)(jnp.concatenate([rows, nodes], axis=-1)))
        pooled = jnp.sum(jnp.where(mask[:, None], rows, 0.0), axis=0) / jnp.maximum(mask.sum(), 1)
        return nn.Dense(1)(nn.leaky_relu(nn.Dense(CRITIC)(pooled)))[0]


def generate(
    params: Params, groups: tuple[Group, ...], latent: Float[Array, f" {LATENT}"], mask: Bool[Array, " N"]
) -> tuple[Float[Array, "N m"], Float[Array, "N N"]]:
    """One generated graph of the nodes in ``mask``: columns as in ``PublicGraphs``, symmetric soft edges, padding zero.

    ``N`` may be smaller than the ``S`` slots the generator has.
    """
    slots, width = params["nodes"]["bias"].shape
    n = mask.size
    logits: Any = Generator(slots, width).apply({"params": params}, latent)
    nodes = jnp.where(mask[:, None], softmax_features(logits[0][:n], groups), 0.0)
    return nodes, sigmoid_edges(logits[1][:n, :n], mask)


@lru_cache(maxsize=4)
def trained(public: PublicGraphs, training: PublicTraining) -> tuple[Params, Float[np.ndarray, " T"]]:
    """The generator's weights, and the critic's gap between real and generated graphs at each of its steps."""
    rng, graphs = np.random.default_rng(training.training_seed), public.graphs
    networks = Generator(*graphs.nodes.shape[1:]), Critic()
    inputs = (np.zeros(LATENT, np.float32),), tuple(part[0] for part in graphs)
    params = [initial(network, rng, *arguments) for network, arguments in zip(networks, inputs, strict=True)]
    rounds = training.training_steps, CRITICS + 1, training.training_batch
    draws = Draws(
        rng.integers(len(graphs.mask), size=rounds),
        rng.standard_normal((*rounds, LATENT), np.float32),
        rng.random((*rounds, 1, 1), np.float32),
    )
    return jax.device_get(_fit(public.groups, training.training_rate, *params, draws, graphs))


def initial(network: nn.Module, rng: np.random.Generator, *inputs: Any) -> Params:
    """Normal weights of variance ``1 / fan-in`` and zero biases."""
    shapes = jax.eval_shape(network.init, jax.random.key(0), *inputs)["params"]

    def draw(path: Any, leaf: Any) -> Float[np.ndarray, "..."]:
        if path[-1].key == "bias":
            return np.zeros(leaf.shape, np.float32)
        return rng.standard_normal(leaf.shape, np.float32) / np.sqrt(np.float32(leaf.shape[0]))

    return jax.tree_util.tree_map_with_path(draw, shapes)


@partial(jax.jit, static_argnames=("groups", "rate"))
def _fit(
    groups: tuple[Group, ...], rate: float, generator: Params, critic: Params, draws: Draws, graphs: DenseGraph
) -> tuple[Params, Float[Array, " T"]]:
    optimiser = optax.adam(rate, b1=0.0, b2=0.9)

    def judge(state: Any, draw: Draws) -> tuple[Any, Float[Array, ""]]:
        generator, critic, memory = state
        slope, gap = jax.grad(_critic_loss, has_aux=True)(critic, generator, groups, draw, graphs)
        change, memory = optimiser.update(slope, memory, critic)
        return (generator, optax.apply_updates(critic, change), memory), gap

    def step(state: Any, draw: Draws) -> tuple[Any, Float[Array, ""]]:
        generator, critic, memory, judged = state
        for_critic, for_generator = Draws(*(part[1:] for part in draw)), Draws(*(part[0] for part in draw))
        (_, critic, judged), gaps = jax.lax.scan(judge, (generator, critic, judged), for_critic)
        slope = jax.grad(_generator_loss)(generator, critic, groups, for_generator, graphs)
        change, memory = optimiser.update(slope, memory, generator)
        return (optax.apply_updates(generator, change), critic, memory, judged), gaps[-1]

    state = generator, critic, optimiser.init(generator), optimiser.init(critic)
    (generator, *_), gaps = jax.lax.scan(step, state, draws)
    return generator, gaps


def _critic_loss(
    critic: Params, generator: Params, groups: Any, draw: Draws, graphs: DenseGraph
) -> tuple[Array, Array]:
    """``E D(fake) - E D(real) + λ E (|∇D| - 1)²``, the last between real and generated graphs of equal sizes."""
    real, fake = _pair(generator, groups, draw, graphs)
    between = [draw.shares * a + (1 - draw.shares) * b for a, b in zip(real[:2], fake[:2], strict=True)]
    slopes = jax.vmap(jax.grad(partial(_score, critic), (0, 1)))(*between, real.mask)
    norm = jnp.sqrt(sum(jnp.sum(s**2, axis=(1, 2)) for s in slopes) + 1e-12)
    score: Any = jax.vmap(partial(_score, critic))
    gap = jnp.mean(score(*real) - score(*fake))
    return PENALTY * jnp.mean((norm - 1.0) ** 2) - gap, gap


def _generator_loss(
    generator: Params, critic: Params, groups: Any, draw: Draws, graphs: DenseGraph
) -> Float[Array, ""]:
    _, fake = _pair(generator, groups, draw, graphs)
    score: Any = jax.vmap(partial(_score, critic))
    return -jnp.mean(score(*fake))


def _score(critic: Params, nodes: Array, adjacency: Array, mask: Array) -> Float[Array, ""]:
    return jnp.asarray(Critic().apply({"params": critic}, nodes, adjacency, mask))


def _pair(
    generator: Params, groups: tuple[Group, ...], draw: Draws, graphs: DenseGraph
) -> tuple[DenseGraph, DenseGraph]:
    """Real graphs, and as many generated ones of their sizes."""
    real = DenseGraph(*(jnp.asarray(part)[draw.rows] for part in graphs))
    make: Any = jax.vmap(partial(generate, generator, groups))
    nodes, adjacency = make(draw.latents, real.mask)
    return real, DenseGraph(nodes, adjacency, real.mask)
