"""The gradient of the readout's first kernel, where every step saw one graph: what it shows of the first step's graph.

The gradient of the readout's first kernel is ``G = sum_v x_v (x) d_v / B`` over the nodes of all ``B`` graphs: ``x_v``
the row that enters the map, ``d_v`` what flows back to it, both at the weights of the graph's own step. Those of the
first step are the weights that the client got. There the rows of its graph lie in the column space of ``G``, and those
of graphs of later steps beside it, as far as weights have moved. Where a row ``x`` and its ``d`` each stand alone,
``c x (x) d`` can be taken out of ``G`` so that the rank falls exactly if ``c d' G+ x = 1`` (Wedderburn, 1934). A block
has ``d = D f``, with ``f`` the gradient at the graph's logits, so that its share of the nodes is ``B / (f' D' G+ x)``,
whatever the other graphs are.

Rows of blocks that are alike, in one graph or in graphs of two steps, are nearly parallel: between the steps weights
have moved by the rate times a gradient. So ``G`` has faint directions, down to its rounding, and ``G+`` takes all of
them: without one, the blocks beside it show shares of each other. Directions of rounding beside them do no harm.
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
from jgleak.federated.observation import Observation
from jgleak.gnn import GNN, Params
from jgleak.gnn.tree import at, put

FLOOR = 2.0**-24
"""Singular values below this share of the largest are rounding."""

WITHIN = 1e-3
"""Rows of the first graph are off by this at most, where a direction beside them is too faint."""


class Exactness(NamedTuple):
    """How well the weights are known at which the first graph's gradient was taken.

    Attributes:
      rows: its rows are off by less than this, where no direction beside them is too faint; others by how far weights
        have moved.
      values: singular values below this share of the largest are not counted, before a graph is taken out and after:
        they may be what is off.
      switched: dimensions that a graph may leave since a unit was lit in other passes than is thought.
    """

    rows: float
    values: float
    switched: float


ONE_PASS = Exactness(3e-6, 2e-7, 0)
"""Rounding alone, also that of the graph which is taken out."""

SEVERAL_PASSES = Exactness(2e-5, 1e-5, 1)
"""What is of second order in the way of the weights between passes (``passes``)."""

LAST_OF_PASSES = Exactness(WITHIN, 1e-5, math.inf)
"""The same where no graph is left beside it: there are no other rows to be told from, and what the other graphs left in
error is all that is left. Training again decides."""

CLEAN = 2e-3
"""How far from a whole number, relative to it, the count of a block may be whose row and ``d`` stand alone, once the
graph's own logits are known."""

ALONE = 0.5
"""Share of a graph's nodes that have such blocks; the others' may be those of other graphs too."""

MOST = 8.0
"""Largest share of the nodes that is looked at: others may add to a shared block."""


class Counts(NamedTuple):
    """How many nodes of the first step's graph have each top block ``(K,)``, and its label."""

    blocks: Int[np.ndarray, " K"]
    label: int


class Fitting(NamedTuple):
    """Counts that the gradient allows.

    Attributes:
      counts: of blocks.
      left: dimensions of the gradient without this graph.
      alone: all of its blocks are its own, and each took a dimension away: no others do better.
    """

    counts: Counts
    left: int
    alone: bool


class Roots(NamedTuple):
    """What the roots of top blocks are to the readout, at the weights of each of ``E`` passes.

    Attributes:
      logits: ``(K, E, C)``.
      strength: ``D' G+ x`` of each, ``x`` the mean row ``(K, E, C)``.
      off: how far the root's mean row is from the span ``(K,)``.
      rows: those that enter the map, scaled ``(K, E, P)``.
      slopes: ``D`` of each ``(K, E, C, F)``.
    """

    logits: Float[np.ndarray, "K E C"]
    strength: Float[np.ndarray, "K E C"]
    off: Float[np.ndarray, " K"]
    rows: Float[np.ndarray, "K E P"]
    slopes: Float[np.ndarray, "K E C F"]

    def upstreams(
        self, observation: Observation, shares: Float[np.ndarray, " K"], label: int
    ) -> Float[np.ndarray, "E C"]:
        """``f`` of a graph with these shares of blocks, in every pass."""
        logits = np.einsum("k,kec->ec", shares, self.logits)
        return np.stack([own_upstreams(observation, one)[label] for one in logits])

    def told(self, observation: Observation, shares: Float[np.ndarray, " K"], label: int) -> Float[np.ndarray, " K"]:
        """The share of the nodes that each block has in a graph whose logits are those of these; 0 where none."""
        slopes = self.upstreams(observation, shares, label)
        values = np.einsum("kec,ec->k", self.strength, slopes) / len(slopes)
        found = observation.batch_size / np.where(values > 0, values, np.inf)
        return np.where(found <= MOST, found, 0.0)


