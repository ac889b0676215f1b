"""TabLeak on graphs: a softmax a feature, cosine distance, an ensemble matched node by node (Vero et al. 2023).

Rows start near the public frequencies of their values (``starts.Frequent``), which is ours. Both that and the distance
matter on GRAIN's model, where features are standardised: from random mixtures the squared distance spends its steps on
the gradient's length, and the softmaxes saturate. On 8 other Tox21 graphs (9 to 16 nodes, edges unknown), 4 restarts
of 500 steps: GSM-1 .82 with the cosine from normal logits, .91 from frequencies with a spread of .3, .93 with 1. With
edges known, but degrees searched for, .52, .55, .53, and .10 for the squared distance from normal logits. Rates .05, .2
and .3 and a decaying one were no better (on graphs that may be among the tables').
"""

from __future__ import annotations

import dataclasses
from functools import partial

import jax
import numpy as np
from jaxtyping import Array, Float, Int
from scipy.optimize import linear_sum_assignment
from scipy.spatial.distance import cdist

from jgleak.attacks.matching import starts
from jgleak.attacks.matching.loop import matching
from jgleak.attacks.matching.objectives import Guess, cosine
from jgleak.attacks.matching.problem import Problem, Setting
from jgleak.attacks.matching.recipe import Recipe, hard_distance, relax_structured


@dataclasses.dataclass(frozen=True)
class Ensemble:
    """The mean of the best 1, 2, 4, .. restarts, whichever's gradient is nearest to the observed one.

    Restarts agree on a graph at best up to node order, so every restart's nodes are first matched with the best one's
    by their features and their neighbours' features (Hungarian algorithm). Known edges or features fix the order.
    Where restarts ended in different graphs their mean is none of them, and the gradient shows it; the paper's
    ensemble of tables, whose rows' features are few and independent, has no such check.

    Attributes:
      ensemble_share: the largest ensemble's share of the restarts, those with the smallest data terms.
    """

    ensemble_share: float = 0.5

    def __call__(self, setting: Setting, problem: Problem, guesses: Guess, values: Float[np.ndarray, " K"]) -> Guess:
        order = np.argsort(values)[: max(1, int(np.ceil(self.ensemble_share * len(values))))]
        order = order[np.isfinite(values[order])]
        if order.size == 0:
            order = np.array([0])
        nodes, adjacency = np.array(guesses.nodes[order]), np.array(guesses.adjacency[order])
        if problem.nodes is None and problem.adjacency is None:
            for k in range(1, len(order)):
                for g, mask in enumerate(np.asarray(problem.mask)):
                    n = int(mask.sum())
                    place = _matched(nodes[0, g, :n], adjacency[0, g, :n, :n], nodes[k, g, :n], adjacency[k, g, :n, :n])
                    nodes[k, g, :n] = nodes[k, g, place]
                    adjacency[k, g, :n, :n] = adjacency[k, g][np.ix_(place, place)]
        sizes = [2**e for e in range(len(order).bit_length())]
        best = jax.tree.map(lambda part: part[order[0]], guesses)
        means = [best._replace(nodes=nodes[:k].mean(axis=0), adjacency=adjacency[:k].mean(axis=0)) for k in sizes]
        if len(means) == 1:
            return means[0]
        return means[int(np.argmin(_distances(setting, problem, jax.tree.map(lambda *parts: np.stack(parts), *means))))]


@partial(jax.jit, static_argnames=("setting",))
def _distances(setting: Setting, problem: Problem, guesses: Guess) -> Float[Array, " S"]:
    return jax.vmap(partial(hard_distance, setting, problem))(guesses)


def _matched(
    x: Float[np.ndarray, "n m"], a: Float[np.ndarray, "n n"], y: Float[np.ndarray, "n m"], b: Float[np.ndarray, "n n"]
) -> Int[np.ndarray, " n"]:
    rows, others = (np.hstack([nodes, edges @ nodes]) for nodes, edges in ((x, a), (y, b)))
    return linear_sum_assignment(cdist(rows, others, "sqeuclidean"))[1]


TABLEAK = matching(
    "tableak",
    Recipe(
        start=starts.Frequent(),
        relax=relax_structured,
        objective=cosine,
        steps=500,
        restarts=4,
        combine=Ensemble(),
    ),
)
