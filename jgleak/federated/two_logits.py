"""Observation files before format 3, which keep a client's one output ``z`` under BCE as the two logits ``(0, z)``."""

from __future__ import annotations

from typing import Any

import numpy as np

from jgleak.gnn import GNN, NodeMLP, Params, Pooled
from jgleak.gnn.tree import at, put


def one_output(model: GNN, params: Params, update: Params, loss: str) -> dict[str, Any]:
    """The fields of an observation as its client, of one output, had them; empty where the client had two.

    Such a file has 0 in the first column of the last map, and in the update's the negative of the second, to the last
    digit: also after several local steps, for the update that came back was widened. So the second columns are the
    client's own. The softmax cross-entropy of a client that had two such logits has these gradients up to rounding
    alone.
    """
    name, plus, smoothing = loss.partition("+")
    readout = model.readout
    if name != "ce" or model.outputs != 2 or not isinstance(readout, NodeMLP | Pooled):
        return {}
    place = ("readout", *readout.last_map)
    weights, slopes = at(params, place), at(update, place)
    still = not any(np.any(leaf[..., 0]) for leaf in weights.values()) and any(map(np.any, weights.values()))
    if not still or not all(np.array_equal(leaf[..., 0], -leaf[..., 1]) for leaf in slopes.values()):
        return {}
    mlp = readout.mlp.clone(widths=(*readout.mlp.widths[:-1], 1))
    trees = {
        part: put(tree, place, {key: leaf[..., 1:] for key, leaf in own.items()})
        for part, tree, own in (("params", params, weights), ("update", update, slopes))
    }
    return {"model": model.clone(readout=readout.clone(mlp=mlp)), "loss": f"bce{plus}{smoothing}", **trees}
