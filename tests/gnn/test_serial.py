"""Models as plain data: there and back, and what is no model."""

from __future__ import annotations

import json
from typing import Any

import pytest
from models import READOUTS

from jgleak.gnn import (
    CONVOLUTIONS,
    ENCODERS,
    GNN,
    MLP,
    NORMS,
    RESIDUALS,
    BatchNorm,
    GATConv,
    GCNConv,
    GINConv,
    Layer,
    LinearEncoder,
    Pooled,
    standard,
)
from jgleak.gnn.serial import model_from_json, model_to_json

MIXED = GNN(
    in_features=5,
    layers=(
        Layer(GATConv(6, heads=3, negative_slope=0.1, residual=True), "tanh"),
        Layer(GINConv(4, bias=True, epsilon=0.5, inner="gelu")),
        Layer(GINConv(4, widths=(8, 6), norm=BatchNorm(1e-3), ends_active=True), "identity", norm=BatchNorm()),
        Layer(GCNConv(3), "identity"),
    ),
    readout=Pooled("max", MLP((7, 2), "sigmoid")),
)


@pytest.mark.parametrize("conv", sorted(CONVOLUTIONS))
@pytest.mark.parametrize("readout", READOUTS)
def test_a_model_comes_back(conv: str, readout: str) -> None:
    model = standard(5, conv, READOUTS[readout](3, "tanh"), hidden=4, act="tanh")
    assert model_from_json(json.loads(json.dumps(model_to_json(model)))) == model


def test_a_model_of_different_layers_comes_back() -> None:
    data = model_to_json(MIXED)
    assert [layer["conv"]["kind"] for layer in data["layers"]] == ["gat", "gin", "gin", "gcn"]
    assert model_from_json(json.loads(json.dumps(data))) == MIXED


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("residual", RESIDUALS)
@pytest.mark.parametrize("encoder", ENCODERS)
def test_a_model_of_every_other_part_comes_back(norm: str, residual: str, encoder: str) -> None:
    layer = Layer(
        GCNConv(4, normalise=False), norm=NORMS[norm](epsilon=1e-3), residual=RESIDUALS[residual](), dropout=0.5
    )
    before = LinearEncoder(4) if ENCODERS[encoder] is LinearEncoder else ENCODERS[encoder]()
    model = GNN(4, (layer, Layer(GCNConv(4))), Pooled(), encoder=before, jump="cat")
    assert model_from_json(json.loads(json.dumps(model_to_json(model)))) == model


def test_what_is_left_out_has_its_default() -> None:
    data = {"in_features": 5, "layers": [{"kind": "layer", "conv": {"kind": "gcn", "features": 4}}]}
    model = model_from_json(data | {"readout": {"kind": "pooled"}})
    assert model == GNN(in_features=5, layers=(Layer(GCNConv(4)),), readout=Pooled())


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"readout": {"kind": "pooled", "mlp": {"kind": "mlp", "widths": [2, "x"]}}}, r"widths\[1\]: expected a whole"),
        ({"readout": {"kind": "pooled", "mlp": {"kind": "mlp", "widths": 2}}}, "widths: expected a list, got 2"),
        ({"readout": {"kind": "flattened"}}, "model.readout: .*'size'"),
        ({"layers": [{"kind": "layer", "conv": {"kind": "gin", "features": 4, "epsilon": "0"}}]}, "expected a number"),
        ({"layers": [{"kind": "gcn"}]}, "expected a part of the kind layer, got 'gcn'"),
    ],
)
def test_what_is_no_model_is_named_by_its_place(change: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        model_from_json(model_to_json(MIXED) | change)
