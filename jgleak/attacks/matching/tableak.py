"""TabLeak on graphs: a softmax a feature, an ensemble matched node by node, entropy as certainty (Vero et al. 2023)."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float, Int
from scipy.optimize import linear_sum_assignment
from scipy.spatial.distance import cdist

from jgleak.attacks.matching import starts
from jgleak.attacks.matching.loop import matching
from jgleak.attacks.matching.objectives import Guess
from jgleak.attacks.matching.problem import Problem, Setting
from jgleak.attacks.matching.recipe import Recipe, relax_structured

KEPT = 0.5
"""Share of the restarts, those with the smallest data term, that make up the ensemble."""


def ensemble(setting: Setting, problem: Problem, guesses: Guess, values: Float[np.ndarray, " K"]) -> Guess:
    """The mean of the better restarts, their nodes matched with the best one's.

    Restarts agree on a graph at best up to node order, so every restart's nodes are first matched with the best one's
    by their features and their neighbours' features (Hungarian algorithm). Known edges or features fix the order.
    """
    order = np.argsort(values)[: max(1, int(np.ceil(KEPT * len(values))))]
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
    return Guess(nodes.mean(axis=0), adjacency.mean(axis=0), guesses.labels[order[0]])


def _matched(
    x: Float[np.ndarray, "n m"], a: Float[np.ndarray, "n n"], y: Float[np.ndarray, "n m"], b: Float[np.ndarray, "n n"]
) -> Int[np.ndarray, " n"]:
    rows, others = (np.hstack([nodes, edges @ nodes]) for nodes, edges in ((x, a), (y, b)))
    return linear_sum_assignment(cdist(rows, others, "sqeuclidean"))[1]


TABLEAK = matching(
    "tableak",
    "softmax-structured features and an ensemble of restarts (Vero et al. 2023)",
    Recipe(
        start=starts.normal,
        relax=relax_structured,
        steps=500,
        restarts=8,
        combine=ensemble,
    ),
)
