"""Flower's own clients and strategies, recorded and guarded; run where flwr and torch_geometric are installed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from jgleak.attacks.attack import Attack, Reconstruction
from jgleak.attacks.certificate import Certificate
from jgleak.attacks.facts.registry import facts
from jgleak.attacks.registry import ATTACKS
from jgleak.audit.describe import describe
from jgleak.datasets import MOLECULE_SPACE, load
from jgleak.federated import Knowledge, LocalTraining
from jgleak.federated import load as load_observation
from jgleak.graph import Graph
from jgleak.interop import Recorder, Rounds
from jgleak.interop.guard import Guard
from tests.interop.test_guide import RECORDING, run

flwr: Any = pytest.importorskip("flwr", reason="flwr is not installed: pip install 'jgleak[flower]'")
torch: Any = pytest.importorskip("torch", reason="torch is not installed")
pytest.importorskip("torch_geometric", reason="torch_geometric is not installed")

pytestmark = [
    pytest.mark.filterwarnings("ignore:.*torch.jit.script.*:DeprecationWarning"),
]

LOCAL = LocalTraining(0.1, loader=8)


@pytest.fixture(autouse=True)
def _in_a_task() -> None:
    """Messages carry the identity of the process that makes them, which Flower's runtime sets."""
    from flwr.supercore.task_identity import TaskIdentity  # pyright: ignore[reportMissingImports]

    TaskIdentity.run_id, TaskIdentity.task_id, TaskIdentity.node_id = 1, 1, 1


@pytest.fixture(scope="module")
def graphs() -> list[Graph]:
    return list(load("embedded", graphs=32, max_nodes=14).graphs)


def federate(app: Any, strategy: Any, clients: int, *, norm: bool = True, rounds: int = 1) -> Any:
    from flwr.app import ArrayRecord  # pyright: ignore[reportMissingImports]

    from benchmarks.lib.flower_clients import GIN
    from tests.interop.flower_app import Calls

    torch.manual_seed(0)
    arrays = ArrayRecord(GIN(norm=norm).state_dict())
    return strategy.start(grid=Calls(app, clients), initial_arrays=arrays, num_rounds=rounds)


def fedavg(clients: int) -> Any:
    from flwr.serverapp.strategy import FedAvg  # pyright: ignore[reportMissingImports]

    return FedAvg(fraction_evaluate=0.0, min_available_nodes=clients, min_train_nodes=clients)


def rounds(*, norm: bool = True) -> Rounds:
    from benchmarks.lib.flower_clients import GIN

    return Rounds(GIN(norm=norm), "bce", LOCAL)


def test_client_and_server_record_the_same_true_rounds(graphs: list[Graph], tmp_path: Path) -> None:
    """Four clients of eight molecules, batch normalisation, one epoch, two rounds: the facts of every file are true."""
    from benchmarks.lib.flower_clients import client_app
    from jgleak.cli import app as cli
    from jgleak.interop.flower import Recording, recording

    clients = [graphs[8 * i : 8 * i + 8] for i in range(4)]
    here, there = (Recorder(rounds(), tmp_path / side, MOLECULE_SPACE) for side in ("client", "server"))
    federate(client_app(clients, [recording(here)]), Recording(fedavg(4), there), 4, rounds=2)
    for number in (1, 2):
        for i, own in enumerate(clients):
            names = f"client/round-{number:03d}-client-{i}", f"server/round-{number:03d}-client-{100 + i}"
            one, other = (tmp_path / f"{name}.safetensors" for name in names)
            assert one.read_bytes() == other.read_bytes()
            seen, space = load_observation(one)
            assert (seen.batch_size, seen.steps, seen.model.returns_statistics) == (8, 1, True)
            found = facts(seen, space).found
            nodes = np.concatenate([graph.x for graph in own])
            for place, feature in enumerate(space.features):
                occurring = {feature.values[code] for code in nodes[:, place]}
                assert set(found["feature_values"].value.get(feature.name, [])) <= occurring
            assert 1 < found["different_nodes"].value <= len(np.unique(nodes, axis=0))
    first, second = (load_observation(tmp_path / f"client/round-00{n}-client-0.safetensors")[0] for n in (1, 2))
    assert not np.array_equal(first.params["layers_0"]["conv"]["kernel"], second.params["layers_0"]["conv"]["kernel"])
    told = CliRunner().invoke(cli, ["invert", str(tmp_path / "client/round-001-client-0.safetensors")])
    assert told.exit_code == 2 and "these values occur" in told.output and "mixes the nodes" in told.output


