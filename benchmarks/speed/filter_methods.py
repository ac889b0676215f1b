"""Four ways to filter one centre's candidates: gathered, blocked NumPy, the same jitted, and jgleak's filter.

All four accept the same neighbourhoods: those whose row lies within the subspace's tolerance. The first three look at a
part of the candidates, the last at all of them. Each is a function that prepares, and returns what is timed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Bool, Float, Int

from benchmarks.speed.filter_problem import Blocks, Problem
from jgleak.attacks.attack import Budget
from jgleak.attacks.span.check import SpanCheck
from jgleak.attacks.span.combinations import LARGEST, Slot
from jgleak.attacks.span.filter import BlockFilter

GATHERED, BLOCK = 2048, 1 << 17
"""Candidates of a batch of the gathered method, and numbers of a block of the NumPy one: what caches hold."""

TILE = (16, 1024) if jax.default_backend() == "cpu" else (32, 8192)
"""Prefixes and tail rows of a block of the jitted method: on a processor its rows should stay in the cache."""


def gathered(problem: Problem, members: Int[np.ndarray, "n degree"]) -> Callable[[], Blocks]:
    """Plainly, as in GRAIN's released code: gather the neighbours' rows, mix, multiply by W, project, compare."""
    own, subspace = problem.degrees[0] + 1.0, problem.check.subspace
    rows, scale, basis = (a.astype(np.float32) for a in (problem.rows, subspace.scale, subspace.basis))
    mixing = (1.0 / np.sqrt(own * (problem.degrees + 1.0))).astype(np.float32)
    kernel, centre = np.asarray(problem.params["layers_0"]["conv"]["kernel"]), rows[0] / np.float32(own)

    def run() -> Blocks:
        found = []
        for start in range(0, members.shape[0], GATHERED):
            around = members[start : start + GATHERED]
            mixed = centre + (rows[around] * mixing[around][:, :, None]).sum(axis=1)
            scaled = np.maximum(mixed @ kernel, 0.0) / scale
            rest = scaled - (scaled @ basis) @ basis.T
            length = np.linalg.norm(scaled, axis=1)
            inside = (np.linalg.norm(rest, axis=1) <= subspace.tolerance * length) & (length > 0.0)
            found += around[inside].tolist()
        return frozenset(map(tuple, found))

    return run


class Tables(NamedTuple):
    """Summed terms on the chosen columns, scaled (a positive factor passes through a ReLU), and the null vectors."""

    prefix: Float[np.ndarray, "R C"]
    tail: Float[np.ndarray, "Q C"]
    null: Float[np.ndarray, "C s"]
    bound: np.float32


def tables(problem: Problem) -> Tables:
    """What blocked methods start from: the centre's term is in the prefixes of the part, a pair's sum in the tail."""
    check, plan = problem.check, problem.plan
    terms = problem.terms[:, check.columns] * check.row_scale
    prefix = terms[0] + terms[plan.prefix(np.arange(problem.begin.size))[0] + 1].sum(axis=1)
    tail = terms[plan.tail + 1].sum(axis=1)
    prefix, tail, null = (part.astype(np.float32) for part in (prefix, tail, check.row_null))
    return Tables(prefix, tail, null, np.float32(check.bound**2))


def blocked(problem: Problem) -> Callable[[], Blocks]:
    """NumPy: a prefix with a block of the tail, column by column in the cache; residuals by a matrix product."""
    prefix, tail, null, bound = tables(problem)
    by_column, residual_of = np.ascontiguousarray(tail.T), np.ascontiguousarray(null.T)
    wide = BLOCK // prefix.shape[1]

    def run() -> Blocks:
        rows = np.empty((prefix.shape[1], wide), np.float32)
        kept = [np.zeros((2, 0), np.int64)]
        for number, begin in enumerate(problem.begin.tolist()):
            for start in range(begin, tail.shape[0], wide):
                part = by_column[:, start : start + wide]
                row = np.add(part, prefix[number][:, None], out=rows[:, : part.shape[1]])
                np.maximum(row, 0.0, out=row)
                residual = residual_of @ row
                length = np.einsum("cn,cn->n", row, row)
                passed = (np.einsum("sn,sn->n", residual, residual) <= bound * length) & (length > 0.0)
                if passed.any():
                    found = start + np.flatnonzero(passed)
                    kept.append(np.stack([np.full_like(found, number), found]))
        return problem.confirmed(*np.concatenate(kept, axis=1))

    return run


def jitted(problem: Problem) -> Callable[[], Blocks]:
    """The same blocks and the same matrix product under ``jax.jit``."""
    prefix, tail, null, bound = tables(problem)
    high, wide = TILE
    key = problem.plan.prefix(np.arange(problem.begin.size))[1]
    up, across = -prefix.shape[0] % high, -tail.shape[0] % wide
    arrays = jax.device_put(
        (
            np.pad(prefix, ((0, up), (0, 0))),
            np.pad(key.astype(np.int32), (0, up), constant_values=LARGEST),
            np.pad(tail, ((0, across), (0, 0))),
            np.pad(problem.plan.tail_first.astype(np.int32), (0, across), constant_values=-2),
            null,
            bound,
        )
    )
    corners = [
        (row, column)
        for row in range(0, prefix.shape[0], high)
        for column in range(problem.begin[row : row + high].min() // wide * wide, tail.shape[0], wide)
    ]

    def run() -> Blocks:
        masks = [_tile(*arrays, np.int32(row), np.int32(column)) for row, column in corners]
        kept = [np.zeros((2, 0), np.int64)]
        for (row, column), mask in zip(corners, masks, strict=True):
            i, j = np.divmod(np.flatnonzero(np.asarray(mask)), wide)
            kept.append(np.stack([row + i, column + j]))
        return problem.confirmed(*np.concatenate(kept, axis=1))

    return run


@jax.jit
def _tile(
    prefix: Float[Array, "R C"],
    key: Int[Array, " R"],
    tail: Float[Array, "Q C"],
    first: Int[Array, " Q"],
    null: Float[Array, "C s"],
    bound: Float[Array, ""],
    row: Int[Array, ""],
    column: Int[Array, ""],
) -> Bool[Array, "P W"]:
    high, wide = TILE
    prefix, key = (lax.dynamic_slice_in_dim(a, row, high) for a in (prefix, key))
    tail, first = (lax.dynamic_slice_in_dim(a, column, wide) for a in (tail, first))
    rows = jax.nn.relu(prefix[:, None, :] + tail[None, :, :])
    residual = jnp.matmul(rows, null, precision="highest")
    length = (rows * rows).sum(axis=-1)
    return ((residual * residual).sum(axis=-1) <= bound * length) & (length > 0) & (key[:, None] <= first[None, :])


def filtered(problem: Problem) -> Callable[[], Blocks]:
    """jgleak's filter, on all candidates."""
    search = BlockFilter(*problem.model.layer_at(problem.params, 0), problem.rows, problem.degrees, [problem.check])
    slot = Slot(np.arange(problem.rows.shape[0]), problem.degree)
    budget = Budget(time_limit=3600, candidates=problem.candidates)

    def run() -> Blocks:
        found = search.blocks([(0, [slot])], clock=budget.start(), budget=budget)
        assert found.complete and found.checked == problem.candidates
        return frozenset(found.neighbours)

    return run


def operations(check: SpanCheck) -> int:
    """Floating-point operations of the cheap check on one candidate, as the filter writes it (GCN, ReLU).

    A chosen column costs a sum, an activation, a scale, two for the length and two for each null vector; then the
    residual is squared and summed and compared with the length. Padding is not counted.
    """
    columns, vectors = check.row_null.shape
    return columns * (5 + 2 * vectors) + 2 * vectors + 2