class Head(NamedTuple):
    """The gradient of the readout's first kernel, divided by the scale of its rows, and its decomposition.

    Attributes:
      span: its column space.
      gradient: ``(P, F)``.
      values: singular values, and the vectors of its rows and columns.
    """

    span: Subspace
    gradient: Float[np.ndarray, "P F"]
    left: Float[np.ndarray, "P k"]
    values: Float[np.ndarray, " k"]
    across: Float[np.ndarray, "k F"]

    @staticmethod
    def of(problem: CensusProblem) -> Head:
        """That of an update."""
        kernel = np.asarray(at(problem.observation.update, _place(problem))["kernel"], np.float64)
        span = Subspace.of_gradient(kernel, tolerances=dataclasses.replace(TOLERANCES, rank_floor=FLOOR, rank_gap=0.0))
        scaled = kernel / span.scale[:, None]
        return Head(span, scaled, *np.linalg.svd(scaled, full_matrices=False))

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
        mean, rank = entering.mean(axis=1), self.span.rank
        back = mean / self.span.scale @ self.left[:, :rank] / self.values[:rank] @ self.across[:rank]
        strength = np.einsum("kf,kecf->kec", back, slopes)
        return Roots(logits, strength, self.span.distances(mean), entering / self.span.scale, slopes)

    def without(self, problem: CensusProblem, roots: Roots, found: Counts) -> Fitting | None:
        """What the gradient is without a graph; None unless most of the graph's nodes have blocks of their own, and it
        takes away a dimension for most of its blocks. A block with another count than the graph's takes none away, and
        one that the graph lacks adds one, or takes one from other graphs."""
        n, exactness = int(found.blocks.sum()), exactness_of(problem)
        level = exactness.values * self.values[0]
        own = n * roots.told(problem.observation, found.blocks / n, found.label)
        clean = (found.blocks > 0) & (np.abs(own - found.blocks) <= CLEAN * found.blocks)
        slopes = roots.upstreams(problem.observation, found.blocks / n, found.label)
        weights = found.blocks / (n * problem.observation.batch_size * len(slopes))
        back = np.einsum("kecf,ec->kef", roots.slopes, slopes)
        part = np.einsum("k,kep,kef->pf", weights, roots.rows, back, optimize=True)
        rank, left = (
            int(np.sum(values > level))
            for values in (self.values, np.linalg.svd(self.gradient - part, compute_uv=False))
        )
        blocks, fallen = np.count_nonzero(found.blocks), rank - left
        enough = found.blocks[clean].sum() >= ALONE * n and fallen + exactness.switched >= ALONE * blocks
        if not enough or rank == self.values.size:
            return None
        return Fitting(found, left, bool(clean.sum() == blocks <= fallen))


def exactness_of(problem: CensusProblem) -> Exactness:
    """That of a problem with the weights of one pass or of several."""
    if len(problem.path) == 1:
        return ONE_PASS
    return SEVERAL_PASSES if problem.observation.batch_size > 1 else LAST_OF_PASSES


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
            return found[1][0]  # type: ignore[index]  # `apply` is typed as a module's single output

        values, back = jax.vjp(logits, at(params, path))
        slopes = jax.vmap(lambda unit: back(unit)[0])(jnp.eye(values.size))
        bias, kernel = slopes["bias"], slopes["kernel"]
        weight = jnp.maximum(jnp.sum(bias**2), 1e-30)
        return values, bias, jnp.einsum("cpf,cf->p", kernel, bias, precision="highest") / weight

    return jax.vmap(one)(rows, states)
