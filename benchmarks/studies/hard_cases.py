"""Cases on which the census once had no answer: ``python -m benchmarks.studies.hard_cases --json``.

An outcome is *exact* (the first graph listed is the client's), *listed*, *no answer*, or *wrong*: graphs are listed and
the client's is none of them, or it is not the one that is certified to be unique. The truth stays in this script.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from typing import Annotated, Any, NamedTuple

import jax
import networkx as nx
import numpy as np
import typer

from jgleak import Budget, Graph, Knowledge, Observation, fedsgd, get_attack, standard
from jgleak.audit.round import client
from jgleak.audit.setup import prepare
from jgleak.audit.specification import Specification
from jgleak.datasets import MOLECULE_SPACE, load
from jgleak.datasets.molecules import molecule_graph
from jgleak.features import FeatureSpace, binary, onehot
from jgleak.gnn import MLP, Pooled
from jgleak.metrics import truth_in_set
from jgleak.metrics.exact import isomorphism

ALIKE = FeatureSpace((onehot("kind", (0, 1, 2)),))
"""Features that state no degree."""

WORDS = FeatureSpace(tuple(binary(f"word {i}") for i in range(8)))
"""Features of which a node may have none: a row of zeros."""

TREES = ("CC(=O)C(C)O", "NC(=O)C(Cl)Cl")
"""Two equal leaves on one of two neighbours, which a pooled readout gives equal upstream rows."""

PYG_MOLECULES = ("CC(=O)Nc1ccc(O)cc1", "OC(=O)c1ccccc1", "CCOC(=O)CC#N")


class Case(NamedTuple):
    """One client."""

    name: str
    truth: Graph
    observation: Observation
    knowledge: Knowledge


Cases = Callable[[], Iterator[Case]]


def _sampled(what: str, numbers: tuple[int, ...], **fields: Any) -> Cases:
    """Clients of a data set, as ``jgleak attack`` has them."""

    def cases() -> Iterator[Case]:
        specification = Specification(attack="census", **fields)
        setup = prepare(specification)
        for number in numbers:
            one = client(specification, setup, number)
            yield Case(f"{what}, number {number}", one.truths[0], one.observation, one.knowledge)

    return cases


def _alike() -> Iterator[Case]:
    """Stars and paths of equal nodes whose features state no degree."""
    for kind in ("gcn", "sage"):
        model = standard(ALIKE.width, kind)
        params = model.initial(key=jax.random.key(0))
        for n in (3, 5, 9):
            for what, plain in (("path", nx.path_graph(n)), ("star", nx.star_graph(n - 1))):
                truth = Graph(np.zeros((n, 1), np.int64), np.array(plain.edges), 1)
                seen = fedsgd(model, params, [truth], ALIKE, loss="bce")
                yield Case(f"equal features, {kind}, {what} of {n}", truth, seen, Knowledge(ALIKE))


def _zero_row() -> Iterator[Case]:
    """A path in which one node has none of the words; and that node alone."""
    model = standard(WORDS.width)
    params = model.initial(key=jax.random.key(0))
    for n in (1, 4):
        rows = np.random.default_rng(n).integers(0, 2, (n, WORDS.width))
        rows[0] = 0
        truth = Graph(rows, np.array(nx.path_graph(n).edges, np.int64).reshape(-1, 2), 1)
        yield Case(f"one zero row of {n}", truth, fedsgd(model, params, [truth], WORDS, loss="bce"), Knowledge(WORDS))


def _trees() -> Iterator[Case]:
    model = standard(MOLECULE_SPACE.width, "gcn", Pooled("mean", MLP((64, 2))), last_act=True, bias=True)
    params = model.initial(key=jax.random.key(0))
    for smiles in TREES:
        truth = molecule_graph(smiles, 1)
        seen = fedsgd(model, params, [truth], MOLECULE_SPACE, loss="bce")
        yield Case(f"X2A-BX2 tree {smiles}", truth, seen, Knowledge(MOLECULE_SPACE))


def _pyg() -> Iterator[Case]:
    """PyTorch Geometric's own stacks under a mean and a linear map, read by ``from_pyg``."""
    import torch  # pyright: ignore[reportMissingImports]
    import torch.nn.functional as F  # pyright: ignore[reportMissingImports]
    from torch_geometric.nn import global_mean_pool, models  # pyright: ignore[reportMissingImports]

    from jgleak.interop import edge_arrays, from_pyg

    space = load("tox21").space
    for kind in ("GCN", "GraphSAGE", "GAT"):

        class Net(torch.nn.Module):
            def __init__(self, stack: Any) -> None:
                super().__init__()
                self.stack, self.head = stack, torch.nn.Linear(64, 1)

            def forward(self, x: Any, edge_index: Any, batch: Any) -> Any:
                return self.head(global_mean_pool(self.stack(x, edge_index), batch))

        torch.manual_seed(0)
        model = Net(getattr(models, kind)(space.width, 64, num_layers=2, out_channels=64)).eval()
        for smiles in PYG_MOLECULES:
            truth = molecule_graph(smiles, 1)
            x, edge_index = (torch.from_numpy(part) for part in edge_arrays(truth, space))
            model.zero_grad()
            output = model(x, edge_index, torch.zeros(truth.n, dtype=torch.long))
            F.binary_cross_entropy_with_logits(output[0], torch.ones(1)).backward()
            seen = from_pyg(model, loss="bce", example=(x, edge_index, output))
            yield Case(f"models.{kind}, {smiles}", truth, seen, Knowledge(space))


