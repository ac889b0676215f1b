"""Blocks that occur, where spans lack dimensions: those whose states make up the last convolution's gradient.

A trained model lights the same units in all nodes, so that the gradient ``R^T D`` of the last kernel has few dimensions
(``R``: rows that enter it, ``D``: upstream rows) and the span check below it fails. But a column of ``D`` that has one
sign, as behind a pooled readout, makes the column of ``R^T D`` a non-negative combination of rows, and so of the states
of the blocks one hop below, each of which enters a row with a positive weight. Among thousands of blocks few have such
a combination, since states bend at every unit: the blocks that non-negative least squares uses are those that occur,
and sometimes a few more. The residual says whether it holds: where a true block is missing, or a column of ``D`` has
both signs, nothing explains the gradient.
"""

from __future__ import annotations

import numpy as np
import scipy.linalg
from jaxtyping import Bool, Float

from jgleak.attacks.attack import Clock
from jgleak.attacks.census.settings import CensusSettings
from jgleak.attacks.nonnegative import nonnegative
from jgleak.federated.observation import Observation

FAINT = 1e-4
"""Columns of the gradient below this share of the largest are rounding."""

PRICED = 256
"""Most blocks that one round adds to those that the solution may use."""

PREFERRED = 1e-6
"""What a block costs, times a random number: as much as rounding, so that every solution has its turn."""

STALLED = 0.99
"""A round that leaves more than this share of the residual is the last."""


def occurring(
    observation: Observation, states: Float[np.ndarray, "K D"], settings: CensusSettings, clock: Clock
) -> Bool[np.ndarray, " K"] | None:
    """Which of the blocks with these states some solution uses; None where nothing explains the gradient.

    The sum of all columns has to be explained; of others those count that are. Each is solved several times, every time
    with other blocks preferred, since blocks that hardly differ take each other's place.

    Args:
      observation: the update.
      states: what enters the last convolution from each block.
      settings: tolerances and limits.
      clock: ends the search.
    """
    model, last = observation.model, observation.model.depth - 1
    update = model.layer_of(observation.update, last)
    for tap in model.layers[last].taps:
        if tap.rows != "hidden" and model.trains(f"layers_{last}", *tap.path):
            found = _supports(np.asarray(tap.of(update), np.float64), states, settings, clock)
            if found is not None:
                return found
    return None


def _supports(
    gradient: Float[np.ndarray, "D m"], states: Float[np.ndarray, "K D"], settings: CensusSettings, clock: Clock
) -> Bool[np.ndarray, " K"] | None:
    limits, size = settings.limits, np.linalg.norm(gradient, axis=0)
    live = size > FAINT * np.max(size, initial=0.0)
    lengths = np.linalg.norm(states, axis=1)
    if not live.any() or not lengths.any():
        return None
    columns = gradient[:, live] / size[live]
    columns = columns * np.where(columns.sum(axis=0) < 0, -1.0, 1.0)
    pivots = scipy.linalg.qr(columns, mode="r", pivoting=True)[-1][: limits.conic_columns]
    goals = [columns.mean(axis=1), *columns[:, pivots].T]
    units = np.c_[states / np.where(lengths > 0, lengths, 1.0)[:, None], np.zeros(lengths.size)]  # the last: the price
    used, rng = np.zeros(states.shape[0], bool), np.random.default_rng(0)
    for goal in (goal / np.linalg.norm(goal) for goal in goals):
        for _ in range(limits.conic_rounds):
            units[:, -1] = PREFERRED * rng.exponential(size=lengths.size)
            found = _solved(units, np.r_[goal, 0.0], settings, clock)
            if found is None:
                break
            used |= found
        if not used.any() or clock.left <= 0:  # not even the sum of all columns is explained
            return None
    return used | (lengths == 0)  # a state of zeros leaves no trace


def _solved(
    units: Float[np.ndarray, "K D"], goal: Float[np.ndarray, " D"], settings: CensusSettings, clock: Clock
) -> Bool[np.ndarray, " K"] | None:
    """The blocks of one solution, found by columns as they pay; None where none explains ``goal``, of length one."""
    some, weights, rest, best = np.zeros(0, np.int64), np.zeros(0), goal, np.inf
    for _ in range(settings.limits.conic_steps):
        prices = units @ rest
        prices[some] = 0.0
        paying = np.argpartition(-prices, min(PRICED, prices.size - 1))[:PRICED]
        paying = paying[prices[paying] > 0.0]
        if not paying.size or clock.left <= 0:
            break
        chosen = np.r_[some, paying]
        found = nonnegative(units[chosen].T, goal, settings.limits.solver_rounds, clock)
        if found is None:
            break
        kept = found[0] > 0.0
        some, weights, rest = chosen[kept], found[0][kept], goal - found[0] @ units[chosen]
        if found[1] > STALLED * best:
            break
        best = min(best, found[1])
    if best > settings.tolerances.conic_residual:
        return None
    used = np.zeros(units.shape[0], bool)
    used[some[weights > settings.tolerances.conic_weight * weights.max()]] = True
    return used
