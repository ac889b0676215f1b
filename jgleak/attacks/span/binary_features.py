"""The node filter for word features: hundreds of binary columns, of which every node has a few.

Adding such features one by one, as GRAIN does, multiplies partial candidates without bound: where a zero row occurs,
every union of disjoint rows passes until the last column. But binary columns give more than one span check each. Let
``c`` be a row's coordinates in the span's basis. Word ``j`` of that row is ``u_j . c`` for a known vector ``u_j``, and
is 0 or 1. Normalised columns of words that no row has, or a one-hot feature in raw columns, show the functional ``w``
with ``w . c = 1`` for every row. When some words' vectors add up to ``w``, exactly one of these words occurs in any
row. The finest such partition splits the space into parts with few rows each, which branch and bound finds.
"""

from __future__ import annotations

import dataclasses
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int
from scipy.linalg import qr
from scipy.optimize import Bounds, milp
from scipy.spatial import KDTree

from jgleak.attacks.attack import Clock
from jgleak.attacks.span.branch_and_bound import Face, null, zero_one
from jgleak.attacks.span.nodes import FEWER, TooManyCandidates
from jgleak.attacks.span.settings import LIMITS, SpanLimits, SpanTolerances
from jgleak.attacks.span.subspace import Subspace
from jgleak.features import FeatureSpace

LEAST_ABSENT = 3
"""Fewest columns that agree by more than chance."""

UNLIKE = 1.1
"""The means of absent columns differ by this factor somewhere: words that the same nodes have agree as absent ones do
where their means are equal, and only there."""

RAW = (
    "words in raw columns do not tell a node's row from sums of rows: they need a one-hot feature beside them, or "
    "columns normalised by a public mean and deviation"
)
"""Why no gradient shows nodes of words in such columns."""

PARTITIONING = 0.25
"""Share of the time that the search for a partition may take."""

MOST_ENTRIES = 100_000_000
"""Most entries of feature vectors that words leave open, which are checked at once: 800 MB."""


class Words(NamedTuple):
    """What the filter found.

    Attributes:
      codes: feature vectors ``(T, G)``.
      complete: False where the clock or a limit ended the search, or noise or rounding may have lost some.
    """

    codes: Int[np.ndarray, "T G"]
    complete: bool


def wordy(space: FeatureSpace, limits: SpanLimits = LIMITS) -> bool:
    """True for a schema with many binary features (``SpanLimits.word_features``)."""
    return sum(f.kind == "binary" for f in space.features) >= limits.word_features


def unread(space: FeatureSpace, limits: SpanLimits = LIMITS) -> str | None:
    """Why the rows of a wordy schema can be told from sums of rows in no gradient, or None."""
    return RAW if wordy(space, limits) and _ones(space) is None and not _live(space).size else None


def passing_words(
    space: FeatureSpace, subspace: Subspace, *, clock: Clock | None = None, limits: SpanLimits = LIMITS
) -> Words:
    """All feature vectors of a wordy schema in the span; those found when ``clock`` runs out.

    Raises:
      TooManyCandidates: the span fills its space or is empty, or nothing shows ``w``: words in raw columns without a
        one-hot feature, or normalised ones of which too few are absent. Or words leave too many numbers open.
    """
    if not subspace.informative:
        raise TooManyCandidates(f"the input gradient says nothing about nodes: {subspace.fault}")
    words, unity = _functionals(space, subspace)
    tolerances, marks, values = subspace.margin.tolerances, _marks(space), _values(space)
    free = _free(np.r_[words[marks], unity[None]], len(values), tolerances)
    seen = null(free.T, tolerances)  # the other directions
    slack = max(tolerances.word_sum, subspace.tolerance)
    rows, complete = _rows(words[marks] @ seen, unity @ seen, slack, tolerances, clock, limits)
    raw = _numbered(rows @ seen.T, free, words[~marks], values, space.width) @ words.T
    codes = np.unique(_codes(space, raw), axis=0)
    codes = codes[subspace.distances(space.encode(codes)) <= subspace.tolerance]
    precise = subspace.tolerance <= tolerances.word_precise and not subspace.margin.spread.size
    return Words(codes, complete and precise)


