"""GRAIN's Figures 3a, 3b and 6 as numbers and curves: ``python -m benchmarks.papers.grain.figures --write``."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Annotated

import numpy as np
import typer

from benchmarks.lib.options import chosen
from benchmarks.lib.page import markdown
from benchmarks.lib.provenance import provenance
from benchmarks.lib.records import Kept, Record
from benchmarks.papers.grain.rank import of_chance, of_graphs, of_models
from benchmarks.papers.grain.rows import CITESEER, TOX21
from benchmarks.papers.grain.threshold import LOOSEST, of_clients
from jgleak.audit.setup import prepare
from jgleak.datasets import load
from jgleak.metrics import rate

ABOUT = """\
Written by `python -m benchmarks.papers.grain.figures --write`; do not edit. The paper's figures have no printed
numbers; `grain_figures.svg` shows ours as curves.

Figure 3a: a GCN and a GAT (GRAIN's, random weights) on the same CiteSeer clients. A node is *held* by a convolution
where its row of `dL/dY`, the derivatives by what the kernel makes of the nodes' rows, is no combination of the other
nodes' (Theorem 5.1); *all* is the share of clients of which every node is. Ranks are taken in float64, of the model
itself: what float32 spoils is left out."""

CHANCE = """\
Figure 3b: how often `A + I`, the GCN's adjacency, has full rank, and the share of its rows that are no combination of
the others (Corollary 5.2), over all graphs of some sizes. Random matrices join every two nodes with probability p;
molecules of 4 to {largest} atoms and CiteSeer's neighbourhoods are those of the sets. The paper draws 100,000 matrices
a size, ours are {times}. BBBP is not here: no file was at hand."""

THRESHOLD = """\
Figure 6: what passes the span check at a threshold, over what there is, for nodes (feature vectors of the schema) and
1-hop blocks (of all nodes that pass at our own tolerance); in brackets the share of the true ones that pass. Means
over {clients} Tox21 molecules, GRAIN's GCN, gradients in float32. Distances are relative, and coordinates are divided
by the length of their gradient row before, which GRAIN does not do: thresholds compare in order, not in value. Nodes
are listed up to {loosest}."""

SIZES, TIMES, LARGEST = range(2, 21), 500, 40

PROBABILITIES = (0.1, 0.3, 0.5, 0.7, 0.9)

CLIENTS, MOLECULES = 100, 10

Run = Callable[[int | None], Record]
"""From how many clients (None: as many as usual) to a record."""


def _models(conv: str) -> Run:
    def run(graphs: int | None) -> Record:
        specification = dataclasses.replace(CITESEER, model=conv, graphs=graphs or CLIENTS)
        return of_models(prepare(specification), {"specification": specification.to_json()})

    return run


def _molecules(name: str) -> Run:
    return lambda graphs: of_graphs(load(name, graphs=graphs, min_nodes=4, max_nodes=LARGEST).graphs, {})


def _chance(probability: float) -> Run:
    return lambda graphs: of_chance(probability, SIZES, graphs or TIMES, {})


def _threshold(graphs: int | None) -> Record:
    specification = dataclasses.replace(TOX21, graphs=graphs or MOLECULES)
    return of_clients(prepare(specification), {"specification": specification.to_json()})


RUNS: Mapping[str, Run] = {
    "3a-gcn": _models("gcn"),
    "3a-gat": _models("gat"),
    **{f"3b-random-{probability:g}": _chance(probability) for probability in PROBABILITIES},
    "3b-tox21": _molecules("tox21"),
    "3b-clintox": _molecules("clintox"),
    "3b-citeseer": lambda graphs: of_graphs(load("citeseer", graphs=graphs or 10 * CLIENTS).graphs, {}),
    "6": _threshold,
}

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@app.command()
def main(
    figures: Annotated[str | None, typer.Option(help=f"Of {', '.join(RUNS)}, by commas; all by default.")] = None,
    graphs: Annotated[int | None, typer.Option(min=2, help="Clients, or matrices a size.")] = None,
    write: Annotated[bool, typer.Option("--write", help="Into results/grain_figures.jsonl and .md.")] = False,
) -> None:
    """One JSON line a curve."""
    kept = Kept("grain_figures", {"figure": list(RUNS)}, document, write=write)
    for name in chosen(figures, RUNS, "--figures"):
        kept.put({"figure": name} | RUNS[name](graphs) | provenance())


def document(records: Sequence[Record]) -> str:
    """The page."""
    found = {record["figure"]: record for record in records}
    parts = ["# GRAIN's figures", ABOUT]
    models = [_of_model(found[f"3a-{conv}"], conv) for conv in ("gcn", "gat") if f"3a-{conv}" in found]
    head = ("", "clients", "layer 1: nodes held", "all", "layer 2: nodes held", "all")
    parts.append(markdown(head, models))
    curves = {name.removeprefix("3b-"): record for name, record in found.items() if name.startswith("3b-")}
    if curves:
        parts += [CHANCE.format(largest=LARGEST, times=f"{TIMES:,}"), markdown(("", *SHOWN), _by_size(curves))]
    if "6" in found:
        about = THRESHOLD.format(clients=len(found["6"]["clients"]), loosest=LOOSEST)
        parts += [about, markdown(("threshold", "nodes", "1-hop blocks"), list(_by_threshold(found["6"])))]
    return "\n\n".join(parts) + "\n"


def _of_model(record: Record, conv: str) -> tuple[str, ...]:
    held, nodes = np.array(record["held"], float), np.array(record["nodes"], float)[:, None]
    cells = []
    for layer in (held / nodes).T:
        for rates in (layer, layer == 1.0):
            found = rate(rates.astype(float))
            cells.append(f"{found.mean:.3f} [{found.low:.3f}, {found.high:.3f}]")
    return (conv.upper(), str(len(held)), *cells)


SHOWN = ("2 to 5", "6 to 10", "11 to 15", "16 to 20", "21 to 40")


def _by_size(curves: Mapping[str, Record]) -> list[tuple[str, ...]]:
    lines = []
    for name, record in curves.items():
        title = name.replace("random-", "random, p = ")
        for key, what in (("full", "full rank"), ("held", "rows held")):
            lines.append((f"{title}: {what}", *(_mean(record, key, classes) for classes in SHOWN)))
    return lines


def _mean(record: Record, key: str, classes: str) -> str:
    low, high = map(int, classes.split(" to "))
    inside = [i for i, n in enumerate(record["nodes"]) if low <= n <= high]
    graphs = np.array([record["graphs"][i] for i in inside], float)
    return f"{np.average([record[key][i] for i in inside], weights=graphs):.3f}" if inside else "-"


def curves_of(record: Record) -> dict[str, list[tuple[float, float, float]]]:
    """Of Figure 6, for nodes and blocks: threshold, mean of what passes over what there is, and of the true share."""
    out = {}
    for kind in ("nodes", "blocks"):
        means = np.mean([client[kind] for client in record["clients"]], axis=0)
        out[kind] = [(cut, *map(float, pair)) for cut, pair in zip(record["thresholds"], means, strict=False)]
    return out


def _by_threshold(record: Record) -> Iterator[tuple[str, ...]]:
    curves = curves_of(record)
    for i, (cut, *_) in enumerate(curves["blocks"]):
        cells = (points[i] if i < len(points) else None for points in curves.values())
        yield (f"{cut:.1e}", *("-" if point is None else f"{point[1]:.3g} ({point[2]:.3f})" for point in cells))


if __name__ == "__main__":
    app()
