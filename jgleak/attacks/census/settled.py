"""Shares of blocks and the path of the weights, found in turns until they agree.

Contributions along a path give shares, and the local training of these shares gives a path (``followed``). The error of
a turn is about that of the turn before times how far the weights move, so that the turns converge quickly. Where units
switch on and off along the path they may converge to other shares: then the local training of the nearest whole
censuses is run, and the one whose update is nearest is used.
"""

from __future__ import annotations

import dataclasses
from typing import NamedTuple

import jax
import numpy as np
from jaxtyping import Float

from jgleak.attacks.attack import Clock
from jgleak.attacks.census.candidates import Levels
from jgleak.attacks.census.equations import equations
from jgleak.attacks.census.followed import followable, followed, returned_distances
from jgleak.attacks.census.problem import CensusProblem
from jgleak.attacks.census.solve import fitted, posed
from jgleak.attacks.census.sphere_decoder import within_sphere
from jgleak.attacks.census.system import Equations

REACH = (2.0, 4.0, 8.0)
"""Distances from the best real shares at which whole censuses are searched, in residuals, until there is one."""


class Turn(NamedTuple):
    """The result of one turn.

    Attributes:
      problem: with the path.
      system: the equations along it.
      shares: their best non-negative solution ``(K,)``.
      residual: the residual of that solution.
    """

    problem: CensusProblem
    system: Equations
    shares: Float[np.ndarray, " K"]
    residual: float


def settled(problem: CensusProblem, levels: Levels, system: Equations, clock: Clock) -> tuple[CensusProblem, Equations]:
    """The problem with a path that agrees with the shares that solve its equations along that path, and these
    equations. Both unchanged where there is no path to follow; otherwise those of the turn with the smallest residual.
    """
    if not followable(problem):
        return problem, system
    tolerances, best = problem.tolerances, _turn(problem, levels, system, clock)
    for _ in range(problem.limits.path_turns):
        if best.residual <= tolerances.path_residual or clock.left <= 0:
            break
        turns, enough = [_along(best, levels, best.shares, clock)], tolerances.path_gain * best.residual
        if turns[0].residual > enough and (whole := _nearest(best, levels, clock)) is not None:
            turns.append(_along(best, levels, whole, clock))
        least = min((best, *turns), key=lambda turn: turn.residual)
        resting, best = least.residual > enough, least
        if resting:
            break
    return best.problem, best.system


def _turn(problem: CensusProblem, levels: Levels, system: Equations, clock: Clock) -> Turn:
    reduced = posed(problem, levels, system, problem.rounds[0])[-1]
    return Turn(problem, system, *fitted(problem, system, reduced, clock))


def _along(turn: Turn, levels: Levels, shares: Float[np.ndarray, " K"], clock: Clock) -> Turn:
    """The turn that follows these shares; the same turn where there are none, or time runs out."""
    used = np.flatnonzero(shares > 0)
    if not used.size or clock.left <= 0:
        return turn
    path = followed(turn.problem, levels, turn.system.blocks[used], shares[used])
    if not all(np.isfinite(leaf).all() for point in path for leaf in jax.tree.leaves(point.params)):
        return turn  # a mixture's training may diverge where the client's did not
    problem = dataclasses.replace(turn.problem, path=path)
    system = equations(problem, levels, clock)
    return turn if system is None else _turn(problem, levels, system, clock)


def _nearest(turn: Turn, levels: Levels, clock: Clock) -> Float[np.ndarray, " K"] | None:
    """The whole census, as shares, whose local training gives the nearest update, among those near the real shares;
    None where there is none."""
    problem, limits = turn.problem, turn.problem.limits
    rules, _, (system, goal) = posed(problem, levels, turn.system, problem.rounds[0])
    used, found = np.flatnonzero(turn.shares > 0), list[tuple[float, Float[np.ndarray, " k"]]]()
    if used.size > limits.sphere_blocks:
        return None
    for reach in REACH:
        bounds = {"radius": reach * turn.residual, "clock": clock, "steps": limits.whole_steps}
        for n in problem.rounds[0]:
            scale = 1 if problem.absolute else n
            for some in within_sphere(system[:, used] / scale, goal, n=n, **bounds):
                if some is None:
                    break
                counts = np.zeros(turn.shares.size, np.int64)
                counts[used] = some
                if rules.hold(counts, n):
                    shares = some / scale
                    found.append((float(np.linalg.norm(system[:, used] @ shares - goal)), shares))
        if found or clock.left <= 0:
            break
    if not found:
        return None
    nearest = np.stack([shares for _, shares in sorted(found, key=lambda one: one[0])[: limits.whole_replayed]])
    far = returned_distances(problem, levels, turn.system.blocks[used], nearest)
    if not np.isfinite(far).any():
        return None
    whole = np.zeros(turn.shares.size)
    whole[used] = nearest[int(np.nanargmin(np.where(np.isfinite(far), far, np.nan)))]
    return whole
