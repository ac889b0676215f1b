"""The models of ``make_fixture.py``: their forward passes written down, and what torch computed with them."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file

from jgleak.interop import (
    GAT,
    GCN,
    GIN,
    GINE,
    LE,
    SAGE,
    BatchNorm,
    Client,
    Embeddings,
    Example,
    GATv2,
    GraphConv,
    LayerNorm,
    Linear,
    Residual,
)
from jgleak.interop.layers import Step

UNCOMPARED = pytest.mark.filterwarnings("ignore:example. nothing compares:UserWarning")
"""For tests of what is read without an example, of which the bridge warns."""

HEAD = [Linear("lin1"), "relu", Linear("lin2")]
COMPOSED: list[Step] = [
    *(GCN("conv1", self_loops=False, normalise=False), BatchNorm("norm1"), "relu", "add"),
    *(GATv2("conv2"), LayerNorm("norm2"), "elu", Residual("skip")),
    *(LE("conv3"), "tanh", "jump_cat", "sum", Linear("out")),
]
INSIDE = [Linear("nn.0"), BatchNorm("nn.1"), "elu", Linear("nn.3"), "elu"]
LAYERS: dict[str, list[Step]] = {
    "gcn": [GCN("conv1"), "relu", GCN("conv2"), "relu", "mean", *HEAD],
    "gcn_narrowing": [GCN("conv1"), "gelu", GCN("conv2"), "gelu", "sum", *HEAD],
    "gat": [GAT("conv1"), "relu", GAT("conv2", concat=False), "relu", "mean", *HEAD],
    "gat_residual": [GAT("conv1", negative_slope=0.1), "elu", GAT("conv2", concat=False, negative_slope=0.1)],
    "sage": [SAGE("conv1"), "tanh", SAGE("conv2"), "tanh", "mean", *HEAD],
    "gin": [GIN("conv1"), "relu", GIN("conv2"), "relu", "mean", *HEAD],
    "gcn_scores": [GCN("conv1"), "sigmoid", GCN("conv2")],
    "composed": [Linear("encoder"), *COMPOSED],
    "embedded": [Embeddings("encoder.tables"), *COMPOSED],
    "bonds": [
        *(GINE("convs.0"), "relu"),
        GINE("convs.1", inside=[Linear("nn.0"), LayerNorm("nn.1"), "relu", Linear("nn.3")]),
        *("relu", "mean", Linear("out")),
    ],
    "training": [
        GIN("convs.0", inside=[Linear("nn.0"), BatchNorm("nn.1", training=True, momentum=0.2), "relu", Linear("nn.3")]),
        *("relu", "mean", Linear("out")),
    ],
    "sums": [
        *(GraphConv("convs.0"), "relu", SAGE("convs.1", aggregation="sum"), "relu"),
        *(GIN("convs.2", inside=INSIDE), "relu", "mean", Linear("out")),
    ],
}
LOSSES = {"gcn": "bce", "gat": "bce", "gin": "mse"}
"""The others have cross-entropy."""


@dataclasses.dataclass(frozen=True)
class Stranger:
    """One model from outside.

    Attributes:
      state, gradient, returned: arrays by their names; what came back are the buffers.
      layers: the forward pass.
      loss, label: what was differentiated.
      example: input rows, edge list, output, of a mini-batch the graph of every node, and the labels.
    """

    state: dict[str, np.ndarray]
    gradient: dict[str, np.ndarray]
    returned: dict[str, np.ndarray]
    layers: list[Step]
    loss: str
    label: np.ndarray
    example: Example

    @property
    def given(self) -> dict[str, Any]:
        """Arguments of ``from_arrays``, to be changed."""
        return {
            "state": dict(self.state),
            "gradients": dict(self.gradient),
            "layers": list(self.layers),
            "loss": self.loss,
            "client": Client(buffers=self.returned),
            "batch_size": 1 if self.example.batch is None else int(self.example.batch.max()) + 1,
        }


@pytest.fixture(scope="session")
def strangers() -> dict[str, Stranger]:
    tensors = load_file(Path(__file__).parent / "pyg.safetensors")
    found = {}
    for name, layers in LAYERS.items():
        own = {k.removeprefix(f"{name}/"): v for k, v in tensors.items() if k.startswith(f"{name}/")}
        state, gradient, returned = (
            {k.removeprefix(f"{part}."): v for k, v in own.items() if k.startswith(f"{part}.")}
            for part in ("state", "gradient", "returned")
        )
        example = Example(
            own["x"], own["edge_index"], own["output"], own.get("batch"), own["label"], own.get("edge_attr")
        )
        found[name] = Stranger(state, gradient, returned, layers, LOSSES.get(name, "ce"), own["label"], example)
    return found
