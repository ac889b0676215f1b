"""The one place that holds the version, and what tells code of one version apart."""

from __future__ import annotations

import hashlib
from functools import cache
from pathlib import Path

__version__ = "0.1.0"


@cache
def code_digest() -> str:
    """Sixteen digits of the SHA-256 of the package's source files, by their names."""
    total, folder = hashlib.sha256(), Path(__file__).parent
    for file in sorted(folder.rglob("*.py")):
        total.update(file.relative_to(folder).as_posix().encode() + b"\0" + file.read_bytes())
    return total.hexdigest()[:16]