def test_one_molecule_a_client_comes_back(graphs: list[Graph], tmp_path: Path) -> None:
    """From PyTorch Geometric under Flower to ``jgleak invert``: the graph that the client trained on."""
    from benchmarks.lib.flower_clients import client_app
    from jgleak.cli import app as cli
    from jgleak.interop.flower import Recording

    own = min(graphs, key=lambda graph: graph.n)
    wanted = describe(own, MOLECULE_SPACE)
    recorder = Recorder(rounds(norm=False), tmp_path, MOLECULE_SPACE)
    federate(client_app([[own]], [], norm=False), Recording(fedavg(1), recorder), 1, norm=False)
    (path,) = tmp_path.iterdir()
    told = CliRunner().invoke(cli, ["invert", str(path), "--json"])
    assert told.exit_code == 0, told.output
    record = json.loads(told.stdout)
    best = record["graphs"][0]
    assert sorted(map(str, best["nodes"])) == sorted(map(str, wanted["nodes"]))
    assert len(best["edges"]) == len(wanted["edges"]) and record["outcome"] == "found"


def certifying(sizes: dict[int, tuple[str, int]], graphs: list[Graph]) -> Attack:
    """An attack that certifies, by the number of graphs behind an update, a set of some status and size."""

    def run(observation: Any, knowledge: Any, *, key: Any, budget: Any) -> Reconstruction:
        status, size = sizes[observation.batch_size]
        return Reconstruction((graphs[0],), 0.0, "match", certificate=Certificate(status, size, 9, False, 0.0))  # type: ignore[arg-type]

    return Attack("told", run, several=True)