def _functionals(space: FeatureSpace, subspace: Subspace) -> tuple[Float[np.ndarray, "m r"], Float[np.ndarray, " r"]]:
    """``u_j`` for every column (in the unnormalised 0/1 sense) and ``w``."""
    scaled, ones, live = subspace.basis * subspace.scale[:, None], _ones(space), _live(space)
    mean, std = _statistics(space)
    if ones is not None:
        unity = (std[ones, None] * scaled[ones]).sum(axis=0)
    elif not live.size:
        raise TooManyCandidates(RAW)
    else:
        unity = _unity(-scaled[live] * (std[live] / mean[live])[:, None], mean[live], subspace.margin.tolerances)
    return mean[:, None] * unity + std[:, None] * scaled, unity


def _statistics(space: FeatureSpace) -> tuple[Float[np.ndarray, " m"], Float[np.ndarray, " m"]]:
    """Means and deviations of the columns; of raw ones 0 and 1."""
    if space.mean is None or space.std is None:
        return np.zeros(space.width), np.ones(space.width)
    return space.mean, space.std


def _ones(space: FeatureSpace) -> slice | None:
    """The columns of a one-hot feature in raw columns, of which every row has one; None: there is none."""
    mean, _ = _statistics(space)
    for feature, start in zip(space.features, space.offsets, strict=True):
        own = slice(start, start + feature.columns)
        if feature.kind == "onehot" and not np.any(mean[own]):
            return own
    return None


def _live(space: FeatureSpace) -> Int[np.ndarray, " k"]:
    """The normalised columns of 0 and 1, in which an absent value is no zero."""
    mean, std = _statistics(space)
    return np.flatnonzero(_marks(space) & (std > 0) & (mean > 0))


def _marks(space: FeatureSpace) -> Bool[np.ndarray, " m"]:
    """Columns of 0 and 1."""
    return np.concatenate([np.full(f.columns, f.kind in ("binary", "onehot")) for f in space.features])


def _values(space: FeatureSpace) -> list[Float[np.ndarray, " k"]]:
    """What the columns of numbers may hold."""
    return [f.numbers[space.possible(g)] for g, f in enumerate(space.features) if f.kind == "number"]


def _unity(
    columns: Float[np.ndarray, "k r"], means: Float[np.ndarray, " k"], tolerances: SpanTolerances
) -> Float[np.ndarray, " r"]:
    """``w`` from ``w - u_j / mean_j`` of every column: it is ``w`` in all columns that no row has. Absent ones may be
    few: in a small vocabulary most words occur. Others agree where the same nodes have them and their means are equal
    (``UNLIKE``), as words of one node, or of all nodes."""
    groups = _groups(columns, tolerances.word_entry * np.linalg.norm(columns, axis=1))
    several = (g for g in groups if len(g) >= LEAST_ABSENT and means[g].max() > UNLIKE * means[g].min())
    absent = next(several, None)
    if absent is None:
        raise TooManyCandidates(
            f"fewer than {LEAST_ABSENT} words of the schema (of different frequency) are absent from every node, and "
            "only their columns show what the normalisation subtracted: give a schema with more words of the public "
            "data"
        )
    return np.median(columns[absent], axis=0)


def _free(marks: Float[np.ndarray, "k r"], most: int, tolerances: SpanTolerances) -> Float[np.ndarray, "r f"]:
    """At most so many directions along which no column of 0 and 1 changes: the difference of two nodes that have the
    same words and other numbers is one."""
    return (
        null(np.asarray(np.linalg.qr(marks, mode="r")), tolerances)[:, -most:]
        if most
        else np.zeros((marks.shape[1], 0))
    )


def _numbered(
    rows: Float[np.ndarray, "T r"],
    free: Float[np.ndarray, "r f"],
    numbers: Float[np.ndarray, "q r"],
    values: list[Float[np.ndarray, " k"]],
    width: int,
) -> Float[np.ndarray, "_S r"]:
    """Every row moved along the free directions to where as many numbers have one of their values each."""
    dimensions = free.shape[1]
    if not dimensions:
        _bounded(rows.shape[0], width)
        return rows
    chosen = qr((numbers @ free).T, pivoting=True)[-1][:dimensions]  # those that the directions tell apart best
    grid = np.stack(np.meshgrid(*(values[c] for c in chosen)), axis=-1).reshape(-1, dimensions)
    _bounded(rows.shape[0] * grid.shape[0], width)
    missing = grid[None] - (rows @ numbers[chosen].T)[:, None]
    return (rows[:, None] + missing @ np.linalg.pinv(numbers[chosen] @ free).T @ free.T).reshape(-1, free.shape[0])


