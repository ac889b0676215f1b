"""How much of the upstream gradient every block carries in a batch, summed over its graphs.

A batch's gradient is ``sum_b sum_j w_bj G_bj``: ``G_bj`` is what one node with block ``b`` adds along direction ``j``
of the upstream gradient, and ``w_b = sum_g n_gb f_g``, where graph ``g`` has the block ``n_gb`` times and the factor
``f_g (r,)``: its upstream gradient, divided by the number of graphs and, under a mean, of its nodes. Weights have
either sign, and few blocks have any. They obey the balances of edges as counts do, in every direction.
"""

from __future__ import annotations

import dataclasses

import jax
import numpy as np
from jaxtyping import Bool, Float

from jgleak.attacks.attack import Clock
from jgleak.attacks.census.batches.contributions import contributions
from jgleak.attacks.census.batches.sparse import sparse_solution
from jgleak.attacks.census.batches.upstream import Upstream
from jgleak.attacks.census.candidates import Levels
from jgleak.attacks.census.equations import host, used_parts
from jgleak.attacks.census.problem import CensusProblem
from jgleak.attacks.census.sketch import orthonormal, sketched
from jgleak.attacks.census.system import Rules
from jgleak.gnn import Params

EQUATIONS = 3
"""Equations for every unknown, at least."""

LEAST, MOST = 4, 64
"""Fewest and most equations of a weight row."""

ENTRIES = 150_000_000
"""Most entries of the system."""

SURE = 50.0
"""Rounding moves a weight by less than so many of its deviations, which take it to be independent from entry to entry
(measured: up to 35)."""


EXPLAINED = 1e-5
"""What the weights leave of a gradient that true blocks explain, at most (measured: up to 2e-6). A block that is
missing may be that of a graph which the model knows well, whose gradient is short."""


@dataclasses.dataclass(frozen=True)
class Weights:
    """The weights of top blocks.

    Attributes:
      values: of every block in every direction; most are zero ``(K, r)``.
      errors: how far they may be off; 0 where they are taken to be zero ``(K, r)``.
      residual: what they leave of the gradient, relative to it.
      open: blocks that have other weights in solutions that use more blocks ``(K,)``.
      upstream: the directions.
      added: what the root of each block adds up, a state or logits ``(K, C)``.
    """

    values: Float[np.ndarray, "K r"]
    errors: Float[np.ndarray, "K r"]
    residual: float
    open: Bool[np.ndarray, " K"]
    upstream: Upstream
    added: Float[np.ndarray, "K C"]

    @property
    def explained(self) -> bool:
        """False where a true block must be missing."""
        return self.residual <= EXPLAINED


def weights(problem: CensusProblem, levels: Levels, clock: Clock) -> Weights | None:
    """The weights of the top blocks, as few of them as the gradient allows; None where time ran out, they are too many
    for the system, or the readout shows no upstream gradient.

    The model's statistics are those of evaluation mode, and it has one pooled row a graph or logits a node.
    """
    observation = problem.observation
    upstream = Upstream.of(observation)
    used = used_parts(observation.model, host(observation.update))
    unknowns = levels.top.size * len(upstream.rows)
    vectors = _vectors(used, unknowns)
    observed, sizes = sketched(used, vectors, problem.tolerances)
    if not unknowns or observed.size * unknowns > ENTRIES:
        return None
    found = contributions(problem, levels, upstream.rows, vectors, clock)
    if found is None:
        return None
    columns, added = found
    length = float(np.linalg.norm(observed / sizes)) or 1.0
    parts = [(np.moveaxis(columns, -1, 0) / (sizes * length)[:, None, None], observed / (sizes * length))]
    parts += _of_readout(upstream, added)
    rules = Rules.of(levels.top, np.arange(levels.top.size)).balance
    unit = float(np.median(np.linalg.norm(parts[0][0], axis=0)))
    balance = unit * rules[:, None, :, None] * np.eye(len(upstream.rows))[None, :, None, :]
    parts.append((balance.reshape(-1, *columns.shape[:2]), np.zeros(balance.shape[0] * balance.shape[1])))
    system, right = (np.concatenate(part) for part in zip(*parts, strict=True))
    solution = sparse_solution(system, right, clock)
    if solution is None:
        return None
    values, deviations, residual, open_ = solution
    return Weights(values, SURE * deviations, residual, open_, upstream, added)


def _vectors(tree: Params, unknowns: int) -> Params:
    rows = sum(leaf.shape[0] for leaf in jax.tree.leaves(tree) if leaf.ndim > 1)
    each = min(MOST, max(LEAST, -(-EQUATIONS * unknowns // rows)))
    return orthonormal(tree, 1 << (each - 1).bit_length())


def _of_readout(
    upstream: Upstream, added: Float[np.ndarray, "K C"]
) -> list[tuple[Float[np.ndarray, "M K r"], Float[np.ndarray, " M"]]]:
    """What the weighted sum of all states is, and that of all weights, in units of their lengths."""
    width, parts = np.eye(len(upstream.rows)) * upstream.sizes, list[tuple[np.ndarray, np.ndarray]]()
    if upstream.states is not None:
        of_states = np.einsum("kc,ij->ickj", added, width).reshape(-1, len(added), len(width))
        parts.append((of_states, (upstream.sizes[:, None] * upstream.states).ravel()))
    if upstream.total is not None:
        parts.append((np.repeat(width[:, None], len(added), axis=1), upstream.sizes * upstream.total))
    lengths = [float(np.linalg.norm(right)) or 1.0 for _, right in parts]
    return [(system / length, right / length) for (system, right), length in zip(parts, lengths, strict=True)]
