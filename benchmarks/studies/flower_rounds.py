"""A Flower simulation of PyTorch Geometric clients on Tox21, recorded, read, and guarded.

    python -m benchmarks.studies.flower_rounds facts FOLDER --clients 4 --molecules 8 --write
    python -m benchmarks.studies.flower_rounds guard FOLDER --clients 50 --write

It needs flwr with its simulation (``pip install 'flwr[simulation]'``), torch and torch_geometric beside jgleak.
"""

from __future__ import annotations

import dataclasses
import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import jax
import numpy as np
import torch  # pyright: ignore[reportMissingImports]
import typer
from flwr.app import ArrayRecord, Context  # pyright: ignore[reportMissingImports]
from flwr.clientapp import ClientApp  # pyright: ignore[reportMissingImports]
from flwr.serverapp import Grid, ServerApp  # pyright: ignore[reportMissingImports]
from flwr.serverapp.strategy import FedAvg  # pyright: ignore[reportMissingImports]
from flwr.simulation import run_simulation  # pyright: ignore[reportMissingImports]

from benchmarks.lib.flower_clients import GIN, LOADER, RATE, client_app
from benchmarks.lib.provenance import provenance
from benchmarks.lib.records import Records
from jgleak.attacks.attack import Budget
from jgleak.attacks.facts.registry import facts as facts_of
from jgleak.attacks.registry import get_attack
from jgleak.datasets import MOLECULE_SPACE, load
from jgleak.federated import Knowledge, LocalTraining
from jgleak.federated import load as load_observation
from jgleak.graph import Graph
from jgleak.interop import Guard, Recorder, Rounds
from jgleak.interop.flower import Recording, guarding, recording
from jgleak.interop.guard import Decision

ROUNDS = 2

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)

Folder = Annotated[Path, typer.Argument(help="For the observation files; it must be empty.")]
Write = Annotated[bool, typer.Option("--write", help="Into results/flower_COMMAND.jsonl.")]


@dataclasses.dataclass(frozen=True)
class Logged(Guard):
    """A guard that writes down what it decided, for this study alone: clients are other processes."""

    file: Path = Path("decisions.jsonl")

    def decision(self, sent: Any, returned: Any, *, graphs: int) -> Decision:
        work = time.process_time()
        found = super().decision(sent, returned, graphs=graphs)
        line = {"action": found.action, "seconds": found.seconds, "cpu_seconds": time.process_time() - work}
        with self.file.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")
        return found


def simulate(client: ClientApp, model: GIN, recorder: Recorder, clients: int, rounds: int) -> None:
    """Rounds of Flower's FedAvg in processes of its own, recorded as they reach the server."""
    server = ServerApp()

    @server.main()
    def main(grid: Grid, context: Context) -> None:
        plain = FedAvg(fraction_evaluate=0.0, min_available_nodes=clients, min_train_nodes=clients)
        arrays = ArrayRecord(model.state_dict())
        Recording(plain, recorder).start(grid=grid, initial_arrays=arrays, num_rounds=rounds, timeout=36_000)

    run_simulation(server, client, num_supernodes=clients, backend_config={"client_resources": {"num_cpus": 2}})


@app.command()
def facts(
    folder: Folder,
    clients: Annotated[int, typer.Option(min=1)] = 4,
    molecules: Annotated[int, typer.Option(min=1, help="Of a client.")] = 8,
    width: Annotated[int, typer.Option(min=1)] = 64,
    write: Write = False,
) -> None:
    """What is certain of clients with several molecules each and batch normalisation: a line a client and round."""
    records = Records()
    records.say(provenance() | {"clients": clients, "molecules": molecules, "width": width, "rate": RATE})
    whole = load("tox21").graphs
    own = [whole[i * molecules : (i + 1) * molecules] for i in range(clients)]
    torch.manual_seed(0)
    model = GIN(width)
    rounds = Rounds(model, "bce", LocalTraining(RATE, loader=LOADER))
    here, there = (Recorder(rounds, folder / side, MOLECULE_SPACE) for side in ("client", "server"))
    simulate(client_app(own, [recording(here)], width), model, there, clients, ROUNDS)
    for number in range(1, ROUNDS + 1):
        for client, graphs in enumerate(own):
            path = folder / "client" / f"round-{number:03d}-client-{client}.safetensors"
            records.say({"round": number, "client": client} | _compared(path, graphs))
    if write:
        records.write("flower_facts")


