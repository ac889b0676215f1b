"""Which values of discrete features occur among the client's nodes."""

from __future__ import annotations

import numpy as np
from jaxtyping import Bool, Float

from jgleak.attacks.facts.evidence import UNSURE, Evidence, Kernel
from jgleak.attacks.facts.fact import LINEAR, NOISE, PROTOCOLS, Fact, Silent
from jgleak.attacks.noise import RATE

APART = 1e-2
"""Relative distance from the row of an absent value from which a value occurs; rounding is far below."""

SAME = 1e-3
"""Relative distance within which normalised rows are those of absent values."""

DISPROPORTIONATE = "the client's values are not in exact proportion to their public means"
"""Columns of values that nodes of one gradient have, so many each as ``mean`` times a constant, agree as those of
absent ones do. That takes whole numbers in the proportions of the means, in most of the columns."""


def feature_values(evidence: Evidence) -> Fact:
    """Values that occur; others may occur as well, in nodes that got no gradient.

    Row ``j`` of a first kernel's gradient is ``sum_v x_vj d_v``: exactly zero, in every step, where no node has the
    value. Normalised columns (``x = (raw - mean) / std``) make it ``(sum_v raw_vj d_v - mean_j t) / std_j`` with one
    ``t`` for all columns, which most columns show: those of absent values.

    Raises:
      Silent: nothing shows which rows are absent values'.
    """
    values = occurring(evidence)
    under = values_under(normalised=evidence.normalised, noisy=evidence.noise is not None)
    said = "; ".join(f"{name} {', '.join(map(str, found))}" for name, found in values.items())
    fact = Fact("feature_values", values, under, f"these values occur: {said}")
    return fact.provided(DISPROPORTIONATE) if evidence.normalised else fact


def occurring(evidence: Evidence, *, of_one_direction: bool = False) -> dict[str, list[str | int | float]]:
    """The same values by feature, as their columns have them.

    Args:
      evidence: the update.
      of_one_direction: normalised columns are read as well where all rows are multiples of one, of which some agree by
        chance more easily. That is good enough for a search, and no fact.

    Raises:
      Silent: nothing shows which rows are absent values'.
    """
    if not evidence.kernels:
        raise Silent("no linear map takes the nodes' input rows")
    if evidence.looks_normalised:
        raise Silent("columns look normalised, and the feature space says nothing of it")
    seen = np.zeros(evidence.space.width, bool)
    reasons = []
    for kernel in evidence.kernels:
        try:
            seen |= _moved(evidence, kernel, of_one_direction=of_one_direction)
        except Silent as reason:
            reasons.append(reason)
    if len(reasons) == len(evidence.kernels):
        raise reasons[0]
    values = named(evidence, seen)
    if not values:
        raise Silent("no row of a first kernel shows a value")
    return values


def values_under(*, normalised: bool, noisy: bool) -> tuple[str, ...]:
    """Where it is proved which values occur: rows of values that do not occur are zero, or of normalised columns
    multiples of one row."""
    return LINEAR if normalised else tuple(p for p in PROTOCOLS if p != NOISE or noisy)


def named(evidence: Evidence, columns: Bool[np.ndarray, " m"]) -> dict[str, list[str | int | float]]:
    """Values by feature, of columns that hold one."""
    found = {}
    for feature, start in zip(evidence.space.features, evidence.space.offsets, strict=True):
        if feature.kind == "onehot" and feature.determined_by is None:
            own = columns[start : start + feature.columns]
            found[feature.name] = [feature.values[k] for k in np.flatnonzero(own)]
        elif feature.kind == "binary" and columns[start]:
            found[feature.name] = [feature.values[1]]
    return {name: values for name, values in found.items() if values}


def _moved(evidence: Evidence, kernel: Kernel, *, of_one_direction: bool) -> Bool[np.ndarray, " m"]:
    if evidence.normalised:
        return _beside_absent(evidence, kernel, of_one_direction=of_one_direction)
    if evidence.noise is not None:
        return _above_noise(kernel, evidence.deviation(kernel.gradient))
    if evidence.decay == 0.0:
        if not np.any(kernel.zero):
            raise Silent("every row of the first kernel moved, as under noise: nothing shows that any gradient is zero")
        return ~kernel.zero
    if evidence.decay is None or not kernel.decayed():
        raise Silent("every row of the first kernel moved, as under noise: nothing shows that any gradient is zero")
    # Weight decay alone moves all entries towards zero, in whatever precision.
    return np.any(kernel.gradient * kernel.weights < 0, axis=1)


def _above_noise(kernel: Kernel, noise: float) -> Bool[np.ndarray, " m"]:
    """Rows longer than noise is, Gaussian or Laplace, but at a rate of ``RATE`` for all rows together."""
    rows, width = kernel.gradient.shape
    rare = float(np.log(rows * width / RATE))
    most = noise**2 * (width + 6.0 * np.sqrt(5.0 * width) + rare**2 / 2.0)
    return np.sum(kernel.gradient**2, axis=1) > most


def _beside_absent(evidence: Evidence, kernel: Kernel, *, of_one_direction: bool) -> Bool[np.ndarray, " m"]:
    space = evidence.space
    if space.mean is None or space.std is None:
        raise Silent("columns are not normalised")
    if evidence.observation.pruned or evidence.noise is not None or evidence.linear is False:
        raise Silent("columns are normalised, and something beside training changed their rows")
    gradient = evidence.undecayed(kernel).gradient
    words = np.zeros(space.width, bool)
    for feature, start in zip(space.features, space.offsets, strict=True):
        words[start : start + feature.columns] = feature.kind in ("onehot", "binary")
    columns = np.flatnonzero(words & (space.std > 0) & (space.mean > 0))
    if columns.size < 4:
        raise Silent("columns are normalised, and too few are there to tell the rows of absent values")
    rows = gradient[columns] * (space.std[columns] / space.mean[columns])[:, None]
    absent = np.median(rows, axis=0)
    size, apart = float(np.linalg.norm(absent)), np.linalg.norm(rows - absent, axis=1)
    if size == 0.0 or np.sum(apart <= SAME * size) <= columns.size / 2:
        raise Silent("columns are normalised, and no row stands out as that of absent values")
    if not of_one_direction and _along_one_direction(rows - absent):
        raise Silent("columns are normalised, and all rows are multiples of one, of which some agree by chance")
    error = _scaled_error(kernel, space.mean, space.std, columns)
    found = np.zeros(space.width, bool)
    found[columns[apart > APART * size + UNSURE * error]] = True
    return found


def _scaled_error(
    kernel: Kernel, mean: Float[np.ndarray, " m"], std: Float[np.ndarray, " m"], columns: np.ndarray
) -> Float[np.ndarray, " c"]:
    return np.linalg.norm(kernel.error[columns] * (std[columns] / mean[columns])[:, None], axis=1)


def _along_one_direction(rows: Float[np.ndarray, "c D"]) -> bool:
    """True where all rows are multiples of one: then numbers that are not absent may agree, as where all nodes have one
    gradient and the means are of these nodes."""
    values = np.linalg.svd(rows, compute_uv=False)
    return values.size < 2 or bool(values[1] <= APART * values[0])
