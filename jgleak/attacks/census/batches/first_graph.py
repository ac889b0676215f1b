"""The graph of a client's first step, where every step saw one graph: every graph of its counts."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import NamedTuple

import numpy as np

from jgleak.attacks.attack import Budget, Clock, Reconstruction
from jgleak.attacks.census.assemble import CUT, AnonymitySet, Growing
from jgleak.attacks.census.batches.first_kernel import Counts
from jgleak.attacks.census.batches.first_step import first_counts
from jgleak.attacks.census.candidates import CensusCandidates, Levels
from jgleak.attacks.census.certify import certify
from jgleak.attacks.census.problem import CensusProblem
from jgleak.attacks.census.unstated_degrees import degrees_assumed

STOOD_ALONE = "rows that enter the readout, and what flows back to them, are independent over the graphs of all steps"
"""A condition of the certificate of a graph that was found at the weights of its own step."""


class FoundGraph(NamedTuple):
    """What one graph of several may be.

    Attributes:
      answer: the graphs of one number of nodes, the smallest: the others' gradients are no different.
      of_all_sizes: the graphs of every number of nodes, as far as time allows. Under a mean, covers have the same
        gradient.
    """

    answer: Reconstruction
    of_all_sizes: Callable[[Clock], Reconstruction]

    @staticmethod
    def only(answer: Reconstruction) -> FoundGraph:
        """A graph whose answer has all sizes."""
        return FoundGraph(answer, lambda _: answer)


def first_graphs(problem: CensusProblem, clock: Clock, budget: Budget) -> Iterator[FoundGraph]:
    """What the graph of the first step may be (``first_counts``), those of one gradient once."""
    tried = set[tuple[bytes, ...]]()
    for levels in CensusCandidates(problem, clock, budget).attempts(clock):
        if levels.top.size > problem.limits.blocks_counted:
            continue
        for counts in first_counts(problem, levels, clock):
            growing = Growing(problem, levels, clock, told=(0.0, counts.label))
            own = int(np.gcd.reduce(counts.blocks))
            shares, found = Counts(counts.blocks // own, counts.label), AnonymitySet()
            for times in _multiples(problem, shares):  # those of a cover are whole too, and may be met first
                found = _sized(growing, shares, times, found)
                if found.graphs or times >= own:
                    break
            forms = tuple(sorted(part for form in found.forms for part in form))
            if found.graphs and forms not in tried:
                tried.add(forms)
                answer = _listed(problem, levels, found, clock)
                yield FoundGraph(answer, partial(_of_all_sizes, problem, levels, found, shares))


def _multiples(problem: CensusProblem, shares: Counts) -> Iterator[int]:
    """How often a graph may have these counts, by the numbers of nodes that it may have."""
    nodes, sizes = int(shares.blocks.sum()), problem.rounds[0]
    return (times for times in range(1, sizes[-1] // nodes + 1) if times * nodes in sizes)


def _sized(growing: Growing, counts: Counts, times: int, found: AnonymitySet) -> AnonymitySet:
    """The graphs with so many times these counts, beside those that are known."""
    more = growing.every(found, times * counts.blocks, growing.problem.limits.partial_graphs)
    return found.joined(more).joined(CUT)


def _of_all_sizes(
    problem: CensusProblem, levels: Levels, found: AnonymitySet, shares: Counts, clock: Clock
) -> Reconstruction:
    growing, known = Growing(problem, levels, clock, told=(0.0, shares.label)), found.graphs[0].graph.n
    for times in _multiples(problem, shares):
        if growing.ended(found):
            break
        if times * int(shares.blocks.sum()) > known:
            found = _sized(growing, shares, times, found)
    return _listed(problem, levels, found, clock)


def _listed(problem: CensusProblem, levels: Levels, found: AnonymitySet, clock: Clock) -> Reconstruction:
    """The graphs, the likeliest first."""
    degrees = degrees_assumed(problem.knowledge, levels, problem.limits.span)
    largest = max(one.graph.n for one in found.graphs)
    made = certify(problem, (*levels.conditions, *degrees, STOOD_ALONE), found, largest, clock)
    return Reconstruction(made.graphs, made.distance, "match", certificate=made.certificate)
