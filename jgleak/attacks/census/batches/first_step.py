"""The graph of a client's first step, where every step saw one graph: how many of its nodes have each block.

The gradient of the readout's first kernel is ``G = sum_v x_v (x) d_v / B`` over the nodes of all ``B`` graphs: ``x_v``
the row that enters the map, ``d_v`` what flows back to it, both at the weights of the graph's own step. Those of the
first step are the weights that the client got. There the rows of its graph lie in the column space of ``G``, and those
of graphs of later steps beside it, as far as weights have moved. Where a row ``x`` and its ``d`` each stand alone,
``c x (x) d`` can be taken out of ``G`` so that the rank falls exactly if ``c d' G+ x = 1`` (Wedderburn, 1934). A block
has ``d = D f``, with ``f`` the gradient at the graph's logits, so that its share of the nodes is ``B / (f' D' G+ x)``,
whatever the other graphs are.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from jgleak.attacks.attack import Clock
from jgleak.attacks.census.batches.choices import Choices, cheapest
from jgleak.attacks.census.batches.states import root_states
from jgleak.attacks.census.batches.upstream import own_upstreams
from jgleak.attacks.census.candidates import Levels
from jgleak.attacks.census.equations import Table
from jgleak.attacks.census.problem import CensusProblem
from jgleak.attacks.census.system import Rules
from jgleak.attacks.span.subspace import Subspace
from jgleak.gnn import GNN, Params
from jgleak.gnn.tree import at, put

NEAR = 0.03
"""How far from a whole number a count may be before the graph's own logits are known, relative to the count."""

CLEAN = 1e-3
"""The same once they are: its row and its ``d`` stand alone."""

ALONE = 0.5
"""Share of a graph's nodes whose counts have to be clean; the others' blocks may be those of other graphs too."""

SHARED = 6
"""How often a block may occur whose share is that of several graphs."""

TRIED = 4
"""Most choices of counts for one number of nodes."""

ROUNDS = 6
"""Shares give logits, and these the shares: rounds of that."""


class Counts(NamedTuple):
    """How many nodes of the first step's graph have each top block ``(K,)``, and its label."""

    blocks: Int[np.ndarray, " K"]
    label: int


class Roots(NamedTuple):
    """What the roots of top blocks are to the readout.

    Attributes:
      logits: ``(K, C)``.
      strength: ``D' G+ x`` of each ``(K, C)``.
      inside: the root's row lies in the span ``(K,)``.
      rows: those that enter the map, scaled ``(K, P)``.
      slopes: ``D`` of each ``(K, C, F)``.
    """

    logits: Float[np.ndarray, "K C"]
    strength: Float[np.ndarray, "K C"]
    inside: Bool[np.ndarray, " K"]
    rows: Float[np.ndarray, "K P"]
    slopes: Float[np.ndarray, "K C F"]


def first_counts(problem: CensusProblem, levels: Levels, clock: Clock) -> Iterator[Counts]:
    """What the graph of the first step may be, the smallest number of nodes first.

    Args:
      problem: the update, taken for the mean gradient of all graphs at the weights that the client got.
      levels: candidate blocks there.
      clock: ends the search.
    """
    head = Head.of(problem)
    roots = head.roots(problem, levels, clock)
    some = np.flatnonzero(np.zeros(0) if roots is None else roots.inside)
    if roots is None or not some.size:
        return
    rules, roots = Rules.of(levels.top, some), Roots(*(part[some] for part in roots))
    logits, strength = roots.logits, roots.strength
    for label in range(problem.observation.model.outputs):
        shares = np.full(some.size, 1.0 / some.size)
        for _ in range(ROUNDS):
            shares = _shares(problem, strength, shares @ logits / max(shares.sum(), 1e-300), label)
        for n in (n for sizes in problem.rounds[:1] for n in sizes):
            if clock.left <= 0:
                return
            for counts in cheapest(_allowed(n * shares), rules, TRIED, clock):
                if counts is None or counts.sum() != n or not rules.hold(counts, n):
                    continue
                own = n * _shares(problem, strength, counts @ logits / n, label)
                clean = np.abs(own - counts) <= CLEAN * counts
                enough = counts[clean].sum() >= ALONE * n
                if enough and head.falls(problem, roots, Counts(counts, label), int(np.sum(clean & (counts > 0)))):
                    whole = np.zeros(levels.top.size, np.int64)
                    whole[some] = counts
                    yield Counts(whole, label)
                    break


