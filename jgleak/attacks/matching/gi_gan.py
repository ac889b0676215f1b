"""GI-GAN: gradients are matched by the latent vector of a generator of public graphs.

GraphDLG's baseline (appendix A.4): Jeon et al. (NeurIPS 2021) and Li et al. (CVPR 2022) with MolGAN as the generator.
As there, the generator stays as it was trained; Jeon et al. go on to change its weights too.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from jgleak.attacks import relaxations
from jgleak.attacks.matching import molgan, starts
from jgleak.attacks.matching.loop import matching
from jgleak.attacks.matching.molgan import PublicGraphs
from jgleak.attacks.matching.objectives import Guess
from jgleak.attacks.matching.problem import Problem, Setting, normalisation
from jgleak.attacks.matching.recipe import Recipe, known_or, relaxed_labels
from jgleak.attacks.matching.starts import Variables
from jgleak.attacks.public.training import PublicTraining, small
from jgleak.attacks.relaxations import Group, groups
from jgleak.attacks.side_information import size
from jgleak.federated.knowledge import Knowledge
from jgleak.federated.observation import Observation
from jgleak.graph import GraphBatch, bucket


def public(observations: Sequence[Observation], knowledges: Sequence[Knowledge], nodes: int) -> PublicGraphs:
    """The auxiliary graphs of the first client (they are public), padded so that every client fits too.

    Those of more than ``nodes`` nodes, and than every client, are left out where smaller ones remain.
    """
    auxiliary, space = knowledges[0].auxiliary, knowledges[0].space
    clients = max(size(o, k) or 1 for o, k in zip(observations, knowledges, strict=True))
    kept = small(auxiliary, max(nodes, clients))
    slots = max(bucket(max(clients, *(g.n for g in kept))), *(o.model.readout.slots or 0 for o in observations))
    batch = GraphBatch.from_graphs(kept, space, slots=slots)
    mean, _ = normalisation(space)
    real = _real(groups(space))
    std = np.ones_like(mean) if space.std is None else space.std.astype(np.float32)
    raw = batch.nodes * np.where(real, 1.0, std) + np.where(real, 0.0, mean)
    rows = np.where(batch.node_mask[..., None], raw, 0.0).astype(np.float32)
    return PublicGraphs(batch.dense._replace(nodes=rows), groups(space))


def encode(problem: Problem, groups: tuple[Group, ...], nodes: Float[Array, "G N m"]) -> Float[Array, "G N m"]:
    """Columns as the networks make them to the model's input: real ones are normalised already."""
    real = _real(groups)
    return relaxations.encode(
        nodes, jnp.where(real, 0.0, problem.mean), jnp.where(real, problem.scale > 0, problem.scale), problem.mask
    )


def learn(
    observations: Sequence[Observation], knowledges: Sequence[Knowledge], training: PublicTraining
) -> molgan.Params:
    """A generator trained on the auxiliary graphs; its weights depend on them and on the largest client alone."""
    return molgan.trained(public(observations, knowledges, training.training_nodes), training)[0]


def start(setting: Setting, problem: Problem, key: Array) -> Variables:
    """A standard normal latent vector a graph."""
    first, second = jax.random.split(key)
    latent = jax.random.normal(first, (problem.mask.shape[0], molgan.LATENT))
    return {"latent": latent} | starts.labels(setting, problem, second)


def relax(setting: Setting, problem: Problem, variables: Variables, step: Int[Array, ""]) -> Guess:
    """What the generator makes of the latent vectors; known features or edges go in as they are."""
    make = jax.vmap(partial(molgan.generate, problem.prior, setting.groups))
    nodes, adjacency = make(variables["latent"], jnp.asarray(problem.mask))
    return Guess(
        known_or(problem.nodes, lambda: encode(problem, setting.groups, nodes)),
        known_or(problem.adjacency, lambda: adjacency),
        relaxed_labels(setting, problem, variables),
    )


def _real(groups: tuple[Group, ...]) -> Bool[np.ndarray, " m"]:
    """Columns of real-valued features."""
    return np.repeat([g.kind == "real" for g in groups], [g.columns for g in groups])


RECIPE = Recipe(start=start, relax=relax, steps=500, learn=learn, training=molgan.TRAINING, latent=True)

GI_GAN = matching(
    "gi-gan",
    RECIPE,
    needs=("n", "auxiliary"),
)
