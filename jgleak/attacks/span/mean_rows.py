"""What gradients hide behind batch normalisation in training mode, and what the returned statistics show of it.

There the upstream gradients ``U`` of all nodes add up to zero, column by column, because a constant added to every
row changes nothing. So the columns of ``dL/dW = X^T U``, of the map ``W`` before the norm, span differences of rows
alone. With the rows' mean ``m`` the span is whole again, and ``m W`` (and the bias) is the batch's mean, which follows
from the running statistics (``federated.statistics``). Several maps whose outcomes are added share one such equation.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Float

from jgleak.federated.observation import Observation
from jgleak.federated.statistics import blur, of_batch
from jgleak.gnn import Params
from jgleak.gnn.tree import at

BLURRED = 3e-4
"""Relative error of a mean row, by rounding of the statistics, above which it is not used. It is less than the
tolerance of rows (``SpanTolerances.statistics_row``)."""

Path = tuple[str, ...]
Row = Float[np.ndarray, " d"]


def mean_rows(observation: Observation, layer: int) -> dict[Path, Row | None]:
    """The mean of the rows that enter each kernel right before a norm in training mode; None where it is unknown."""
    model, found = observation.model, dict[Path, Row | None]()
    part, weights = model.layers[layer], model.conv_of(observation.params, layer)
    for path, norm in part.norms.items():
        if norm.returns_statistics:
            names, bias = part.conv.maps_into(None if path == ("norm",) else path[-1])
            place, kernels = (f"layers_{layer}", *path), [weights[name] for name in names]
            rows = _solved(observation, place, kernels, weights.get(bias))
            found |= {("conv", name): row for name, row in zip(names, rows, strict=True)}
    return found


def whole_gradient(observation: Observation, layer: int, path: Path) -> Float[np.ndarray, "d D"] | None:
    """The gradient of a layer's kernel, with the direction that a norm behind it hides beside its columns.

    None where that direction is unknown.
    """
    gradient = np.asarray(at(observation.model.layer_of(observation.update, layer), path), np.float64)
    hidden = mean_rows(observation, layer)
    if path not in hidden:
        return gradient
    row = hidden[path]
    if row is None:
        return None
    return np.c_[gradient, float(np.linalg.norm(gradient, 2)) / max(float(np.linalg.norm(row)), 1e-30) * row]


def _solved(observation: Observation, norm: Path, kernels: list[Params], bias: Params | None) -> list[Row | None]:
    """The means of the rows that enter kernels whose outputs, added up with the bias, enter a norm."""
    sizes, seen = [kernel.shape[0] for kernel in kernels], observation.statistics
    if not kernels or seen is None or sum(sizes) > kernels[0].shape[1]:
        return [None] * len(kernels)
    model, params = observation.model, observation.params
    inverse = np.linalg.pinv(np.concatenate([np.asarray(kernel, np.float64) for kernel in kernels]))
    mean, error = of_batch(model, params, seen)[norm][0], blur(model, params, seen)[norm][0]
    rows = (mean - (0.0 if bias is None else np.asarray(bias, np.float64))) @ inverse
    errors = np.linalg.norm(error[:, None] * inverse, axis=0)
    ends = np.cumsum(sizes)[:-1]
    pairs = zip(np.split(rows, ends), np.split(errors, ends), strict=True)
    return [row if np.linalg.norm(off) <= BLURRED * np.linalg.norm(row) else None for row, off in pairs]
