"""What the client's very graph scores in file order, its nodes renumbered.

``python -m benchmarks.studies.file_order`` prints a JSON line a data set.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Annotated, Any

import numpy as np
import typer

from benchmarks.lib.options import chosen
from benchmarks.lib.page import markdown
from benchmarks.lib.provenance import provenance
from benchmarks.lib.records import Records
from benchmarks.papers.fedgig.rows import FEDGIG, PRINTED, RIVALS
from jgleak.attacks.node_order import numbered
from jgleak.audit.setup import Setup, prepare
from jgleak.features import FeatureSpace
from jgleak.federated import Knowledge
from jgleak.graph import Graph
from jgleak.metrics import edge_scores

SETS = {row.name: row for row in FEDGIG.rows if row.name == row.experiment.dataset}

MEASURES = ("accuracy", "jaccard", "mse", "auc")

SHUFFLES = 10
"""Random orders of every graph."""

ABOUT = """\
Written by `python -m benchmarks.studies.file_order --write`; do not edit. FedGIG's measures (accuracy / Jaccard / MSE /
AUC of the edges, node by node in file order) of the client's very graph, which no attack can beat in a measure that
does not look at the order. The features are known, so nodes of unlike features stand where they stood. *Shuffled*:
equal ones stand anywhere, the mean of {shuffles} orders. *By habit*: as public graphs of the set would list them
(`jgleak/attacks/node_order.py`). *Short*: share of the edges that join nodes at most two places apart in the file. No
gradient says more about the order than this: equal nodes may change places in any graph."""

HEAD = ("", "graphs", "FedGIG's paper", "the very graph, shuffled", "the very graph, by habit", "short")

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@app.command()
def main(
    datasets: Annotated[str, typer.Option(help="By commas; all of FedGIG's by default.")] = ",".join(SETS),
    graphs: Annotated[int, typer.Option(min=2, help="Of each data set.")] = 50,
    write: Annotated[bool, typer.Option("--write", help="Into results/file_order.jsonl and .md.")] = False,
) -> None:
    """One JSON line a data set."""
    records = Records()
    for name in chosen(datasets, SETS, "--datasets"):
        setup = prepare(dataclasses.replace(SETS[name].experiment, graphs=graphs, know=("n", "features", "auxiliary")))
        records.say({"dataset": name} | _scored(setup) | provenance())
    if write:
        records.write("file_order", document(records))


def _scored(setup: Setup) -> dict[str, Any]:
    space, clients, public = setup.dataset.space, setup.dataset.graphs, setup.public
    return {"graphs": len(clients), "short": short(clients)} | orders(clients, space, public)


def orders(clients: Sequence[Graph], space: FeatureSpace, public: Sequence[Graph]) -> dict[str, list[float]]:
    """The measures' means over the clients, equal nodes in random order and in that of public graphs."""
    rng, shuffled, usual = np.random.default_rng(0), list[list[float]](), list[list[float]]()
    for graph in clients:
        told = Knowledge(space, n=graph.n, features=graph.x)
        ways = [numbered(graph.permute(rng.permutation(graph.n)), told) for _ in range(SHUFFLES)]
        shuffled.append(np.mean([_measures(graph, way, space) for way in ways], axis=0).tolist())
        usual.append(_measures(graph, numbered(ways[0], dataclasses.replace(told, auxiliary=tuple(public))), space))
    return {"shuffled": np.nanmean(shuffled, axis=0).tolist(), "habit": np.nanmean(usual, axis=0).tolist()}


def short(clients: Sequence[Graph]) -> float:
    """Share of edges that join nodes at most two places apart."""
    gaps = np.concatenate([np.abs(graph.edges[:, 0] - graph.edges[:, 1]) for graph in clients])
    return float(np.mean(gaps <= 2))


def _measures(truth: Graph, found: Graph, space: FeatureSpace) -> list[float]:
    score = edge_scores(truth, space, found.adjacency).file_order
    return [float(getattr(score, measure)) for measure in MEASURES]


def document(records: Sequence[dict[str, Any]]) -> str:
    """The page: a line a data set."""
    rows = [
        (
            SETS[record["dataset"]].title,
            str(record["graphs"]),
            _joined(PRINTED[record["dataset"]][RIVALS.index("fedgig")]),
            _joined(record["shuffled"]),
            _joined(record["habit"]),
            f"{record['short']:.2f}",
        )
        for record in records
    ]
    parts = ["# File order: what the very graph scores", ABOUT.format(shuffles=SHUFFLES), markdown(HEAD, rows)]
    return "\n\n".join(parts) + "\n"


def _joined(values: Sequence[float]) -> str:
    return " / ".join(f"{value:.3f}" for value in values)


if __name__ == "__main__":
    app()
