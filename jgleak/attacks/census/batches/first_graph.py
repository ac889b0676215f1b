"""Graphs of a client's first step, where every step saw some of the graphs: every graph of their counts."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import NamedTuple

import numpy as np
from jaxtyping import Int

from jgleak.attacks.attack import Budget, Clock, Reconstruction
from jgleak.attacks.census.assemble import CUT, AnonymitySet, Growing
from jgleak.attacks.census.batches.choices import cheapest
from jgleak.attacks.census.batches.first_kernel import Head
from jgleak.attacks.census.batches.kernel_weights import kernel_weights
from jgleak.attacks.census.batches.separate import Share, separated
from jgleak.attacks.census.batches.upstream import Upstream
from jgleak.attacks.census.candidates import CensusCandidates, Levels
from jgleak.attacks.census.certify import certify
from jgleak.attacks.census.problem import CensusProblem
from jgleak.attacks.census.system import Rules
from jgleak.attacks.census.unstated_degrees import degrees_assumed

STOOD_ALONE = "rows that enter the readout, and what flows back to them, are independent over the graphs of all steps"
"""A condition of the certificate of a graph that was found at the weights of its own step."""

ALTERNATIVES = 24
"""Most counts of one graph that only differ in blocks which are alike."""


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


def first_graphs(problem: CensusProblem, most: int, clock: Clock, budget: Budget) -> Iterator[list[FoundGraph]]:
    """What graphs of the first step may be, one to ``most`` of them, and those of the same gradients once.

    Args:
      problem: the update, taken for the mean gradient of all graphs at the weights that the client got.
      most: graphs of the first step.
      clock: ends the search.
      budget: bounds it.
    """
    tried = set[tuple[bytes, ...]]()
    for levels in CensusCandidates(problem, clock, budget).attempts(clock):
        if levels.top.size > problem.limits.blocks_counted:
            continue
        some = list[tuple[FoundGraph, tuple[bytes, ...]]]()
        for share in _first_shares(problem, most, levels, clock):
            found = share.smallest(clock)
            if found.graphs:
                one = FoundGraph(share.listed(found, clock), partial(share.of_all_sizes, found))
                some += [(one, tuple(sorted(part for form in found.forms for part in form)))] * share.share.copies
        forms = tuple(sorted(part for _, form in some[:most] for part in form))
        if some and forms not in tried:
            tried.add(forms)
            yield [one for one, _ in some[:most]]


def _first_shares(problem: CensusProblem, most: int, levels: Levels, clock: Clock) -> Iterator[_GraphsOfShare]:
    """How many nodes of each graph of the first step have each top block, as far as the candidates show it."""
    head = Head.of(problem, most)
    roots = head.roots(problem, levels, clock)
    if roots is None:
        return
    weights = kernel_weights(head, roots, Upstream.of(problem.observation), clock)
    if weights is None:
        return
    for share in separated(problem, levels, weights, clock):
        if head.lacks(problem, roots, share.counts, share.label, share.copies):
            yield _GraphsOfShare(problem, levels, share, weights.alike)


class _GraphsOfShare(NamedTuple):
    """A share of the first step, and what its graphs may be.

    Attributes:
      problem: that of the step.
      levels: its candidates.
      share: of one graph.
      alike: of blocks of one name only their counts together are known ``(K,)``.
    """

    problem: CensusProblem
    levels: Levels
    share: Share
    alike: Int[np.ndarray, " K"]

    def smallest(self, clock: Clock) -> AnonymitySet:
        """The graphs with the fewest nodes."""
        found = AnonymitySet()
        for times in self._multiples():  # those of a cover are whole too
            if found.graphs or clock.left <= 0:
                break
            found = self._sized(times, found, clock)
        return found

    def of_all_sizes(self, found: AnonymitySet, clock: Clock) -> Reconstruction:
        """The list with larger graphs than those that were found, within some time."""
        known = found.graphs[0].graph.n
        for times in self._multiples():
            if clock.left <= 0:
                break
            if times * int(self.share.counts.sum()) > known:
                found = self._sized(times, found, clock)
        return self.listed(found, clock)

    def listed(self, found: AnonymitySet, clock: Clock) -> Reconstruction:
        """The graphs, the likeliest first."""
        degrees = degrees_assumed(self.problem.knowledge, self.levels, self.problem.limits.span)
        largest = max(one.graph.n for one in found.graphs)
        made = certify(self.problem, (*self.levels.conditions, *degrees, STOOD_ALONE), found, largest, clock)
        return Reconstruction(made.graphs, made.distance, "match", certificate=made.certificate)

    def _multiples(self) -> Iterator[int]:
        """How often a graph may have these counts, by the numbers of nodes that it may have."""
        nodes, sizes = int(self.share.counts.sum()), self.problem.rounds[0]
        return (times for times in range(1, sizes[-1] // nodes + 1) if times * nodes in sizes)

    def _sized(self, times: int, found: AnonymitySet, clock: Clock) -> AnonymitySet:
        """The graphs with so many times these counts, beside those that are known."""
        growing = Growing(self.problem, self.levels, clock, told=(0.0, self.share.label))
        for counts in self._ways(times, clock):
            if growing.ended(found):
                break
            found = found.joined(growing.every(found, counts, self.problem.limits.partial_graphs))
        return found.joined(CUT)

    def _ways(self, times: int, clock: Clock) -> Iterator[Int[np.ndarray, " K"]]:
        """The counts, and others that only differ in blocks that are alike."""
        counts = times * self.share.counts
        yield counts
        some = np.flatnonzero(np.isin(self.alike, self.alike[counts > 0]))
        names, alike = np.unique(self.alike[some], return_inverse=True)
        if names.size == some.size:
            return
        allowed = [{int(total): 0.0} for total in np.bincount(alike, counts[some])]
        for few in cheapest(allowed, alike, Rules.of(self.levels.top, some), ALTERNATIVES, clock):
            if few is not None and not np.array_equal(few, counts[some]):
                other = np.zeros_like(counts)
                other[some] = few
                yield other
