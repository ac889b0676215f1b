"""The command line. JAX is imported inside the commands, so that help and error messages appear at once."""

from __future__ import annotations

from typing import Annotated

import typer

from jgleak.cli.attack import attack
from jgleak.cli.audit import audit
from jgleak.cli.check import check
from jgleak.cli.compiled import keep_compiled, leave_out_locations
from jgleak.cli.invert import invert, verify
from jgleak.cli.listing import show_list
from jgleak.cli.recommender import recommender
from jgleak.cli.renamed import Command
from jgleak.cli.report import report
from jgleak.cli.start import Start
from jgleak.cli.status import leave, listen_to_signals
from jgleak.garbage import look_seldom
from jgleak.version import __version__

app = typer.Typer(
    context_settings={"help_option_names": ["-h", "--help"]},
    pretty_exceptions_enable=False,
    help="Audit what the gradients of graph neural networks leak in federated learning.",
)
for command in (attack, audit, check, invert, verify, report, recommender):
    app.command(cls=Command)(command)
app.command("list")(show_list)


def main() -> None:
    """Entry point of the ``jgleak`` command."""
    look_seldom()
    keep_compiled()
    leave_out_locations()
    listen_to_signals()
    try:
        app()
    except SystemExit as ended:
        leave(ended.code)
        raise


def _version(wanted: bool) -> bool:
    if wanted:
        typer.echo(__version__)
        raise typer.Exit
    return wanted


@app.callback(cls=Start)
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """Options of the bare command."""
