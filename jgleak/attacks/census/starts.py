"""Feature vectors that a search begins with, and what it takes for granted by that."""

from __future__ import annotations

import dataclasses

import numpy as np
from jaxtyping import Bool

from jgleak.attacks.census.checks import ATTEMPTS, HIDDEN, Attempt
from jgleak.attacks.census.prior import PRIORS, resolved
from jgleak.attacks.census.problem import CensusProblem
from jgleak.attacks.facts.evidence import Evidence
from jgleak.attacks.facts.fact import Silent
from jgleak.attacks.facts.node_kinds import vectors
from jgleak.attacks.span.hops import Nodes
from jgleak.attacks.span.levels import with_degrees
from jgleak.federated.knowledge import Knowledge

OCCURRING = "nodes have the feature values whose rows of the first kernel's gradient are not those of absent values"
"""The condition of ``hidden``."""


@dataclasses.dataclass(frozen=True)
class Start:
    """Feature vectors to begin with.

    Attributes:
      nodes: the vectors.
      conditions: what was assumed to leave other vectors out.
      complete: nothing was left out for a budget or a prior.
      attempts: which checks their blocks have to pass.
    """

    nodes: Nodes
    conditions: tuple[str, ...]
    complete: bool
    attempts: tuple[Attempt, ...] = ATTEMPTS

    def usual(self, knowledge: Knowledge) -> Start | None:
        """Those that the prior calls usual; None where that is all or nothing."""
        rule = PRIORS[resolved(knowledge.prior, knowledge.space)].usual
        mask = np.ones(self.nodes.degrees.size, bool) if rule is None else rule(self.nodes.codes, knowledge.space)
        if not mask.any() or mask.all():
            return None
        said = f"{np.sum(~mask)} of {mask.size} feature vectors are unusual: left out"
        kept = _part(self.nodes, mask)
        return dataclasses.replace(self, nodes=kept, conditions=(said, *self.conditions), complete=False)


def hidden(problem: CensusProblem) -> Start | None:
    """All feature vectors of the values that occur, for graphs whose adjacency hides the nodes' rows.

    A convolution's gradient is ``X^T S^T D``. Where the propagation matrix ``S`` is singular, as that of a GCN on
    acetoin or any other tree X2A-BX2, the span lacks a combination of the rows ``X``, and often every single one of
    them lies outside. Mixed rows ``S X`` stay inside: so blocks are checked by these, and nodes not at all. None where
    it does not show which values occur, or no convolution mixes.
    """
    observation, knowledge = problem.seen, problem.knowledge
    if knowledge.features is not None or knowledge.noise is not None or observation.model.returns_statistics:
        return None
    try:
        codes = vectors(Evidence(observation, knowledge.space))
    except Silent:
        return None
    nodes = with_degrees(observation, knowledge, codes, limits=problem.limits.span)
    return Start(nodes, (OCCURRING,), complete=True, attempts=HIDDEN) if nodes.degrees.size else None


def _part(nodes: Nodes, mask: Bool[np.ndarray, " T"]) -> Nodes:
    kept = {"codes": nodes.codes[mask], "rows": nodes.rows[mask], "degrees": nodes.degrees[mask]}
    return dataclasses.replace(nodes, **kept, certain=False)
