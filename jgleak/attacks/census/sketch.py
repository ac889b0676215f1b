"""A gradient as a few hundred numbers: every weight row's products with random signs, or with orthonormal vectors."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from jgleak.attacks.census.settings import CensusLimits, CensusTolerances
from jgleak.gnn import Params

FEW, EQUATIONS = 32, 256
"""A weight with fewer rows than the first number becomes about as many equations as the second, not one for each row (a
compiled shape)."""


def signs(tree: Params) -> Params:
    """Random signs for the rows of every matrix: one vector a row ``(rows, width)``, or where there are few rows
    several for all of them ``(1, width, k)``; one sign for a whole vector."""
    rng, both = np.random.default_rng(0), np.array([-1.0, 1.0], np.float32)

    def one(leaf: np.ndarray) -> np.ndarray:
        if leaf.ndim > 1 and leaf.shape[0] < FEW:
            return rng.choice(both, (1, leaf.shape[1], -(-EQUATIONS // leaf.shape[0])))
        return rng.choice(both, leaf.shape if leaf.ndim > 1 else 1)

    return jax.tree.map(one, tree)


def directions(tree: Params, columns: int, limits: CensusLimits) -> Params:
    """Orthonormal vectors for the rows of every matrix ``(1, width, k)``, ``width`` of them where the limits allow."""
    rows = sum(leaf.shape[0] for leaf in jax.tree.leaves(tree) if leaf.ndim > 1)
    most = max(1, min(limits.system_entries, limits.system_products // columns) // (rows * columns))
    return orthonormal(tree, 1 << (most.bit_length() - 1))  # a compiled shape: a power of two


def orthonormal(tree: Params, most: int) -> Params:
    """At most ``most`` orthonormal vectors for the rows of every matrix; the entries of a vector stay as they are."""
    rng = np.random.default_rng(0)

    def one(leaf: np.ndarray) -> np.ndarray:
        if leaf.ndim == 1:
            return np.ones(1, np.float32)
        width = leaf.shape[1]
        if most >= width:
            return np.eye(width, dtype=np.float32)[None]
        return np.linalg.qr(rng.normal(size=(width, most)))[0].astype(np.float32)[None]

    return jax.tree.map(one, tree)


def sketch(tree: Params, vectors: Params) -> Float[Array, " M"]:
    """The products of every weight row with its vectors."""

    def one(g: Array | np.ndarray, s: Array | np.ndarray) -> Array | np.ndarray:
        if s.ndim == 3:
            return jnp.matmul(g, s[0], precision="highest").ravel()
        return (s * g).sum(axis=-1).ravel() if s.ndim > 1 else s * g

    return jnp.concatenate(jax.tree.leaves(jax.tree.map(one, tree, vectors)))


def sketched(
    tree: Params, vectors: Params, tolerances: CensusTolerances
) -> tuple[Float[np.ndarray, " M"], Float[np.ndarray, " M"]]:
    """An update's sketch in double precision, and the typical size of each of its entries."""
    rows = [
        (path[:-1], np.linalg.norm(leaf, axis=1) if leaf.ndim > 1 else np.abs(leaf))
        for path, leaf in jax.tree_util.tree_leaves_with_path(tree)
    ]
    typical = [float(np.median(size[size > 0])) if np.any(size > 0) else 0.0 for _, size in rows]
    layers, loudest = dict[object, float](), dict[object, float]()
    largest = [float(np.max(size, initial=0.0)) for _, size in rows]
    for (layer, _), middle, most in zip(rows, typical, largest, strict=True):
        layers[layer] = max(layers.get(layer, 0.0), middle)
        loudest[layer] = max(loudest.get(layer, 0.0), most)
    floor, faint = tolerances.equation_floor, tolerances.equation_faint
    rounding = tolerances.equation_cancelled / tolerances.missing_residual
    sizes = [
        np.maximum(
            size, max(floor * middle, faint * layers[layer], rounding * loudest[layer] * (most < loudest[layer])) or 1.0
        )
        for (layer, size), middle, most in zip(rows, typical, largest, strict=True)
    ]
    pairs = zip(jax.tree.leaves(tree), jax.tree.leaves(vectors), strict=True)
    repeats = [(s.shape[2], leaf.shape[1]) if s.ndim == 3 else (1, 1) for leaf, s in pairs]
    spread = [np.repeat(size / np.sqrt(width), k) for size, (k, width) in zip(sizes, repeats, strict=True)]
    return np.asarray(sketch(tree, vectors), np.float64), np.concatenate(spread)
