"""Products and distances of gradients, leaf by leaf, without forming what is a product of thin matrices."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from jgleak.attacks.matching.product import product, product_left, product_right
from jgleak.defenses.prune import seen_part
from jgleak.federated.factors import Outer

DROPPED = 1e-6
"""Relative norm of what a compressed leaf may leave out: float32 gradients are not known better. Like the two
below it decides how a gradient is held, not what is searched for, so it is no setting."""

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


class Dense(NamedTuple):
    """Observed gradients of a small kernel, as they are, each transposed: so no product of a step has to transpose.

    Attributes:
      columns: ``(T, D, F)``.
    """

    columns: Float[Array, "T D F"]


class Kept(NamedTuple):
    """Observed gradients of which pruning left the largest entries (``defenses.prune.seen_part``).

    Attributes:
      entries: ``(T, ...)``, zero where nothing was sent; of a kernel each transposed, as ``Dense``.
      least: ``(T, 1, ...)`` size that no other exceeds (``defenses.prune.bounds``).
    """

    entries: Float[Array, "T ..."]
    least: Float[Array, "T ..."]


class Untrained(NamedTuple):
    """In the place of a frozen leaf: nothing was observed, and nothing is compared."""


def kept(leaf: Float[np.ndarray, "T ..."], least: Float[np.ndarray, "T ..."], kernel: bool) -> Kept:
    """A pruned tensor's observed gradients, and the bound of what was left out of each."""
    entries: Any = np.ascontiguousarray(leaf.swapaxes(1, 2)) if kernel else leaf
    return Kept(entries, least)  # type: ignore[arg-type]  # on the host, until a run takes it to the device


def compressed(leaf: Float[np.ndarray, "T F D"], rows: int) -> Compressed | Whole | Dense:
    """A kernel's observed gradient in factors, where these are smaller; otherwise as it is.

    The gradient of a kernel over graphs of ``rows`` nodes in all has at most that rank. Noise, clipped or dropped
    entries of a defence and local steps raise it. Where factors would lose little, the gradient stays as it is, so that
    small distances are told from zero; where they would lose much (``RAISED``), it is ``Whole``.
    """
    whole: Any = leaf[0]
    turned: Any = np.ascontiguousarray(leaf.swapaxes(1, 2))  # NumPy's until a jitted function takes it to the device
    if leaf.shape[0] > 1 or 2 * rows * sum(leaf.shape[1:]) >= leaf.size:
        return Dense(turned)
    gradient = leaf[0].astype(np.float64)
    drawn = np.random.default_rng(0).standard_normal((gradient.shape[1], rows + OVERSAMPLED))
    basis = np.linalg.qr(gradient @ drawn)[0]
    left, values, right = np.linalg.svd(basis.T @ gradient, full_matrices=False)
    kept: Any = basis @ left[:, :rows], values[:rows], right[:rows].T
    lost = np.linalg.norm(gradient - (kept[0] * kept[1]) @ kept[2].T)
    if lost > RAISED * np.linalg.norm(gradient):
        return Whole(whole)
    if lost > DROPPED * np.linalg.norm(gradient):
        return Dense(turned)
    return Compressed(*(part.astype(np.float32) for part in kept))


def pairs(found: Any, seen: Any) -> list[tuple[Any, Any]]:
    """The leaves of both trees, side by side: arrays, or an ``Outer`` beside one of the observed kinds. Frozen ones are
    left out."""
    kernels = Outer | Compressed | Whole | Dense | Kept | Untrained
    each = (jax.tree.leaves(tree, is_leaf=lambda leaf: isinstance(leaf, kernels)) for tree in (found, seen))
    return [(a, b) for a, b in zip(*each, strict=True) if not isinstance(b, Untrained)]


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
    if isinstance(seen, Compressed):
        return _gap(found.rows, found.slopes[0], seen)[None]
    if isinstance(seen, Dense):
        count, width, _ = seen.columns.shape
        columns = seen.columns.reshape(count * width, -1)
        return _dense_gap(found.rows, _columns(found), columns).reshape(count, width).sum(axis=1)
    return _square(_formed(found, seen) - _entries(seen))


def exact_gap(found: Any, seen: Any) -> Float[Array, " T"]:
    """``gap``, which loses nothing of a ``Whole`` one either."""
    return gap(found, Dense(seen.gradient.T[None])) if isinstance(seen, Whole) else gap(found, seen)


