"""Vectors on which given functionals are 0 or 1, by branch and bound, where ``corners`` has too many dimensions.

Each of them is a vertex of the polytope on which no functional leaves [0, 1], and of rows of features most vertices are
such vectors. A linear programme gives one, and a second one the vertex that differs from it in the most functionals. If
these are fewer than one in sum, there is no other vector; else a functional on which they differ splits the polytope
into the face where it is 0 and the one where it is 1.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Float
from scipy.optimize import Bounds, milp

from jgleak.attacks.attack import Clock
from jgleak.attacks.span.corners import corners
from jgleak.attacks.span.settings import SpanLimits, SpanTolerances

SOLVED, INFEASIBLE = 0, 2
"""Answers of ``milp``."""

ROUNDING = 1e-6
"""Directions in which all functionals together change by less than this share of the most are rounding."""

TIES = 0.1
"""Most that what breaks ties can add to the number of functionals in which two vectors differ."""


class Unsolved(Exception):
    """The solver ended without an answer, or with one that contradicts what is known."""


class Face(NamedTuple):
    """A part of the polytope.

    Attributes:
      space: orthonormal basis of the vectors in it.
      one: a functional that is 1 on it.
      inside: the vector of it that is known, if one is.
    """

    space: Float[np.ndarray, "r d"]
    one: Float[np.ndarray, " r"]
    inside: Float[np.ndarray, "p r"]

    @staticmethod
    def whole(one: Float[np.ndarray, " r"]) -> Face:
        """All vectors on which ``one`` is 1."""
        return Face(np.eye(one.size), one, np.zeros((0, one.size)))

    def split(self, parts: Float[np.ndarray, "k d"], tolerances: SpanTolerances) -> list[Face]:
        """For each of ``parts``, functionals that add up to the face's ``one``, the face on which it alone is 1."""
        unit = parts / np.maximum(np.linalg.norm(parts, axis=1, keepdims=True), np.finfo(np.float64).tiny)
        shared, alone = null(unit, tolerances), np.linalg.pinv(unit, tolerances.word_rank)
        possible = np.abs(unit @ alone - np.eye(len(parts))).max(axis=0) <= tolerances.word_entry
        faces = []
        for part, along in zip(parts[possible] @ self.space.T, alone.T[possible], strict=True):
            space = self.space @ np.c_[shared, along / np.linalg.norm(along)]
            known = np.abs(self.inside @ part - 1.0) <= tolerances.word_row * tolerances.word_entry
            faces.append(Face(space, part, self.inside[known]))
        return faces


def zero_one(
    patterns: Float[np.ndarray, "K r"],
    faces: Sequence[Face],
    slack: float,
    tolerances: SpanTolerances,
    *,
    clock: Clock | None,
    limits: SpanLimits,
) -> tuple[Float[np.ndarray, "T r"], bool]:
    """Every vector in ``faces`` on which each of ``patterns`` is 0 or 1, and whether all faces were searched.

    Args:
      patterns: functionals. Along directions in which none of them changes, a vector has no part.
      faces: where to look.
      slack: largest error of a pattern.
      tolerances: what counts as 0, 1 and equal.
      clock: ends the search.
      limits: most faces that are looked at, and most vectors.
    """
    stack, found = list(faces), list[Float[np.ndarray, " r"]]()
    for _ in range(limits.word_faces):
        if not stack or len(found) > limits.partial_rows or (clock is not None and clock.left <= 0):
            break
        face = stack.pop()
        shown = corners(patterns @ face.space, face.one @ face.space, tolerances)
        if shown is not None:
            found += list(shown @ face.space.T)
            continue
        vectors, half = _explored(patterns, face, slack, tolerances, clock)
        if half is None:
            found += list(vectors)
        else:
            part = patterns[half] @ face.space
            halves = np.stack([part, face.one @ face.space - part])
            stack += face._replace(inside=vectors).split(halves, tolerances)
    found += [vector for face in stack for vector in face.inside]
    return np.array(found).reshape(-1, patterns.shape[1]), not stack


