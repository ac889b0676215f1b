"""Flower clients that are not jgleak's: a GIN in PyTorch Geometric, and clients that make one pass over their own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch  # pyright: ignore[reportMissingImports]
import torch.nn.functional as F  # pyright: ignore[reportMissingImports]
from flwr.app import (  # pyright: ignore[reportMissingImports]
    ArrayRecord,
    Context,
    Message,
    MetricRecord,
    RecordDict,
)
from flwr.clientapp import ClientApp  # pyright: ignore[reportMissingImports]
from torch.nn import BatchNorm1d, Linear, ReLU, Sequential  # pyright: ignore[reportMissingImports]
from torch_geometric.data import Data  # pyright: ignore[reportMissingImports]
from torch_geometric.loader import DataLoader  # pyright: ignore[reportMissingImports]
from torch_geometric.nn import GINConv, global_mean_pool  # pyright: ignore[reportMissingImports]

from jgleak.datasets import MOLECULE_SPACE
from jgleak.graph import Graph
from jgleak.interop import edge_arrays

RATE, LOADER = 0.1, 8
"""Learning rate of the clients, and the molecules of one of their steps."""


class GIN(torch.nn.Module):
    """Two GIN layers, with batch normalisation inside or without, and a linear map of the mean over nodes."""

    def __init__(self, width: int = 32, *, norm: bool = True) -> None:
        super().__init__()

        def inside(entering: int) -> Sequential:
            norms = [BatchNorm1d(width)] if norm else []
            return Sequential(Linear(entering, width), *norms, ReLU(), Linear(width, width))

        self.conv1, self.conv2 = GINConv(inside(MOLECULE_SPACE.width)), GINConv(inside(width))
        self.out = Linear(width, 1)

    def forward(self, x: Any, edge_index: Any, batch: Any) -> Any:
        h = F.relu(self.conv1(x, edge_index))
        return self.out(global_mean_pool(F.relu(self.conv2(h, edge_index)), batch))


def client_app(
    clients: Sequence[Sequence[Graph]], mods: Sequence[Any], width: int = 32, *, norm: bool = True
) -> ClientApp:
    """Clients of one epoch of plain gradient descent in training mode, each on its own graphs."""
    app = ClientApp(mods=list(mods))

    @app.train()
    def train(message: Message, context: Context) -> Message:
        model = GIN(width, norm=norm)
        model.load_state_dict(message.content["arrays"].to_torch_state_dict())
        optimiser = torch.optim.SGD(model.parameters(), lr=RATE)
        own = [tensors(graph) for graph in clients[int(context.node_config["partition-id"])]]
        for batch in DataLoader(own, batch_size=LOADER):
            optimiser.zero_grad()
            output = model(batch.x, batch.edge_index, batch.batch)[:, 0]
            F.binary_cross_entropy_with_logits(output, batch.y).backward()
            optimiser.step()
        metrics = MetricRecord({"num-examples": len(own)})
        return Message(RecordDict({"arrays": ArrayRecord(model.state_dict()), "metrics": metrics}), reply_to=message)

    return app


def tensors(graph: Graph) -> Data:
    """A molecule as PyTorch Geometric has it."""
    x, edges = (torch.from_numpy(part) for part in edge_arrays(graph, MOLECULE_SPACE))
    return Data(x=x, edge_index=edges.long(), y=torch.tensor([float(graph.y)]))  # type: ignore[arg-type]