@jax.custom_vjp
def _dense_gap(rows: Float[Array, "R F"], slopes: Float[Array, "R C"], seen: Float[Array, "C F"]) -> Float[Array, " C"]:
    return _dense_gap_and_kept(rows, slopes, seen)[0]


def _dense_gap_and_kept(rows: Array, slopes: Array, seen: Array) -> tuple[Float[Array, " C"], Any]:
    difference = product_left(slopes, rows) - seen
    return jnp.sum(jnp.square(difference), axis=1), (rows, slopes, difference)


def _dense_gap_slopes(kept: Any, slope: Float[Array, " C"]) -> tuple[Array, Array, Array]:
    """From one difference, which lies as both products take it."""
    rows, slopes, difference = kept
    by_rows = product(2 * slope * slopes, difference)
    return by_rows, 2 * slope * product_right(rows, difference), -2 * slope[:, None] * difference


_dense_gap.defvjp(_dense_gap_and_kept, _dense_gap_slopes)


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
    if isinstance(seen, Compressed | Whole):
        return jnp.sum(_gram(found.rows) * _gram(found.slopes[0]))[None]
    return _square(_formed(found, seen))


def sent_size(found: Any, seen: Any) -> Float[Array, " T"]:
    """``size`` of the entries that were sent."""
    return _square(_formed(found, None) * (seen.entries != 0)) if isinstance(seen, Kept) else size(found, seen)


def inner(found: Any, seen: Any) -> Float[Array, " T"]:
    """``<a, b>`` of one leaf."""
    if isinstance(seen, Whole):
        return jnp.sum(product(found.rows, seen.gradient) * found.slopes[0])[None]
    if isinstance(seen, Compressed):
        return jnp.sum(product(found.rows, seen.left) * product(found.slopes[0], seen.right) * seen.values)[None]
    both = _formed(found, seen) * _entries(seen)
    return jnp.sum(both, axis=tuple(range(1, both.ndim)))


def wanted(seen: Any) -> Float[Array, " T"]:
    """``|b|^2`` of one leaf."""
    if isinstance(seen, Whole):
        return jnp.sum(jnp.square(seen.gradient))[None]
    if isinstance(seen, Compressed):
        return jnp.sum(seen.values**2)[None]
    return _square(_entries(seen))


def arrays(found: Any, seen: Any) -> tuple[list[Float[Array, "T ..."]], list[Float[Array, "T ..."]]]:
    """The leaves of both trees, multiplied out: as Flax has them, ``T`` gradients in front."""
    mine, other = list[Array](), list[Array]()
    for a, b in pairs(found, seen):
        kernel = isinstance(a, Outer)
        own = _formed(a, b)
        if isinstance(b, Compressed):
            observed = jnp.matmul(b.left * b.values, b.right.T, precision="highest")[None]
        elif isinstance(b, Whole):
            observed = b.gradient[None]
        else:
            observed = jnp.swapaxes(_entries(b), -1, -2) if kernel else _entries(b)
        mine.append(jnp.swapaxes(own, -1, -2) if kernel else own)
        other.append(observed)
    return mine, other


def _columns(found: Outer) -> Float[Array, "R C"]:
    """The slopes of ``T`` gradients as one of a kernel ``T`` times as wide."""
    return jnp.moveaxis(found.slopes, 0, 1).reshape(found.rows.shape[0], -1)


def _formed(found: Any, seen: Any) -> Float[Array, "T ..."]:
    """The gradients themselves, a kernel's transposed, as ``Dense`` has them; as far as a pruned one speaks of them."""
    if isinstance(found, Outer):
        count, _, width = found.slopes.shape
        found = product_left(_columns(found), found.rows).reshape(count, width, -1)
    return seen_part(found, *seen) if isinstance(seen, Kept) else found


def _entries(seen: Any) -> Float[Array, "T ..."]:
    """What was observed, as ``_formed`` has what was guessed."""
    if isinstance(seen, Kept):
        return seen.entries
    return seen.columns if isinstance(seen, Dense) else seen


def _gram(rows: Float[Array, "R F"]) -> Float[Array, "R R"]:
    return product_right(rows, rows)


def _square(leaf: Float[Array, "T ..."]) -> Float[Array, " T"]:
    return jnp.sum(jnp.square(leaf), axis=tuple(range(1, leaf.ndim)))
