"""A cache of compiled XLA programs in the user's cache folder, shared by all commands."""

from __future__ import annotations

import bisect
import contextlib
import hashlib
import itertools
import os
import platform
from pathlib import Path

VARIABLE = "JGLEAK_XLA_CACHE"
"""Environment variable with the folder of compiled programs; ``off`` for none. JAX's own variable comes first."""

OWN = "JAX_COMPILATION_CACHE_DIR"
"""JAX's variable."""

LOCATIONS = "JAX_TRACEBACK_IN_LOCATIONS_LIMIT"
"""JAX's variable for the number of lines of every traceback."""

LARGEST = 1 << 30
"""Most bytes in the folder; beyond that the oldest files are removed, down to half of this."""


def keep_compiled() -> None:
    """Tell JAX, before it is imported, where compiled programs are kept.

    Only for commands: a program that uses the library sets JAX's own options.
    """
    chosen = os.environ.get(VARIABLE, "")
    if OWN in os.environ or chosen.lower() == "off":
        return
    folder = (Path(chosen) if chosen else _default()) / _processor()
    with contextlib.suppress(OSError):
        folder.mkdir(parents=True, exist_ok=True)
        os.environ[OWN] = str(folder)
        os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0")
        os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES", "-1")
        _shorten(folder)


def leave_out_locations() -> None:
    """Tell JAX, before it is imported, to attach no traceback to the operations that it hands to XLA. They help in
    debugging, for which JAX's variable can be set, and slow down tracing.
    """
    os.environ.setdefault(LOCATIONS, "0")


def _default() -> Path:
    from platformdirs import user_cache_path

    return user_cache_path("jgleak") / "xla"


def _processor() -> str:
    """A name for this processor's features: in a home folder that machines share, another one's programs may not
    run."""
    flags = ""
    with contextlib.suppress(OSError):
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
        flags = next((line for line in lines if line.startswith(("flags", "Features"))), "")
    return hashlib.sha256((platform.machine() + platform.processor() + flags).encode()).hexdigest()[:12]


def _shorten(folder: Path) -> None:
    with os.scandir(folder) as entries:
        files = sorted(((entry.stat().st_mtime, entry.stat().st_size, entry.path) for entry in entries), reverse=True)
    sizes = list(itertools.accumulate(size for _, size, _ in files))
    if sizes and sizes[-1] > LARGEST:
        for _, _, path in files[bisect.bisect(sizes, LARGEST // 2) :]:
            os.unlink(path)
