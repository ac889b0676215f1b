"""The progress of long commands on standard error: a bar on a terminal, elsewhere a line from time to time."""

from __future__ import annotations

import sys
from contextlib import AbstractContextManager, nullcontext
from datetime import timedelta
from typing import Any

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.text import Text

MEMORY = 24 * 3600.0
"""Seconds over which the speed is averaged; rich's default is 30, in which not one client may be finished."""

PAUSE, SHARE = 10.0, 1 / 20
"""Lines are at least this many seconds, and this share of the time so far, apart, so that the log of a long run stays
short."""


def doing(console: Console, what: str) -> AbstractContextManager[Any]:
    """Show what is being done while it lasts; where the console is not a terminal, a line when it begins."""
    if console.is_terminal:
        return console.status(what)
    console.print(Text(what), soft_wrap=True)
    return nullcontext()


def bar(console: Console, counted: str = "") -> Progress:
    """A progress bar: how much is done, the time so far, the time left, and what is being done. The time left is shown
    from the second step on, since the first one compiles.

    Args:
      console: standard error. Where it is a file or a pipe, the same is printed in plain lines.
      counted: a further count to show, the name of a task's field.
    """
    if not console.is_terminal:
        return _Lines(console, counted)
    extra = [TextColumn(f"{{task.fields[{counted}]}} {counted}")] if counted else []
    return Progress(
        BarColumn(),
        MofNCompleteColumn(),
        *extra,
        TimeElapsedColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.description}", markup=False),
        console=console,
        redirect_stdout=sys.stdout.isatty(),
        speed_estimate_period=MEMORY,
    )


class _Lines(Progress):
    """Prints a line where a bar would move, if the last line was long enough ago."""

    def __init__(self, console: Console, counted: str) -> None:
        super().__init__(console=console, disable=True, speed_estimate_period=MEMORY)
        self._counted, self._last = counted, self.get_time()

    def update(self, task_id: TaskID, **changes: Any) -> None:
        super().update(task_id, **changes)
        task, now = self._tasks[task_id], self.get_time()
        elapsed = task.elapsed or 0.0
        if now - self._last < max(PAUSE, SHARE * elapsed) or not changes.keys() & {"advance", "completed"}:
            return
        self._last = now
        words = [f"{task.completed:.0f} of {task.total or 0:.0f}", f"{_time(elapsed)} so far"]
        if self._counted:
            words.insert(1, f"{task.fields[self._counted]} {self._counted}")
        if task.time_remaining:
            words.append(f"about {_time(task.time_remaining)} left")
        self.console.print(Text(": ".join(filter(None, (", ".join(words), task.description)))), soft_wrap=True)

    def advance(self, task_id: TaskID, advance: float = 1) -> None:
        self.update(task_id, advance=advance)

    def stop(self) -> None:
        """There is no display to end; rich 13 would print an empty line."""


def _time(seconds: float) -> str:
    return str(timedelta(seconds=round(seconds)))
