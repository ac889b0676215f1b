"""The node filter: every feature vector of the schema that lies in a span of input rows."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np
from jaxtyping import Float, Int

from jgleak.attacks.attack import Clock
from jgleak.attacks.span.settings import LIMITS, SpanLimits
from jgleak.attacks.span.subspace import Subspace
from jgleak.features import FeatureSpace

FEWER = "give a schema with only the values that occur in public data (--features FILE)"
"""What to do about too many feature vectors."""


class TooManyCandidates(Exception):
    """The span is too weak to hold the number of partial candidates within the budget."""


@dataclasses.dataclass(frozen=True)
class _FeatureGroup:
    """A free feature with the features it determines: their columns, and the scaled column values of each choice."""

    columns: Int[np.ndarray, " w"]
    values: Float[np.ndarray, "k w"]
    codes: Int[np.ndarray, "k G"]


def passing_nodes(
    space: FeatureSpace, subspace: Subspace, *, clock: Clock | None = None, limits: SpanLimits = LIMITS
) -> Int[np.ndarray, "T G"]:
    """All feature vectors whose encoded row lies in ``subspace`` (GRAIN, Algorithm 6), as codes ``(T, G)``.

    Features are added one by one. After each, the columns seen so far satisfy linear relations wherever the span,
    restricted to them, does not fill the space; partial vectors that break one are dropped. Relations found earlier
    stay valid, so each step looks at the new ones only, and a candidate's residual is a sum over one small table a
    feature. The next feature is the one that brings the most new relations for its number of values.

    Differs from the authors' code: the order is chosen, not the schema's, and a partial check is made as soon as the
    *rank* allows one (theirs waits until the number of columns exceeds the rank).

    Under noise a relation is not broken but off by a normal number whose deviation depends on the whole row (see
    ``Subspace``). For a partial vector that deviation is at most the one of the features seen, plus the largest that
    each other feature can add. All relations so far are tested together, since that bound shrinks from step to step.

    Raises:
      TooManyCandidates: too many partial vectors survive, or ``clock`` ran out: the span says too little.
    """
    if not subspace.informative:
        raise TooManyCandidates(f"the input gradient says nothing about nodes: {subspace.fault}")
    groups = _groups(space, subspace)
    partial = _Partial.empty(len(space.features))
    while groups:
        groups.sort(key=lambda g: _value(g, partial.picked, subspace), reverse=True)
        group, groups = groups[0], groups[1:]
        number = partial.codes.shape[0] * group.values.shape[0]
        if clock is not None and clock.left <= 0:
            raise TooManyCandidates(f"time ran out with {partial.codes.shape[0]} partial feature vectors")
        if number > limits.partial_checks:
            raise TooManyCandidates(f"{number} partial feature vectors to check: {FEWER}")
        partial = _extended(partial, group, groups, subspace)
        if partial.codes.shape[0] > limits.partial_rows:
            raise TooManyCandidates(f"{partial.codes.shape[0]} partial feature vectors survive the span check: {FEWER}")
    codes = partial.codes
    keep = np.array([], bool) if not codes.size else subspace.distances(space.encode(codes)) <= subspace.tolerance
    return codes[keep]


@dataclasses.dataclass(frozen=True)
class _Partial:
    """Partial feature vectors that survived: codes, choices of each feature picked, and the relations tested so far."""

    picked: tuple[_FeatureGroup, ...]
    codes: Int[np.ndarray, "T G"]
    choices: Int[np.ndarray, "T p"]
    seen: Float[np.ndarray, "s a"]
    residuals: Float[np.ndarray, " T"]

    @staticmethod
    def empty(features: int) -> _Partial:
        """Nothing chosen."""
        codes, choices = np.zeros((1, features), np.int32), np.zeros((1, 0), np.int64)
        return _Partial((), codes, choices, np.zeros((0, 0)), np.zeros(1))


def _extended(partial: _Partial, group: _FeatureGroup, left: list[_FeatureGroup], subspace: Subspace) -> _Partial:
    """The vectors with every value of one more feature that the relations allow; ``left`` are the features after it."""
    margin, picked = subspace.margin, (*partial.picked, group)
    number = group.values.shape[0]
    old, new = np.divmod(np.arange(partial.codes.shape[0] * number), number)
    choices = np.c_[partial.choices[old], new]
    relations = _new_relations(picked, partial.seen, subspace)
    start, tables, lengths = 0, [], []
    for part in picked:
        stop = start + part.columns.size
        tables.append(part.values @ relations[start:stop])
        lengths.append(np.sum(part.values**2, axis=1)[:, None])
        start = stop
    size = np.sqrt(_added(lengths, choices)[:, 0])
    residual, noisy = margin.partial(
        partial.residuals[old],
        np.linalg.norm(_added(tables, choices), axis=1),
        partial.seen.shape[1] + relations.shape[1],
        lambda tilt: _deviations(picked, left, choices, subspace.basis, tilt),
    )
    keep = residual <= noisy + margin.tolerances.partial_margin * margin.share * size
    seen = np.c_[np.r_[partial.seen, np.zeros((group.columns.size, partial.seen.shape[1]))], relations]
    codes = (partial.codes[old] + group.codes[new])[keep]
    return _Partial(picked, codes, choices[keep], seen, residual[keep])


def _groups(space: FeatureSpace, subspace: Subspace) -> list[_FeatureGroup]:
    out = []
    for g, feature in enumerate(space.features):
        if feature.determined_by is not None:
            continue
        led = [h for h, f in enumerate(space.features) if f.determined_by == feature.name]
        choice = space.possible(g)
        codes = np.zeros((choice.size, len(space.features)), np.int32)
        codes[:, g] = choice
        for h in led:
            codes[:, h] = np.asarray(space.features[h].mapping)[choice]
        encoded = space.encode(codes).astype(np.float64) / subspace.scale
        spans = [np.arange(space.offsets[h], space.offsets[h] + space.features[h].columns) for h in (g, *led)]
        columns = np.concatenate(spans)
        columns = columns[np.any(encoded[:, columns] != 0.0, axis=0)]
        out.append(_FeatureGroup(columns, encoded[:, columns], codes))
    return out


def _added(tables: list[Float[np.ndarray, "_k b"]], choices: Int[np.ndarray, "T p"]) -> Float[np.ndarray, "T b"]:
    """The sum over features of the rows chosen."""
    total = np.zeros((choices.shape[0], tables[0].shape[1]))
    for place, table in enumerate(tables):
        total += table[choices[:, place]]
    return total


def _deviations(
    picked: Sequence[_FeatureGroup],
    left: Sequence[_FeatureGroup],
    choices: Int[np.ndarray, "T p"],
    basis: Float[np.ndarray, "d r"],
    tilt: Float[np.ndarray, " r"],
) -> Float[np.ndarray, " T"]:
    """The largest deviation that noise gives a relation in any whole vector that a partial one may become."""
    parts = [(group.values @ basis[group.columns]) * tilt for group in [*picked, *left]]
    known = np.linalg.norm(_added(parts[: len(picked)], choices), axis=1)
    return known + sum(float(np.linalg.norm(part, axis=1).max()) for part in parts[len(picked) :])


def _value(group: _FeatureGroup, picked: Sequence[_FeatureGroup], subspace: Subspace) -> float:
    """Relations that a group would bring, per factor by which it multiplies the candidates."""
    before = np.concatenate([p.columns for p in picked]) if picked else np.zeros(0, int)
    after = np.concatenate([before, group.columns])
    rank = (_rank(subspace.basis[before], subspace), _rank(subspace.basis[after], subspace))
    gained = group.columns.size - (rank[1] - rank[0])
    return (gained + 1e-3) / np.log2(group.values.shape[0] + 1.0)


def _rank(rows: Float[np.ndarray, "c r"], subspace: Subspace) -> int:
    return int(np.sum(np.linalg.svd(rows, compute_uv=False) > _nothing(subspace)))


def _nothing(subspace: Subspace) -> float:
    """Singular values below this show no dimension. Under noise every relation is one of the space seen, exactly."""
    return subspace.margin.tolerances.relation_floor * subspace.margin.share


def _new_relations(
    picked: Sequence[_FeatureGroup], seen: Float[np.ndarray, "s a"], subspace: Subspace
) -> Float[np.ndarray, "c b"]:
    """Orthonormal relations over all columns picked, orthogonal to those already used."""
    columns = np.concatenate([p.columns for p in picked])
    padded = np.r_[seen, np.zeros((columns.size - seen.shape[0], seen.shape[1]))]
    rows = np.c_[subspace.basis[columns], padded]
    left, values, _ = np.linalg.svd(rows)
    rank = int(np.sum(values > _nothing(subspace)))
    return left[:, rank:]
