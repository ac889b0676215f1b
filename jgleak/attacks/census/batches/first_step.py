"""The graph of a client's first step, where every step saw one graph: how many of its nodes have each block.

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
from collections.abc import Iterator
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from jgleak.attacks.attack import Clock
from jgleak.attacks.census.batches.choices import Choices, cheapest
from jgleak.attacks.census.batches.states import root_states
from jgleak.attacks.census.batches.upstream import own_upstreams
from jgleak.attacks.census.candidates import Levels
from jgleak.attacks.census.equations import Table
from jgleak.attacks.census.problem import CensusProblem
from jgleak.attacks.census.system import Rules
from jgleak.attacks.span.settings import TOLERANCES
from jgleak.attacks.span.subspace import Subspace
from jgleak.gnn import GNN, Params
from jgleak.gnn.tree import at, put

FLOOR, RESIDUE = 2.0**-24, 1e-7
"""Singular values below this share of the largest are rounding: in the gradient, and, where the smallest real ones are
as faint, in what is left of it when the rounded rows of a graph were taken out."""

ROUNDED, WITHIN = 3e-6, 1e-3
"""Rows of the first graph are off by rounding alone, less than the first number, or, where a direction beside them is
too faint, by more, but less than the second; others by how far weights have moved."""

NEAR = 0.015
"""How far from a whole number a count may be before the graph's own logits are known, relative to the count."""

CLEAN = 2e-3
"""The same once they are, of a block whose row and ``d`` stand alone."""

ALONE = 0.5
"""Share of a graph's nodes that have such blocks; the others' may be those of other graphs too."""

SHARED, OFTEN = 2.0, 6
"""What it costs to say that graphs share a block, or that one lacks a block with a whole count; and how often a block
may occur that is shared."""

MOST = 8.0
"""Largest share of the nodes that is looked at: others may add to a shared block."""

