"""The picture of the study of deployed configurations: ``python -m benchmarks.studies.deployed_plot``.

One line a model: the census refuses it as configured; the points are what comes back with the fewest changes among
those that were run.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from textwrap import fill
from typing import Annotated

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import typer
from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from benchmarks.lib.records import RESULTS, Record, read
from benchmarks.studies.deployed import CONFIGURED, EPOCHS, EXACT
from jgleak.exposure.reading import DEPLOYED

COLOURS = ("#1b4f72", "#2e86c1", "#e67e22")
"""One a number of epochs."""

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@app.command()
def main(
    source: Annotated[Path, typer.Option(help="What benchmarks.studies.deployed wrote.")] = RESULTS / "deployed.jsonl",
    out: Annotated[Path, typer.Option(help="The picture.")] = Path("docs/deployed.svg"),
) -> None:
    """One SVG."""
    draw(read(source), out)
    typer.echo(out)


def fewest(model: str, records: Sequence[Record]) -> list[Record]:
    """A model's records of the census with the fewest changes among those that were run."""
    run = [r for r in records if r["model"] == model and r["attack"] == EXACT and r["refused"] is None]
    least = min((r["changes"].count(";") for r in run), default=0)
    return [r for r in run if r["changes"].count(";") == least]


def draw(records: Sequence[Record], path: Path) -> None:
    """The picture of all models, the first on top."""
    plt.rcParams["svg.hashsalt"] = "deployed"
    figure, axes = plt.subplots(figsize=(8.2, 5.4))
    for line, model in enumerate(DEPLOYED):
        run = fewest(model, records)
        said = fill("with " + (run[0]["changes"] if run else CONFIGURED), 46)
        axes.text(-3, line, f"{model}\n{said}", ha="right", va="center", fontsize=7.5)
        for record in run:
            place = EPOCHS.index(record["epochs"])
            _point(axes, record, line + 0.24 * (place - 1), COLOURS[place])
    handles = [Line2D([], [], marker="o", color=colour) for colour in COLOURS]
    words = [f"{number} epochs of training before" for number in EPOCHS]
    figure.legend(handles, words, loc="upper right", ncols=3, fontsize=7.5, frameon=False)
    axes.set_yticks([])
    axes.set_xlim(-1, 101)
    axes.set_ylim(len(DEPLOYED) - 0.5, -0.5)
    axes.set_xlabel("molecules rebuilt exactly, %", fontsize=8)
    axes.tick_params(labelsize=8)
    axes.grid(axis="x", alpha=0.3)
    figure.subplots_adjust(left=0.37, right=0.98, top=0.94, bottom=0.09)
    figure.savefig(path, metadata={"Date": None})
    plt.close(figure)


def _point(axes: Axes, record: Record, height: float, colour: str) -> None:
    mean, low, high = (100 * record["exact"][what] for what in ("mean", "low", "high"))
    axes.plot([low, high], [height, height], color=colour, lw=1.5, alpha=0.6)
    axes.plot(mean, height, "o", color=colour, ms=5, clip_on=False)


if __name__ == "__main__":
    app()
