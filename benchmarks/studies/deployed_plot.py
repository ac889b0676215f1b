"""The picture of the study of deployed configurations: ``python -m benchmarks.studies.deployed_plot``.

One lane a model: the census refuses it as configured; the points are what comes back with the fewest changes among
those that were run. It is as wide as a phone's screen, so that its text is never scaled down.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from textwrap import wrap
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

WIDE, LINES, STEP = 4.0, 52, 0.125
"""Inches across, characters of a line of text, and inches from one line of text or points to the next."""

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
    figure, axes = plt.subplots()
    line = 0.0
    for model in DEPLOYED:
        run = fewest(model, records)
        said = wrap("with " + (run[0]["changes"] if run else CONFIGURED), LINES)
        axes.text(0, line, model, va="top", fontsize=9, fontweight="bold")
        axes.text(0, line + 1.3, "\n".join(said), va="top", fontsize=8, linespacing=1.1)
        line += 2.2 + len(said)
        for record in run:
            place = EPOCHS.index(record["epochs"])
            _point(axes, record, line + place, COLOURS[place])
        line += len(EPOCHS) + 1.0
    handles = [Line2D([], [], marker="o", color=colour) for colour in COLOURS]
    words = list(map(str, EPOCHS))
    legend = {"loc": "lower left", "bbox_to_anchor": (-0.03, 1.0), "ncols": 3, "frameon": False, "columnspacing": 1.2}
    axes.legend(handles, words, title="epochs of training before", fontsize=8.5, title_fontsize=8.5, **legend)
    axes.set_yticks([])
    axes.set_xlim(-1, 101)
    axes.set_ylim(line, -1.0)
    axes.set_xlabel("molecules rebuilt exactly, %", fontsize=9)
    axes.tick_params(labelsize=9)
    axes.grid(axis="x", alpha=0.3)
    axes.spines[["left", "right", "top"]].set_visible(False)
    above, below, tall = 0.5, 0.45, STEP * (line + 1.0)
    figure.set_size_inches(WIDE, above + tall + below)
    whole = figure.get_figheight()
    figure.subplots_adjust(left=0.03, right=0.96, top=1 - above / whole, bottom=below / whole)
    figure.savefig(path, metadata={"Date": None})
    plt.close(figure)


def _point(axes: Axes, record: Record, height: float, colour: str) -> None:
    mean, low, high = (100 * record["exact"][what] for what in ("mean", "low", "high"))
    axes.plot([low, high], [height, height], color=colour, lw=1.5, alpha=0.6)
    axes.plot(mean, height, "o", color=colour, ms=5, clip_on=False)


if __name__ == "__main__":
    app()
