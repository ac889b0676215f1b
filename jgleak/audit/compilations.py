"""How often XLA compiled, and for how long: shapes that change from client to client become visible."""

from __future__ import annotations

import dataclasses
import threading
import time
from functools import cache
from typing import Any

import jax

_STEPS = "/jax/core/compile/"
"""Tracing, lowering and compiling, each with its duration when it ends; one may lie inside another."""

_COMPILED = _STEPS + "backend_compile_duration"


NOTABLE = 0.25
"""Above this share of an attack's time, compilation is reported as a reason why its search ended early."""


@dataclasses.dataclass(frozen=True)
class Compiled:
    """What was compiled.

    Attributes:
      number: number of compilations.
      seconds: time that they took, tracing included.
    """

    number: int = 0
    seconds: float = 0.0

    def since(self, before: Compiled) -> Compiled:
        """The compilations after ``before``."""
        return Compiled(self.number - before.number, self.seconds - before.seconds)


class Counter:
    """The time during which anything was compiled: of steps inside others, or beside them in other threads, once."""

    def __init__(self) -> None:
        self.number, self.seconds = 0, 0.0
        self.stretches: list[tuple[float, float]] = []  # begin and end, disjoint and in order
        self._one_by_one = threading.Lock()

    def ended(self, event: str, duration_secs: float, **_: Any) -> None:
        """A listener of JAX: a step has just ended."""
        if not event.startswith(_STEPS):
            return
        now = time.monotonic()
        with self._one_by_one:
            begun = now - duration_secs
            while self.stretches and self.stretches[-1][1] > begun:
                earlier, end = self.stretches.pop()
                self.seconds -= end - earlier
                begun, now = min(begun, earlier), max(now, end)
            self.stretches.append((begun, now))
            self.seconds += now - begun
            self.number += event == _COMPILED


@cache
def _counter() -> Counter:
    """One counter for the whole process."""
    counter = Counter()
    jax.monitoring.register_event_duration_secs_listener(counter.ended)
    return counter


def compilations() -> Compiled:
    """All compilations since the first call of this function."""
    return Compiled(_counter().number, _counter().seconds)


def notable(seconds: float, compiling: float) -> bool:
    """Whether compilation took a notable share of an attack's time."""
    return compiling > NOTABLE * seconds


def lost_to_compilation(seconds: float, compiling: float) -> str | None:
    """The message about a search that its time limit ended, where compilation took a notable share of the time, else
    None.

    Args:
      seconds: time of the attack.
      compiling: time of compilation within it.
    """
    if not notable(seconds, compiling):
        return None
    kept = jax.config.values["jax_compilation_cache_dir"] is not None
    instead = "a longer --time-limit leaves more for the search"
    if kept:
        instead = f"run it again, for compiled programs are kept (tracing is not); {instead}"
    return f"compilation took {compiling:.1f} s of {seconds:.1f} s; {instead}"
