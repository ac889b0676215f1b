"""Products and distances of gradients, leaf by leaf, without forming what is a product of thin matrices."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from jgleak.attacks.matching.product import product, product_left, product_right
from jgleak.federated.factors import Outer

DROPPED = 1e-6
"""Relative norm of what a compressed leaf may leave out: float32 gradients are not known better."""

OVERSAMPLED = 8
"""Random columns beyond the rank that a range is looked for with (Halko, Martinsson and Tropp, section 4.2)."""


class Compressed(NamedTuple):
    """One observed gradient ``(F, D)`` of low rank: ``left diag(values) right^T`` with orthonormal columns.

    Attributes:
      left: ``(F, r)``.
      values: ``(r,)`` zero beyond the rank.
      right: ``(D, r)``.
    """

    left: Float[Array, "F r"]
    values: Float[Array, " r"]
    right: Float[Array, "D r"]


RAISED = 1e-3
"""What factors would leave out of a gradient that counts as ``Whole``, relative: no guess of few rows comes nearer."""


class Whole(NamedTuple):
    """One observed gradient of a rank far above what its rows allow: noise or dropped entries, mostly.

    Attributes:
      gradient: ``(F, D)``.
    """

    gradient: Float[Array, "F D"]


Found = Outer | Float[Array, "T ..."]
Seen = Compressed | Whole | Float[Array, "T ..."]


def compressed(leaf: Float[np.ndarray, "T ..."], rows: int) -> Any:
    """A kernel's observed gradient in factors, where these are smaller; otherwise as it is.

    The gradient of a kernel over graphs of ``rows`` nodes in all has at most that rank. Noise, clipped or dropped
    entries of a defence and local steps raise it. Where factors would lose little, the gradient stays as it is, so that
    small distances are told from zero; where they would lose much (``RAISED``), it is ``Whole``.
    """
    if leaf.ndim != 3 or leaf.shape[0] > 1 or 2 * rows * sum(leaf.shape[1:]) >= leaf.size:
        return leaf
    gradient = leaf[0].astype(np.float64)
    drawn = np.random.default_rng(0).standard_normal((gradient.shape[1], rows + OVERSAMPLED))
    basis = np.linalg.qr(gradient @ drawn)[0]
    left, values, right = np.linalg.svd(basis.T @ gradient, full_matrices=False)
    kept: Any = (basis @ left[:, :rows], values[:rows], right[:rows].T)
    lost = np.linalg.norm(gradient - (kept[0] * kept[1]) @ kept[2].T)
    whole: Any = leaf[0]
    if lost > RAISED * np.linalg.norm(gradient):
        return Whole(whole)
    if lost > DROPPED * np.linalg.norm(gradient):
        return leaf
    return Compressed(*(part.astype(np.float32) for part in kept))


def pairs(found: Any, seen: Any) -> list[tuple[Any, Any]]:
    """The leaves of both trees, side by side."""
    return list(
        zip(
            jax.tree.leaves(found, is_leaf=lambda leaf: isinstance(leaf, Outer | Compressed | Whole)),
            jax.tree.leaves(seen, is_leaf=lambda leaf: isinstance(leaf, Outer | Compressed | Whole)),
            strict=True,
        )
    )


def stretched(found: Any, factor: Float[Array, " T"]) -> Any:
    """A tree of gradients, each of the ``T`` times its factor."""

    def one(leaf: Any) -> Any:
        if isinstance(leaf, Outer):
            return Outer(leaf.rows, leaf.slopes * factor[:, None, None])
        return leaf * factor.reshape(-1, *[1] * (leaf.ndim - 1))

    return jax.tree.map(one, found, is_leaf=lambda leaf: isinstance(leaf, Outer))


def gap(found: Any, seen: Any) -> Float[Array, " T"]:
    """``|a - b|^2`` of one leaf.

    Where ``b`` is in factors, ``a`` is split by ``b``'s rows and columns into four blocks. Only in the last one, beside
    and beyond ``b``, is the norm taken from products of Gram matrices; so small differences are not lost in large ones.
    A ``Whole`` one is compared without forming ``a``; nothing comes so near to it that rounding would matter.
    """
    if isinstance(seen, Whole):
        return jnp.maximum(size(found, seen) - 2 * inner(found, seen) + wanted(seen), 0.0)
    if not isinstance(seen, Compressed):
        return _square(_dense(found) - seen)
    return _gap(found.rows, found.slopes[0], seen)[None]


def exact_gap(found: Any, seen: Any) -> Float[Array, " T"]:
    """``gap``, which loses nothing of a ``Whole`` one either."""
    return gap(found, seen.gradient[None]) if isinstance(seen, Whole) else gap(found, seen)


@jax.custom_vjp
def _gap(rows: Float[Array, "R F"], slopes: Float[Array, "R D"], seen: Compressed) -> Float[Array, ""]:
    return _gap_and_kept(rows, slopes, seen)[0]


def _gap_and_kept(rows: Array, slopes: Array, seen: Compressed) -> tuple[Float[Array, ""], Any]:
    inward, outward = product(rows, seen.left), product(slopes, seen.right)
    beside, beyond = rows - product_right(inward, seen.left), slopes - product_right(outward, seen.right)
    core = product_left(inward, outward) - jnp.diag(seen.values)
    parts = core, product_left(inward, beyond), product_left(beside, outward)
    far = jnp.sum(_gram(beside) * _gram(beyond))
    gap = sum(jnp.sum(jnp.square(part)) for part in parts) + jnp.maximum(far, 0.0)
    return gap, (rows, slopes, inward, outward, seen)


def _gap_slopes(kept: Any, slope: Float[Array, ""]) -> tuple[Array, Array, Compressed]:
    """``2 X (XᵀΔ - G)`` and ``2 Δ (XᵀΔ - G)ᵀ``: fewer products than the four blocks' derivatives, and as exact."""
    rows, slopes, inward, outward, seen = kept
    by_rows = product(_gram(slopes), rows) - product_right(outward * seen.values, seen.left)
    by_slopes = product(_gram(rows), slopes) - product_right(inward * seen.values, seen.right)
    return 2 * slope * by_rows, 2 * slope * by_slopes, jax.tree.map(jnp.zeros_like, seen)


