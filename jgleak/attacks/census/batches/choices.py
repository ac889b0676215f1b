"""Counts that one graph of a batch may have: what its blocks' weights allow, and the balances of its edges."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from jaxtyping import Float, Int
from scipy.optimize import LinearConstraint, milp

from jgleak.attacks.attack import Clock
from jgleak.attacks.census.batches.factors import Combinations
from jgleak.attacks.census.system import Rules
from jgleak.attacks.census.whole_numbers import INFEASIBLE

SHARED = 2.0
"""Cost of every further graph that a choice assumes to share a block; the misfit that it needs costs up to 1."""

UNKNOWN = 6
"""How often a block may occur whose weight is no combination of the factors known."""

SECONDS = 10.0
"""Most for one choice."""

Choices = list[dict[int, float]]
"""For each block, or for blocks that are alike together, the counts that one graph may have, and the cost of each."""


def choices(
    values: Float[np.ndarray, "k r"], errors: Float[np.ndarray, "k r"], known: Combinations, number: int
) -> Choices:
    """What the weights allow the graph that has factor ``number``; one with an infinite error is not known."""
    out = Choices()
    for value, error in zip(values, errors, strict=True):
        costs = dict[int, float]()
        for way, misfit in zip(*known.of(value, error), strict=True) if np.isfinite(error).all() else ():
            count, cost = int(way[number]), float(misfit) + SHARED * (np.count_nonzero(way) - 1)
            costs[count] = min(cost, costs.get(count, np.inf))
        out.append(costs or {count: SHARED * (count > 0) for count in range(UNKNOWN + 1)})
    return out


def cheapest(
    allowed: Choices, alike: Int[np.ndarray, " k"], rules: Rules, most: int, clock: Clock
) -> Iterator[Int[np.ndarray, " k"] | None]:
    """Counts that obey the rules of a connected graph, the cheapest first, at most so many; None where there may be
    more.

    A mixed-integer linear programme of one variable a block and count, one a count of blocks that are alike, and one a
    class: half the ends of the edges within it.

    Args:
      allowed: of all blocks together that are alike.
      alike: the entry of ``allowed`` that each block belongs to.
      rules: of the blocks.
      most: how many counts.
      clock: ends the search.
    """
    largest = [max(costs) for costs in allowed]
    each = [np.arange(largest[own] + 1) for own in alike.tolist()]
    block, count = np.repeat(np.arange(alike.size), [part.size for part in each]), np.concatenate(each).astype(float)
    own = np.repeat(np.arange(len(allowed)), [len(costs) for costs in allowed])
    total = np.array([count for costs in allowed for count in costs], np.float64)
    halves = rules.loops.shape[0]
    cost = np.r_[np.zeros(block.size), [cost for costs in allowed for cost in costs.values()], np.zeros(halves)]

    def rows(blocks: Float[np.ndarray, "R c"], least: float, largest: float, sums: Any = 0.0) -> LinearConstraint:
        beside = np.zeros((len(blocks), own.size)) + sums
        return LinearConstraint(np.c_[blocks, beside, np.zeros((len(blocks), halves))], least, largest)

    named, sums = np.arange(alike.size)[:, None], np.arange(len(allowed))[:, None]
    constraints = [
        rows((block == named).astype(np.float64), 1.0, 1.0),
        rows(np.zeros((len(allowed), block.size)), 1.0, 1.0, own == sums),
        rows((alike[block] == sums) * count, 0.0, 0.0, np.where(own == sums, -total, 0.0)),
        rows(rules.balance[:, block] * count, 0.0, 0.0),
        LinearConstraint(
            np.c_[rules.loops[:, block] * count, np.zeros((halves, own.size)), -2.0 * np.eye(halves)], 0.0, 0.0
        ),
        rows(((rules.degrees[block] - 2) * count)[None], -2.0, np.inf),
        rows(count[None], 1.0, np.inf),
    ]
    for _ in range(most):
        options = {"time_limit": max(0.0, min(clock.left, SECONDS))}
        # variables are not negative unless bounds say so
        found = milp(cost, integrality=np.ones(cost.size), constraints=constraints, options=options)
        if found.status == INFEASIBLE:
            return
        if found.x is None:
            break
        chosen = found.x[: block.size] > 0.5
        yield np.bincount(block[chosen], count[chosen], minlength=alike.size).round().astype(np.int64)
        constraints.append(rows(chosen[None].astype(np.float64), 0.0, chosen.sum() - 1.0))
    yield None
