"""What long commands show while they run: on standard error, and only on a terminal."""

from __future__ import annotations

import sys

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

MEMORY = 24 * 3600.0
"""Seconds over which the pace is taken; rich forgets after 30, within which a client may not be finished."""


def bar(console: Console, counted: str = "") -> Progress:
    """How much is done, how long that took, how long the rest will, and what is being done.

    The time left is known from the second step on: the first one compiles, and says little of the others.

    Args:
      console: of standard error.
      counted: what else is counted, by the name of a task's field.
    """
    extra = [TextColumn(f"{{task.fields[{counted}]}} {counted}")] if counted else []
    return Progress(
        BarColumn(),
        MofNCompleteColumn(),
        *extra,
        TimeElapsedColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.description}", markup=False),
        console=console,
        disable=not console.is_terminal,
        redirect_stdout=sys.stdout.isatty(),
        speed_estimate_period=MEMORY,
    )
