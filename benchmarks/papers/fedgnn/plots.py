"""FedGNN's Figures 5 and 6 with what leaks beside the error: ``python -m benchmarks.papers.fedgnn.plots``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import typer

from benchmarks.lib.records import RESULTS, read
from benchmarks.papers.fedgnn.page import curves
from benchmarks.papers.fedgnn.rows import ROWS

PANELS = {
    "error": "RMSE of the trained model",
    "auc": "AUC, real items against pseudo items",
    "precision_at_size": "precision at the history's length",
    "rmse_all": "error of recovered ratings (levels)",
}

UPDATES = (1, 5, 20)
"""Of a user, one line each."""

AXES = {"lambda": "scale of the Laplace noise, M = 1,000", "M": "pseudo items, scale 0.2"}

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@app.command()
def main(
    source: Annotated[Path, typer.Option(help="What benchmarks.papers.tables wrote.")] = RESULTS / "fedgnn.jsonl",
    out: Annotated[Path, typer.Option(help="The picture.")] = RESULTS / "fedgnn_curves.svg",
) -> None:
    """One row of panels against lambda, one against M."""
    if not (records := read(source)):
        raise typer.BadParameter(f"{source} has no records; run papers.tables fedgnn --write", param_hint="--source")
    plt.rcParams["svg.hashsalt"] = "fedgnn"
    figure, axes = plt.subplots(len(AXES), len(PANELS), figsize=(3.2 * len(PANELS), 2.6 * len(AXES)))
    for count in UPDATES:
        for (_, points), line in zip(curves(ROWS, records, count).items(), axes, strict=True):
            for key, panel in zip(PANELS, line, strict=True):
                found = [(strength, values[key]) for strength, values in points if values.get(key) is not None]
                if found and (key != "error" or count == UPDATES[0]):
                    panel.plot(*zip(*found, strict=True), "o-", ms=3, label=f"{count} update{'s' * (count > 1)}")
    for name, line in zip(AXES, axes, strict=True):
        for (key, title), panel in zip(PANELS.items(), line, strict=True):
            if key != "error" and panel.get_legend_handles_labels()[0]:
                panel.set_ylim(bottom=-0.03)
                panel.legend(fontsize=7)
            panel.set_title(title, fontsize=8)
            panel.set_xlabel(AXES[name], fontsize=7)
            panel.tick_params(labelsize=7)
            panel.grid(alpha=0.3)
    figure.suptitle(
        "GAT on Douban: errors of models trained under each protection; leaks at one openly trained model", fontsize=9
    )
    figure.tight_layout()
    figure.savefig(out, metadata={"Date": None})
    plt.close(figure)
    typer.echo(out)


if __name__ == "__main__":
    app()
