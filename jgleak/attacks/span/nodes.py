"""The node filter: every feature vector of the schema that lies in a span of input rows."""

from __future__ import annotations

import dataclasses

import numpy as np
from jaxtyping import Float, Int

from jgleak.attacks.attack import Clock
from jgleak.attacks.noise import largest
from jgleak.attacks.span.subspace import ROUNDED, Subspace
from jgleak.features import FeatureSpace

SAFETY = 10.0
"""Partial rows are compared at this multiple of the tolerance: they are shorter than the whole row."""


class TooManyCandidates(Exception):
    """The span is too weak to hold the number of partial candidates within the budget."""


@dataclasses.dataclass(frozen=True)
class _FeatureGroup:
    """A free feature with the features it determines: their columns, and the scaled column values of each choice."""

    columns: Int[np.ndarray, " w"]
    values: Float[np.ndarray, "k w"]
    codes: Int[np.ndarray, "k G"]


def passing_nodes(
    space: FeatureSpace, subspace: Subspace, *, clock: Clock | None = None, most: int = 500_000
) -> Int[np.ndarray, "T G"]:
    """All feature vectors whose encoded row lies in ``subspace`` (GRAIN, Algorithm 6), as codes ``(T, G)``.

    Features are added one by one. After each, the columns seen so far satisfy linear relations wherever the span,
    restricted to them, does not fill the space; partial vectors that break one are dropped. Relations found earlier
    stay valid, so each step looks at the new ones only, and a candidate's residual is a sum over one small table a
    feature. The next feature is the one that brings the most new relations for its number of values.

    Differs from the authors' code: the order is chosen, not the schema's, and a partial check is made as soon as the
    *rank* allows one (theirs waits until the number of columns exceeds the rank).

    Under noise a relation is not broken but off by a normal number whose deviation depends on the whole row (see
    ``Subspace``). Of a partial vector it is at most what the features seen contribute, as a vector, and the most that
    each of the others can. All relations so far are tested together, since that bound shrinks from step to step.

    Raises:
      TooManyCandidates: more than ``most`` partial vectors survive, or ``clock`` ran out: the span says too little.
    """
    if not subspace.informative:
        if subspace.spread is not None:
            raise TooManyCandidates(f"the input gradient says nothing about nodes: {subspace.fault}")
        raise TooManyCandidates(
            "the first layer's gradient spans the whole input space (or nothing), so it says nothing about nodes"
        )
    groups = _groups(space, subspace)
    tolerance = subspace.tolerance
    picked: list[_FeatureGroup] = []
    codes = np.zeros((1, len(space.features)), np.int32)
    choices = np.zeros((1, 0), np.int64)
    seen: Float[np.ndarray, "s a"] = np.zeros((0, 0))
    broken = np.zeros(1)
    while groups:
        groups.sort(key=lambda g: _value(g, picked, subspace), reverse=True)
        group = groups.pop(0)
        picked.append(group)
        if clock is not None and clock.left <= 0:
            raise TooManyCandidates(f"time ran out with {codes.shape[0]} partial feature vectors")
        if codes.shape[0] * group.values.shape[0] > 20 * most:
            raise TooManyCandidates(f"{codes.shape[0] * group.values.shape[0]} partial feature vectors to check")
        old, new = np.divmod(np.arange(codes.shape[0] * group.values.shape[0]), group.values.shape[0])
        choices = np.c_[choices[old], new]
        relations = _new_relations(picked, seen, subspace)
        start, tables, lengths = 0, [], []
        for part in picked:
            stop = start + part.columns.size
            tables.append(part.values @ relations[start:stop])
            lengths.append(np.sum(part.values**2, axis=1)[:, None])
            start = stop
        size = np.sqrt(_added(lengths, choices)[:, 0])
        residual = np.linalg.norm(_added(tables, choices), axis=1)
        if subspace.spread is None:
            keep = residual <= SAFETY * tolerance * size
        else:
            residual = np.hypot(broken[old], residual)
            noisy = _noisy(picked, groups, choices, subspace) * largest(seen.shape[1] + relations.shape[1])
            keep = residual <= noisy + SAFETY * ROUNDED * size
            broken = residual[keep]
        codes = (codes[old] + group.codes[new])[keep]
        choices = choices[keep]
        seen = np.c_[np.r_[seen, np.zeros((group.columns.size, seen.shape[1]))], relations]
        if codes.shape[0] > most:
            raise TooManyCandidates(f"{codes.shape[0]} partial feature vectors survive the span check")
    keep = np.array([], bool) if not codes.size else subspace.distances(space.encode(codes)) <= tolerance
    return codes[keep]


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


def _noisy(
    picked: list[_FeatureGroup], left: list[_FeatureGroup], choices: Int[np.ndarray, "T p"], subspace: Subspace
) -> Float[np.ndarray, " T"]:
    """The largest deviation that noise gives a relation in any whole vector that a partial one may become."""
    assert subspace.spread is not None
    tilt = subspace.spread / largest(subspace.ambient - subspace.rank)
    parts = [(group.values @ subspace.basis[group.columns]) * tilt for group in [*picked, *left]]
    known = np.linalg.norm(_added(parts[: len(picked)], choices), axis=1)
    return known + sum(float(np.linalg.norm(part, axis=1).max()) for part in parts[len(picked) :])


def _value(group: _FeatureGroup, picked: list[_FeatureGroup], subspace: Subspace) -> float:
    """Relations that a group would bring, per factor by which it multiplies the candidates."""
    before = np.concatenate([p.columns for p in picked]) if picked else np.zeros(0, int)
    after = np.concatenate([before, group.columns])
    rank = (_rank(subspace.basis[before], subspace), _rank(subspace.basis[after], subspace))
    gained = group.columns.size - (rank[1] - rank[0])
    return (gained + 1e-3) / np.log2(group.values.shape[0] + 1.0)


def _rank(rows: Float[np.ndarray, "c r"], subspace: Subspace) -> int:
    if rows.size == 0:
        return 0
    return int(np.sum(np.linalg.svd(rows, compute_uv=False) > _nothing(subspace)))


def _nothing(subspace: Subspace) -> float:
    """Singular values below this show no dimension. Under noise every relation is one of the space seen, exactly."""
    return 0.1 * (subspace.tolerance if subspace.spread is None else ROUNDED)


def _new_relations(
    picked: list[_FeatureGroup], seen: Float[np.ndarray, "s a"], subspace: Subspace
) -> Float[np.ndarray, "c b"]:
    """Orthonormal relations over all columns picked, orthogonal to those already used."""
    columns = np.concatenate([p.columns for p in picked])
    padded = np.r_[seen, np.zeros((columns.size - seen.shape[0], seen.shape[1]))]
    rows = np.c_[subspace.basis[columns], padded]
    left, values, _ = np.linalg.svd(rows, full_matrices=True)
    rank = int(np.sum(values > _nothing(subspace)))
    return left[:, rank:]
