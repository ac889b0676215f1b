"""GRAIN's Figures 3a, 3b and 6, from the stored records: ``python -m benchmarks.papers.grain.plots``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
import typer

from benchmarks.lib.records import RESULTS, Record, read
from benchmarks.papers.grain.figures import curves_of

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@app.command()
def main(
    source: Annotated[Path, typer.Option(help="What benchmarks.papers.grain.figures wrote.")] = RESULTS
    / "grain_figures.jsonl",
    out: Annotated[Path, typer.Option(help="The picture.")] = RESULTS / "grain_figures.svg",
) -> None:
    """Four panels: 3a, 3b for random matrices and for data, 6."""
    if not (records := read(source)):
        raise typer.BadParameter(f"{source} has no records; run papers.grain.figures --write", param_hint="--source")
    found = {record["figure"]: record for record in records}
    plt.rcParams["svg.hashsalt"] = "grain"
    figure, panels = plt.subplots(1, 4, figsize=(13, 3))
    for name in (name for name in found if name.startswith("3a-")):
        panels[0].plot(*_by_nodes(found[name]), "o", ms=3, alpha=0.5, label=name[3:].upper())
    panels[0].set_title("3a: nodes held by layer 2, CiteSeer", fontsize=8)
    for name in (name for name in found if name.startswith("3b-")):
        chance = "random" in name
        label = f"p = {name.rsplit('-', 1)[1]}" if chance else name[3:]
        (line,) = panels[1 if chance else 2].plot(found[name]["nodes"], found[name]["held"], ms=2, label=label)
        panels[1 if chance else 2].plot(found[name]["nodes"], found[name]["full"], ":", color=line.get_color())
    panels[1].set_title("3b: random A + I; dotted: full rank", fontsize=8)
    panels[2].set_title("3b: A + I of data; dotted: full rank", fontsize=8)
    if "6" in found:
        for kind, points in curves_of(found["6"]).items():
            panels[3].loglog([point[0] for point in points], [point[1] for point in points], "o-", ms=3, label=kind)
    panels[3].set_title("6: passing over true, by threshold", fontsize=8)
    for panel, label in zip(panels, ("nodes", "nodes", "nodes", "relative distance"), strict=True):
        panel.set_xlabel(label, fontsize=7)
        panel.tick_params(labelsize=7)
        panel.grid(alpha=0.3)
        if panel.get_legend_handles_labels()[0]:
            panel.legend(fontsize=6)
    figure.tight_layout()
    figure.savefig(out, metadata={"Date": None})
    plt.close(figure)
    typer.echo(out)


def _by_nodes(record: Record) -> tuple[np.ndarray, np.ndarray]:
    nodes = np.array(record["nodes"])
    return nodes, np.array(record["held"])[:, -1] / nodes


if __name__ == "__main__":
    app()
