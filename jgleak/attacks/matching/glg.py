"""GLG: gradient matching with projected edges, for the node and the graph attackers (Sinha et al.).

Three things differ from the paper, and each is a matter of one option. The paper compares whole gradients by their
cosine (``objective=cosine``); the readout's part is a hundred times larger than the first layer's, which tells most of
features and edges, so here every layer's squared error is relative to that layer (``layers``). The paper begins with
standard normal features and a coin for every edge (``init=bernoulli``); a nearly empty graph is closer to sparse ones.
It ends with edges that are drawn with the relaxed ones as chances (``edges=sampled``); here these are reported.
"""

from __future__ import annotations

import dataclasses

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from jgleak.attacks import relaxations
from jgleak.attacks.matching import starts
from jgleak.attacks.matching.loop import matching
from jgleak.attacks.matching.objectives import Guess
from jgleak.attacks.matching.options import OBJECTIVES
from jgleak.attacks.matching.problem import Problem, Setting
from jgleak.attacks.matching.recipe import Recipe, known_or, relaxed_labels
from jgleak.attacks.matching.reduction import Reduction
from jgleak.attacks.matching.regularisers import frobenius, smoothness
from jgleak.attacks.matching.starts import Variables
from jgleak.attacks.options import from_zero


def relax(setting: Setting, problem: Problem, variables: Variables, step: Int[Array, ""]) -> Guess:
    """Features and edges as they are; the edges' projection keeps them in [0, 1]."""
    return Guess(
        known_or(problem.nodes, lambda: jnp.where(problem.mask[..., None], variables["nodes"], 0.0)),
        known_or(problem.adjacency, lambda: relaxations.clip_edges(variables["adjacency"], problem.mask)),
        relaxed_labels(setting, problem, variables),
    )


def project(setting: Setting, problem: Problem, variables: Variables) -> Variables:
    """Every edge back into [0, 1] (equation 15)."""
    if "adjacency" not in variables:
        return variables
    return variables | {"adjacency": relaxations.clip_edges(variables["adjacency"], problem.mask)}


@dataclasses.dataclass(frozen=True)
class Penalty:
    """``α tr(Xᵀ L X) + β ||A||_F²`` (equation 14).

    Attributes:
      smoothness_weight: ``α`` (section 5, chosen by the authors' grid search).
      frobenius_weight: ``β``, the same.
    """

    smoothness_weight: float = from_zero(1e-9)
    frobenius_weight: float = from_zero(1e-7)

    def __call__(self, setting: Setting, guess: Guess, step: Int[Array, ""]) -> Float[Array, ""]:
        smooth = self.smoothness_weight * smoothness(guess.nodes, guess.adjacency)
        return smooth + self.frobenius_weight * frobenius(guess.adjacency)


@dataclasses.dataclass(frozen=True)
class Tree:
    """Edges of a tree of depth 2, the dummy graph of node attacker 1 (section 5.1); node 0 is the root.

    Attributes:
      tree_degree: children of the root, and of each child.
    """

    tree_degree: int = 10

    def __call__(self) -> Float[np.ndarray, "n n"]:
        degree = self.tree_degree
        children = np.arange(1, degree + 1)
        leaves = np.arange(degree + 1, degree + 1 + degree * degree)
        edges = np.zeros((1 + degree + degree * degree,) * 2, np.float32)
        edges[0, children] = edges[np.repeat(children, degree), leaves] = 1.0
        return edges + edges.T


RECIPE = Recipe(
    start=starts.Sparse(),
    relax=relax,
    objective=OBJECTIVES["layers"],
    penalty=Penalty(),
    project=project,
    lr=0.01,
    steps=1000,
    target=1e-12,
    reduce=Reduction(),
)

GLG_NODE_1 = matching(
    "glg-node-1",
    Recipe(
        start=starts.Sparse(),
        relax=relax,
        objective=OBJECTIVES["layers"],
        lr=0.05,
        steps=1000,
        target=1e-12,
        reduce=Reduction(),
        dummy=Tree(),
    ),
    protocols=("target_node",),
    needs=(),
)
GLG_NODE_2 = matching(
    "glg-node-2",
    RECIPE,
    protocols=("node_losses",),
)
GLG_GRAPH = matching("glg-graph", RECIPE)