_gap.defvjp(_gap_and_kept, _gap_slopes)


def size(found: Any, seen: Any) -> Float[Array, " T"]:
    """``|a|^2`` of one leaf that is compared with ``seen``."""
    if not isinstance(seen, Compressed | Whole):
        return _square(_dense(found))
    return jnp.sum(_gram(found.rows) * _gram(found.slopes[0]))[None]


def inner(found: Any, seen: Any) -> Float[Array, " T"]:
    """``<a, b>`` of one leaf."""
    if isinstance(seen, Whole):
        return jnp.sum(product(found.rows, seen.gradient) * found.slopes[0])[None]
    if not isinstance(seen, Compressed):
        dense = _dense(found)
        return jnp.sum(dense * seen, axis=tuple(range(1, dense.ndim)))
    return jnp.sum(product(found.rows, seen.left) * product(found.slopes[0], seen.right) * seen.values)[None]


def wanted(seen: Any) -> Float[Array, " T"]:
    """``|b|^2`` of one leaf."""
    if isinstance(seen, Whole):
        return jnp.sum(jnp.square(seen.gradient))[None]
    return jnp.sum(seen.values**2)[None] if isinstance(seen, Compressed) else _square(seen)


def _dense(found: Any) -> Float[Array, "T ..."]:
    if not isinstance(found, Outer):
        return found
    return jax.vmap(product_left, (None, 0))(found.rows, found.slopes)


def _gram(rows: Float[Array, "R F"]) -> Float[Array, "R R"]:
    return product_right(rows, rows)


def _square(leaf: Float[Array, "T ..."]) -> Float[Array, " T"]:
    return jnp.sum(jnp.square(leaf), axis=tuple(range(1, leaf.ndim)))
