"""Which ReLU units were on: those that got a gradient. The others are off at every node, or cut off behind."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from jaxtyping import Bool

from jgleak.attacks.facts.evidence import Evidence
from jgleak.attacks.facts.fact import (
    ADAM,
    BATCH,
    CLIPPING,
    MOMENTUM,
    ONE,
    PRUNING,
    QUANTISATION,
    STEPS,
    Fact,
    Silent,
)
from jgleak.gnn import NodeMLP, Pooled
from jgleak.gnn.tree import at


def units(evidence: Evidence) -> Fact:
    """By layer, how many ReLU units were on at some node in some step, at least, of how many.

    A unit that is off at every node passes no gradient: its column is exactly zero.

    Raises:
      Silent: noise or weight decay moves every column, or there is no ReLU.
    """
    if evidence.noise is not None:
        raise Silent("noise moves every column")
    if evidence.decay != 0.0:
        raise Silent("weight decay may move every column")
    value = {
        place: {"on": int(on.sum()), "of": int(on.size)}
        for place, on in lit(evidence)
        if evidence.still or not on.all()
    }
    if not value:
        raise Silent("no ReLU stands behind a linear map, or every column moved, as under noise")
    said = ", ".join(f"{count['on']} of {count['of']} in {place}" for place, count in value.items())
    under = (ONE, STEPS, MOMENTUM, ADAM, BATCH, CLIPPING, PRUNING, QUANTISATION)
    return Fact("units", value, under, f"units that were on at some node, at least: {said}")


def lit(evidence: Evidence) -> Iterator[tuple[str, Bool[np.ndarray, " D"]]]:
    """Of every place with a ReLU behind linear maps that are trained, the units that got a gradient."""
    model, update = evidence.observation.model, evidence.observation.update
    for number, layer in enumerate(model.layers):
        if layer.act == "relu" and layer.conv.peels and (layer.norm is None or layer.norm.columnwise):
            weights = model.conv_of(update, number)
            names = dict.fromkeys(tap.path for tap in layer.conv.taps if tap.rows != "hidden")
            if all(model.trains(f"layers_{number}", "conv", *name) for name in names):
                yield f"layers_{number}", np.any([_columns(at(weights, name)) for name in names], axis=0)
    readout = model.readout
    if isinstance(readout, NodeMLP | Pooled) and readout.mlp.act == "relu":
        for number in range(len(readout.mlp.widths) - 1):
            if not model.trains("readout", "mlp", f"linears_{number}"):
                continue
            part = model.readout_of(update)["mlp"][f"linears_{number}"]
            yield (
                f"readout/linears_{number}",
                _columns(part["kernel"]) | _columns(np.asarray(part["bias"])[..., None, :]),
            )


def _columns(gradient: np.ndarray) -> Bool[np.ndarray, " D"]:
    seen = np.asarray(gradient)
    return np.any(seen.reshape(-1, seen.shape[-1]) != 0, axis=0)
