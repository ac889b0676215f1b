"""Feature vectors that a search begins with, and what it assumes by them."""

from __future__ import annotations

import dataclasses
from itertools import combinations_with_replacement
from math import comb

import numpy as np
from jaxtyping import Bool

from jgleak.attacks.census.checks import ATTEMPTS, SPARSE, Attempt
from jgleak.attacks.census.prior import PRIORS, resolved
from jgleak.attacks.span.hops import Nodes
from jgleak.federated.knowledge import Knowledge


@dataclasses.dataclass(frozen=True)
class Start:
    """Feature vectors to begin with.

    Attributes:
      nodes: the vectors.
      conditions: what was assumed to leave other vectors out.
      complete: nothing was left out for a budget or a prior.
      attempts: which checks their blocks have to pass.
      some_degrees: features state no degree, and not all possible degrees are tried; ``conditions`` state which.
    """

    nodes: Nodes
    conditions: tuple[str, ...]
    complete: bool
    attempts: tuple[Attempt, ...] = ATTEMPTS
    some_degrees: bool = False

    def usual(self, knowledge: Knowledge) -> Start | None:
        """The vectors that are usual by the prior; None where all are, or none is."""
        rule = PRIORS[resolved(knowledge.prior, knowledge.space)].usual
        mask = np.ones(self.nodes.degrees.size, bool) if rule is None else rule(self.nodes.codes, knowledge.space)
        if not mask.any() or mask.all():
            return None
        said = f"none of {np.sum(~mask)} unusual feature vectors (of {mask.size}) occurs"
        kept = _part(self.nodes, mask)
        return dataclasses.replace(self, nodes=kept, conditions=(said, *self.conditions), complete=False)

    def sparse(self, few: int) -> Start | None:
        """The vectors with at most ``few`` neighbours; None where all have, or none has."""
        mask = self.nodes.degrees <= few
        if not mask.any() or mask.all():
            return None
        said = f"no node has more than {few} neighbours (more were tried only after that)"
        return self._partly(_part(self.nodes, mask), said)

    def scattered(self, few: int, most: int) -> Start | None:
        """Neighbourhoods with at most one node of more than ``few`` neighbours; None where all nodes have more, or none
        has, or there are more than ``most``."""
        degrees, classes = self.nodes.degrees.tolist(), self.nodes.classes
        fewer, more = ([t for t, degree in enumerate(degrees) if (degree <= few) == wanted] for wanted in (True, False))
        usual, hubs = ([classes * t + k for t in part if degrees[t] for k in range(classes)] for part in (fewer, more))
        beside = tuple((hub,) for hub in hubs)
        plans = [(t, degrees[t], ((),)) for t in (*fewer, *more)]
        plans += [(t, degrees[t] - 1, beside) for t in fewer if degrees[t]]
        number = sum(comb(len(usual) + free - 1, free) * len(held) if free else len(held) for _, free, held in plans)
        if not usual or not hubs or number > most:
            return None
        listed = tuple(
            (t, tuple(sorted((*one, *others))))
            for t, free, held in plans
            for one in held
            for others in combinations_with_replacement(usual, free)
        )
        said = f"of a node and its neighbours at most one has more than {few} neighbours"
        nodes = dataclasses.replace(self.nodes, certain=False, listed=listed)
        return self._partly(nodes, f"{said}, and none more than {max(degrees)} (more were tried only after that)")

    def _partly(self, nodes: Nodes, said: str) -> Start:
        conditions = (*self.conditions, said)
        return dataclasses.replace(
            self, nodes=nodes, conditions=conditions, complete=False, attempts=SPARSE, some_degrees=True
        )


def _part(nodes: Nodes, mask: Bool[np.ndarray, " T"]) -> Nodes:
    kept = {"codes": nodes.codes[mask], "rows": nodes.rows[mask], "degrees": nodes.degrees[mask]}
    return dataclasses.replace(nodes, **kept, certain=False)
