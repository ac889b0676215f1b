"""Graphs of a client's first step, where every step saw some of the graphs and the readout pools.

All pooled rows and all that flows back behind the first map follow from units that stay dark (``dark``), whatever the
weights of each step were. Only of the first step these are known: there what flows back to a graph is what its row and
a label give at them, and that of later steps is off by as much as weights have moved.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from jaxtyping import Float

from jgleak.attacks.attack import Budget, Clock
from jgleak.attacks.census.batches import dark
from jgleak.attacks.census.batches.answers import certified
from jgleak.attacks.census.batches.first_graph import FoundGraph
from jgleak.attacks.census.batches.head import HeadGradient
from jgleak.attacks.census.batches.members import Member, taken
from jgleak.attacks.census.batches.parts import parts_of
from jgleak.attacks.census.batches.states import root_states
from jgleak.attacks.census.candidates import CensusCandidates
from jgleak.attacks.census.problem import CensusProblem

FITS = 1e-4
"""How far what flows back to a graph of the first step is from what its row gives, at most, relative to it."""


def first_pooled(problem: CensusProblem, most: int, clock: Clock, budget: Budget) -> Iterator[list[FoundGraph]]:
    """What graphs of the first step may be, one to ``most`` of them; more of them with later candidates.

    Args:
      problem: the update, taken for the mean gradient of all graphs at the weights that the client got.
      most: graphs of the first step.
      clock: ends the search.
      budget: bounds it.
    """
    head = HeadGradient.of(problem.observation)
    rows = dark.pooled_rows(head, clock.part(problem.limits.hop_share))
    if rows is None:
        return
    parts = parts_of(head, _of_first_step(head, rows, most))
    members, known = [Member.of(problem, part) for part in parts], 0
    for levels in CensusCandidates(problem, clock, budget).attempts(clock) if members else ():
        states = root_states(problem.observation.model, problem.observation.params, levels, clock)
        if states is None:
            return
        for place, member in enumerate(members):
            if not member.found.graphs:
                members[place] = taken(member, levels, states, clock.part(1.0 / (len(members) - place + 1)))
        found = [one for one in members if one.found.graphs]
        if len(found) > known:
            known = len(found)
            answers = [FoundGraph.only(answer) for one in found for answer in certified(problem, one, clock)]
            yield answers[:most]
        if known == len(members):
            return


def _of_first_step(head: HeadGradient, rows: Float[np.ndarray, "k P"], most: int) -> Float[np.ndarray, "j P"]:
    """The rows whose gradients the weights of the first step explain, the best ``most``."""
    off = head.explained(rows)[1]
    best = np.argsort(off)[:most]
    return rows[best[off[best] <= FITS]]
