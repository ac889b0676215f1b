"""Labels of several tasks from a gradient: which of them are missing, and what the others are.

The loss of a graph is a sum over its tasks, so its derivative by the output of task ``t`` tells of that task alone. It
is zero for a missing label, and for one that is present ``s / K``: ``s`` follows from the output and the label, and
``K`` is the number of present labels (``Loss.over``: ``batch``, ``graph``) or of tasks (``task``, ``all``). Where some
derivatives are exactly zero, those are the missing labels, and signs name the others. Where none is, noise may hide
missing ones. Then ``K``, all that the tasks share, is tried out from 1 to ``T``, and the tasks are settled one by one
under each: never all combinations.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Float
from scipy.special import expit

from jgleak.federated.loss import Loss

VANISHED = 1e-37
"""A derivative below this may have become zero in float32 though its label is present."""


def task_labels(
    loss: Loss, outputs: Float[np.ndarray, " T"], slopes: Float[np.ndarray, " T"], *, scaled: bool, pruned: bool
) -> Float[np.ndarray, " T"]:
    """The labels ``(T,)`` of one graph under a masked loss, NaN where they are missing.

    A gradient with noise gets the labels that are nearest to it. Under ``masked_mae`` targets are only known to lie
    below or above the output: one that is 1 away stands for all on its side.

    Args:
      loss: the masked loss.
      outputs: of the graph.
      slopes: the gradient at the outputs.
      scaled: it is known up to a positive factor alone. Targets of ``masked_mse`` are off by that factor then, and
        only the direction of their gradient is right.
      pruned: entries that are zero may have been left out, and need not tell of missing labels.
    """
    if loss.name == "masked_mse":
        present = slopes != 0
        count = int(present.sum()) if _counts_present(loss) else slopes.size
        return np.where(present, outputs - slopes * count / 2.0, np.nan)
    sides = np.ones(slopes.size), -np.ones(slopes.size)
    if loss.name == "masked_bce":
        weights = np.asarray(loss.pos_weight) if loss.pos_weight else np.ones(slopes.size)
        sides = expit(outputs), -weights * expit(-outputs)
    zero = slopes == 0
    vanished = np.minimum(sides[0], -sides[1])[zero] < VANISHED * slopes.size
    if zero.any() and not pruned and not vanished.any():
        found = np.where(zero, np.nan, (slopes < 0).astype(np.float64))
    else:
        found = _settled(loss, slopes, sides, scaled)
    return outputs - 1.0 + 2.0 * found if loss.name == "masked_mae" else found


def _counts_present(loss: Loss) -> bool:
    """The loss of one graph is divided by the number of its present labels, not by that of tasks."""
    return loss.over in ("batch", "graph")


def _settled(
    loss: Loss,
    slopes: Float[np.ndarray, " T"],
    sides: tuple[Float[np.ndarray, " T"], Float[np.ndarray, " T"]],
    scaled: bool,
) -> Float[np.ndarray, " T"]:
    """0, 1 or NaN for each task, by which of ``sides`` (of 0, positive, and of 1, negative) over ``K`` or of 0 its
    slope is; where several ``K`` are possible, those of the one that fits best."""
    tasks, best = slopes.size, (float(slopes @ slopes), np.full(slopes.size, np.nan))
    counts = range(1, tasks + 1) if scaled or _counts_present(loss) else (tasks,)
    for count in counts:
        if scaled:
            labels, expected, order = _by_sign(slopes, sides, count)
        else:
            near = [side / count for side in sides]
            labels = (np.abs(slopes - near[1]) < np.abs(slopes - near[0])).astype(np.float64)
            expected = np.where(labels == 1, near[1], near[0])
            order = np.argsort(np.square(slopes - expected) - np.square(slopes), kind="stable")
        kept = order[:count]
        if not scaled and not _counts_present(loss):
            kept = np.flatnonzero(np.square(slopes - expected) < np.square(slopes))
        rest = slopes.copy()
        rest[kept] -= expected[kept]
        if rest @ rest < best[0]:
            found = np.full(tasks, np.nan)
            found[kept] = labels[kept]
            best = (float(rest @ rest), found)
    return best[1]


def _by_sign(
    slopes: Float[np.ndarray, " T"], sides: tuple[Float[np.ndarray, " T"], Float[np.ndarray, " T"]], count: int
) -> tuple[Float[np.ndarray, " T"], Float[np.ndarray, " T"], np.ndarray]:
    """Labels by signs, the slopes expected at the best factor for the ``count`` largest, and tasks by size."""
    labels = (slopes < 0).astype(np.float64)
    expected = np.where(labels == 1, sides[1], sides[0])
    order = np.argsort(-np.abs(slopes), kind="stable")
    kept = order[:count]
    square = float(expected[kept] @ expected[kept])
    factor = max(float(slopes[kept] @ expected[kept]), 0.0) / square if square > 0 else 0.0
    return labels, factor * expected, order
