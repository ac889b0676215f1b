"""A loss that the last bias's gradient contradicts is refused, and the right one passes."""

from __future__ import annotations

import dataclasses

import jax
import numpy as np
import pytest

from jgleak.attacks.closed_form.labels import contradiction
from jgleak.datasets import load
from jgleak.federated import fedsgd
from jgleak.gnn import MLP, Pooled, standard

LABELS = np.array([[0, 1, np.nan, 1, 0, 0]])


@pytest.mark.parametrize("right", ["masked_bce", "ce", "bce", "masked_mae"])
def test_only_what_the_last_bias_allows_passes(right: str) -> None:
    data = load("embedded", graphs=1, max_nodes=8)
    graph = dataclasses.replace(data.graphs[0], y=LABELS if right.startswith("masked") else 2)
    readout = Pooled("mean", MLP((8, 6)))
    model = standard(data.space.width, "gcn", readout, layers=1, hidden=8)
    seen = fedsgd(model, model.initial(key=jax.random.key(0)), [graph], data.space, loss=right)
    assert contradiction(seen) is None
    wrong = {"masked_bce": {"ce", "bce", "masked_mae"}, "bce": {"ce", "masked_mae"}, "masked_mae": {"ce", "bce"}}
    for name in wrong.get(right, {"masked_mae"}):
        assert contradiction(dataclasses.replace(seen, loss=name)), name
