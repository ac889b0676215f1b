"""Compiled programs, kept only as long as the system lets a process map their code."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

import jax

from jgleak.audit.compilations import compilations

ALLOWED, MAPPED = Path("/proc/sys/vm/max_map_count"), Path("/proc/self/maps")
"""How many memory mappings Linux allows a process (usually 65,530), and those it has."""

SHARE = 0.5
"""Part of the allowed mappings from which programs are forgotten."""


def forget_programs() -> bool:
    """Clear compiled programs once they take half of the mappings that the system allows; True where it did.

    XLA maps about thirteen regions for every program on a CPU. After some 5,000 programs a process has no mapping left:
    compilation fails with "Cannot allocate memory", however much is free, and the process dies. Called between pieces
    of work; programs that are needed again are compiled again. A system that does not state its limit is treated as
    having none.
    """
    try:
        if _mapped(compilations().number) <= SHARE * int(ALLOWED.read_text()):
            return False
    except (OSError, ValueError):
        return False
    jax.clear_caches()
    _mapped.cache_clear()
    return True


@lru_cache(1)
def _mapped(compiled: int) -> int:
    """How many mappings the process has after ``compiled`` compilations; counting them takes milliseconds."""
    return MAPPED.read_bytes().count(b"\n")
