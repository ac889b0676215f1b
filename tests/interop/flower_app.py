"""In the place of Flower's processes a grid that calls clients, and a short simulation with these processes."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from flwr.app import (  # pyright: ignore[reportMissingImports]
    ArrayRecord,
    Context,
    Message,
    MessageType,
    RecordDict,
)
from flwr.clientapp import ClientApp  # pyright: ignore[reportMissingImports]
from flwr.serverapp import Grid, ServerApp  # pyright: ignore[reportMissingImports]
from flwr.serverapp.strategy import FedAvg  # pyright: ignore[reportMissingImports]
from flwr.simulation import run_simulation  # pyright: ignore[reportMissingImports]

from benchmarks.lib.flower_clients import GIN, LOADER, RATE, client_app
from jgleak.datasets import MOLECULE_SPACE, load
from jgleak.federated import LocalTraining
from jgleak.interop import Recorder, Rounds
from jgleak.interop.flower import Recording, recording


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
