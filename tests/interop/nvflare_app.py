"""A job for NVFlare's simulator: two sites of one molecule each, recorded behind the site's own filter chain."""

from __future__ import annotations

import json
import os
from pathlib import Path
from shutil import copy
from typing import Any

from nvflare.apis.dxo import DXO, DataKind, from_shareable  # pyright: ignore[reportMissingImports]
from nvflare.apis.executor import Executor  # pyright: ignore[reportMissingImports]
from nvflare.apis.fl_context import FLContext  # pyright: ignore[reportMissingImports]
from nvflare.apis.shareable import Shareable  # pyright: ignore[reportMissingImports]
from nvflare.apis.signal import Signal  # pyright: ignore[reportMissingImports]
from nvflare.app_common.abstract.fl_model import FLModel  # pyright: ignore[reportMissingImports]
from nvflare.app_common.workflows.fedavg import FedAvg  # pyright: ignore[reportMissingImports]

from jgleak.datasets import MOLECULE_SPACE, load
from jgleak.federated import LocalTraining
from jgleak.graph import Graph
from jgleak.interop import Recorder, Rounds
from jgleak.interop.nvflare import RecordingFilter
from tests.interop.federation import LAYERS, initial, step

RATE, WIDTH, SITES = 0.1, 24, 2
FOLDER = "JGLEAK_TEST_ROUNDS"
"""The variable that names the folder of observation files."""


def graphs(site: str) -> list[Graph]:
    """The molecule of ``site-1`` or ``site-2``."""
    number = int(site.rpartition("-")[2])
    return [list(load("embedded", graphs=16, max_nodes=14).graphs)[4 + number]]


class Workflow(FedAvg):
    """NVFlare's federated averaging from the weights of ``federation.initial``."""

    def __init__(self, rounds: int) -> None:
        start = FLModel(params=initial(MOLECULE_SPACE, WIDTH))
        super().__init__(num_clients=SITES, num_rounds=rounds, persistor_id="", model=start)

    def save_model(self, model: Any) -> None:
        """Nothing is kept: what clients sent is looked at."""


class Trainer(Executor):
    """One step of gradient descent on the site's molecule."""

    def execute(self, task_name: str, shareable: Shareable, fl_ctx: FLContext, abort_signal: Signal) -> Shareable:
        weights = from_shareable(shareable).data
        moved = step(weights, graphs(fl_ctx.get_identity_name()), MOLECULE_SPACE, RATE)
        return DXO(DataKind.WEIGHTS, data=moved, meta={"NUM_STEPS_CURRENT_ROUND": 1}).to_shareable()


class Recorded(RecordingFilter):
    """The page's filter: a job's configuration holds plain values alone."""

    def __init__(self, graphs: int) -> None:
        read = Rounds(LAYERS, "bce", LocalTraining(RATE, loader=8))
        super().__init__(Recorder(read, Path(os.environ[FOLDER]), MOLECULE_SPACE), graphs)


def job(folder: Path, rounds: int) -> Path:
    """The job's folder, as ``nvflare simulator`` takes it. NVFlare loads classes of others from ``custom`` alone."""
    app, parts = folder / "app", f"{Path(__file__).stem}."
    for name in ("config", "custom"):
        (app / name).mkdir(parents=True)
    copy(__file__, app / "custom")
    server = {"workflows": [{"id": "fedavg", "path": f"{parts}Workflow", "args": {"rounds": rounds}}], "components": []}
    chain = [{"tasks": ["train"], "filters": [{"path": f"{parts}Recorded", "args": {"graphs": 1}}]}]
    trained = [{"tasks": ["train"], "executor": {"path": f"{parts}Trainer", "args": {}}}]
    client = {"executors": trained, "task_result_filters": chain, "task_data_filters": [], "components": []}
    written = {
        folder / "meta.json": {"name": "recorded", "resource_spec": {}, "deploy_map": {"app": ["@ALL"]}},
        app / "config" / "config_fed_server.json": {"format_version": 2, **server},
        app / "config" / "config_fed_client.json": {"format_version": 2, **client},
    }
    for path, said in written.items():
        path.write_text(json.dumps(said), encoding="utf-8")
    return folder
