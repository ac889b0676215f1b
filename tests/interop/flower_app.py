"""A Flower app that is not jgleak's: clients that train a GIN with batch normalisation in PyTorch Geometric, and, in
the place of Flower's processes, a grid that calls them."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import torch  # pyright: ignore[reportMissingImports]
import torch.nn.functional as F  # pyright: ignore[reportMissingImports]
from flwr.app import (  # pyright: ignore[reportMissingImports]
    ArrayRecord,
    Context,
    Message,
    MessageType,
    MetricRecord,
    RecordDict,
)
from flwr.clientapp import ClientApp  # pyright: ignore[reportMissingImports]
from flwr.serverapp import Grid, ServerApp  # pyright: ignore[reportMissingImports]
from flwr.serverapp.strategy import FedAvg  # pyright: ignore[reportMissingImports]
from flwr.simulation import run_simulation  # pyright: ignore[reportMissingImports]
from torch.nn import BatchNorm1d, Linear, ReLU, Sequential  # pyright: ignore[reportMissingImports]
from torch_geometric.data import Data  # pyright: ignore[reportMissingImports]
from torch_geometric.loader import DataLoader  # pyright: ignore[reportMissingImports]
from torch_geometric.nn import GINConv, global_mean_pool  # pyright: ignore[reportMissingImports]

from jgleak.datasets import MOLECULE_SPACE, load
from jgleak.federated import LocalTraining
from jgleak.graph import Graph
from jgleak.interop import Recorder, Rounds, edge_arrays
from jgleak.interop.flower import Recording, recording

RATE, LOADER = 0.1, 8


class GIN(torch.nn.Module):
    """Two GIN layers, with batch normalisation inside or without, and a linear map of the mean."""

    def __init__(self, width: int = 32, *, norm: bool = True) -> None:
        super().__init__()

        def inside(entering: int) -> Sequential:
            norms = [BatchNorm1d(width)] if norm else []
            return Sequential(Linear(entering, width), *norms, ReLU(), Linear(width, width))

        self.conv1, self.conv2 = GINConv(inside(MOLECULE_SPACE.width)), GINConv(inside(width))
        self.out = Linear(width, 1)

    def forward(self, x: Any, edge_index: Any, batch: Any) -> Any:
        h = F.relu(self.conv1(x, edge_index))
        h = F.relu(self.conv2(h, edge_index))
        return self.out(global_mean_pool(h, batch))


def loader(graphs: Sequence[Graph]) -> DataLoader:
    """Mini-batches of a client."""
    found = []
    for graph in graphs:
        x, edges = edge_arrays(graph, MOLECULE_SPACE)
        y = torch.tensor([float(graph.y)])  # type: ignore[arg-type]
        found.append(Data(x=torch.from_numpy(x), edge_index=torch.from_numpy(edges).long(), y=y))
    return DataLoader(found, batch_size=LOADER)


def client_app(clients: Sequence[Sequence[Graph]], mods: Sequence[Any], *, norm: bool = True) -> ClientApp:
    """Clients that make one pass over their own graphs by plain gradient descent."""
    app = ClientApp(mods=list(mods))

    @app.train()
    def train(message: Message, context: Context) -> Message:
        model = GIN(norm=norm)
        model.load_state_dict(message.content["arrays"].to_torch_state_dict())
        data = loader(clients[int(context.node_config["partition-id"])])
        optimiser = torch.optim.SGD(model.parameters(), lr=RATE)
        for batch in data:
            optimiser.zero_grad()
            output = model(batch.x, batch.edge_index, batch.batch)[:, 0]
            F.binary_cross_entropy_with_logits(output, batch.y).backward()
            optimiser.step()
        metrics = MetricRecord({"num-examples": len(data.dataset)})
        return Message(RecordDict({"arrays": ArrayRecord(model.state_dict()), "metrics": metrics}), reply_to=message)

    return app


class Calls(Grid):
    """A grid of one process: every message is the argument of a call. Node 100 holds partition 0, and so on."""

    def __init__(self, app: ClientApp, clients: int) -> None:
        self.app = app
        self.nodes = {100 + i: i for i in range(clients)}

    def get_node_ids(self) -> Iterable[int]:
        return list(self.nodes)

    def send_and_receive(self, messages: Iterable[Message], *, timeout: float | None = None) -> Iterable[Message]:
        return [self._answer(message) for message in messages]

    def _answer(self, message: Message) -> Message:
        node = message.metadata.dst_node_id
        message.metadata.__dict__["_message_id"] = str(node)
        context = Context(0, node, {"partition-id": self.nodes[node]}, RecordDict(), {})
        reply = self.app(message, context)
        assert reply.has_error() or message.metadata.message_type == MessageType.TRAIN
        return reply

    def set_run(self, run: Any) -> None:
        raise NotImplementedError

    @property
    def run(self) -> Any:
        raise NotImplementedError

    def create_message(self, *args: Any, **kwargs: Any) -> Message:
        raise NotImplementedError

    def push_messages(self, messages: Iterable[Message]) -> Iterable[str]:
        raise NotImplementedError

    def pull_messages(self, message_ids: Iterable[str]) -> Iterable[Message]:
        raise NotImplementedError


def main(folder: Path) -> None:
    """A simulation of two clients in processes of their own, recorded on either side."""
    graphs = load("embedded", graphs=16, max_nodes=14).graphs
    read = Rounds(GIN(), "bce", LocalTraining(RATE, loader=LOADER))
    here, there = (Recorder(read, folder / side, MOLECULE_SPACE) for side in ("client", "server"))
    server = ServerApp()

    @server.main()
    def serve(grid: Grid, context: Context) -> None:
        strategy = FedAvg(fraction_evaluate=0.0, min_available_nodes=2)
        Recording(strategy, there).start(grid=grid, initial_arrays=ArrayRecord(GIN().state_dict()), num_rounds=1)

    app = client_app([graphs[:8], graphs[8:]], [recording(here)])
    run_simulation(server, app, num_supernodes=2, backend_config={"client_resources": {"num_cpus": 1}})


if __name__ == "__main__":
    main(Path(sys.argv[1]))