CASES: dict[str, Cases] = {
    "gin": _sampled("GIN", (15,), dataset="tox21", seed=77, graphs=20, model="gin"),
    "gat": _sampled("GAT", (16,), dataset="tox21", seed=77, graphs=20, model="gat"),
    "tanh": _sampled("tanh", (0,), dataset="tox21", seed=0, graphs=12, activation="tanh"),
    "sigmoid": _sampled("sigmoid", (0,), dataset="tox21", seed=0, graphs=12, activation="sigmoid"),
    "pooled-sum": _sampled(
        "pooled sum without a last activation", (4, 7), dataset="tox21", graphs=12, readout="pooled", pooling="sum"
    ),
    "trained": _sampled("trained 3 epochs", (2, 4), dataset="tox21", graphs=5, max_nodes=15, train=3),
    "alike": _alike,
    "zero-row": _zero_row,
    "trees": _trees,
    "pyg": _pyg,
}
"""By name."""

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@app.command()
def main(
    cases: Annotated[str, typer.Option(help=f"By commas: {', '.join(CASES)}.")] = ",".join(CASES),
    time_limit: Annotated[float, typer.Option(help="Seconds a case.")] = 60.0,
    json_lines: Annotated[bool, typer.Option("--json", help="An object a case instead of a line.")] = False,
) -> None:
    """One line a case; status 1 where an answer is wrong."""
    from benchmarks.lib.options import chosen

    records = []
    for name in chosen(cases, CASES, "--cases"):
        try:
            for case in CASES[name]():
                records.append(attacked(case, time_limit))
                print(json.dumps(records[-1]) if json_lines else _line(records[-1]), flush=True)
        except ModuleNotFoundError as error:
            print(json.dumps({"case": name, "outcome": f"not run: {error}"}) if json_lines else f"{name}: {error}")
    raise typer.Exit(int(any(record["outcome"] == "wrong" for record in records)))


def attacked(case: Case, time_limit: float) -> dict[str, Any]:
    """What the census answers, beside the truth."""
    attack, begun, work = get_attack("census"), time.monotonic(), time.process_time()
    found = attack(case.observation, case.knowledge, key=jax.random.key(1), budget=Budget(time_limit=time_limit))
    listed, certificate = truth_in_set(case.truth, found.graphs), found.certificate
    exact = found.best is not None and isomorphism(case.truth, found.best) is not None
    claims = certificate is not None and certificate.status != "at_least_k"
    wrong = bool(found.graphs) and not listed and claims
    outcome = "wrong" if wrong else "exact" if exact else "listed" if listed else "not listed"
    return {
        "case": case.name,
        "nodes": case.truth.n,
        "outcome": outcome if found.graphs else "no answer",
        "size": len(found.graphs),
        "certificate": None if certificate is None else certificate.status,
        "residual": found.gradient_distance,
        "stop": found.stop,
        "seconds": round(time.monotonic() - begun, 1),
        "cpu_seconds": round(time.process_time() - work, 1),
    }


def _line(record: dict[str, Any]) -> str:
    residual = "" if record["residual"] is None else f", residual {record['residual']:.1e}"
    status = record["certificate"] or record["stop"]
    return (
        f"{record['case']} ({record['nodes']} nodes): {record['outcome']}, {record['size']} listed, {status}{residual}"
        f", {record['seconds']} s ({record['cpu_seconds']} s of CPU)"
    )


if __name__ == "__main__":
    app()
