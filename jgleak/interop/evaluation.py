"""Whether a gradient was taken with batch normalisation in evaluation mode, by an equation that training mode violates.

In evaluation mode a norm is ``y = scale (x - mean) / d + bias`` with ``d = sqrt(variance + epsilon)`` fixed, so that
``dL/dx = scale / d dL/dy`` at every node. A bias that is added to all rows ``x`` has the sum of these as its gradient,
which is ``scale / d`` times the gradient of the norm's own bias. Where nothing is added, ``x`` is linear in the kernels
``K`` before it, and by Euler's theorem ``<K, dL/dK>``, column by column, is ``sum x dL/dx``: ``scale`` times the
gradient of the scale and ``scale mean / d`` times that of the bias. In training mode both sums are zero, since the
batch's statistics follow ``x``; with other running statistics they have other values.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Float

from jgleak.federated.observation import Observation
from jgleak.gnn import BatchNorm, GINConv, Params
from jgleak.gnn.tree import at
from jgleak.precision import computed_noise, smallest_noise

APART, APART_16 = 1e-2, 0.3
"""How far the two sides may be apart, relative to the largest entry: in 32 bits, and where numbers have 16."""


def not_in_evaluation_mode(observation: Observation) -> str | None:
    """Why the update is not a gradient with the norms in evaluation mode, in words; None where it may be one.

    Sums over nodes that nearly cancel are compared with the largest of their columns. Pruned and noisy updates, and
    several local steps, keep no equation.
    """
    rounding = observation.rounding
    known = computed_noise(observation.update) if rounding is None else smallest_noise(rounding)
    if observation.pruned or observation.noise != known or observation.protocol != "fedsgd":
        return None
    for path, norm in observation.model.norms.items():
        if isinstance(norm, BatchNorm) and not norm.training:
            sides = _sides(observation, path, norm)
            if sides is None:
                continue
            found, wanted = sides
            apart = (APART if known is None else APART_16) * np.abs(wanted).max()
            if np.abs(found - wanted).max() > apart > 0:
                return _words("/".join(path), zero=bool(np.abs(found).max() <= apart))
    return None


def _words(name: str, *, zero: bool) -> str:
    what = (
        "different: the running statistics are not those with which the gradient was taken, or a defence changed its "
        "entries (then say so: Client(noise=..), Client(pruned=True))"
    )
    if zero:
        what = "zero: the norm was in training mode when the gradient was taken"
    return (
        f"in evaluation mode the gradient at the input of the batch normalisation {name!r} follows from the norm's own "
        f"gradients, and here it is {what}"
    )


def _sides(
    observation: Observation, path: tuple[str, ...], norm: BatchNorm
) -> tuple[Float[np.ndarray, " D"], Float[np.ndarray, " D"]] | None:
    """Both sides of one norm's equation; None where a gradient that it needs is missing."""
    model = observation.model
    behind = path[-1] == "norm"  # the convolution, not inside it
    place = (path[0], "conv")
    conv = model.layers[int(path[0].removeprefix("layers_"))].conv
    kernels, bias = conv.maps_into(None if behind else path[-1])
    part, slope = at(observation.params, place), at(observation.update, place)
    if not all(model.trains(*path, role) for role in ("scale", "bias")):
        return None
    weights, slopes = _numbers(at(observation.params, path)), _numbers(at(observation.update, path))
    deviation = np.sqrt(weights["variance"] + norm.epsilon)
    ends_active = behind and isinstance(conv, GINConv) and conv.ends_active
    if bias in part and model.trains(*place, bias) and not ends_active:
        return np.asarray(slope[bias], np.float64), weights["scale"] / deviation * slopes["bias"]
    matrices = {name for name, leaf in part.items() if np.ndim(leaf) > 1}
    whole = bool(kernels) and (not behind or matrices == set(kernels)) and bias not in part
    if not whole or not all(model.trains(*place, name) for name in kernels):
        return None
    pairs = [(np.asarray(part[name], np.float64), np.asarray(slope[name], np.float64)) for name in kernels]
    found = sum((kernel * gradient).sum(axis=0) for kernel, gradient in pairs)
    wanted = weights["scale"] * (slopes["scale"] + weights["mean"] / deviation * slopes["bias"])
    return np.asarray(found), wanted


def _numbers(tree: Params) -> dict[str, Float[np.ndarray, " D"]]:
    return {name: np.asarray(leaf, np.float64) for name, leaf in tree.items()}