def _compared(path: Path, graphs: Sequence[Graph]) -> dict[str, Any]:
    """The facts of a file beside the truth."""
    seen, space = load_observation(path)
    found = facts_of(seen, space).found
    nodes = np.concatenate([graph.x for graph in graphs])
    free = [(i, f) for i, f in enumerate(space.features) if f.determined_by is None]  # facts name no others
    true = {f.name: {f.values[code] for code in nodes[:, i]} for i, f in free}
    said = {name: set(values) for name, values in found["feature_values"].value.items()}
    return {
        "steps": seen.steps,
        "values": sum(map(len, said.values())),
        "values_false": sum(len(values - true[name]) for name, values in said.items()),
        "values_that_occur": sum(map(len, true.values())),
        "different_nodes": found["different_nodes"].value if "different_nodes" in found else None,
        "different_nodes_that_occur": len(np.unique(nodes, axis=0)),
        "classes": found["classes"].value if "classes" in found else None,
        "facts": sorted(found),
    }


@app.command()
def guard(
    folder: Folder,
    clients: Annotated[int, typer.Option(min=1)] = 50,
    max_nodes: Annotated[int, typer.Option(min=4)] = 16,
    width: Annotated[int, typer.Option(min=1)] = 300,
    seconds: Annotated[float, typer.Option(min=1.0, help="For the guard of a client.")] = 60.0,
    write: Write = False,
) -> None:
    """Which updates of one molecule each the guard drops, and which the census certifies as unique: a line a client."""
    records = Records()
    records.say(provenance() | {"clients": clients, "max_nodes": max_nodes, "width": width, "seconds": seconds})
    own = [graph for graph in load("tox21").graphs if 4 <= graph.n <= max_nodes][:clients]
    torch.manual_seed(0)
    model = GIN(width, norm=False)
    rounds, knowledge = Rounds(model, "bce", LocalTraining(RATE, loader=LOADER)), Knowledge(MOLECULE_SPACE)
    before, after = (Recorder(rounds, folder / when, MOLECULE_SPACE) for when in ("before", "after"))
    watch = Logged(rounds, knowledge, time_limit=seconds, file=folder / "decisions.jsonl")
    folder.mkdir(parents=True, exist_ok=True)
    mods = [guarding(watch), recording(before)]
    simulate(client_app([[graph] for graph in own], mods, width, norm=False), model, after, clients, 1)
    arrived = {path.read_bytes() for path in (folder / "after").iterdir()}
    for client, graph in enumerate(own):
        path = folder / "before" / f"round-001-client-{client}.safetensors"
        seen, space = load_observation(path)
        budget = Budget(time_limit=seconds)
        found = get_attack("census")(seen, Knowledge(space), key=jax.random.key(client), budget=budget)
        certificate, listed = found.certificate, {one.canonical_form() for one in found.graphs}
        record: dict[str, Any] = {"client": client, "nodes": graph.n, "dropped": path.read_bytes() not in arrived}
        record |= {"status": certificate.status if certificate else None, "size": len(found.graphs)}
        records.say(record | {"truth_listed": graph.canonical_form() in listed})
    decisions = [json.loads(line) for line in watch.file.read_text(encoding="utf-8").splitlines()]
    records.say(_total(records[1:], decisions))
    if write:
        records.write("flower_guard")


def _total(found: Sequence[dict[str, Any]], decisions: Sequence[dict[str, Any]]) -> dict[str, Any]:
    unique, dropped = (
        [r["client"] for r in found if r[key] == value] for key, value in (("status", "unique"), ("dropped", True))
    )
    spent = np.array([decision["seconds"] for decision in decisions])
    return {
        "unique": len(unique),
        "dropped": len(dropped),
        "dropped_are_unique": unique == dropped,
        "unique_and_wrong": sum(r["status"] == "unique" and not r["truth_listed"] for r in found),
        "guard_seconds": {"mean": spent.mean(), "median": float(np.median(spent)), "most": spent.max()},
        "guard_cpu_seconds_mean": float(np.mean([decision["cpu_seconds"] for decision in decisions])),
    }


if __name__ == "__main__":
    app()