def test_what_the_guard_withholds_is_an_error_that_strategies_leave_out(
    graphs: list[Graph], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The mean is over the other clients; recorders on either side see what left."""
    from benchmarks.lib.flower_clients import client_app
    from jgleak.interop.flower import Recording, guarding

    monkeypatch.setitem(ATTACKS, "census", certifying({1: ("unique", 1), 2: ("k_graphs", 5)}, graphs))
    guard = Guard(rounds(norm=False), Knowledge(MOLECULE_SPACE))
    clients = [[graphs[0]], graphs[1:3], graphs[3:5]]
    recorder = Recorder(rounds(norm=False), tmp_path, MOLECULE_SPACE)
    guarded = federate(
        client_app(clients, [guarding(guard)], norm=False), Recording(fedavg(3), recorder), 3, norm=False
    )
    others = federate(client_app(clients[1:], [], norm=False), fedavg(2), 2, norm=False)
    assert sorted(path.name for path in tmp_path.iterdir()) == [f"round-001-client-{n}.safetensors" for n in (101, 102)]
    for one, other in zip(guarded.arrays.to_numpy_ndarrays(), others.arrays.to_numpy_ndarrays(), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-6)


def test_noise_of_the_guard_is_in_what_leaves(
    graphs: list[Graph], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from benchmarks.lib.flower_clients import client_app
    from jgleak.interop.flower import Recording, guarding

    answers = iter([("unique", 1), ("at_least_k", 1)])
    monkeypatch.setitem(ATTACKS, "census", certifying(_Told(answers), graphs))  # type: ignore[arg-type]
    guard = Guard(rounds(norm=False), Knowledge(MOLECULE_SPACE), otherwise="gaussian:1")
    recorder = Recorder(rounds(norm=False), tmp_path, MOLECULE_SPACE)
    federate(client_app([graphs[:1]], [guarding(guard)], norm=False), Recording(fedavg(1), recorder), 1, norm=False)
    (path,) = tmp_path.iterdir()
    left = np.asarray(load_observation(path)[0].update["layers_0"]["conv"]["kernel"])
    assert left.std() == pytest.approx(1.0, rel=0.1)


class _Told(dict):
    """Answers in their order, whatever is asked."""

    def __init__(self, answers: Any) -> None:
        super().__init__()
        self.answers = answers

    def __getitem__(self, asked: Any) -> tuple[str, int]:
        return next(self.answers)


def test_the_pages_lines_are_flowers(tmp_path: Path) -> None:
    from flwr.serverapp.strategy import Strategy  # pyright: ignore[reportMissingImports]

    names = {"recorder": Recorder(rounds(), tmp_path), "rounds": rounds(), "space": MOLECULE_SPACE}
    assert run("client", RECORDING, **names)["app"] is not None
    assert isinstance(run("server", RECORDING, **names)["strategy"], Strategy)
    assert run("guard", RECORDING, **names)["guard"].least == 2


def asked(kind: str, mod: Any, *, sent: dict[str, Any] | None = None, **back: Any) -> Any:
    """What leaves where a message of a kind meets a mod, and the client answers with these records of arrays and
    metrics."""
    from flwr.app import (  # pyright: ignore[reportMissingImports]
        Array,
        ArrayRecord,
        Context,
        Message,
        MetricRecord,
        RecordDict,
    )

    def content(arrays: dict[str, Any] | None, metrics: dict[str, Any] | None = None) -> Any:
        found = {} if arrays is None else {"arrays": ArrayRecord({name: Array(a) for name, a in arrays.items()})}
        return RecordDict(found if metrics is None else {**found, "metrics": MetricRecord(metrics)})

    message = Message(content(sent), dst_node_id=1, message_type=kind)
    message.metadata.__dict__["_message_id"] = "1"
    context = Context(0, 1, {}, RecordDict(), {})
    return mod(message, context, lambda m, c: Message(content(**{"arrays": None, **back}), reply_to=m))


def test_evaluation_passes_the_mods_by() -> None:
    """Only training is recorded and guarded; a reply without arrays tells nothing of an update."""
    from jgleak.interop.flower import guarding, recording

    guard = Guard(rounds(), Knowledge(MOLECULE_SPACE))
    for mod in (recording(Recorder(rounds(), "nowhere")), guarding(guard)):
        assert not asked("evaluate", mod, metrics={"loss": 0.5}).has_error() and not Path("nowhere").exists()


@pytest.mark.parametrize("kind", ["train", "train.local", "query", "query.weights", "evaluate"])
def test_no_arrays_leave_past_the_guard(
    kind: str, graphs: list[Graph], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Flower sends training under names of its own too, and other replies may hold the weights as well."""
    from benchmarks.lib.flower_clients import GIN
    from jgleak.interop.flower import guarding, recording

    monkeypatch.setitem(ATTACKS, "census", certifying({1: ("unique", 1)}, graphs))
    weights = {name: tensor.numpy() for name, tensor in GIN(norm=False).state_dict().items()}
    reply = {"sent": weights, "arrays": weights, "metrics": {"num-examples": 1}}
    left = asked(kind, guarding(Guard(rounds(norm=False), Knowledge(MOLECULE_SPACE))), **reply)
    assert left.has_error() and left.error.reason == "the client's guard withheld the update"
    asked(kind, recording(Recorder(rounds(norm=False), tmp_path)), **reply)
    assert len(list(tmp_path.iterdir())) == kind.startswith("train")


def test_a_client_that_does_not_say_how_many_graphs_is_not_recorded(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A recorder warns; a guard withholds what it cannot read, and says why in the client's log alone."""
    from flwr.app import ArrayRecord, Context, Message, MessageType, RecordDict  # pyright: ignore[reportMissingImports]

    from benchmarks.lib.flower_clients import GIN
    from jgleak.interop.flower import guarding, recording

    content = RecordDict({"arrays": ArrayRecord(GIN(norm=False).state_dict())})
    message = Message(content, dst_node_id=1, message_type=MessageType.TRAIN)
    message.metadata.__dict__["_message_id"] = "1"
    context = Context(0, 1, {}, RecordDict(), {})
    recorder, guard = Recorder(rounds(norm=False), tmp_path), Guard(rounds(norm=False), Knowledge(MOLECULE_SPACE))
    with pytest.warns(UserWarning, match="a round of client 1 is not recorded: .* no 'num-examples'"):
        recording(recorder)(message, context, lambda m, c: Message(content, reply_to=m))
    left = guarding(guard)(message, context, lambda m, c: Message(content, reply_to=m))
    assert left.has_error() and left.error.reason == "the client's guard withheld the update"
    assert "its metrics have no 'num-examples'" in caplog.text
    with pytest.warns(UserWarning, match="0 records of arrays; send the model's weights in one"):
        recording(recorder)(message, context, lambda m, c: Message(RecordDict(), reply_to=m))
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("count", [[1, 2], 1.5, 0])
def test_no_number_of_graphs_stops_a_training(count: Any, tmp_path: Path) -> None:
    """Nor is one rounded."""
    from jgleak.interop.flower import recording

    reply = {"sent": {"w": np.ones(1)}, "arrays": {"w": np.zeros(1)}, "metrics": {"num-examples": count}}
    with pytest.warns(UserWarning, match=r"a round of client 1 is not recorded: .*number .*graphs.*, got"):
        assert not asked("train", recording(Recorder(rounds(), tmp_path)), **reply).has_error()


@pytest.mark.slow
def test_a_simulation_is_recorded(tmp_path: Path) -> None:
    """Flower's own processes: mods and strategies travel to them."""
    pytest.importorskip("ray", reason="ray is not installed: pip install 'flwr[simulation]'")
    root = Path(__file__).parents[2]
    command = [sys.executable, "-m", "tests.interop.flower_app", str(tmp_path)]
    subprocess.run(command, cwd=root, env={**os.environ, "PYTHONPATH": str(root)}, check=True, timeout=300)
    written = [sorted(path.read_bytes() for path in (tmp_path / side).iterdir()) for side in ("client", "server")]
    assert written[0] == written[1] and len(written[0]) == 2
