"""Leakage against the strength of a defence, from the stored grid: ``python -m benchmarks.papers.defenses.plots``."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import typer

from benchmarks.lib.records import RESULTS, Record, read
from benchmarks.papers.defenses.rows import DEFENSES, METHODS
from benchmarks.papers.defenses.utility import UTILITY

FAMILIES = {
    "noise": "noise on the update",
    "prune": "pruning",
    "activations": "noise on activations",
    "hybrid": "noise on both",
}

PANELS = {"tox21": ("exact", "GSM-1", "ROC-AUC"), "mutag": ("GSM-1", "AUC aligned", "accuracy")}
"""Columns of each data set's plot; the last one is the model's own."""

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@app.command()
def main(
    source: Annotated[Path, typer.Option(help="What benchmarks.papers.tables wrote.")] = RESULTS / "defenses.jsonl",
    out: Annotated[Path, typer.Option(help="Folder for the pictures.")] = RESULTS,
) -> None:
    """One SVG a data set: a row of panels for every family of defences, a line for every attack."""
    if not (records := read(source)):
        raise typer.BadParameter(f"{source} has no records; run papers.tables defenses --write", param_hint="--source")
    for dataset, columns in PANELS.items():
        measured = [record for record in records if record["row"].startswith(f"{dataset}-")]
        if measured:
            path = out / f"defenses_{dataset}.svg"
            _draw(dataset, columns, measured, path)
            typer.echo(path)


def _draw(dataset: str, columns: Sequence[str], records: Sequence[Record], path: Path) -> None:
    known = {row.name for row in DEFENSES.rows}
    families = [family for family in FAMILIES if f"{dataset}-{family}-1" in known]
    plt.rcParams["svg.hashsalt"] = "defenses"
    figure, axes = plt.subplots(
        len(families), len(columns), figsize=(3.4 * len(columns), 2.6 * len(families)), squeeze=False
    )
    handles: dict[str, Any] = {}
    for family, line in zip(families, axes, strict=True):
        rows = [f"{dataset}-none", *(f"{dataset}-{family}-{i}" for i in range(1, 5))]
        ticks = ["none", *(_strength(row) for row in rows[1:])]
        for column, panel in zip(columns, line, strict=True):
            for method in METHODS:
                found = {r["row"]: r["means"].get(column) for r in records if r["attack"] == method.name}
                points = [(i, found[row]["mean"]) for i, row in enumerate(rows) if found.get(row)]
                if points and (method.name == UTILITY) == (column == columns[-1]):
                    handles[method.title] = panel.plot(*zip(*points, strict=True), "o-", ms=3, label=method.title)[0]
            panel.set_xticks(range(len(rows)), ticks, fontsize=7)
            panel.set_ylim(-0.03, 1.03)
            panel.set_title(f"{FAMILIES[family]}: {column}", fontsize=8)
            panel.grid(alpha=0.3)
    figure.legend(handles.values(), handles.keys(), loc="lower center", ncols=4, fontsize=8, frameon=False)
    figure.tight_layout(rect=(0, 0.06, 1, 1))
    figure.savefig(path, metadata={"Date": None})
    plt.close(figure)


def _strength(name: str) -> str:
    row = next(row for row in DEFENSES.rows if row.name == name)
    return row.experiment.defense.partition(":")[2]


if __name__ == "__main__":
    app()
