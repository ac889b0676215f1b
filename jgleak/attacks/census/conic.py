"""Blocks that occur, where spans lack dimensions: those whose states make up the last convolution's gradient.

In a trained model the same units are on at all nodes, so that the gradient ``R^T D`` of the last kernel has few
dimensions (``R``: rows that enter it, ``D``: upstream rows) and the span check below it fails. But a column of ``D``
that has one sign, as behind a pooled readout, makes the column of ``R^T D`` a non-negative combination of rows, and so
of the states of the blocks one hop below, each of which enters a row with a positive weight. Of thousands of blocks few
fit into such a combination, since states are nonlinear: the blocks that non-negative least squares uses are those that
occur, and sometimes a few more. The residual shows whether this holds: where a true block is missing, or a column of
``D`` has both signs, nothing explains the gradient. Where the gradient before the last follows as well
(``unit_classes``), both are explained together.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import scipy.linalg
from jaxtyping import Bool, Float, Int

from jgleak.attacks.attack import Clock
from jgleak.attacks.census.cone import covered, used_blocks
from jgleak.attacks.census.problem import CensusProblem
from jgleak.attacks.census.settings import CensusSettings
from jgleak.attacks.census.unit_classes import FAINT, BlockCone, LastLayers, Rows


def occurring(
    problem: CensusProblem,
    states: Float[np.ndarray, "K D"],
    roots: Int[np.ndarray, " K"],
    entering: Callable[[Rows], Float[np.ndarray, "K F"]],
    clock: Clock,
) -> Bool[np.ndarray, " K"] | None:
    """Which of the blocks with these states some solution uses; None where nothing explains the gradient.

    Args:
      problem: the update and what is known.
      states: what enters the last convolution from each block.
      roots: the entry at the centre of each.
      entering: computes what enters a kernel before it.
      clock: ends the search.
    """
    observation, settings = problem.observation, problem.settings
    model, last = observation.model, observation.model.depth - 1
    seen = LastLayers.of(observation, settings.limits.conic_classes)
    if seen is not None:
        return _of_both(BlockCone(seen, states, entering, roots, problem.most_nodes), states, settings, clock)
    update = model.layer_of(observation.update, last)
    for tap in model.layers[last].taps:
        if tap.rows != "hidden" and model.trains(f"layers_{last}", *tap.path):
            found = _of_last(np.asarray(tap.of(update), np.float64), states, settings, clock)
            if found is not None:
                return found
    return None


def _of_both(
    cone: BlockCone, states: Float[np.ndarray, "K D"], settings: CensusSettings, clock: Clock
) -> Bool[np.ndarray, " K"] | None:
    """From the gradients of the last two convolutions; with the blocks that no gradient distinguishes from a used
    one."""
    found = used_blocks(cone, settings, clock) if cone.possible.size else None
    if found is None:
        return None
    used = np.zeros(states.shape[0], bool)
    used[cone.possible] = covered(np.searchsorted(cone.possible, found), cone.alike)
    return used | ~states.any(axis=1)  # a state of zeros leaves no trace


class StateCone:
    """The cone of states (``cone.Cone``)."""

    def __init__(self, units: Float[np.ndarray, "K D"], goal: Float[np.ndarray, " D"], least: float) -> None:
        self.units, self.goal, self.blocks = units, goal / np.linalg.norm(goal), np.arange(units.shape[0])
        self.groups, self.least = np.zeros(units.shape[0], np.int64), least

    def columns(self, some: Int[np.ndarray, " k"]) -> Float[np.ndarray, "k D"]:
        """Some columns, as rows."""
        return self.units[some]

    def prices(self, rest: Float[np.ndarray, " D"]) -> Float[np.ndarray, " K"]:
        """The product of every state with what is left to be explained."""
        return self.units @ rest

    def counts(self, some: Int[np.ndarray, " k"], weights: Float[np.ndarray, " k"]) -> Bool[np.ndarray, " k"]:
        """Which weights are more than rounding."""
        return weights > self.least * weights.max(initial=0.0)


def _of_last(
    gradient: Float[np.ndarray, "D m"], states: Float[np.ndarray, "K D"], settings: CensusSettings, clock: Clock
) -> Bool[np.ndarray, " K"] | None:
    """From the last convolution's gradient alone: the sum of all columns must be explained; single columns are used
    where they are explained."""
    size = np.linalg.norm(gradient, axis=0)
    live = size > FAINT * size.max()
    lengths = np.linalg.norm(states, axis=1)
    if not live.any() or not lengths.any():
        return None
    columns = gradient[:, live] / size[live]
    columns = columns * np.where(columns.sum(axis=0) < 0, -1.0, 1.0)
    pivots = scipy.linalg.qr(columns, mode="r", pivoting=True)[-1][: settings.limits.conic_columns]
    units, used = states / np.where(lengths > 0, lengths, 1.0)[:, None], np.zeros(states.shape[0], bool)
    for goal in (columns.mean(axis=1), *columns[:, pivots].T):
        found = used_blocks(StateCone(units, goal, settings.tolerances.conic_weight), settings, clock)
        used[[] if found is None else found] = True
        if not used.any() or clock.left <= 0:  # not even the sum of all columns is explained
            return None
    return used | (lengths == 0)  # a state of zeros leaves no trace
