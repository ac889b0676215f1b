"""FedGIG: edges kept sparse and binary while gradients are matched, then an auto-encoder (Xiao et al. 2024).

The paper leaves open ``n_0``, ``lambda``, the distance's scale and the auto-encoder's sizes. They were searched for
on 5 or 6 other graphs each of MUTAG, NCI1, Tox21, FreeSolv (features known): ``lambda`` in {0, 1e-4, 3e-4, 1e-3},
``n_0`` in {30, 100}, rates 0.01 and 0.05, squared and cosine distance, the last or the best variables. Only ``lambda``
matters much: accuracy in file order rises from .73 without to .84, .85, .87 on MUTAG, while the Jaccard index of the
aligned edges falls from .71 (1e-4) to .59 on FreeSolv, and from .52 to .49 on Tox21.

Features that are not given are free, as the paper's. Where we differ: the penalty reaches the variables through the
same straight-through derivative as the distance; edges are symmetric without the constraint too.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from jgleak.attacks import relaxations
from jgleak.attacks.fedgig import autoencoder
from jgleak.attacks.matching import regularisers
from jgleak.attacks.matching.loop import matching
from jgleak.attacks.matching.objectives import Guess
from jgleak.attacks.matching.problem import Problem, Setting
from jgleak.attacks.matching.recipe import Recipe, relax_free
from jgleak.attacks.matching.starts import Variables, normal
from jgleak.attacks.options import from_zero
from jgleak.attacks.public.training import PublicTraining
from jgleak.federated.knowledge import Knowledge
from jgleak.federated.observation import Observation


class DegreePrior(NamedTuple):
    """What public knowledge says.

    Attributes:
      most: ``n_max``, the most neighbours that a node keeps.
      weights: of the auto-encoder, where there is one.
    """

    most: float
    weights: Any = None


@dataclasses.dataclass(frozen=True)
class LearnDegree:
    """``n_max``: the largest degree that is given, or else that of an auxiliary graph.

    Attributes:
      usual_degree: ``n_max`` where nothing tells it: the paper's for MUTAG, NCI1 and ClinTox.
    """

    usual_degree: int = 4

    def __call__(
        self, observations: Sequence[Observation], knowledges: Sequence[Knowledge], training: PublicTraining | None
    ) -> Any:
        return DegreePrior(self.most(knowledges))

    def most(self, knowledges: Sequence[Knowledge]) -> float:
        """``n_max`` of these clients."""
        given = [k.max_degree for k in knowledges if k.max_degree is not None]
        public = [int(g.degree.max()) for g in knowledges[0].auxiliary]
        return float(max(given or public or [self.usual_degree]))


@dataclasses.dataclass(frozen=True)
class Learn(LearnDegree):
    """``n_max``, and an auto-encoder trained on the auxiliary graphs of the first client (they are public)."""

    def __call__(
        self, observations: Sequence[Observation], knowledges: Sequence[Knowledge], training: PublicTraining
    ) -> Any:
        public, space = tuple(knowledges[0].auxiliary), knowledges[0].space
        weights, _ = autoencoder.trained(public, space, autoencoder.random_marks, training)
        return DegreePrior(self.most(knowledges), weights)


@dataclasses.dataclass(frozen=True)
class Sparsest:
    """Features as they are; of every node's edges the top ``n(t)``, binarised (equations 3 to 6).

    Attributes:
      first_degree: ``n_0`` of equation 5.
      degree_decay: ``alpha``, the paper's rate for MUTAG, NCI1 and ClinTox (.13 for Tox21 and FreeSolv).
      edge_threshold: ``beta`` of equation 6.
    """

    first_degree: float = 30.0
    degree_decay: float = from_zero(0.15)
    edge_threshold: float = 0.5

    def __call__(self, setting: Setting, problem: Problem, variables: Variables, step: Int[Array, ""]) -> Guess:
        guess = relax_free(setting, problem, variables, step)
        if problem.adjacency is not None:
            return guess
        most = jnp.maximum(self.first_degree - self.degree_decay * step, problem.prior.most)
        return guess._replace(adjacency=relaxations.sparsest(guess.adjacency, most, self.edge_threshold))


@dataclasses.dataclass(frozen=True)
class Penalty:
    """``lambda`` times the number of edges (equation 7).

    Attributes:
      edge_penalty: ``lambda``, beside the relative squared distance.
    """

    edge_penalty: float = from_zero(1e-3)

    def __call__(self, setting: Setting, guess: Guess, step: Int[Array, ""]) -> Float[Array, ""]:
        return self.edge_penalty * regularisers.edge_count(guess.adjacency)


def finish(setting: Setting, problem: Problem, guess: Guess) -> Guess:
    """The recovered edges through the auto-encoder; known ones stay."""
    if problem.adjacency is not None:
        return guess
    edges = autoencoder.complete(
        autoencoder.random_marks, problem.prior.weights, guess.nodes, guess.adjacency, problem.mask
    )
    return guess._replace(adjacency=np.asarray(edges))


RECIPE = Recipe(
    start=normal,
    relax=Sparsest(),
    penalty=Penalty(),
    lr=0.01,
    steps=1000,
    learn=Learn(),
    training=autoencoder.TRAINING,
    finish=finish,
)
"""The paper's two modules. Where it says no more, ours: the best variables are kept."""

WITHOUT_CONSTRAINT = dataclasses.replace(RECIPE, relax=relax_free, penalty=Recipe.penalty)

WITHOUT_AUTOENCODER = dataclasses.replace(RECIPE, learn=LearnDegree(), training=None, finish=None)

FEDGIG = matching(
    "fedgig",
    RECIPE,
    needs=("n", "auxiliary"),
)
FEDGIG_NO_CONSTRAINT = matching(
    "fedgig-no-constraint",
    WITHOUT_CONSTRAINT,
    needs=("n", "auxiliary"),
)
FEDGIG_NO_AUTOENCODER = matching("fedgig-no-autoencoder", WITHOUT_AUTOENCODER)
