"""The number of nodes, where batch normalisation in training mode needs it and it is unknown.

Rows before the first norm do not depend on it, and neither do checks of 1-hop blocks before it. With shares ``mu_c`` of
these blocks and their rows ``z_c``, the batch's mean is ``sum mu_c z_c``, and ``sum mu_c (z_c - mean)^2`` is the biased
variance: the unbiased one, which came back, times ``(N - 1) / N``. Where only one ``N`` has such shares, it is the
number.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from jgleak.attacks.attack import Budget, Clock
from jgleak.attacks.census.hidden_nodes import hidden
from jgleak.attacks.census.problem import CensusProblem, rounds_of
from jgleak.attacks.census.row_rank import spanning
from jgleak.attacks.census.settings import CensusSettings
from jgleak.attacks.closed_form.propositions import ConditionFailed
from jgleak.attacks.nonnegative import nonnegative
from jgleak.attacks.span.hops import Blocks, Nodes, encoded
from jgleak.attacks.span.levels import block_checks, find_nodes
from jgleak.attacks.span.onehop import one_hop
from jgleak.federated.knowledge import Knowledge
from jgleak.federated.observation import Observation
from jgleak.gnn import GNN, Params

EXPLAINED = 1e-3
"""Largest misfit of the true number, in deviations: rounding of statistics, which starts at about 1e-6 of them."""

FITS = 10.0
"""A number of nodes is possible where its misfit is at most this multiple of the smallest one."""


class NumberUnknown(ConditionFailed):
    """The returned statistics do not determine the number of nodes."""


def number_of_nodes(
    observation: Observation, knowledge: Knowledge, settings: CensusSettings, clock: Clock, budget: Budget
) -> int:
    """The one number of nodes up to ``max_n`` for which 1-hop blocks have the batch's mean and variance; without a
    bound, in the first of the census's rounds that has any.

    Raises:
      NumberUnknown: several numbers have, or none has, or the first layer has no norm in training mode or no check
        before it.
      TooManyCandidates: the input span says too little about nodes.
    """
    layer = observation.model.layers[0]
    paths = [path for path, norm in layer.norms.items() if norm.returns_statistics]
    if not paths:
        raise NumberUnknown("the first layer returns no statistics that give the number of nodes; set it (--n)")
    rounds = rounds_of(knowledge, settings.limits)
    problem = CensusProblem.of(observation, dataclasses.replace(knowledge, n=rounds[-1][-1]), settings)
    tolerances = problem.tolerances.span
    nodes = find_nodes(observation, knowledge, clock=clock, tolerances=tolerances, limits=settings.limits.span)
    if not spanning(problem, nodes):  # a singular adjacency hides them
        only = [
            start.nodes for start in hidden(problem, clock) if start.complete
        ]  # of several lines none excludes others
        nodes = only[0] if only else nodes
    for names in (("aggregate",),) if paths[0] != ("norm",) else (("hidden", "aggregate"), ("aggregate",)):
        checks = block_checks(observation, knowledge, 1, names, tolerances)
        if not checks:
            continue
        bounds = {"clock": clock, "budget": budget, "limits": settings.limits.span}
        blocks = one_hop(problem.observation.model, problem.observation.params, nodes, checks, **bounds)
        if not 0 < blocks.size <= settings.limits.blocks_counted:
            continue
        rests, rest = dict[int, float](), _misfit(problem, nodes, blocks, paths[0], clock)
        for sizes in rounds:
            rests |= {n: rest(n) for n in sizes if n > 1 and clock.left > 0}
            best = min(rests.values(), default=np.inf)
            possible = [n for n, off in rests.items() if off <= FITS * best]
            if len(possible) == 1 and best <= EXPLAINED and clock.left > 0:
                return possible[0]
    raise NumberUnknown("the returned statistics do not determine the number of nodes; set it (--n)")


def _misfit(
    problem: CensusProblem, nodes: Nodes, blocks: Blocks, norm: tuple[str, ...], clock: Clock
) -> Callable[[int], float]:
    """A function of the number of nodes: how far the best shares of blocks are from the batch's moments at a norm of
    the first layer, as a root mean square in deviations of each column."""
    model, params = problem.observation.model, problem.observation.params
    inputs = encoded(model, params, nodes)
    rows = _entering(model, params, inputs, nodes.degrees, blocks)[list(model.layers[0].norms).index(norm)]
    mean, unbiased = problem.batch["layers_0", *norm]

    def rest(n: int) -> float:
        biased = unbiased * (n - 1) / n
        unit = np.sqrt(np.maximum(biased, 1e-12))
        normal = ((rows - mean) / unit).T
        system = np.r_[normal, normal**2, np.ones((1, rows.shape[0]))]
        goal = np.r_[np.zeros(mean.size), biased / unit**2, 1.0]
        answer = nonnegative(system, goal, problem.limits.solver_rounds, clock)
        return np.inf if answer is None else answer[1] / np.sqrt(goal.size)

    return rest


def _entering(
    model: GNN, params: Params, inputs: Float[np.ndarray, "T F"], degrees: np.ndarray, blocks: Blocks
) -> list[Float[np.ndarray, "K _D"]]:
    """The rows of 1-hop blocks that enter the first layer's norms, in float64."""
    numbers = np.full((blocks.size, 1 + max(len(around) for around in blocks.neighbours)), -1)
    numbers[:, 0] = blocks.classes * blocks.roots
    for row, around in zip(numbers, blocks.neighbours, strict=True):
        row[1 : 1 + len(around)] = around
    present, here = jnp.asarray(numbers >= 0), np.maximum(numbers, 0)
    places, along = np.divmod(here, blocks.classes)
    with jax.enable_x64(True):
        wide = jax.tree.map(lambda w: np.asarray(w, np.float64), model.layer_of(params, 0))
        rows, degree = (jnp.asarray(part, np.float64)[places] for part in (inputs, degrees))
        star = rows, degree, present, jnp.asarray(along)
        found = jax.vmap(lambda *one: model.layers[0].by(wide, "entering_norms", *one))(*star)
        return [np.asarray(rows) for rows in found]