def null(rows: Float[np.ndarray, "k r"], tolerances: SpanTolerances) -> Float[np.ndarray, "r f"]:
    """Directions on which all given functionals vanish."""
    _, values, right = np.linalg.svd(rows)
    rank = int(np.sum(values > tolerances.word_rank * values[0])) if values.size else 0
    return right[rank:].T


def _explored(
    patterns: Float[np.ndarray, "K r"], face: Face, slack: float, tolerances: SpanTolerances, clock: Clock | None
) -> tuple[Float[np.ndarray, "p r"], int | None]:
    """The vectors of zeros and ones that are known in a face, and the pattern to split it by; None: there are no
    others."""
    local, one, allowed = patterns @ face.space, face.one @ face.space, tolerances.word_row * tolerances.word_entry
    changing = np.linalg.norm(local - np.outer(local @ one, one) / (one @ one), axis=1)
    if changing.max(initial=0.0) <= ROUNDING * np.linalg.norm(one):
        only = face.space @ one / (one @ one)
        return only[None][: int(_off(patterns @ only).max(initial=0.0) <= allowed)], None
    vertices = _Vertices(local, one, slack, clock)
    known, most, rng = list(face.inside), int(changing.argmax()), np.random.default_rng(0)
    try:
        if not known:
            vertex = vertices.farthest(rng.normal(size=len(local)) @ local)
            if vertex is None:
                return face.inside, None
            off = _off(local @ vertex)
            if off.max() > allowed:
                return face.inside, int(off.argmax())
            known.append(face.space @ vertex)
        values = patterns @ known[0]
        sign = np.where(values > 0.5, -1.0, 1.0)
        untied = TIES / len(local) * rng.random(len(local))  # many may differ as much, and all points between them
        vertex = vertices.farthest((sign + untied) @ local)
        if vertex is None:
            raise Unsolved
        other = face.space @ vertex
        unlike = patterns @ other - np.round(values)  # what rounds off many patterns adds up
    except Unsolved:
        return np.array(known).reshape(-1, face.one.size), most
    if sign @ unlike < 0.5:  # another vector differs in a whole pattern at least
        return np.array(known), None
    if _off(patterns @ other).max() <= allowed:
        known.append(other)
    return np.array(known), int(np.abs(unlike).argmax())


def _off(values: Float[np.ndarray, " K"]) -> Float[np.ndarray, " K"]:
    """How far from 0 and 1."""
    return np.minimum(np.abs(values), np.abs(values - 1.0))


class _Vertices:
    """The polytope on which ``one`` is 1 and no functional leaves [0, 1], in coordinates in which the functionals are
    orthonormal: units may differ by orders of magnitude."""

    def __init__(
        self, local: Float[np.ndarray, "K d"], one: Float[np.ndarray, " d"], slack: float, clock: Clock | None
    ) -> None:
        even, sizes, axes = np.linalg.svd(np.vstack([local, one]), full_matrices=False)
        shown = sizes > ROUNDING * sizes.max()
        self.even, self.forth = even[:, shown], (axes[shown] / sizes[shown, None]).T
        self.slack, self.clock = slack, clock

    def farthest(self, goal: Float[np.ndarray, " d"]) -> Float[np.ndarray, " d"] | None:
        """The vertex on which a functional is largest; None: there is none.

        Raises:
          Unsolved: time ran out, or the solver cannot tell.
        """
        smallest, largest = (np.full(len(self.even), bound) for bound in (-self.slack, 1.0 + self.slack))
        smallest[-1] = largest[-1] = 1.0
        result = milp(
            -goal @ self.forth,
            constraints=[(self.even, smallest, largest)],
            bounds=Bounds(-np.inf, np.inf),
            options={} if self.clock is None else {"time_limit": max(self.clock.left, 0.0)},
        )
        if result.status not in (SOLVED, INFEASIBLE):
            raise Unsolved
        return None if result.x is None else self.forth @ result.x