def _bounded(number: int, width: int) -> None:
    if number * width > MOST_ENTRIES:
        raise TooManyCandidates(f"words leave {number} feature vectors open: {FEWER}")


def _rows(
    words: Float[np.ndarray, "m r"],
    unity: Float[np.ndarray, " r"],
    slack: float,
    tolerances: SpanTolerances,
    clock: Clock | None,
    limits: SpanLimits,
) -> tuple[Float[np.ndarray, "T r"], bool]:
    """Coordinates of every row whose words are 0 or 1, and whether all of them were looked at."""
    size, near = np.linalg.norm(words, axis=1), min(tolerances.word_entry, 2.0 * slack)
    patterns = _distinct(words[size > tolerances.word_nothing * size.max()], near)
    whole = Face.whole(unity)
    parts = _partition(patterns, unity, near, tolerances, clock)
    starts = [whole] if parts is None else whole.split(parts, tolerances)
    return zero_one(patterns, starts, slack, tolerances, clock=clock, limits=limits)


def _partition(
    patterns: Float[np.ndarray, "K r"],
    one: Float[np.ndarray, " r"],
    near: float,
    tolerances: SpanTolerances,
    clock: Clock | None,
) -> Float[np.ndarray, "p r"] | None:
    """As many patterns (or complements) as possible that add up to ``one``; None where none are found in time."""
    scale = np.linalg.norm(one)
    size, least = np.linalg.norm(patterns, axis=1), tolerances.word_nothing * scale
    proper = patterns[(size > least) & (np.linalg.norm(patterns - one, axis=1) > least)]
    if not (scale and len(proper)):
        return None
    choice = _distinct(np.r_[proper, one - proper], near)
    allowed, part = tolerances.word_sum * scale, None if clock is None else clock.part(PARTITIONING)
    for integrality in (0, 1):  # most linear programmes end in a partition, in less time
        result = milp(
            -np.ones(choice.shape[0]),
            constraints=[(choice.T, one - 0.5 * allowed, one + 0.5 * allowed)],
            bounds=Bounds(0.0, 1.0),
            integrality=integrality,
            options={} if part is None else {"time_limit": max(part.left, 0.0)},
        )
        used = choice[:0] if result.x is None else choice[result.x > 0.5]
        if np.abs(used.sum(axis=0) - one).max() <= allowed:
            return used
    return None


def _distinct(rows: Float[np.ndarray, "K r"], near: float) -> Float[np.ndarray, "k r"]:
    """Rows that differ by more than this share of their length, each the mean of its near-copies; the commonest first.

    Words that one node of a small gradient tells apart differ by little: only copies up to rounding are one.
    """
    groups = _groups(rows, near * np.linalg.norm(rows, axis=1))
    return np.array([rows[g].mean(axis=0) for g in groups]).reshape(-1, rows.shape[1])


def _groups(rows: Float[np.ndarray, "K r"], near: Float[np.ndarray, " K"]) -> list[Int[np.ndarray, " g"]]:
    """Rows not farther than ``near`` from the first of their group; the largest group first."""
    groups, left = list[Int[np.ndarray, " g"]](), np.ones(rows.shape[0], bool)
    tree = KDTree(rows)  # to compare every two of thousands of columns takes minutes
    for i in range(rows.shape[0]):
        if left[i]:
            around = np.array(tree.query_ball_point(rows[i], near[i], return_sorted=True))
            groups.append(around[left[around]])
            left[groups[-1]] = False
    return sorted(groups, key=len, reverse=True)


def _codes(space: FeatureSpace, raw: Float[np.ndarray, "T m"]) -> Int[np.ndarray, "T G"]:
    """The nearest values of unnormalised columns."""
    return dataclasses.replace(space, mean=None, std=None).decode(raw)
