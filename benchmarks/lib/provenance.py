"""Where a number comes from: the command, the code, its libraries, the machine and the day."""

from __future__ import annotations

import datetime
import hashlib
import platform
import shlex
import sys
from functools import cache
from importlib.metadata import version
from pathlib import Path

import jgleak
from benchmarks.lib.machine import host
from benchmarks.lib.records import Record
from jgleak.version import __version__

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


@cache
def sources() -> str:
    """A digest of all code that a number depends on: the package and the benchmarks."""
    digest = hashlib.sha256()
    for folder in (Path(jgleak.__file__).parent, Path(__file__).parents[1]):
        for file in sorted(folder.rglob("*.py")):
            digest.update(file.relative_to(folder).as_posix().encode() + b"\0" + file.read_bytes())
    return digest.hexdigest()[:16]
