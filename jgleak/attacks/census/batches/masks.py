"""Pooled rows from the head's gradient alone: ReLU masks of single graphs, found in its row space.

Behind a first map with ReLU comes the last one, ``W (F, C)``: a graph's ``d_g`` is ``W s_g`` at units that are active
(lit) for its own row, and 0 elsewhere. All ``d_g`` lie in the row space of the gradient, of dimension ``r``. Vectors of
that space that are ``W s`` or 0 at every unit, for some ``s``, are found in closed form (``quadrics``) or, where units
are too few for that, pattern by pattern (``patterns``). The graphs' are those ``r`` whose pooled rows light the units
at which the vectors are not 0. (SPEAR, Dimitrov et al. 2024, draws dark units at random for batches of other data.)
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import combinations
from math import comb

import numpy as np
from jaxtyping import Float, Int
from scipy import linalg

from jgleak.attacks.attack import Clock
from jgleak.attacks.census.batches import patterns, quadrics, switched
from jgleak.attacks.census.batches.head import HeadGradient

SUBSETS = 200_000
"""Most choices of ``r`` vectors among those that pass."""

SAME = 1.0 - 1e-6
"""Unit vectors whose product is larger are the same: several patterns may give it."""

LIT = 1e-2
"""An entry of ``d_g`` above this, beside its largest, is not 0."""

UNSURE = 1e-3
"""A unit whose input is this near to 0, relative to the largest, counts as undecided."""

SEEN = 0.3
"""An entry above this, beside the largest, counts as lit before it is compared with ``W s``."""

REFITTED = 2
"""How often a vector is fitted to the units that it lights."""

FLOOR = 1e-3
"""Smallest largest entry of a vector, relative to the length of ``s``; shorter ones are left out."""

FITTED = 1e-3
"""How far an entry may be off after all units have been fitted, relative to the largest."""

CONSISTENT = 1e-3
"""Largest relative residual of ``d_g`` (``HeadGradient.explained``)."""


def pooled_rows(head: HeadGradient, clock: Clock) -> Float[np.ndarray, "r P"] | None:
    """Every graph's pooled row, in no order; None where the head shows no masks, there are too many graphs, or not
    exactly one choice of rows explains the gradient."""
    readout, rank = head.observation.model.readout, head.rank
    if not readout.masks:
        return None
    if head.moved:
        return switched.pooled_rows(head, clock)
    if not 0 < rank < head.units.size:
        return None
    units = head.units[linalg.qr(head.at_units(head.units)[0].T, mode="r", pivoting=True)[-1]]
    own, outgoing = head.at_units(units)
    turn = np.linalg.inv(own[:rank])
    for way in (quadrics.vectors, patterns.vectors):
        vectors = _distinct(own @ turn, outgoing, way(own @ turn, outgoing, clock)) @ turn.T
        rows = _explaining(head, vectors / np.linalg.norm(vectors, axis=1, keepdims=True), units, clock)
        if rows is not None:
            return rows
    return None


def _explaining(
    head: HeadGradient, vectors: Float[np.ndarray, "k r"], units: Int[np.ndarray, " U"], clock: Clock
) -> Float[np.ndarray, "r P"] | None:
    """The pooled rows of exactly one choice of vectors that explains the gradient; None where none does, or several."""
    found, rank = list[Float[np.ndarray, "r P"]](), head.rank
    if not rank <= len(vectors) or comb(len(vectors), rank) > SUBSETS:
        return None
    for chosen in combinations(range(len(vectors)), rank):
        if clock.left <= 0:
            return None
        rows = _rows(head, vectors[list(chosen)], units)
        if rows is not None and head.explained(rows)[1].max() <= CONSISTENT:
            found.append(rows)
        if len(found) > 1:
            return None
    return found[0] if found else None


def _rows(
    head: HeadGradient, vectors: Float[np.ndarray, "r r"], units: Int[np.ndarray, " U"]
) -> Float[np.ndarray, "r P"] | None:
    """The pooled rows if the ``d_g`` have these coordinates, up to their lengths; None where they contradict that."""
    rows, model = head.implied(vectors), head.observation.model
    if rows is None:
        return None
    first = model.readout.first(head.weights)
    kernel, bias = np.asarray(first["kernel"], np.float64)[:, units], np.asarray(first["bias"], np.float64)[units]
    entering, shown = rows @ kernel + bias, np.abs(vectors @ head.rows[units].T)
    shown /= shown.max(axis=1, keepdims=True)
    sure = np.abs(entering) > UNSURE * np.abs(entering).max()
    if np.any(sure & (shown > LIT) & (entering < 0)):
        return None
    return rows


def _distinct(
    rows: Float[np.ndarray, "U r"], outgoing: Float[np.ndarray, "U c"], guesses: Iterable[Float[np.ndarray, " r"]]
) -> Float[np.ndarray, "k r"]:
    """The guesses that are 0 or ``W s`` at every unit once they are fitted, of length one; one of each direction."""
    found = list[Float[np.ndarray, " r"]]()
    for guess in guesses:
        vector = _fitted(rows, outgoing, guess)
        if vector is not None and all(abs(vector @ other) < SAME for other in found):
            found.append(vector)
    return np.array(found).reshape(-1, rows.shape[1])


def _fitted(
    rows: Float[np.ndarray, "U r"], outgoing: Float[np.ndarray, "U c"], guess: Float[np.ndarray, " r"]
) -> Float[np.ndarray, " r"] | None:
    """A vector near a guess, fitted to all units; None where it is not 0 or ``W s`` at each."""
    entry = rows @ guess
    seen = np.abs(entry) > SEEN * np.abs(entry).max()
    full = outgoing @ np.linalg.lstsq(outgoing[seen], entry[seen], rcond=None)[0]
    for _ in range(REFITTED):
        nearest = np.abs(entry) > np.abs(entry - full)
        both = np.linalg.svd(np.c_[rows, nearest[:, None] * -outgoing], full_matrices=False)[2][-1]
        guess, s = both[: rows.shape[1]], both[rows.shape[1] :]
        entry, full = rows @ guess, outgoing @ s
    size = np.abs(nearest * full).max()
    fits = size > FLOOR * np.linalg.norm(s) and np.abs(entry - nearest * full).max() <= FITTED * size
    return guess / np.linalg.norm(guess) if fits else None
