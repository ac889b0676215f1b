"""What long commands show on standard error while they run: a bar on a terminal, elsewhere a line now and then."""

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
"""Seconds over which the pace is taken; rich forgets after 30, within which a client may not be finished."""

PAUSE, SHARE = 10.0, 1 / 20
"""A line comes no sooner after another than this many seconds and this share of the time so far, so that the log of
ten hours has a hundred lines of it and not thousands."""


def doing(console: Console, what: str) -> AbstractContextManager[Any]:
    """What is being done, as long as it lasts; where the console is no terminal, a line when it begins."""
    if console.is_terminal:
        return console.status(what)
    console.print(Text(what), soft_wrap=True)
    return nullcontext()


def bar(console: Console, counted: str = "") -> Progress:
    """How much is done, how long that took, how long the rest will, and what is being done.

    The time left is known from the second step on: the first one compiles, and says little of the others.

    Args:
      console: of standard error. Where it is no terminal, but a file or a pipe, the same is told in plain lines.
      counted: what else is counted, by the name of a task's field.
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
    """Prints a line where a bar would move, if the last line is long enough ago."""

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
