"""The weight of every block in a batch: its upstream gradient, summed over the graphs.

A batch's gradient is ``sum_b sum_j w_bj G_bj``: ``G_bj`` is what one node with block ``b`` adds along direction ``j``
of the upstream gradient, and ``w_b = sum_g n_gb f_g``, where graph ``g`` has the block ``n_gb`` times and the factor
``f_g (r,)``: its upstream gradient, divided by the number of graphs and, under a mean, of its nodes. Weights have
either sign, and few are nonzero. They obey the balances of edges as counts do, in every direction.
"""

from __future__ import annotations

import dataclasses
from typing import NamedTuple

import jax
import numpy as np
from jaxtyping import Bool, Float, Int

from jgleak.attacks.attack import Clock
from jgleak.attacks.census.batches.contributions import contributions
from jgleak.attacks.census.batches.sparse import least_squares, support
from jgleak.attacks.census.batches.upstream import Upstream
from jgleak.attacks.census.batches.weighted_path import weighted_path
from jgleak.attacks.census.candidates import Levels
from jgleak.attacks.census.equations import host, used_parts
from jgleak.attacks.census.problem import CensusProblem
from jgleak.attacks.census.sketch import orthonormal, sketched
from jgleak.attacks.census.system import Rules
from jgleak.gnn import Params

USUAL = 8
"""Equations of a weight row, where they are enough for all unknowns."""

EQUATIONS, ENOUGH = 3, 4_000
"""Equations for every unknown, and about how many at most beyond the usual ones: nonzero unknowns are far fewer."""

ENTRIES = 60_000_000
"""Most entries of the system."""

SURE = 50.0
"""Rounding moves a weight by less than so many of its deviations, which take it to be independent from entry to entry
(measured: up to 35)."""

FOLLOWED = 1 / 3
"""Most unknowns for every equation, where all blocks have weights on a path."""

EXPLAINED = 1e-5
"""Largest relative residual with all true blocks (measured: up to 2e-6). A missing block may belong to a graph that the
model fits well, whose gradient is small."""


@dataclasses.dataclass(frozen=True)
class Weights:
    """The weights of top blocks.

    Attributes:
      values: of every block in every direction; most are zero ``(K, r)``.
      errors: how far they may be off; 0 where they are taken to be zero, infinite where they are not known ``(K, r)``.
      residual: of the gradient, relative to it.
      open: blocks whose weights differ in solutions with more blocks ``(K,)``.
      alike: a name for what blocks have in common of which only the sum of their weights is known: it stands for each
        of them ``(K,)``.
      upstream: the directions.
      added: the row of each block's root that the readout adds up, a state or logits ``(K, C)``.
    """

    values: Float[np.ndarray, "K r"]
    errors: Float[np.ndarray, "K r"]
    residual: float
    open: Bool[np.ndarray, " K"]
    alike: Int[np.ndarray, " K"]
    upstream: Upstream
    added: Float[np.ndarray, "K C"]

    @property
    def explained(self) -> bool:
        """False where a true block must be missing."""
        return self.residual <= EXPLAINED


def weights_along(problem: CensusProblem, levels: Levels, clock: Clock) -> Weights | None:
    """``weights``; after several local steps along a path that follows from them (``weighted_path``), repeated while
    the residual falls."""
    if len(problem.path) > 1 and problem.observation.model.readout.additive == "nodes":
        problem = _settled(problem, levels, clock)
    return weights(problem, levels, clock)


def _settled(problem: CensusProblem, levels: Levels, clock: Clock) -> CensusProblem:
    """The problem with the path of the smallest residual; unchanged where blocks are too many for the equations."""
    upstream, best, least = Upstream.of(problem.observation), problem, np.inf
    for _ in range(problem.limits.path_turns):
        equations = _equations(problem, levels, upstream, clock)
        if equations is None or equations.matrix[0].size > FOLLOWED * equations.right.size:
            return best
        found = least_squares(equations.matrix, equations.right)
        if found.residual > problem.tolerances.path_gain * least:
            return problem if found.residual < least else best
        best, least = problem, found.residual
        if least <= EXPLAINED or clock.left <= 0:
            break
        path = weighted_path(problem, levels, found.values, upstream.rows)
        if not all(np.isfinite(leaf).all() for point in path for leaf in jax.tree.leaves(point.params)):
            break
        problem = dataclasses.replace(problem, path=path)
    return best


