"""Rounds in which clients return weights: their difference is the gradient, or its mean along the local steps."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np

from jgleak.federated.local_training import LocalTraining
from jgleak.federated.loss import Loss
from jgleak.federated.observation import Observation, flatten
from jgleak.interop.arrays import Arrays, by_name
from jgleak.interop.bridge import Client, observed, warn_uncompared
from jgleak.interop.example import Given
from jgleak.interop.forward import Forward
from jgleak.precision import DIGITS


def from_weights(
    before: Any,
    after: Any,
    layers: Forward,
    *,
    loss: str | Loss,
    client: Client,
    batch_size: int = 1,
    reduction: str = "mean",
    example: Given | None = None,
) -> Observation:
    """The observation behind a round in which a client returned *weights*: their change as a mean gradient.

    After one step of gradient descent this is the gradient (protocol ``fedsgd``); after several it is the mean gradient
    along the local steps (``fedavg``). Momentum and weight decay are accounted for where the client's ``LocalTraining``
    states them. Where it states Adam, the result is the mean of Adam's directions: attacks refuse it, and
    ``jgleak.facts`` shows what its zeros and signs reveal. Subtraction in float32 leaves noise of the weights' rounding
    (``rounding``), which the observation states, so that attacks account for it. Parameters that weight decay should
    have changed and did not are treated as frozen, whether or not ``client`` states it.

    Args:
      before: the arrays that were sent to the client, by name (in any container of ``by_name``; ``named`` takes a
        list).
      after: the returned arrays, with the running statistics of batch normalisation.
      client: how it trained, ``Client(local=LocalTraining(rate=0.1))``, and what it did besides: frozen parameters
        (returned as they were sent), clipping, pruning, noise (added to the rounding's). The buffers are those of
        ``after``.
      layers: as for ``from_arrays``.
      loss: as for ``from_arrays``.
      batch_size: as for ``from_arrays``.
      reduction: as for ``from_arrays``.
      example: as for ``from_arrays``.

    Raises:
      ValueError: ``client`` does not state how it trained, arrays of other names or shapes, or as for
        ``from_arrays``.

    Warns:
      UserWarning: as for ``from_arrays``.
    """
    local = client.local
    if local is None:
        raise ValueError(
            "client: weights are a gradient times the learning rate, and nothing says which; give "
            "client=Client(local=LocalTraining(rate=0.1, steps=1)), or the gradients to from_arrays"
        )
    warn_uncompared(layers, example)
    sent, back = by_name(before), by_name(after)
    if sent.keys() != back.keys():
        name = min(sent.keys() ^ back.keys())
        raise ValueError(f"{'before' if name in back else 'after'}: lacks {name!r}; give both under the same names")
    for name, array in sent.items():
        if array.shape != back[name].shape:
            raise ValueError(f"after: {name!r} has shape {back[name].shape}, it was sent as {array.shape}")
    slopes = {name: mean_gradient(array, back[name], local) for name, array in sent.items()}
    given = {"loss": loss, "batch_size": batch_size, "reduction": reduction, "example": example}
    rounded = rounding(sent, back, local)
    if rounded < _single(slopes) and client.noise is None:
        noise = None  # the numbers of the observation itself are rounded more
    else:
        noise = math.hypot(rounded, client.noise or 0.0)
    made = observed(sent, slopes, layers, **given, client=dataclasses.replace(client, buffers=back, noise=noise))
    still = _undecayed(made, local)
    model = made.model.clone(frozen=(*made.model.frozen, *still))
    return dataclasses.replace(made, model=model) if still else made


def rounding(before: Any, after: Any, local: LocalTraining) -> float:
    """Deviation of the noise that rounding of the returned weights leaves in ``from_weights``'s update.

    A weight ``w`` is rounded to a multiple of its spacing ``u``, which is an error of deviation ``u / sqrt(12)``; every
    step rounds once. Where AdamW multiplies weights with ``1 - rate weight_decay``, the factor is rounded too, at every
    step alike, by up to ``u / 2``. The attacks' ``noise`` takes one number for all entries, and this is the root mean
    square in the array where it is largest, so that no test is too strict in any. Arrays that were returned unchanged
    carry none.
    """
    sent, back = by_name(before), by_name(after)
    floats = {name: a for name, a in back.items() if a.dtype.kind == "f" or a.dtype.name in DIGITS}
    moved = [array for name, array in floats.items() if not np.array_equal(sent[name], array)]
    squares = [float(np.mean(np.spacing(np.abs(array)).astype(np.float64) ** 2)) for array in moved if array.size]
    factor = local.steps**2 / 4.0 if local.optimiser == "adam" and local.weight_decay else 0.0
    return float(np.sqrt(max(squares, default=0.0) * (local.steps / 12.0 + factor)) / local.length)


def _undecayed(seen: Observation, local: LocalTraining) -> list[str]:
    """The parts that weight decay should have changed by more than rounding, and that were returned unchanged."""
    lost, update = 1.0 - float(local.kept[-1]), flatten(seen.update)

    def still(name: str, leaf: np.ndarray) -> bool:
        shown = np.abs(leaf) * lost > local.steps * np.spacing(np.abs(leaf).astype(np.float32))
        return not np.any(update[name]) and bool(np.any(shown)) and not name.endswith("eps")

    return [name for name, leaf in flatten(seen.model.trained(seen.params)).items() if still(name, np.asarray(leaf))]


def _single(slopes: Arrays) -> float:
    """Deviation of the error of rounding the entries of an update to 32 bits."""
    spacing = np.concatenate([np.spacing(np.abs(array)).ravel().astype(np.float64) for array in slopes.values()])
    return float(np.sqrt(np.mean(spacing**2) / 12.0))


def mean_gradient(before: np.ndarray, after: np.ndarray, local: LocalTraining) -> np.ndarray:
    """The mean gradient of one array (under Adam the mean direction). It is zero where the array was returned
    unchanged: it was not trained, and did not decay. For weights in 64 bits a change that rounding explains counts as
    zero too: only decay changed them.
    """
    sent, back = before.astype(np.float64), after.astype(np.float64)
    if np.array_equal(sent, back):
        return np.zeros(sent.shape, np.float32)
    moved = float(local.kept[-1]) * sent - back
    if local.weight_decay and after.dtype == np.float64:
        most = np.spacing(np.maximum(np.abs(sent), np.abs(back)))
        moved = np.where(np.abs(moved) <= 2 * local.steps * most, 0.0, moved)
    return np.asarray(moved / local.length * np.ones_like(sent), np.float32)


def weights_after(before: np.ndarray, slope: np.ndarray, local: LocalTraining) -> np.ndarray:
    """The weights whose difference from ``before`` is read as the mean gradient ``slope``, in their type."""
    moved = float(local.kept[-1]) * before.astype(np.float64) - local.length * slope.astype(np.float64)
    return moved.astype(before.dtype)
