"""Exit statuses, and how a user's mistake is told."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import typer
from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn

from jgleak.audit.specification import Faults

MISTAKE, FAILED, INTERRUPTED = 2, 1, 130
"""The user's mistake, an attack that broke down, Ctrl-C."""


@contextmanager
def mistakes() -> Iterator[None]:
    """A user's mistake is a line on standard error and exit status 2."""
    try:
        yield
    except BrokenPipeError:
        raise
    except (ValueError, KeyError, OSError) as error:
        message = error.args[0] if isinstance(error, KeyError) and error.args else str(error)
        for fault in error.faults if isinstance(error, Faults) else (message,):
            typer.echo("error: " + " ".join(str(fault).split()), err=True)
        raise typer.Exit(MISTAKE) from error
    except KeyboardInterrupt:
        typer.echo("interrupted", err=True)
        raise typer.Exit(INTERRUPTED) from None


def spinner(console: Console, text: str) -> Progress:
    """One task, that says what is going on and vanishes at the end; standard output is left alone."""
    progress = Progress(
        SpinnerColumn(), TextColumn("{task.description}"), console=console, transient=True, redirect_stdout=False
    )
    progress.add_task(text, total=None)
    return progress
