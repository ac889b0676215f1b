"""The equation that tells evaluation mode from training mode, where no bias stands before the norm."""

from __future__ import annotations

import dataclasses

import jax
import numpy as np
import pytest

from jgleak.datasets import load
from jgleak.federated import Observation, fedsgd
from jgleak.gnn import GNN, MLP, BatchNorm, Convolution, GCNConv, Layer, Pooled, SAGEConv
from jgleak.interop.evaluation import not_in_evaluation_mode
from jgleak.precision import rounding_of


@pytest.mark.parametrize("conv", [GCNConv(8, bias=False), SAGEConv(8, bias=False)], ids=["gcn", "sage"])
def test_kernels_before_a_norm_keep_euler_s_theorem(conv: Convolution) -> None:
    data = load("embedded", graphs=1, max_nodes=8)
    model = GNN(data.space.width, (Layer(conv, norm=BatchNorm()),), Pooled("mean", MLP((2,))))
    params = model.initial(key=jax.random.key(0))
    rng = np.random.default_rng(0)
    norm = {name: rng.uniform(0.5, 2.0, 8).astype(np.float32) for name in ("scale", "bias", "mean", "variance")}
    params = {**params, "layers_0": {**params["layers_0"], "norm": norm}}
    seen = fedsgd(model, params, list(data.graphs), data.space, loss="ce")
    assert not_in_evaluation_mode(seen) is None
    other = {**params, "layers_0": {**params["layers_0"], "norm": {**norm, "mean": norm["mean"] + 0.5}}}
    assert "here it is different" in (not_in_evaluation_mode(dataclasses.replace(seen, params=other)) or "")
    training = model.clone(layers=(Layer(conv, norm=BatchNorm(training=True)),))
    update = fedsgd(training, params, list(data.graphs), data.space, loss="ce").update
    moved = Observation(model, params, update, "ce")
    assert "it is zero: the norm was in training mode" in (not_in_evaluation_mode(moved) or "")
    half = jax.tree.map(lambda leaf: np.asarray(leaf).astype(np.float16).astype(np.float32), update)
    rounded = dataclasses.replace(moved, update=half, rounding=rounding_of("float16"))
    assert "it is zero" in (not_in_evaluation_mode(rounded) or "")
    rounded = dataclasses.replace(seen, rounding=rounding_of("float16"))
    assert not_in_evaluation_mode(rounded) is None
    for silent in ({"pruned": True}, {"noise": 1e-3}, {"noise": 1e-3, "rounding": rounding_of("float16")}):
        assert not_in_evaluation_mode(dataclasses.replace(moved, **silent)) is None
