"""The gradient of the readout's first kernel, where steps saw some of the graphs each: what it shows of the first step.

The gradient of the readout's first kernel is ``G = sum_v x_v (x) d_v / B`` over the nodes of all ``B`` graphs: ``x_v``
the row that enters the map, ``d_v`` what flows back to it, both at the weights of the graph's own step. Those of the
first step are the weights that the client got. There the rows of its graphs lie in the column space of ``G``, and what
flows back to them in its row space; those of graphs of later steps lie beside both, as far as weights have moved
(``kernel_weights``).

Rows of blocks that are alike, in one graph or in graphs of two steps, are nearly parallel: between the steps weights
have moved by the rate times a gradient. So ``G`` has faint directions, down to its rounding, and all of them are taken:
without one, the blocks beside it show shares of each other. Directions of rounding beside them do no harm.
"""

from __future__ import annotations

import dataclasses
import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from jgleak.attacks.attack import Clock
from jgleak.attacks.census.batches.states import root_states
from jgleak.attacks.census.batches.upstream import own_upstreams
from jgleak.attacks.census.candidates import Levels
from jgleak.attacks.census.equations import Table
from jgleak.attacks.census.problem import CensusProblem
from jgleak.attacks.span.settings import TOLERANCES
from jgleak.attacks.span.subspace import Subspace
from jgleak.gnn import GNN, Params
from jgleak.gnn.tree import at, put

FLOOR = 2.0**-24
"""Singular values below this share of the largest are rounding."""

WITHIN = 1e-3
"""Rows of the first step are off by this at most, where a direction beside them is too faint."""


class Exactness(NamedTuple):
    """How well the weights are known at which the gradients of the first step were taken.

    Attributes:
      rows: its rows are off by less than this, where no direction beside them is too faint; others by how far weights
        have moved.
      slopes: the same of what flows back to them.
      weights: the weight of a block is off by less than this share of itself, where both hold.
      values: singular values below this share of the largest are not counted, before a graph is taken out and after:
        they may be what is off.
      switched: dimensions that a graph may leave since a unit was lit in other passes than is thought.
    """

    rows: float
    slopes: float
    weights: float
    values: float
    switched: float


ONE_PASS = Exactness(6e-6, 3e-5, 2e-5, 2e-7, 0)
"""Rounding alone, also that of the graph which is taken out."""

SEVERAL_PASSES = Exactness(2e-5, 3e-4, 2e-4, 1e-5, 1)
"""What is of second order in the way of the weights between passes (``passes``)."""

LAST_OF_PASSES = Exactness(WITHIN, 1e-3, 2e-3, 1e-5, math.inf)
"""The same where no step is left after it: there are no other rows to be told from, and what the other graphs left in
error is all that is left. Training again decides."""

ALONE = 0.5
"""A graph takes away at least this share of its blocks' dimensions: some blocks may be those of other graphs too."""


class Roots(NamedTuple):
    """What the roots of top blocks are to the readout, at the weights of each of ``E`` passes.

    Attributes:
      logits: ``(K, E, C)``.
      rows: those that enter the map, scaled ``(K, E, P)``.
      slopes: what flows back to the map from each logit, ``D`` of each ``(K, E, C, F)``.
      off: how far the root's mean row is from the span ``(K,)``.
    """

    logits: Float[np.ndarray, "K E C"]
    rows: Float[np.ndarray, "K E P"]
    slopes: Float[np.ndarray, "K E C F"]
    off: Float[np.ndarray, " K"]

    def part(self, some: Int[np.ndarray, " k"]) -> Roots:
        """Those of some blocks."""
        return Roots(*(field[some] for field in self))


