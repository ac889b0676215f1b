"""Parameter lists, as Flower's clients send them: arrays in the order of a list of names."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np

from jgleak.federated.observation import Observation
from jgleak.interop.arrays import Arrays, by_name
from jgleak.interop.bridge import from_arrays
from jgleak.interop.layers import Step


def from_weights(
    names: Sequence[str],
    before: Sequence[Any],
    after: Sequence[Any],
    layers: Sequence[Step],
    *,
    rate: float,
    steps: int = 1,
    loss: str,
    batch_size: int = 1,
    reduction: str = "mean",
    example: Any = None,
) -> Observation:
    """The observation behind a round in which a client returned *weights*: ``(before - after) / (rate * steps)``.

    After one step of gradient descent this is the gradient (protocol ``fedsgd``); after several it is the mean gradient
    along the way (``fedavg``). The client must take plain steps on all its graphs: no momentum, no weight decay, no
    adaptive rates. Subtraction in float32 leaves noise of the weights' rounding, see ``rounding``.

    Args:
      names: the arrays' names in order, ``list(model.state_dict())``.
      before: the arrays that were sent to the client.
      after: those that came back.
      rate: learning rate of a local step.
      steps: number of local steps.
      layers, loss, batch_size, reduction, example: as for ``from_arrays``.

    Raises:
      ValueError: lists of different lengths or shapes, a rate that is not positive, or as for ``from_arrays``.
    """
    if not (np.isfinite(rate) and rate > 0) or steps < 1:
        raise ValueError(f"rate, steps: a client makes at least one step at a rate above 0, got {steps} at {rate}")
    sent, back = _named("before", names, before), _named("after", names, after)
    for name in names:
        if sent[name].shape != back[name].shape:
            raise ValueError(f"after: {name!r} has shape {back[name].shape}, it was sent as {sent[name].shape}")
    slopes = {name: _quotient(sent[name], back[name], rate * steps) for name in names}
    seen = from_arrays(sent, slopes, layers, loss=loss, batch_size=batch_size, reduction=reduction, example=example)
    if steps == 1:
        return seen
    return dataclasses.replace(seen, protocol="fedavg", local_steps=steps, local_rate=float(rate))


def rounding(names: Sequence[str], after: Sequence[Any], *, rate: float, steps: int = 1) -> float:
    """Deviation of the noise that rounding of the returned weights leaves in ``from_weights``'s update.

    A weight ``w`` is rounded to a multiple of its spacing ``u``, which is an error of deviation ``u / sqrt(12)``; every
    step rounds once. This is the root mean square over all weights; the attacks' ``noise`` takes one number for all
    entries.
    """
    spacing = np.concatenate([np.spacing(np.abs(a)).ravel().astype(np.float64) for a in _floats(names, after).values()])
    return float(np.sqrt(np.mean(spacing**2) / 12.0 / steps) / rate)


def _floats(names: Sequence[str], arrays: Sequence[Any]) -> Arrays:
    return {name: array for name, array in _named("after", names, arrays).items() if array.dtype.kind == "f"}


def _named(what: str, names: Sequence[str], arrays: Sequence[Any]) -> Arrays:
    if len(names) != len(arrays):
        raise ValueError(
            f"{what}: {len(arrays)} arrays for {len(names)} names; give the names in the order of the list, as "
            "list(model.state_dict())"
        )
    return by_name(dict(zip(names, arrays, strict=True)))


def _quotient(before: np.ndarray, after: np.ndarray, scale: float) -> np.ndarray:
    return ((before.astype(np.float64) - after.astype(np.float64)) / scale).astype(np.float32)
