"""The device side of the block search: jitted, shape-stable functions over padded tables and tiles."""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from jgleak.gnn import GNN, Params


def _call(model: GNN, layer: int, weights: Params, method: str, *arguments: Array) -> Any:
    return model.convolution(layer).apply({"params": weights}, *arguments, method=method)


@partial(jax.jit, static_argnames=("model", "layer"))
def project(model: GNN, layer: int, weights: Params, rows: Float[Array, "T F"]) -> Float[Array, "T P"]:
    """What the layer computes of each row on its own."""
    return _call(model, layer, weights, "project", rows)


@partial(jax.jit, static_argnames=("model", "layer"))
def terms(
    model: GNN,
    layer: int,
    weights: Params,
    centre: Float[Array, " P"],
    centre_degree: Float[Array, ""],
    rows: Float[Array, "T P"],
    degrees: Float[Array, " T"],
    columns: Int[Array, " C"],
) -> Float[Array, "A T+1 C"]:
    """The centre's own term (place 0) and each possible neighbour's, as far as ``columns`` need them."""
    own, others = _call(model, layer, weights, "star_terms", centre, centre_degree, rows, degrees)
    return _call(model, layer, weights, "star_select", jnp.concatenate([own[None], others]), columns)


@partial(jax.jit, static_argnames=("model", "layer"))
def embed(
    model: GNN, layer: int, weights: Params, totals: Float[Array, "A ... C"], columns: Int[Array, " C"]
) -> Float[Array, "... C"]:
    """Summed terms to states."""
    return model.activate(layer, _call(model, layer, weights, "star_combine", totals, columns))


@partial(jax.jit, static_argnames=("model", "layer"))
def accepted(
    model: GNN,
    layer: int,
    weights: Params,
    columns: Int[Array, " C"],
    scale: Float[Array, " C"],
    null: Float[Array, "C s"],
    prefix: Float[Array, "A P C"],
    last: Int[Array, " P"],
    tail: Float[Array, "A Q C"],
    first: Int[Array, " Q"],
    centre_part: Float[Array, " s+1"],
    bound: Float[Array, ""],
    sizes: Int[Array, " 3"],
) -> tuple[Int[Array, ""], Bool[Array, "P Q"]]:
    """The cheap span check on one tile of prefix x tail candidates: how many pass, and which.

    Written column by column so that it compiles to one pass that keeps a candidate's few running sums in registers;
    as a matrix product the embeddings would go through memory.

    Args:
      prefix: summed terms of each prefix row, the centre's own term included.
      last: ordering key of each prefix row; a pair counts when ``last <= first`` (``<`` with ``sizes[2] = 1``).
      tail: summed terms of each tail row.
      first: ordering key of each tail row.
      centre_part: what the row's fixed part adds to the residual, then its squared length.
      bound: largest residual relative to the row's length.
      sizes: real prefix rows, real tail rows, 1 for strict ordering.
    """
    shape = (prefix.shape[1], tail.shape[1])
    residual = [jnp.full(shape, centre_part[k]) for k in range(null.shape[1])]
    length = jnp.full(shape, centre_part[-1])
    for c in range(columns.shape[0]):
        total = prefix[:, :, None, c] + tail[:, None, :, c]
        state = embed(model, layer, weights, total[..., None], columns[c : c + 1])[..., 0] * scale[c]
        length = length + state * state
        residual = [r + null[c, k] * state for k, r in enumerate(residual)]
    inside = (sum(r * r for r in residual) <= bound**2 * length) & (length > 0)
    ordered = last[:, None] + sizes[2] * (last[:, None] >= 0) <= first[None, :]
    real = (jnp.arange(shape[0]) < sizes[0])[:, None] & (jnp.arange(shape[1]) < sizes[1])[None, :]
    mask = inside & ordered & real
    return mask.sum(), mask


def fill(array: np.ndarray, size: int, axis: int = 0) -> np.ndarray:
    """Zeros at the end of an axis, up to ``size``."""
    if array.shape[axis] == size:
        return array
    widths = [(0, 0)] * array.ndim
    widths[axis] = (0, size - array.shape[axis])
    return np.pad(array, widths)


def pad(array: np.ndarray, sizes: tuple[int, ...]) -> np.ndarray:
    """Zero rows up to the next padded size (the array itself beyond the last)."""
    return fill(array, next((s for s in sizes if s >= array.shape[0]), array.shape[0]))
