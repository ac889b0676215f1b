"""How many different nodes there are at least, and which feature vectors the first gradient is made of."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Int

from jgleak.attacks.facts.evidence import Evidence
from jgleak.attacks.facts.fact import LINEAR, NOISE, Fact, Silent
from jgleak.attacks.facts.feature_values import feature_values, occurring
from jgleak.attacks.span.subspace import Subspace
from jgleak.features import FeatureSpace
from jgleak.plural import counted

MOST_VECTORS = 50_000
"""Most feature vectors that are looked through: a fact is there at once, or left to the attack."""

MOST_INSIDE = 100
"""Most of them in the span of which it is asked whether they are needed."""

TOLD = 3
"""Most vectors that a line tells; the fact's value has them all."""


def different_nodes(evidence: Evidence) -> Fact:
    """A number of different feature vectors, hence of nodes, that there are at least.

    The columns of ``X^T M`` lie in the span of the rows ``X``, so its rank is at most their number. And nodes with
    different values of a feature differ, which holds under every optimiser.

    Raises:
      Silent: neither can be read.
    """
    rank, values, reason, condition = 0, 0, Silent("nothing shows a node"), None
    try:
        rank = rank_of_rows(evidence)
    except Silent as error:
        reason = error
    under = LINEAR if evidence.noise is None else (*LINEAR, NOISE)
    try:
        fact = feature_values(evidence)
        values = max(len(found) for name, found in fact.value.items() if _onehot(evidence.space, name))
        under = fact.exact_under if values >= rank else under
        condition = fact.condition if values > rank else None
    except (Silent, ValueError):
        pass
    least = max(rank, values)
    if not least:
        raise reason
    line = f"at least {counted(least, 'different feature vector')}, so at least {counted(least, 'node')}"
    told = Fact("different_nodes", least, under, line)
    return told if condition is None else told.provided(condition)


def rank_of_rows(evidence: Evidence) -> int:
    """The rank of the first kernels' gradients, as far as it is certain.

    Raises:
      Silent: the update is not linear in the input rows, or its rank says nothing.
    """
    if evidence.noise is None and evidence.linear is None:
        raise Silent("the schema has no two features whose columns would show that the update is a plain gradient")
    rows = evidence.linear_rows()
    error = np.hstack([kernel.error for kernel in evidence.kernels])
    if evidence.noise is None:
        sizes = [max(float(np.linalg.norm(kernel.gradient)), 1e-300) for kernel in evidence.kernels]
        widths = [kernel.gradient.shape[1] for kernel in evidence.kernels]
        error = error / np.repeat(sizes, widths)
    rank = evidence.rank_at_least(rows, error)
    if rank >= min(rows.shape[1], int(np.any(rows, axis=1).sum()) - evidence.relations + 1):
        raise Silent("the first gradient has as many dimensions as it can have, which noise would do as well")
    return rank


def node_kinds(evidence: Evidence) -> Fact:
    """The feature vectors in the span of the first gradient, and those of them without which the others do not span it.

    That a needed vector occurs has a condition which does not show: different kinds of nodes have independent gradients
    in ``M``. Then their rows lie in the span of ``X^T M`` and span it. Where two kinds have the same gradient, a vector
    in the span may be a sum and difference of others. Nodes whose gradients vanish are not seen.

    Raises:
      Silent: the span is not that of the input rows, has no clear rank, or holds too many vectors.
    """
    space = evidence.space
    if any(feature.kind not in ("onehot", "binary") for feature in space.features if feature.determined_by is None):
        raise Silent("features that are neither one-hot nor binary have too many vectors to look through")
    if evidence.noise is not None:
        raise Silent("under noise a vector lies near the span or not, which is no proof")
    rank_of_rows(evidence)
    span = Subspace.of_gradient(evidence.linear_rows())
    if span.fault is not None:
        raise Silent(f"the first gradient says nothing about nodes: {span.fault}")
    codes = vectors(evidence)
    inside = codes[span.distances(space.encode(codes)) <= span.tolerance]
    if not span.rank <= inside.shape[0] <= MOST_INSIDE:
        raise Silent(f"{inside.shape[0]} vectors of the schema lie in a span of {span.rank} dimensions")
    kinds = [described(space, row) for row in inside]
    needed = np.flatnonzero(_needed(space.encode(inside).astype(np.float64) / span.scale, span.rank)).tolist()
    line = "if different nodes have independent gradients, "
    line += f"{counted(len(kinds), 'feature vector')} may occur, {_told(kinds, needed)}"
    value = {"dimensions": span.rank, "in_span": kinds, "needed": needed}
    return Fact("node_kinds", value, LINEAR, line)


def _told(kinds: list[dict[str, Any]], needed: list[int]) -> str:
    """The vectors that are needed in words, the first few by the features in which vectors differ."""
    if not needed:
        return "of which any may be missing"
    differ = [name for name in dict.fromkeys(itertools.chain(*kinds)) if len({kind.get(name) for kind in kinds}) > 1]
    said = [", ".join(f"{name} {kinds[k][name]}" for name in differ if name in kinds[k]) for k in needed[:TOLD]]
    more = [f"{len(needed) - TOLD} more (--json lists them)"] if len(needed) > TOLD else []
    which = "; ".join(filter(None, (*said, *more)))
    return f"of which {len(needed)} must{f': {which}' if which else ''}"


def vectors(evidence: Evidence, *, of_one_direction: bool = False) -> Int[np.ndarray, "k G"]:
    """All vectors of values that occur (``occurring``): another value is no part of a vector in the span.

    Raises:
      Silent: it is not known which occur, or they make too many.
    """
    space, found = evidence.space, occurring(evidence, of_one_direction=of_one_direction)
    choices = []
    for feature in space.features:
        if feature.determined_by is None:
            values = found.get(feature.name, [])
            codes = [feature.values.index(value) for value in values]
            choices.append([0, *codes] if feature.kind == "binary" else codes)
    number = math.prod(map(len, choices))
    if not 0 < number <= MOST_VECTORS:
        raise Silent(f"the values that occur make {number} vectors, of which {MOST_VECTORS} are looked through")
    rows = np.array(list(itertools.product(*choices)), np.int32)
    codes, free = np.zeros((number, len(space.features)), np.int32), 0
    for column, feature in enumerate(space.features):
        if feature.determined_by is None:
            codes[:, column], free = rows[:, free], free + 1
    for column, feature in enumerate(space.features):
        if feature.determined_by is not None:
            codes[:, column] = np.asarray(feature.mapping)[codes[:, space.index(feature.determined_by)]]
    return codes


def _needed(rows: Float[np.ndarray, "k d"], rank: int) -> Bool[np.ndarray, " k"]:
    """Rows without which the others have a smaller rank; none, where all of them do not have ``rank``."""

    def short(some: Float[np.ndarray, "k d"]) -> bool:
        values = np.linalg.svd(some, compute_uv=False)
        return some.shape[0] < rank or bool(values[rank - 1] <= 1e-6 * values[0])

    unit = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    if short(unit):
        return np.zeros(len(rows), bool)
    return np.array([short(np.delete(unit, row, axis=0)) for row in range(len(rows))])


def described(space: FeatureSpace, row: Int[np.ndarray, " G"]) -> dict[str, Any]:
    """A feature vector by the names and values of features that no other determines; binary ones where they are set."""
    return {
        feature.name: feature.values[int(code)]
        for feature, code in zip(space.features, row, strict=True)
        if feature.determined_by is None and (feature.kind != "binary" or code)
    }


def _onehot(space: FeatureSpace, name: str) -> bool:
    return space.features[space.index(name)].kind == "onehot"
