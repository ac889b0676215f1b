"""Feature vectors to begin with where a singular propagation matrix hides the nodes' rows.

A convolution's gradient is ``X^T S^T D``. Where ``S`` is singular, as for a GCN or a GIN on acetoin or any other tree
X2A-BX2, the span lacks a combination of the rows ``X``, and often every single row lies outside. Mixed rows ``S X``
stay inside, so blocks are checked by these, and nodes not at all. Mostly the span lacks one dimension. Then the parts
of all rows outside it are parallel, and few vectors have such a part.
"""

from __future__ import annotations

import dataclasses

import numpy as np
from jaxtyping import Bool, Int

from jgleak.attacks.attack import Clock
from jgleak.attacks.census.checks import HIDDEN
from jgleak.attacks.census.problem import CensusProblem
from jgleak.attacks.census.starts import Start
from jgleak.attacks.facts.evidence import Evidence
from jgleak.attacks.facts.fact import Silent
from jgleak.attacks.facts.feature_values import DISPROPORTIONATE
from jgleak.attacks.facts.node_kinds import vectors
from jgleak.attacks.span.hops import one_hop_count
from jgleak.attacks.span.levels import input_subspace, with_degrees
from jgleak.attacks.span.subspace import Subspace
from jgleak.features import FeatureSpace

OCCURRING = "every feature value that occurs shows in the first kernel's gradient"
"""The condition of all these vectors."""

PARALLEL = "the span of the first kernel's gradient lacks one dimension of the nodes' rows"
"""The condition of the vectors whose parts outside the span lie on one line."""

COMPARED = 1_024
"""Most vectors whose parts outside a span are compared, each with each."""


def hidden(problem: CensusProblem, clock: Clock) -> tuple[Start, ...]:
    """Vectors of the values that occur: all of them where they can be tried at once, or else the vectors of one line
    after another. Empty where the gradient does not show which values occur, or no convolution mixes. A pruned gradient
    has no lines, since its rows are not combinations of the nodes' rows.
    """
    observation, knowledge = problem.seen, problem.knowledge
    if knowledge.features is not None or knowledge.noise is not None:
        return ()
    codes, conditions = _vectors(Evidence(observation, knowledge.space))
    whole = _start(problem, codes, conditions)
    if not whole.nodes.degrees.size:
        return ()
    if one_hop_count(whole.nodes) <= problem.limits.span.whole_candidates:
        return (whole,)
    if observation.pruned:
        return ()
    span = input_subspace(observation, knowledge, problem.tolerances.span)
    groups = lines(codes, knowledge.space, span, clock)
    only = len(groups) == 1  # of several lines none excludes the graphs of another
    starts = [_start(problem, codes[group], (*conditions, PARALLEL), complete=only) for group in groups]
    return tuple(dataclasses.replace(start, nodes=dataclasses.replace(start.nodes, hidden=1)) for start in starts)


def lines(
    codes: Int[np.ndarray, "T G"], space: FeatureSpace, span: Subspace, clock: Clock
) -> list[Bool[np.ndarray, " T"]]:
    """Sets of vectors that may be all that occur if their rows span one dimension more than ``span``, the smallest
    first. In each set the parts outside ``span`` are parallel, the rows span that many dimensions, and every value that
    is shown to occur appears (of a binary feature only the 1, since no gradient shows a zero). A row of zeros lies on
    every line. Empty where time runs out before all lines are examined.
    """
    if not span.informative or codes.shape[0] > COMPARED:
        return []
    allowed = span.margin.tolerances
    shown = [
        (column, np.setdiff1d(codes[:, column], [0] if feature.kind == "binary" else []))
        for column, feature in enumerate(space.features)
        if feature.determined_by is None
    ]
    scaled = space.encode(codes).astype(np.float64) / span.scale
    length = np.linalg.norm(scaled, axis=1, keepdims=True)
    scaled /= np.where(length > 0, length, 1.0)
    outside = scaled - (scaled @ span.basis) @ span.basis.T
    size = np.linalg.norm(outside, axis=1)
    found, compared = list[Bool[np.ndarray, " T"]](), size <= allowed.outside_row
    for seed in np.argsort(-size).tolist():
        if compared[seed]:
            continue
        if clock.left <= 0:
            return []
        unit = outside[seed] / size[seed]
        off = np.linalg.norm(outside - np.outer(outside @ unit, unit), axis=1)
        group = off <= allowed.completed_margin * span.tolerance
        compared |= group
        every = all(np.isin(values, codes[group, column]).all() for column, values in shown)
        if every and np.linalg.matrix_rank(scaled[group], tol=allowed.same_row) == span.rank + 1:
            found.append(group)
    return sorted(found, key=np.count_nonzero)


def _vectors(evidence: Evidence) -> tuple[Int[np.ndarray, "T G"], tuple[str, ...]]:
    """All vectors of the values that occur, none where these do not show, and under which conditions.

    Mixed rows may all be multiples of one, and with them the gradient's rows of normalised columns: a GIN adds up to
    ``2 (x_A + x_X)`` and ``x_A + x_X`` on X2A-BX2 with ``A = B``.
    """
    for of_one_direction, conditions in ((False, (OCCURRING,)), (True, (OCCURRING, DISPROPORTIONATE))):
        try:
            return vectors(evidence, of_one_direction=of_one_direction), conditions
        except Silent:
            pass
    return np.zeros((0, len(evidence.space.features)), np.int32), ()


def _start(
    problem: CensusProblem, codes: Int[np.ndarray, "T G"], conditions: tuple[str, ...], *, complete: bool = True
) -> Start:
    limits = problem.limits.span
    nodes = with_degrees(problem.seen, problem.knowledge, codes, complete=complete, limits=limits)
    return Start(nodes, conditions, complete, attempts=HIDDEN)
