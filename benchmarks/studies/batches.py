"""The census on batches: ``python -m benchmarks.studies.batches``.

Each row is a model and a number of graphs an update, at random weights or after training on other molecules. Molecules
of Tox21 of 4 to 40 atoms; numbers of atoms and labels unknown, ranked by chemistry.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Annotated, Any, NamedTuple

import numpy as np
import typer

from benchmarks.lib.clients import attacked
from benchmarks.lib.options import chosen
from benchmarks.lib.page import markdown
from benchmarks.lib.records import Kept, Record
from benchmarks.lib.recovered import COLUMNS, cells, recovered
from jgleak.audit.setup import prepare
from jgleak.audit.specification import Specification

COMMON = Specification(
    dataset="tox21",
    attack="census",
    prior="molecule",
    min_nodes=4,
    max_nodes=40,
    readout="pooled",
    head=300,
    last_activation=True,
)


class Row(NamedTuple):
    """A model, and how many graphs are behind an update.

    Attributes:
      title: what it is.
      batch: graphs an update.
      fields: what differs from ``COMMON``.
    """

    title: str
    batch: int
    fields: Mapping[str, Any] = {}

    def specification(self, batches: int, seed: int, time_limit: float) -> Specification:
        """The experiment on so many updates."""
        about: dict[str, Any] = {"seed": seed, "time_limit": time_limit, "batch_size": self.batch, **self.fields}
        return dataclasses.replace(COMMON, graphs=batches * self.batch, **about)


def _width(width: int) -> Mapping[str, Any]:
    return {"hidden": width, "head": width}


NODES: Mapping[str, Any] = {"readout": "node_mlp", "head": 0, "last_activation": False}

ROWS: Mapping[str, Row] = {
    **{f"gcn-300-{b}": Row("GCN 2 x 300", b) for b in (1, 2, 4, 8, 16, 32)},
    **{f"gcn-{w}-{b}": Row(f"GCN 2 x {w}", b, _width(w)) for w, b in ((64, 2), (64, 4), (128, 4), (128, 8))},
    **{f"gcn-1024-{b}": Row("GCN 2 x 1024", b, _width(1024)) for b in (32, 64)},
    **{f"{conv}-300-4": Row(f"{conv.upper()} 2 x 300", 4, {"model": conv}) for conv in ("gat", "sage", "gin")},
    **{f"grain-300-{b}": Row("GRAIN's own, 2 x 300", b, NODES) for b in (1, 2, 4, 8)},
    "tasks-300-4": Row("GCN 2 x 300, 12 tasks", 4, {"task": "all"}),
    "tasks-300-4-trained": Row("GCN 2 x 300, 12 tasks, 5 epochs", 4, {"task": "all", "train": 5}),
    **{f"gcn-300-{b}-trained": Row("GCN 2 x 300, 5 epochs", b, {"train": 5}) for b in (2, 4)},
    **{f"gcn-300-{b}-trained-60": Row("GCN 2 x 300, 60 epochs", b, {"train": 60}) for b in (2, 4)},
    **{
        f"{attack}-300-4": Row(f"GCN 2 x 300, `{attack}`, told the sizes", 4, {"attack": attack, "know": ("n",)})
        for attack in ("dlg", "tableak", "random")
    },
}

ABOUT = """\
Written by `python -m benchmarks.studies.batches --write`; do not edit. One update is the mean gradient of *B* molecules
of Tox21 (4 to 40 atoms); mean pooling, ReLU after the last convolution, a head of two maps as wide as the model, unless
the row says GRAIN's own (a head a node).
Numbers of atoms and labels are unknown to the census, *B* is known; candidates are ranked by chemistry
(`--prior molecule`). Rates are of graphs, in percent, with 95 % intervals (an update is one
observation, whatever its graphs); *whole*: updates all of whose graphs are exact; *wrong*: graphs that
are certified to be the only ones and are others. Seconds are of an update. Seed 0 was looked at while this was
developed (widths 64 and 300, B = 4, 8, 16, first updates). The machine had other work beside these: where time ran out
(s: the limit of an update), more may be found on a quiet one. Records name the
machine, and the state of the code by a digest: rows of width 1024 are older than the smoothed search for weights
(docs/batches.md), which the others have."""

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@app.command()
def main(
    rows: Annotated[str, typer.Option(help="By commas.")] = ",".join(ROWS),
    batches: Annotated[int, typer.Option(min=1, help="Updates a row.")] = 20,
    seed: Annotated[int, typer.Option(help="Of the sample and the weights.")] = 0,
    time_limit: Annotated[float, typer.Option(help="Seconds an update.")] = 300.0,
    write: Annotated[bool, typer.Option("--write", help="Into results/batches.jsonl and .md.")] = False,
) -> None:
    """One JSON line a row; rows that are not asked for keep their records."""
    kept = Kept("batches", {"row": ROWS}, document, write=write)
    for name in chosen(rows, ROWS, "--rows"):
        kept.put(measured(name, batches, seed, time_limit))


def measured(name: str, batches: int, seed: int, time_limit: float) -> Record:
    """One row."""
    specification = ROWS[name].specification(batches, seed, time_limit)
    setup = prepare(specification)
    clients = attacked(specification, setup, name, lambda *_: None)
    updates = [list(graphs) for _, graphs in groupby(clients, lambda c: c["graph"] // specification.batch_size)]
    about = {
        "row": name,
        "batch": specification.batch_size,
        "graphs": len(clients),
        "time_limit": time_limit,
        "seed": seed,
    }
    found = recovered(clients, setup.training, size=specification.batch_size)
    seconds = [sum(c["seconds"] for c in graphs) for graphs in updates]
    whole = [all(c["exact"] for c in graphs) for graphs in updates]
    return {
        **about,
        **found,
        "seconds": {"median": float(np.median(seconds)), "total": float(np.sum(seconds))},
        "whole": sum(whole),
        "updates": len(updates),
    }


def document(lines: Sequence[Record]) -> str:
    """The page."""
    rows = [[ROWS[x["row"]].title, str(x["batch"]), f"{x['whole']} of {x['updates']}", *cells(x)] for x in lines]
    return f"# Batches\n\n{ABOUT}\n\n{markdown(('model', 'B', 'whole', *COLUMNS), rows)}\n"


if __name__ == "__main__":
    app()
