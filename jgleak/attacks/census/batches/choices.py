"""Counts that one graph of a batch may have: what its blocks' weights allow, and the balances of its edges."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from jaxtyping import Float, Int
from scipy.optimize import Bounds, LinearConstraint, milp

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
"""For each block the counts that it may have in one graph, and the cost of each."""


def choices(
    values: Float[np.ndarray, "k r"], errors: Float[np.ndarray, "k r"], known: Combinations, number: int
) -> Choices:
    """What the weights allow the graph that has factor ``number``."""
    out = Choices()
    for value, error in zip(values, errors, strict=True):
        costs = dict[int, float]()
        for way, misfit in zip(*known.of(value, error), strict=True):
            count, cost = int(way[number]), float(misfit) + SHARED * (np.count_nonzero(way) - 1)
            costs[count] = min(cost, costs.get(count, np.inf))
        out.append(costs or {count: SHARED * (count > 0) for count in range(UNKNOWN + 1)})
    return out


def cheapest(
    allowed: Choices, rules: Rules, most: int, clock: Clock, n: int | None = None
) -> Iterator[Int[np.ndarray, " k"] | None]:
    """Counts that obey the rules of a connected graph (of ``n`` nodes, where that is given), the cheapest first, at
    most so many; None where there may be more.

    A mixed-integer linear programme of one variable a block and count, and one a class: half the ends of the edges
    within it.
    """
    block = np.repeat(np.arange(len(allowed)), [len(costs) for costs in allowed])
    count = np.array([count for costs in allowed for count in costs], np.float64)
    halves = rules.loops.shape[0]
    cost = np.r_[[cost for costs in allowed for cost in costs.values()], np.zeros(halves)]

    def rows(left: Float[np.ndarray, "R c"], least: float, largest: float) -> LinearConstraint:
        return LinearConstraint(np.c_[left, np.zeros((left.shape[0], halves))], least, largest)

    constraints = [
        rows((block == np.arange(len(allowed))[:, None]).astype(np.float64), 1.0, 1.0),
        rows(rules.balance[:, block] * count, 0.0, 0.0),
        LinearConstraint(np.c_[rules.loops[:, block] * count, -2.0 * np.eye(halves)], 0.0, 0.0),
        rows(((rules.degrees[block] - 2) * count)[None], -2.0, np.inf),
        rows(count[None], n or 1.0, n or np.inf),
    ]
    bounds = Bounds(0.0, np.r_[np.ones(block.size), np.full(halves, np.inf)])
    for _ in range(most):
        options = {"time_limit": max(0.0, min(clock.left, SECONDS))}
        found = milp(cost, integrality=np.ones(cost.size), bounds=bounds, constraints=constraints, options=options)
        if found.status == INFEASIBLE:
            return
        if found.x is None:
            break
        chosen = found.x[: block.size] > 0.5
        yield np.bincount(block[chosen], count[chosen], minlength=len(allowed)).round().astype(np.int64)
        constraints.append(rows(chosen[None].astype(np.float64), 0.0, chosen.sum() - 1.0))
    yield None
