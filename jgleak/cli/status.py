"""Exit statuses, and how a user's mistake is told."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import typer

MISTAKE, FAILED, INTERRUPTED = 2, 1, 130
"""The user's mistake, an attack that broke down, Ctrl-C."""


@contextmanager
def mistakes() -> Iterator[None]:
    """A user's mistake is one line on standard error and exit status 2."""
    try:
        yield
    except BrokenPipeError:
        raise
    except (ValueError, KeyError, OSError) as error:
        message = error.args[0] if isinstance(error, KeyError) and error.args else str(error)
        typer.echo("error: " + " ".join(str(message).split()), err=True)
        raise typer.Exit(MISTAKE) from error
    except KeyboardInterrupt:
        typer.echo("interrupted", err=True)
        raise typer.Exit(INTERRUPTED) from None
