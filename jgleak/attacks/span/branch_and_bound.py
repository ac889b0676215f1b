"""Vectors on which given functionals are 0 or 1, by branch and bound, where ``corners`` has too many dimensions.

Each of them is a vertex of the polytope on which no functional leaves [0, 1], and of rows of features most vertices are
such vectors. Two linear programmes, in a random direction and against it, give two vertices. If there are none or both
are the same one, nothing else is there; otherwise a functional on which they differ splits the polytope into the face
where it is 0 and the one where it is 1.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Float
from scipy.optimize import Bounds, milp

from jgleak.attacks.attack import Clock
from jgleak.attacks.span.corners import corners
from jgleak.attacks.span.settings import SpanTolerances

SOLVED, INFEASIBLE = 0, 2
"""Answers of ``milp``."""


class Unsolved(Exception):
    """The solver ended without an answer."""


class Face(NamedTuple):
    """A part of the polytope.

    Attributes:
      space: orthonormal basis of the vectors in it.
      one: a functional that is 1 on it.
      inside: vectors of it that are known.
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
        shared, alone = null(parts, tolerances), np.linalg.pinv(parts, tolerances.word_rank)
        possible = np.abs(parts @ alone - np.eye(len(parts))).max(axis=0) <= tolerances.word_entry
        faces = []
        for part, along in zip(parts[possible] @ self.space.T, alone.T[possible], strict=True):
            space = self.space @ np.c_[shared, along / np.linalg.norm(along)]
            known = np.abs(self.inside @ part - 1.0) <= tolerances.word_entry
            faces.append(Face(space, part, self.inside[known]))
        return faces


def zero_one(
    patterns: Float[np.ndarray, "K r"],
    faces: Sequence[Face],
    slack: float,
    tolerances: SpanTolerances,
    *,
    clock: Clock | None,
    most: int,
) -> tuple[Float[np.ndarray, "T r"], bool]:
    """Every vector in ``faces`` on which each of ``patterns`` is 0 or 1, and whether all faces were searched.

    Args:
      patterns: functionals. Along directions in which none of them changes, a vector has no part.
      faces: where to look.
      slack: largest error of a pattern.
      tolerances: what counts as 0, 1 and equal.
      clock: ends the search.
      most: most faces that are looked at.
    """
    stack, found, rng = list(faces), list[Float[np.ndarray, " r"]](), np.random.default_rng(0)
    for _ in range(most):
        if not stack or (clock is not None and clock.left <= 0):
            break
        face = stack.pop()
        shown = corners(patterns @ face.space, face.one @ face.space, tolerances)
        if shown is not None:
            found += list(shown @ face.space.T)
            continue
        vectors, halves = _explored(patterns, face, slack, tolerances, clock, rng)
        if halves is None:
            found += list(vectors)
        else:
            stack += face._replace(inside=vectors).split(halves, tolerances)
    return np.array(found).reshape(-1, patterns.shape[1]), not stack


def null(rows: Float[np.ndarray, "k r"], tolerances: SpanTolerances) -> Float[np.ndarray, "r f"]:
    """Directions on which all given functionals vanish."""
    _, values, right = np.linalg.svd(rows)
    rank = int(np.sum(values > tolerances.word_rank * values[0])) if values.size else 0
    return right[rank:].T


def _explored(
    patterns: Float[np.ndarray, "K r"],
    face: Face,
    slack: float,
    tolerances: SpanTolerances,
    clock: Clock | None,
    rng: np.random.Generator,
) -> tuple[Float[np.ndarray, "p r"], Float[np.ndarray, "2 d"] | None]:
    """The vectors of zeros and ones that are known in a face, and what to split it by; None: there are no others."""
    local, one = patterns @ face.space, face.one @ face.space
    least = tolerances.word_entry * np.linalg.norm(one)
    local = local[(np.linalg.norm(local, axis=1) > least) & (np.linalg.norm(local - one, axis=1) > least)]
    if not len(local):
        return (face.space @ one / (one @ one))[None], None
    # in coordinates in which the patterns are orthonormal, for the solver's sake
    even, sizes, axes = np.linalg.svd(np.vstack([local, one]), full_matrices=False)
    shown = sizes > tolerances.word_rank * sizes.max()
    even, sizes, axes = even[:, shown], sizes[shown, None], axes[shown]
    back, forth = sizes * axes, face.space @ (axes / sizes).T
    direction = rng.normal(size=even.shape[1])
    known = [back @ (face.space.T @ vector) for vector in face.inside[:2]]
    for goal in (direction, -direction):
        if len(known) < 2:
            try:
                vertex = _vertex(even, goal, slack, clock)
            except Unsolved:
                return face.inside, np.stack([local[0], one - local[0]])
            if vertex is None:
                return face.inside, None
            if not known or np.abs(even @ (vertex - known[0])).max() > tolerances.word_entry:
                known.append(vertex)
    values = np.array(known) @ even[:-1].T
    off = np.minimum(np.abs(values), np.abs(values - 1.0))
    whole = off.max(axis=1) <= tolerances.word_row * tolerances.word_entry
    vectors = np.array(known)[whole] @ forth.T
    if len(known) == 1:
        return vectors, None
    unlike = np.abs(values[0] - values[1]) if whole.all() else off[whole.argmin()]
    half = local[unlike.argmax()]
    return np.concatenate([vectors, face.inside[2:]]), np.stack([half, one - half])


def _vertex(
    even: Float[np.ndarray, "k d"], goal: Float[np.ndarray, " d"], slack: float, clock: Clock | None
) -> Float[np.ndarray, " d"] | None:
    """The vertex that is farthest in a direction, where the last functional is 1 and no other leaves [0, 1]; None:
    there is no such vector.

    Raises:
      Unsolved: time ran out, or the solver cannot tell.
    """
    smallest, largest = np.full(len(even), -slack), np.full(len(even), 1.0 + slack)
    smallest[-1] = largest[-1] = 1.0
    result = milp(
        -goal,
        constraints=[(even, smallest, largest)],
        bounds=Bounds(-np.inf, np.inf),
        options={} if clock is None else {"time_limit": max(clock.left, 0.0)},
    )
    if result.status not in (SOLVED, INFEASIBLE):
        raise Unsolved
    return result.x
