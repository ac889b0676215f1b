"""The census of one graph: its searches, one after another, until one of them finds graphs."""

from __future__ import annotations

from functools import cached_property
from typing import Any

from jgleak.attacks.attack import Budget, Clock, Reconstruction
from jgleak.attacks.census.answer import Answer, beside, certified
from jgleak.attacks.census.attempted import Attempted, counted
from jgleak.attacks.census.candidates import CensusCandidates
from jgleak.attacks.census.distinct import DROPPED, distinct, unused
from jgleak.attacks.census.enumerate import may_be_small
from jgleak.attacks.census.fewer_conditions import taken_again
from jgleak.attacks.census.problem import CensusProblem
from jgleak.attacks.census.row_rank import unspanned
from jgleak.attacks.census.search import searchable
from jgleak.attacks.census.unstated_degrees import degrees_assumed, degrees_unstated
from jgleak.attacks.census.without_counts import random_search, small_graphs
from jgleak.attacks.closed_form.propositions import ConditionFailed
from jgleak.attacks.span.nodes import TooManyCandidates


def of_one_graph(
    problem: CensusProblem, budget: Budget, clock: Clock, whole: Clock, info: dict[str, Any]
) -> Reconstruction:
    """The graphs that have the update, as far as the searches find them.

    Args:
      problem: the update of one graph and what is known.
      budget: bounds every search.
      clock: ends the searches.
      whole: ends the comparison of what is found with the update.
      info: what is told already; the searches add to it.
    """
    return _OneGraph(problem, budget, clock, whole, info).reconstructed()


class _OneGraph:
    """The searches, and what they leave to the next.

    Attributes:
      info: what was examined, for ``Reconstruction.info``.
      settled: an open list of graphs whose nodes all differ, beside which graphs are counted as if they need not.
      unsolved: attempts that explained the update and gave no graph, with all feature vectors.
      stop: why there is no graph: what the last attempt lacked, or that there was none.
    """

    def __init__(
        self, problem: CensusProblem, budget: Budget, clock: Clock, whole: Clock, info: dict[str, Any]
    ) -> None:
        self.problem, self.budget, self.clock, self.whole, self.info = problem, budget, clock, whole, info
        self.counting = clock.part(problem.limits.counting_share) if searchable(problem) else clock
        self.settled: Answer | None = None
        self.unsolved: list[Attempted] = []
        self.stop = "no candidates"

    @cached_property
    def candidates(self) -> CensusCandidates:
        """Candidate blocks; the clock of counting ends them."""
        return CensusCandidates(self.problem, self.counting, self.budget)

    @cached_property
    def small(self) -> bool:
        """The graph may be so small that all graphs of its size are enumerated. Not after several local steps, where
        gradients are not compared many at a time."""
        starts = () if self.problem.several else self.candidates.enumerable
        return any(may_be_small(self.problem, start.nodes) for start in starts)

    def reconstructed(self) -> Reconstruction:
        """The first answer, or what ended the searches."""
        try:
            answer = self._answer()
        except (TooManyCandidates, ConditionFailed) as error:
            answer, self.stop, self.info["reason"] = None, "no information", str(error)
        if answer is None and self.settled is not None:
            self.info.pop("reason", None)  # it says why nothing was found
            answer = self.settled._replace(late=self.clock.left <= 0)
        if answer is not None:
            return certified(self.problem, answer, self.info, self.whole)
        info = {**self.problem.arithmetic.reason(self.stop), **self.info, "seconds": self.clock.elapsed}
        return Reconstruction((), None, "time" if self.clock.left <= 0 else self.stop, info=info)

    def _answer(self) -> Answer | None:
        """The answer of the first search that finds graphs, beside the settled ones."""
        for search in (self._distinct, self._counted, self._small, self._random):
            answer = search()
            if answer is not None and answer.found.graphs:
                return answer if self.settled is None else beside(self.settled, answer)
        if not self.info["attempts"] and self.candidates.too_many:
            raise TooManyCandidates(self.candidates.too_many)
        self._explain()
        return None

    def _distinct(self) -> Answer | None:
        """Graphs whose nodes all differ, where that is known. An open list is set aside."""
        problem, candidates = self.problem, self.candidates
        if not problem.knowledge.distinct_nodes:
            return None
        clock = self.counting.part(problem.limits.distinct_share)
        conditions, found = distinct(problem, candidates, clock, self.budget)
        if not found.graphs:
            self.info["notes"] = [unused(problem, candidates) or DROPPED]
            return None
        most = max((problem.most_nodes, *(one.graph.n for one in found.graphs)))
        answer = Answer(conditions, found, most)
        if found.exhausted:
            return answer
        self.settled = answer
        return None

    def _counted(self) -> Answer | None:
        """Graphs of counted blocks. The checks of the blocks are weakened until there are any."""
        problem, candidates, counting = self.problem, self.candidates, self.counting
        early = counting.part(1.0 - problem.limits.enumeration_share) if self.small else counting
        for number, levels in enumerate(candidates.attempts(early), start=1):
            attempted = counted(problem, levels, early)
            late, candidates.hurried = early.left <= 0 or candidates.hurried, False
            if attempted.found.graphs:
                attempted = taken_again(problem, candidates, attempted, counting)
            self.info |= {"attempts": number, "candidates": candidates.checked, **attempted.facts}
            if attempted.found.graphs:
                degrees = degrees_assumed(problem.knowledge, attempted.levels, problem.limits.span)
                conditions, late = (*attempted.levels.conditions, *degrees), late or counting.left <= 0
                return Answer(conditions, attempted.found, attempted.most, late, again=candidates.hurried)
            self.stop = "nothing assembled" if attempted.explained else "missing blocks"
            if attempted.explained and attempted.levels.nodes is candidates.start.nodes:
                self.unsolved.append(attempted)
        return None

    def _small(self) -> Answer | None:
        """All small graphs."""
        if not self.small:
            return None
        answer, facts = small_graphs(self.problem, self.candidates, self.clock, self.unsolved)
        self.info |= facts
        return answer._replace(late=self.clock.left <= 0)

    def _random(self) -> Answer | None:
        """Graphs that a random search finds."""
        if not searchable(self.problem):
            return None
        answer, facts = random_search(self.problem, self.candidates, self.clock)
        self.info |= facts
        return answer._replace(late=self.clock.left <= 0)

    def _explain(self) -> None:
        """Why nothing was found, where it is known."""
        problem, candidates = self.problem, self.candidates
        lacking = unspanned(problem, candidates.start.nodes)
        if lacking is not None:
            self.info["reason"] = lacking
        elif candidates.given_up and self.stop != "nothing assembled":
            self.info["reason"] = candidates.given_up[0]
        elif problem.knowledge.space.degree is None and problem.knowledge.noise is None:
            self.info["reason"] = degrees_unstated(problem.knowledge, problem.limits)
