"""A PyTorch Geometric model, trained in PyTorch, and what `jgleak invert` makes of the gradients of single molecules.

    python -m benchmarks.studies.pyg_inversion --folder /tmp/pyg   # dump, invert, count; --json for one line a molecule

It needs torch and torch_geometric beside jgleak. ``dump`` is all that a stranger writes; the rest is counting. The
truth stays in this script: `jgleak invert` gets a file and the public feature space.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch  # pyright: ignore[reportMissingImports]
import torch.nn.functional as F  # pyright: ignore[reportMissingImports]
from torch import nn  # pyright: ignore[reportMissingImports]
from torch_geometric.data import Data  # pyright: ignore[reportMissingImports]
from torch_geometric.loader import DataLoader  # pyright: ignore[reportMissingImports]
from torch_geometric.nn import GCNConv, global_mean_pool  # pyright: ignore[reportMissingImports]
from typer.testing import CliRunner

from jgleak import Graph, save
from jgleak.cli import app
from jgleak.datasets import load
from jgleak.interop import edge_arrays, from_pyg
from jgleak.interop.spaces import feature_space
from jgleak.metrics.exact import isomorphism

WIDTH, SMALL = 300, 64


class GCN(nn.Module):
    """A stranger's model: two GCN layers, ReLU after each, the mean over nodes, two linear layers."""

    def __init__(self, features: int) -> None:
        super().__init__()
        self.conv1, self.conv2 = GCNConv(features, WIDTH), GCNConv(WIDTH, WIDTH)
        self.lin1, self.lin2 = nn.Linear(WIDTH, SMALL), nn.Linear(SMALL, 1)

    def forward(self, x: Any, edge_index: Any, batch: Any) -> Any:
        x = self.conv1(x, edge_index).relu()
        x = self.conv2(x, edge_index).relu()
        return self.lin2(self.lin1(global_mean_pool(x, batch)).relu())


class Dropping(GCN):
    """The same with dropout before the last layer."""

    def __init__(self, features: int) -> None:
        super().__init__(features)
        self.drop = nn.Dropout(0.5)


class Normalising(Dropping):
    """The same with batch normalisation after the first convolution too."""

    def __init__(self, features: int) -> None:
        super().__init__(features)
        self.norm = nn.BatchNorm1d(WIDTH)


def train(model: Any, data: Sequence[Any], epochs: int) -> list[float]:
    """Mean loss of every epoch (Adam, 1e-3, batches of 32)."""
    optimiser, losses = torch.optim.Adam(model.parameters(), 1e-3), []
    for _ in range(epochs):
        total = 0.0
        for batch in DataLoader(data, batch_size=32, shuffle=True):
            optimiser.zero_grad()
            loss = F.binary_cross_entropy_with_logits(model(batch.x, batch.edge_index, batch.batch)[:, 0], batch.y)
            loss.backward()
            optimiser.step()
            total += float(loss.detach()) * batch.num_graphs
        losses.append(total / len(data))
    return losses


def dump(model: Any, x: Any, edge_index: Any, y: Any, path: Path) -> None:
    """The stranger's ten lines: the gradient of one molecule, as a file."""
    model.eval()
    model.zero_grad()
    output = model(x, edge_index, torch.zeros(len(x), dtype=torch.long))
    F.binary_cross_entropy_with_logits(output[0], y).backward()
    layers = ["conv1", "relu", "conv2", "relu", "mean", "lin1", "relu", "lin2"]
    observation = from_pyg(model, layers, loss="bce", example=(x, edge_index, output))
    save(path, observation)


def tensors(graph: Graph, space: Any) -> Any:
    x, edge_index = (torch.from_numpy(part) for part in edge_arrays(graph, space))
    return Data(x=x, edge_index=edge_index, y=torch.tensor([float(graph.y)]))  # type: ignore[arg-type]


