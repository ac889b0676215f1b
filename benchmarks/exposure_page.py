"""``jgleak check`` on the deployed models, for docs/check.md: ``python -m benchmarks.exposure_page --write``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from benchmarks.lib.page import markdown
from jgleak.datasets import MOLECULE_SPACE
from jgleak.exposure.reading import DEPLOYED
from jgleak.exposure.registry import Exposure, exposure_of
from jgleak.exposure.text import exposure_text

PAGE = Path(__file__).parents[1] / "docs" / "check.md"
MARK = "<!-- below: python -m benchmarks.exposure_page --write -->\n"
"""The page up to here is written by hand."""

ABOUT = """
What `jgleak check NAME` prints for models as the projects' own files configure them. Where those say nothing, a client
has {graphs} graphs and a model two outputs; columns are jgleak's atom features. Whether the census applies, as clients
train now, and the fewest changes found with which it does:

"""

COLUMNS = ("name", "model and training", "leaks for certain", "census", "it applies with")


def generated() -> str:
    """The part of the page behind the mark."""
    exposures = {name: exposure_of(entry.deployment(MOLECULE_SPACE)) for name, entry in DEPLOYED.items()}
    rows = [_row(name, exposure) for name, exposure in exposures.items()]
    table = markdown(COLUMNS, rows).replace("---:", "---")  # words, no numbers
    parts = [ABOUT.format(graphs=next(iter(exposures.values())).deployment.clients.batch_size) + table]
    for name, exposure in exposures.items():
        entry = DEPLOYED[name]
        text = exposure_text(exposure, f"{name}: {entry.title} ({entry.source})")
        parts.append(f"\n### {name}\n\n```text\n{text}\n```\n")
    return "\n".join(parts)


def _row(name: str, exposure: Exposure) -> list[str]:
    census = next(f for f in exposure.findings if "census" in f.details.get("attacks", ()))
    leaks = ", ".join(finding.id for finding in exposure.of("leaks"))
    applies = census.level == "open"
    turns = "" if applies else "; ".join(census.details["turns"])
    return [f"`{name}`", DEPLOYED[name].title, leaks, "applies" if applies else "refuses", turns]


def main(
    write: Annotated[bool, typer.Option("--write", help="Into docs/check.md, behind the mark.")] = False,
) -> None:
    """Print the generated part, or write it."""
    if not write:
        typer.echo(generated())
        return
    before, mark, _ = PAGE.read_text(encoding="utf-8").partition(MARK)
    PAGE.write_text(before + mark + generated(), encoding="utf-8")


if __name__ == "__main__":
    typer.run(main)
