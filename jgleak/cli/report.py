"""``jgleak report``: an audit's results as a page."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from jgleak.cli import options as option
from jgleak.cli.status import mistakes


def report(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="The folder that `jgleak audit --out` wrote.")],
    out: Annotated[
        Path | None,
        option.output(help="The file to write, .html or .md; by default both report.html and report.md in DIR."),
    ] = None,
    no_pictures: Annotated[
        bool, option.output("--no-pictures", help="Leave private graphs and their names out, to pass the page on.")
    ] = False,
) -> None:
    """Write an audit's report: what leaks, how certain that is, and what it assumes."""
    with mistakes():
        from jgleak.audit.report.render import write_report
        from jgleak.audit.results import lost_files, open_audit

        lost = open_audit(folder).lost
        if lost:
            typer.echo(lost_files(lost), err=True)
        for file in (folder / "report.html", folder / "report.md") if out is None else (out,):
            write_report(folder, file, pictures=not no_pictures)
            typer.echo(f"wrote {file}")