def _shares(
    problem: CensusProblem, strength: Float[np.ndarray, "k C"], logits: Float[np.ndarray, " C"], label: int
) -> Float[np.ndarray, " k"]:
    """The share of the nodes that each block has in a graph of these logits; 0 where it has none."""
    values = strength @ own_upstreams(problem.observation, logits)[label]
    shares = problem.observation.batch_size / np.where(values > 0, values, np.inf)
    return np.where(shares <= 1.0 + NEAR, shares, 0.0)


def _allowed(counts: Float[np.ndarray, " k"]) -> Choices:
    """Whole counts as they are; others may be of blocks that several graphs share, or that this one lacks."""
    whole = np.round(counts)
    near = (whole > 0) & (np.abs(counts - whole) <= NEAR * whole)
    free = {0: 0.0} | dict.fromkeys(range(1, SHARED + 1), 2.0)
    return [{int(count): 0.0, 0: 2.0} if clean else dict(free) for count, clean in zip(whole, near, strict=True)]


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
        span = Subspace.of_gradient(kernel)
        scaled = kernel / span.scale[:, None]
        return Head(span, scaled, *np.linalg.svd(scaled, full_matrices=False))

    def roots(self, problem: CensusProblem, levels: Levels, clock: Clock) -> Roots | None:
        """What is known of the roots of top blocks; None if time runs out."""
        model, params = problem.observation.model, problem.observation.params
        states = root_states(model, params, levels, clock)
        if states is None:
            return None
        rows = Table.of(levels.nodes).rows[levels.top.kinds]
        found = _at_first_map(model, params, _place(problem), rows, states.astype(np.float32))
        logits, slopes, entering = (np.asarray(part, np.float64) for part in found)
        scaled, rank = entering / self.span.scale, self.span.rank
        back = scaled @ self.left[:, :rank] / self.values[:rank] @ self.across[:rank]
        inside = self.span.distances(entering) <= self.span.tolerance
        return Roots(logits, np.einsum("kf,kcf->kc", back, slopes), inside, scaled, slopes)

    def falls(self, problem: CensusProblem, roots: Roots, found: Counts, clean: int) -> bool:
        """True where the rank falls by one for every clean block when the graph's part is taken out."""
        n, rank = found.blocks.sum(), self.span.rank
        if not 0 < rank < self.values.size or clean > rank:
            return False
        own = own_upstreams(problem.observation, found.blocks @ roots.logits / n)[found.label]
        weights = found.blocks / (n * problem.observation.batch_size)
        part = (roots.rows * weights[:, None]).T @ np.einsum("kcf,c->kf", roots.slopes, own)
        left = np.linalg.svd(self.gradient - part, compute_uv=False)
        return bool(left[rank - clean] <= np.sqrt(self.values[rank - 1] * self.values[rank]))


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
            return found[1][0]  # type: ignore[index]

        values, back = jax.vjp(logits, at(params, path))
        slopes = jax.vmap(lambda unit: back(unit)[0])(jnp.eye(values.size))
        bias, kernel = slopes["bias"], slopes["kernel"]
        weight = jnp.maximum(jnp.sum(bias**2), 1e-30)
        return values, bias, jnp.einsum("cpf,cf->p", kernel, bias, precision="highest") / weight

    return jax.vmap(one)(rows, states)
