"""The few feature directions that a gradient shows: thousands of word columns become at most one a node."""

from __future__ import annotations

import dataclasses
import math
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float, Num

from jgleak.federated.observation import Observation
from jgleak.gnn import Params
from jgleak.graph import bucket


@dataclasses.dataclass(frozen=True)
class Reduction:
    """How directions are told from rounding.

    Attributes:
      weakest_direction: directions weaker than this share of the strongest are rounding noise of float32 gradients; so
        is what given rows have beside the gradient's directions, where it is less than this share of all rows.
      sketch: random combinations of the gradient's columns that its directions are read from; more nodes than this do
        not fit.
    """

    weakest_direction: float = 1e-6
    sketch: int = 320


REDUCTION = Reduction()
"""The default."""

MORE = 3
"""How many combinations a loss are made first."""


class Reduced(NamedTuple):
    """An observation in fewer feature columns.

    Attributes:
      observation: of the model whose first layer takes ``r`` columns.
      basis: ``(m, r)`` orthonormal columns (zero beyond the rank), so that ``X = Y basisᵀ``; None where nothing was
        reduced.
    """

    observation: Observation
    basis: Float[np.ndarray, "m r"] | None


def reduce(
    observation: Observation,
    rows: Float[np.ndarray, "k m"] | None = None,
    how: Reduction = REDUCTION,
) -> Reduced:
    """The same client, seen along the directions of its first layer's gradient.

    The gradient of a first-layer kernel is ``Xᵀ (...)``: its columns lie in the span of the client's feature rows. With
    ``X = Y Qᵀ`` and kernels ``Qᵀ W``, states, losses and other gradients stay what they are, and the kernel's gradient
    becomes ``Qᵀ ∂W``. So nothing is lost when ``Q`` spans the rows, and the widths of words (4,714 on Facebook) become
    the number of nodes. It does where as many independent gradients as nodes enter the layer; rows outside the span
    are not seen by the gradient of the first layer at all.

    Args:
      observation: of a model that shows ``X`` to its first linear maps only, which are trained; others come back as
        they are.
      rows: further rows to span (known features).
      how: what counts as a direction.
    """
    taps = sorted({tap.path: tap for tap in observation.model.input_taps}.values())
    if not taps or not all(observation.model.trains(*tap.path) for tap in taps):
        return Reduced(observation, None)
    directions = _of_gradients([np.asarray(tap.of(observation.update)) for tap in taps], how)
    if rows is not None:
        directions = np.hstack([directions, _beside(directions, rows, how)])
    basis = _padded(directions)
    if basis is None:
        return Reduced(observation, None)

    def narrow(tree: Params) -> Params:
        for tap in taps:
            kernel = np.matmul(basis.T.astype(np.float32), np.asarray(tap.of(tree), np.float32))
            tree = _replaced(tree, tap.path, kernel)
        return tree

    model = observation.model.clone(in_features=basis.shape[1])
    params, update = narrow(observation.params), narrow(observation.update)
    return Reduced(dataclasses.replace(observation, model=model, params=params, update=update), basis)


def _replaced(tree: Params, path: tuple[str, ...], leaf: np.ndarray) -> dict[str, Any]:
    first, *rest = path
    return {**tree, first: _replaced(tree[first], tuple(rest), leaf) if rest else leaf}


def _of_gradients(kernels: list[Num[np.ndarray, "... m _d"]], how: Reduction) -> Float[np.ndarray, "m r"]:
    """Orthonormal directions of the columns of all gradients, or of random combinations of many.

    Combinations show the faint directions where they are at least twice as many, so few are made first: nodes of which
    a loss is seen are about as many as directions.
    """
    losses = kernels[0].size // math.prod(kernels[0].shape[-2:])
    for most in dict.fromkeys((min(MORE * losses, how.sketch), how.sketch)):
        columns = _combined(kernels, how.sketch, most)
        left, values, _ = np.linalg.svd(columns, full_matrices=False)
        rank = int(np.sum(values > how.weakest_direction * values[:1]))
        if columns.shape[1] != most or 2 * rank <= most:
            break
    return left[:, :rank]


def _beside(
    directions: Float[np.ndarray, "m r"], rows: Float[np.ndarray, "k m"], how: Reduction
) -> Float[np.ndarray, "m e"]:
    """Orthonormal directions of rows that orthonormal ``directions`` lack."""
    rest = rows.T / (np.linalg.norm(rows) or 1.0)
    for _ in range(2):  # the second time takes what rounding left the first time
        rest = rest - directions @ (directions.T @ rest)
    left, values, _ = np.linalg.svd(rest, full_matrices=False)
    return left[:, values > how.weakest_direction]


def _padded(directions: Float[np.ndarray, "m r"]) -> Float[np.ndarray, "m s"] | None:
    """With zeros for few shapes to compile; None where nothing would be won."""
    rows, rank = directions.shape
    width = bucket(max(rank, 1))
    return np.pad(directions, ((0, 0), (0, width - rank))) if width < rows else None


def _combined(kernels: list[Num[np.ndarray, "... m _d"]], whole: int, most: int) -> Float[np.ndarray, "m c"]:
    """The columns of all gradients of all kernels, or ``most`` random combinations of more than ``whole``.

    A hundred gradients of a wide kernel are hundreds of megabytes, so they are combined one by one as they lie.
    """
    gradients = [gradient for kernel in kernels for gradient in kernel.reshape(-1, *kernel.shape[-2:])]
    number = sum(gradient.shape[1] for gradient in gradients)
    if number <= whole:
        return np.hstack(gradients).astype(np.float64)
    rng, combined = np.random.default_rng(0), np.zeros((gradients[0].shape[0], most))
    for gradient in gradients:
        combined += gradient.astype(np.float64) @ rng.standard_normal((gradient.shape[1], most))
    return combined
