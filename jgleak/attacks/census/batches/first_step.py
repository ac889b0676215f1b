"""How many nodes of the first step's graph have each block, where every step saw one graph.

The gradient of the readout's first kernel shows the share of each block (``first_kernel``), exactly where the block is
this graph's alone. Whole numbers and the balances of edges decide the others.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from jaxtyping import Float

from jgleak.attacks.attack import Clock
from jgleak.attacks.census.batches.choices import Choices, cheapest
from jgleak.attacks.census.batches.first_kernel import (
    ALONE,
    CLEAN,
    ONE_PASS,
    WITHIN,
    Counts,
    Fitting,
    Head,
    Roots,
    exactness_of,
)
from jgleak.attacks.census.candidates import Levels
from jgleak.attacks.census.problem import CensusProblem
from jgleak.attacks.census.system import Rules

NEAR = 0.015
"""How far from a whole number a count may be before the graph's own logits are known, relative to the count."""

SHARED, OFTEN = 2.0, 6
"""What it costs to say that graphs share a block, or that one lacks a block with a whole count; and how often a block
may occur that is shared."""

TRIED = 8
"""Most choices of counts for one number of nodes."""

ROUNDS = 6
"""Shares give logits, and these the shares: rounds of that."""


def first_counts(problem: CensusProblem, levels: Levels, clock: Clock) -> Iterator[Counts]:
    """What the graph of the first step may be: those first most of whose counts are whole, then by what is left of the
    gradient without them.

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
    likely = list[tuple[float, int, int, Float[np.ndarray, " k"]]]()
    sure = roots.off <= exactness_of(problem).rows
    for label in range(problem.observation.model.outputs):
        shares = sure.astype(np.float64)
        for _ in range(ROUNDS):
            mixed = np.where(sure, shares, 0.0)
            shares = roots.told(problem.observation, mixed / max(float(mixed.sum()), 1e-300), label)
        for n in (n for sizes in problem.rounds[:1] for n in sizes):
            whole = np.round(n * shares)
            alone = whole[sure & (np.abs(n * shares - whole) <= NEAR * whole)].sum()
            if alone >= ALONE * n:  # else too few blocks would be this graph's alone
                likely.append((abs(1.0 - float(alone) / n), n, label, n * shares))
    for _, n, label, own in sorted(likely, key=lambda one: one[:3]):
        fitting = list[Fitting]()
        for counts in cheapest(_allowed(own, roots.off, NEAR), rules, TRIED, clock, n):
            tried = [] if counts is None else _and_again(problem, roots, rules, Counts(counts, label), clock)
            fitting += filter(None, (head.without(problem, roots, one) for one in tried))
            if clock.left <= 0 or any(one.alone for one in fitting):
                break
        told = set[bytes]()
        for one in sorted(fitting, key=lambda one: one.left):
            if one.counts.blocks.tobytes() not in told:
                told.add(one.counts.blocks.tobytes())
                yield one.counts
        if clock.left <= 0:
            return


def _and_again(problem: CensusProblem, roots: Roots, rules: Rules, found: Counts, clock: Clock) -> Iterator[Counts]:
    """The counts, and those that their own logits say are whole instead."""
    n = int(found.blocks.sum())
    for _ in range(ROUNDS):
        if not rules.hold(found.blocks, n):
            return
        yield found
        own = n * roots.told(problem.observation, found.blocks / n, found.label)
        again = next(cheapest(_allowed(own, roots.off, CLEAN), rules, 1, clock, n), None)
        if again is None or np.array_equal(again, found.blocks):
            return
        found = Counts(again, found.label)


def _allowed(counts: Float[np.ndarray, " k"], off: Float[np.ndarray, " k"], near: float) -> Choices:
    """Whole counts as they are. Others are of blocks that several graphs have, which add to them where their labels are
    the same, or of blocks that this one lacks, the likelier the farther their rows are from the span."""
    out, doubts = Choices(), np.clip(np.log10(np.maximum(off, ONE_PASS.rows) / ONE_PASS.rows), 0.0, SHARED)
    for count, doubt in zip(counts.tolist(), doubts.tolist(), strict=True):
        whole = round(count)
        if whole and abs(count - whole) <= near * whole:
            out.append({whole: doubt, 0: SHARED - doubt})
        else:
            out.append({0: 0.0} | {k: SHARED + doubt + 0.1 * min(abs(k - count), OFTEN) for k in range(1, OFTEN + 1)})
    return out