TRIED = 6
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
      off: how far the root's row is from the span ``(K,)``.
      rows: those that enter the map, scaled ``(K, P)``.
      slopes: ``D`` of each ``(K, C, F)``.
    """

    logits: Float[np.ndarray, "K C"]
    strength: Float[np.ndarray, "K C"]
    off: Float[np.ndarray, " K"]
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
    every = head.roots(problem, levels, clock)
    if every is None:
        return
    some = np.flatnonzero(every.off <= WITHIN)
    if not some.size:
        return
    roots, rules = Roots(*(part[some] for part in every)), Rules.of(levels.top, some)
    for counts, label in _of_these(problem, head, roots, rules, clock):
        whole = np.zeros(levels.top.size, np.int64)
        whole[some] = counts
        yield Counts(whole, label)


def _of_these(problem: CensusProblem, head: Head, roots: Roots, rules: Rules, clock: Clock) -> Iterator[Counts]:
    """What the graph may be if it has no other blocks; those labels and numbers of nodes first in which most nodes have
    blocks with whole counts."""
    likely, sure = list[tuple[float, int, int, Float[np.ndarray, " k"]]](), roots.off <= ROUNDED
    for label in range(problem.observation.model.outputs):
        shares = sure.astype(np.float64)
        for _ in range(ROUNDS):
            mixed = np.where(sure, shares, 0.0)
            shares = _shares(problem, roots, mixed / max(float(mixed.sum()), 1e-300), label)
        for n in (n for sizes in problem.rounds[:1] for n in sizes):
            whole = np.round(n * shares)
            alone = whole[sure & (np.abs(n * shares - whole) <= NEAR * whole)].sum()
            if alone >= ALONE * n:  # else too few blocks would be this graph's alone
                likely.append((abs(1.0 - float(alone) / n), n, label, n * shares))
    for _, n, label, own in sorted(likely, key=lambda one: one[:3]):
        for counts in cheapest(_allowed(own, roots.off, NEAR), rules, TRIED, clock, n):
            if clock.left <= 0:
                return
            tried = [] if counts is None else _and_again(problem, roots, rules, Counts(counts, label), clock)
            better = next((one for one in tried if head.explains(problem, roots, one)), None)
            if better is not None:
                yield better
                break


def _and_again(problem: CensusProblem, roots: Roots, rules: Rules, found: Counts, clock: Clock) -> Iterator[Counts]:
    """The counts, and those that their own logits say are whole instead."""
    n = int(found.blocks.sum())
    for _ in range(ROUNDS):
        if not rules.hold(found.blocks, n):
            return
        yield found
        own = n * _shares(problem, roots, found.blocks / n, found.label)
        again = next(cheapest(_allowed(own, roots.off, CLEAN), rules, 1, clock, n), None)
        if again is None or np.array_equal(again, found.blocks):
            return
        found = Counts(again, found.label)


def _shares(
    problem: CensusProblem, roots: Roots, shares: Float[np.ndarray, " k"], label: int
) -> Float[np.ndarray, " k"]:
    """The share of the nodes that each block has in a graph whose logits are those of these shares; 0 where none."""
    values = roots.strength @ own_upstreams(problem.observation, shares @ roots.logits)[label]
    found = problem.observation.batch_size / np.where(values > 0, values, np.inf)
    return np.where(found <= MOST, found, 0.0)


def _allowed(counts: Float[np.ndarray, " k"], off: Float[np.ndarray, " k"], near: float) -> Choices:
    """Whole counts as they are. Others are of blocks that several graphs have, which add to them where their labels are
    the same, or of blocks that this one lacks, the likelier the farther their rows are from the span."""
    out, doubts = Choices(), np.clip(np.log10(np.maximum(off, ROUNDED) / ROUNDED), 0.0, SHARED)
    for count, doubt in zip(counts.tolist(), doubts.tolist(), strict=True):
        whole = round(count)
        if whole and abs(count - whole) <= near * whole:
            out.append({whole: doubt, 0: SHARED - doubt})
        else:
            out.append({0: 0.0} | {k: SHARED + doubt + 0.1 * min(abs(k - count), OFTEN) for k in range(1, OFTEN + 1)})
    return out


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
        model, params = problem.observation.model, problem.observation.params
        states = root_states(model, params, levels, clock)
        if states is None:
            return None
        rows = Table.of(levels.nodes).rows[levels.top.kinds]
        found = _at_first_map(model, params, _place(problem), rows, states.astype(np.float32))
        logits, slopes, entering = (np.asarray(part, np.float64) for part in found)
        scaled, rank = entering / self.span.scale, self.span.rank
        back = scaled @ self.left[:, :rank] / self.values[:rank] @ self.across[:rank]
        off = self.span.distances(entering)
        return Roots(logits, np.einsum("kf,kcf->kc", back, slopes), off, scaled, slopes)

    def explains(self, problem: CensusProblem, roots: Roots, found: Counts) -> bool:
        """True where most nodes have blocks of their own, and the rank falls by one for each of these blocks when the
        graph's part is taken out."""
        n, rank = int(found.blocks.sum()), self.span.rank
        own = n * _shares(problem, roots, found.blocks / n, found.label)
        clean = (found.blocks > 0) & (np.abs(own - found.blocks) <= CLEAN * found.blocks)
        fallen = int(clean.sum())
        if found.blocks[clean].sum() < ALONE * n or not fallen <= rank < self.values.size:
            return False
        slope = own_upstreams(problem.observation, found.blocks @ roots.logits / n)[found.label]
        weights = found.blocks / (n * problem.observation.batch_size)
        part = (roots.rows * weights[:, None]).T @ np.einsum("kcf,c->kf", roots.slopes, slope)
        left = np.linalg.svd(self.gradient - part, compute_uv=False)
        gap = np.sqrt(self.values[rank - 1] * self.values[rank])
        return bool(left[rank - fallen] <= max(RESIDUE * self.values[0], gap))


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
