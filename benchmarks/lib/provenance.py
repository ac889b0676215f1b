"""Where a number comes from: the command, the code, its libraries, the machine and the day."""

from __future__ import annotations

import datetime
import platform
import shlex
import sys
from importlib.metadata import version
from pathlib import Path

import jgleak
from benchmarks.lib.machine import host
from benchmarks.lib.records import Record
from jgleak.version import __version__, digest_of

LIBRARIES = ("jax", "jaxlib", "numpy", "scipy", "rdkit")
"""Those that a number may depend on."""


def provenance() -> Record:
    """What every stored record says of its origin.

    Returns:
      ``command`` as typed from the repository's root, ``date`` (ISO 8601), ``sources`` (see the function), ``host``,
      and ``versions``, name -> version.
    """
    return {
        "command": command(),
        "date": datetime.date.today().isoformat(),
        "sources": sources(),
        "host": host(),
        "versions": {"jgleak": __version__, "python": platform.python_version()}
        | {library: version(library) for library in LIBRARIES},
    }


def command() -> str:
    """This process's command line; ``python -m MODULE ...`` for a module."""
    spec = sys.modules["__main__"].__spec__
    program = ["-m", spec.name.removesuffix(".__main__")] if spec else [sys.argv[0]]
    return shlex.join(["python", *program, *sys.argv[1:]])


_SOURCES = digest_of(Path(jgleak.__file__).parent, Path(__file__).parents[1])
"""Taken when this is imported: files may be edited while a long run measures."""


def sources() -> str:
    """A digest of all code that a number depends on: the package and the benchmarks."""
    return _SOURCES
