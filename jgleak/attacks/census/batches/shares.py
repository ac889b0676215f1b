"""The graphs that one share of a batch's weights allows: its counts, and every multiple of them behind a mean."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

import numpy as np
from jaxtyping import Int

from jgleak.attacks.attack import Clock, Reconstruction
from jgleak.attacks.census.assemble import CUT, AnonymitySet, Growing
from jgleak.attacks.census.batches.factors import OFTEN
from jgleak.attacks.census.batches.separate import Share, separated
from jgleak.attacks.census.batches.weights import weights_along
from jgleak.attacks.census.candidates import Levels
from jgleak.attacks.census.certify import certify
from jgleak.attacks.census.problem import CensusProblem
from jgleak.attacks.census.system import Rules
from jgleak.attacks.census.unstated_degrees import degrees_assumed

ONE_EACH = (
    "the blocks that occur are the fewest whose weights explain the gradient, each a small whole number of times in a "
    f"graph, and in at most {len(OFTEN)} graphs"
)
"""A condition of a share's certificate, besides the census's own."""


def by_weights(problem: CensusProblem, levels: Levels, clock: Clock) -> Iterator[Reconstruction]:
    """The answers to graphs of a batch whose factors are found from the weights of the candidate blocks."""
    found = weights_along(problem, levels, clock)
    if found is None:
        return
    shares = separated(problem, levels, found, clock)
    everybody = sum(share.copies for share in shares) == problem.observation.batch_size
    for share in shares:
        graphs, most = _graphs(problem, levels, share, found.residual, clock)
        if not graphs.graphs:
            continue
        # a missing block may belong to a graph with a small gradient: all graphs have to be found
        whole = everybody and share.only and found.explained and not found.open[share.counts > 0].any()
        graphs = dataclasses.replace(graphs, exhausted=graphs.exhausted and whole and levels.complete)
        degrees = degrees_assumed(problem.knowledge, levels, problem.limits.span)
        made = certify(problem, (*levels.conditions, *degrees, ONE_EACH), graphs, most, clock)
        answer = Reconstruction(made.graphs, made.distance, "match", certificate=made.certificate)
        yield from [answer] * share.copies


def _graphs(
    problem: CensusProblem, levels: Levels, share: Share, residual: float, clock: Clock
) -> tuple[AnonymitySet, int]:
    """All connected graphs of the share's counts, and of their multiples up to the first bound on sizes."""
    most = max(problem.rounds[0][-1], int(share.counts.sum()))
    rules, found = Rules.of(levels.top, np.arange(levels.top.size)), AnonymitySet()
    growing = Growing(problem, levels, clock, told=(residual, share.label))
    for counts in _multiples(problem, share, most):
        if growing.ended(found):
            return found.joined(CUT), most
        if rules.hold(counts, int(counts.sum())):
            found = found.joined(growing.every(found, counts, problem.limits.partial_graphs))
    return found, most


def _multiples(problem: CensusProblem, share: Share, most: int) -> Iterator[Int[np.ndarray, " K"]]:
    """The counts, and behind a mean, where every multiple has the same gradient, theirs: of sizes that are possible."""
    nodes, n, largest = int(share.counts.sum()), problem.knowledge.n, problem.knowledge.max_n
    for times in range(1, 2 if problem.absolute else most // nodes + 1):
        if n in (None, times * nodes) and (largest is None or times * nodes <= largest):
            yield share.counts * times
