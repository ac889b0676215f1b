"""How often XLA compiled: a shape that changes from client to client shows here."""

from __future__ import annotations

from functools import cache
from typing import Any

import jax

_EVENT = "/jax/core/compile/backend_compile_duration"


@cache
def _counter() -> list[int]:
    """One cell, raised by a listener for as long as the process lives."""
    cell = [0]

    def count(event: str, duration_secs: float, **_: Any) -> None:
        cell[0] += event == _EVENT

    jax.monitoring.register_event_duration_secs_listener(count)
    return cell


def compilations() -> int:
    """Number of compilations since the first call of this function."""
    return _counter()[0]