def weights(problem: CensusProblem, levels: Levels, clock: Clock) -> Weights | None:
    """The weights of the top blocks, as few of them as the gradient allows; None where they explain too little of it,
    time does not suffice, or they are too many for the system.

    Needs an update that ``upstream.unsupported`` does not refuse.
    """
    upstream = Upstream.of(problem.observation)
    equations = _equations(problem, levels, upstream, clock)
    if equations is None:
        return None
    few = support(equations.matrix, equations.right, clock)
    if few is None or not few.groups.size:
        return None
    kept = np.isin(np.arange(levels.top.size), few.groups)
    fewer = dataclasses.replace(levels, hops=(*levels.hops[:-1], levels.top.keep(kept)))
    again = _equations(problem, fewer, upstream, clock)  # more equations an unknown
    if again is None:
        return None
    some = least_squares(again.matrix, again.right)
    values, errors = np.zeros((2, kept.size, len(upstream.rows)))
    values[kept], errors[kept] = some.values, SURE * some.deviations
    return Weights(values, errors, some.residual, few.open, np.arange(kept.size), upstream, equations.added)


class _Equations(NamedTuple):
    """Those of the gradient, the readout and the balances, and what the root of each block adds up."""

    matrix: Float[np.ndarray, "M K r"]
    right: Float[np.ndarray, " M"]
    added: Float[np.ndarray, "K C"]


def _equations(problem: CensusProblem, levels: Levels, upstream: Upstream, clock: Clock) -> _Equations | None:
    used = used_parts(problem.observation.model, host(problem.observation.update))
    unknowns = levels.top.size * len(upstream.rows)
    vectors = _vectors(used, unknowns)
    observed, sizes = sketched(used, vectors, problem.tolerances)
    if not unknowns or observed.size * unknowns > ENTRIES:
        return None
    found = contributions(problem, levels, upstream.rows, vectors, clock)
    if found is None:
        return None
    columns, added = found
    sizes *= float(np.linalg.norm(observed / sizes)) or 1.0
    seen = np.moveaxis(columns, -1, 0) / sizes[:, None, None]
    rules = Rules.of(levels.top, np.arange(levels.top.size)).balance
    unit = float(np.median(np.linalg.norm(seen, axis=0)))
    balance = unit * rules[:, None, :, None] * np.eye(len(upstream.rows))[None, :, None, :]
    exact = balance.reshape(-1, *seen.shape[1:])
    parts = [(seen, observed / sizes), *_of_readout(upstream, added), (exact, np.zeros(len(exact)))]
    matrix, right = (np.concatenate(part) for part in zip(*parts, strict=True))
    return _Equations(matrix, right, added)


def _vectors(tree: Params, unknowns: int) -> Params:
    rows = sum(leaf.shape[0] for leaf in jax.tree.leaves(tree) if leaf.ndim > 1)
    wanted = EQUATIONS * unknowns
    each = USUAL if wanted <= USUAL * rows else max(1, min(wanted, ENOUGH) // rows)
    return orthonormal(tree, 1 << (each - 1).bit_length())  # a compiled shape


def _of_readout(
    upstream: Upstream, added: Float[np.ndarray, "K C"]
) -> list[tuple[Float[np.ndarray, "M K r"], Float[np.ndarray, " M"]]]:
    """The equations of the weighted sum of all states and of the sum of all weights, in units of their lengths."""
    width, parts = np.eye(len(upstream.rows)) * upstream.sizes, list[tuple[np.ndarray, np.ndarray]]()
    if upstream.states is not None:
        of_states = np.einsum("kc,ij->ickj", added, width).reshape(-1, len(added), len(width))
        parts.append((of_states, (upstream.sizes[:, None] * upstream.states).ravel()))
    if upstream.total is not None:
        parts.append((np.repeat(width[:, None], len(added), axis=1), upstream.sizes * upstream.total))
    lengths = [float(np.linalg.norm(right)) or 1.0 for _, right in parts]
    return [(system / length, right / length) for (system, right), length in zip(parts, lengths, strict=True)]
