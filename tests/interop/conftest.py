"""The models of ``make_fixture.py``: their forward passes written down, and what torch computed with them."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file

from jgleak.interop import GAT, GCN, GIN, SAGE, Linear
from jgleak.interop.layers import Step

HEAD = [Linear("lin1"), "relu", Linear("lin2")]
LAYERS: dict[str, list[Step]] = {
    "gcn": [GCN("conv1"), "relu", GCN("conv2"), "relu", "mean", *HEAD],
    "gcn_narrowing": [GCN("conv1"), "gelu", GCN("conv2"), "gelu", "sum", *HEAD],
    "gat": [GAT("conv1"), "relu", GAT("conv2", concat=False), "relu", "mean", *HEAD],
    "gat_residual": [GAT("conv1", negative_slope=0.1), "elu", GAT("conv2", concat=False, negative_slope=0.1)],
    "sage": [SAGE("conv1"), "tanh", SAGE("conv2"), "tanh", "mean", *HEAD],
    "gin": [GIN("conv1"), "relu", GIN("conv2"), "relu", "mean", *HEAD],
    "gcn_scores": [GCN("conv1"), "sigmoid", GCN("conv2")],
}
LOSSES = {"gcn": "bce", "gat": "bce", "gin": "mse"}
"""The others have cross-entropy."""


@dataclasses.dataclass(frozen=True)
class Stranger:
    """One model from outside.

    Attributes:
      state, gradient: arrays by their names.
      layers: the forward pass.
      loss, label: what was differentiated.
      example: input rows, edge list, output.
    """

    state: dict[str, np.ndarray]
    gradient: dict[str, np.ndarray]
    layers: list[Step]
    loss: str
    label: np.ndarray
    example: tuple[np.ndarray, np.ndarray, np.ndarray]

    @property
    def given(self) -> dict[str, Any]:
        """Arguments of ``from_arrays``, to be changed."""
        return {
            "state": dict(self.state),
            "gradients": dict(self.gradient),
            "layers": list(self.layers),
            "loss": self.loss,
        }


@pytest.fixture(scope="session")
def strangers() -> dict[str, Stranger]:
    tensors = load_file(Path(__file__).parent / "pyg.safetensors")
    found = {}
    for name, layers in LAYERS.items():
        own = {k.removeprefix(f"{name}/"): v for k, v in tensors.items() if k.startswith(f"{name}/")}
        state, gradient = (
            {k.removeprefix(f"{part}."): v for k, v in own.items() if k.startswith(f"{part}.")}
            for part in ("state", "gradient")
        )
        example = (tensors["x"], tensors["edge_index"], own["output"])
        found[name] = Stranger(state, gradient, layers, LOSSES.get(name, "ce"), own["label"], example)
    return found