def invert(path: Path, graph: Graph, features: Path, seconds: float) -> dict[str, Any]:
    """What the command line prints about one file, and whether it is the truth."""
    begun, work = time.perf_counter(), time.process_time()
    options = [
        "--features",
        str(features),
        "--n",
        str(graph.n),
        "--time-limit",
        str(seconds),
        "--out",
        str(path.parent),
    ]
    result = CliRunner().invoke(app, ["invert", str(path), *options, "--json"])
    if result.exit_code:
        raise RuntimeError(result.output)
    record = json.loads(result.stdout)
    found = json.loads((path.parent / "reconstruction.json").read_text())["graphs"]
    listed = [Graph(np.array(g["x"]), np.array(g["edges"], np.int64).reshape(-1, 2)) for g in found]
    same = [isomorphism(graph, other) is not None for other in listed]
    certificate = record["certificate"]
    return {
        "name": graph.name,
        "n": graph.n,
        "exact": bool(same) and same[0],
        "in_set": any(same),
        "listed": len(listed),
        "status": None if certificate is None else certificate["status"],
        "smiles": next((molecule["texts"][0] for molecule in record["smiles"] if molecule is not None), None),
        "stop": record["stop"],
        "seconds": round(time.perf_counter() - begun, 1),
        "cpu_seconds": round(time.process_time() - work, 1),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--folder", type=Path, required=True, help="for the observations")
    parser.add_argument("--features", default="molecules:tox21", help="as for `jgleak invert`")
    parser.add_argument("--graphs", type=int, default=20)
    parser.add_argument("--max-nodes", type=int, default=30)
    parser.add_argument("--epochs", type=int, default=1)
    parser.add_argument("--time-limit", type=float, default=60.0)
    parser.add_argument("--json", action="store_true", help="one line a molecule instead of a table")
    given = parser.parse_args()
    given.folder.mkdir(parents=True, exist_ok=True)
    torch.manual_seed(0)

    space, schema = feature_space(given.features), given.folder / "schema.json"
    schema.write_text(json.dumps(space.to_json()), encoding="utf-8")
    whole = load("tox21")
    private = load("tox21", graphs=given.graphs, min_nodes=4, max_nodes=given.max_nodes, seed=0).graphs
    names = {graph.name for graph in private}
    model = GCN(space.width)
    losses = train(model, [tensors(g, space) for g in whole.graphs if g.name not in names], given.epochs)
    print(f"trained on {len(whole.graphs) - len(names)} molecules, mean loss by epoch: {losses}", flush=True)

    dropping, normalising = ["lin1", "relu", "drop", "lin2"], ["conv1", "norm", "relu", "conv2", "relu", "mean"]
    for other, layers in (
        (Normalising(space.width), [*normalising, *dropping]),
        (Dropping(space.width), ["conv1", "relu", "conv2", "relu", "mean", *dropping]),
    ):
        try:
            from_pyg(other, layers, loss="bce")
        except ValueError as error:
            print(f"refused: {error}", flush=True)

    records = []
    for i, graph in enumerate(private):
        path, one = given.folder / f"{i:03d}.safetensors", tensors(graph, space)
        dump(model, one.x, one.edge_index, one.y, path)
        records.append(invert(path, graph, schema, given.time_limit))
        r = records[-1]
        mark = "exact" if r["exact"] else "among the listed" if r["in_set"] else f"not found ({r['stop']})"
        found = f"{mark:<18}{r['status']} of {r['listed']}  {r['smiles']}"
        line = f"{i:3d} {r['n']:3d} atoms {r['seconds']:6.1f} s ({r['cpu_seconds']:.1f} s of CPU)  {found}"
        print(json.dumps(r) if given.json else line, flush=True)
    exact, inside = (sum(r[key] for r in records) for key in ("exact", "in_set"))
    print(f"exact {exact} of {len(records)}, among the listed {inside}", flush=True)


if __name__ == "__main__":
    main()
