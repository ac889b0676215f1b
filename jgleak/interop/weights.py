"""Rounds in which clients return weights: their difference is the gradient, or its mean along the local steps."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np

from jgleak.federated.local_training import LocalTraining
from jgleak.federated.loss import Loss
from jgleak.federated.observation import Observation
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
    """The observation behind a round in which a client returned *weights*: what they lost, as a mean gradient.

    After one step of gradient descent this is the gradient (protocol ``fedsgd``); after several it is the mean gradient
    along the way (``fedavg``). Momentum and weight decay are reckoned with where the client's ``LocalTraining`` says
    them; adaptive rates (Adam) are not. Subtraction in float32 leaves noise of the weights' rounding (``rounding``),
    which the observation says, so that attacks reckon with it.

    Args:
      before: the arrays that were sent to the client, by name (``by_name`` says what may hold them; ``named`` takes a
        list).
      after: those that came back, the running statistics of batch normalisation among them.
      client: how it trained, ``Client(local=LocalTraining(rate=0.1))``, and what it did besides: frozen parameters,
        which come back as they were sent, clipping, pruning, noise, which adds up with the rounding's. The buffers are
        those of ``after``.
      layers, loss, batch_size, reduction, example: as for ``from_arrays``.

    Raises:
      ValueError: a client of which nobody says how it trained, arrays of other names or shapes, or as for
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
    rounded = rounding(back, local)
    if rounded < _single(slopes) and client.noise is None:
        noise = None  # the numbers of the observation itself are rounded more
    else:
        noise = math.hypot(rounded, client.noise or 0.0)
    return observed(sent, slopes, layers, **given, client=dataclasses.replace(client, buffers=back, noise=noise))


def rounding(after: Any, local: LocalTraining) -> float:
    """Deviation of the noise that rounding of the returned weights leaves in ``from_weights``'s update.

    A weight ``w`` is rounded to a multiple of its spacing ``u``, which is an error of deviation ``u / sqrt(12)``; every
    step rounds once. This is the root mean square over all weights; the attacks' ``noise`` takes one number for all
    entries.
    """
    floats = [a for a in by_name(after).values() if a.dtype.kind == "f" or a.dtype.name in DIGITS]
    spacing = np.concatenate([np.spacing(np.abs(array)).ravel().astype(np.float64) for array in floats])
    return float(np.sqrt(np.mean(spacing**2) / 12.0 * local.steps) / local.length)


def _single(slopes: Arrays) -> float:
    """Deviation of what rounding to 32 bits leaves of the entries of an update."""
    spacing = np.concatenate([np.spacing(np.abs(array)).ravel().astype(np.float64) for array in slopes.values()])
    return float(np.sqrt(np.mean(spacing**2) / 12.0))


def mean_gradient(before: np.ndarray, after: np.ndarray, local: LocalTraining) -> np.ndarray:
    """The mean gradient of one array; zero where it came back as it was sent: it was not trained, and did not decay."""
    sent, back = before.astype(np.float64), after.astype(np.float64)
    moved = 0.0 if np.array_equal(sent, back) else float(local.kept[-1]) * sent - back
    return np.asarray(moved / local.length * np.ones_like(sent), np.float32)


def weights_after(before: np.ndarray, slope: np.ndarray, local: LocalTraining) -> np.ndarray:
    """The weights whose difference from ``before`` is read as the mean gradient ``slope``, in their type."""
    moved = float(local.kept[-1]) * before.astype(np.float64) - local.length * slope.astype(np.float64)
    return moved.astype(before.dtype)