class Head(NamedTuple):
    """The gradient of the readout's first kernel, divided by the scale of its rows, and its decomposition.

    Attributes:
      span: its column space.
      gradient: ``(P, F)``.
      values: singular values, and the vectors of its rows and columns.
      exactness: of the first step's weights.
    """

    span: Subspace
    gradient: Float[np.ndarray, "P F"]
    left: Float[np.ndarray, "P k"]
    values: Float[np.ndarray, " k"]
    across: Float[np.ndarray, "k F"]
    exactness: Exactness

    @staticmethod
    def of(problem: CensusProblem, most: int) -> Head:
        """That of an update whose first step has so many graphs."""
        kernel = np.asarray(at(problem.observation.update, _place(problem))["kernel"], np.float64)
        span = Subspace.of_gradient(kernel, tolerances=dataclasses.replace(TOLERANCES, rank_floor=FLOOR, rank_gap=0.0))
        scaled = kernel / span.scale[:, None]
        return Head(span, scaled, *np.linalg.svd(scaled, full_matrices=False), _exactness(problem, most))

    def roots(self, problem: CensusProblem, levels: Levels, clock: Clock) -> Roots | None:
        """What is known of the roots of top blocks; None if time runs out."""
        model, nodes = problem.observation.model, Table.of(levels.nodes).rows[levels.top.kinds]
        found = list[tuple[np.ndarray, ...]]()
        for point in problem.path:
            states = root_states(model, point.params, levels, clock)
            if states is None:
                return None
            own = _at_first_map(model, point.params, _place(problem), nodes, states.astype(np.float32))
            found.append(tuple(np.asarray(part, np.float64) for part in own))
        logits, slopes, entering = (np.stack(part, axis=1) for part in zip(*found, strict=True))
        return Roots(logits, entering / self.span.scale, slopes, self.span.distances(entering.mean(axis=1)))

    def lacks(
        self, problem: CensusProblem, roots: Roots, counts: Int[np.ndarray, " K"], label: int, copies: int = 1
    ) -> bool:
        """True where the gradient has fewer dimensions without a graph and its copies, one for most of its blocks. A
        block with another count than the graph's takes none away, and one that the graph lacks adds one, or takes one
        from other graphs."""
        n, some = int(counts.sum()), np.flatnonzero(counts)
        mean = np.einsum("k,kec->ec", counts[some] / n, roots.logits[some])
        slopes = np.stack([own_upstreams(problem.observation, one)[label] for one in mean])
        weights = copies * counts[some] / (n * problem.observation.batch_size * len(slopes))
        back = np.einsum("kecf,ec->kef", roots.slopes[some], slopes)
        part = np.einsum("k,kep,kef->pf", weights, roots.rows[some], back, optimize=True)
        rank, left = (
            int(np.sum(values > self.exactness.values * self.values[0]))
            for values in (self.values, np.linalg.svd(self.gradient - part, compute_uv=False))
        )
        return rank < self.values.size and rank - left + self.exactness.switched >= ALONE * some.size


def _exactness(problem: CensusProblem, most: int) -> Exactness:
    if len(problem.path) == 1:
        return ONE_PASS
    return SEVERAL_PASSES if problem.observation.batch_size > most else LAST_OF_PASSES


def _place(problem: CensusProblem) -> tuple[str, ...]:
    return ("readout", *problem.observation.model.readout.first_map)


@jax.jit(static_argnames=("model", "path"))
def _at_first_map(
    model: GNN, params: Params, path: tuple[str, ...], rows: Float[Array, "K m"], states: Float[Array, "K D"]
) -> tuple[Float[Array, "K C"], Float[Array, "K C F"], Float[Array, "K P"]]:
    """Of every root its logits, what flows back from each to the first map, and the row that enters the map."""

    def one(row: Array, state: Array) -> tuple[Array, Array, Array]:
        def logits(first: Params) -> Array:
            weights = put(params, path, first)
            found = model.apply({"params": weights}, row[None], state[None], method="node_hidden")
            return found[1][0]

        values, back = jax.vjp(logits, at(params, path))
        slopes = jax.vmap(lambda unit: back(unit)[0])(jnp.eye(values.size))
        bias, kernel = slopes["bias"], slopes["kernel"]
        weight = jnp.maximum(jnp.sum(bias**2), 1e-30)
        return values, bias, jnp.einsum("cpf,cf->p", kernel, bias, precision="highest") / weight

    return jax.vmap(one)(rows, states)
