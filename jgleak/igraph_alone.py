"""igraph, imported without what it draws with."""

from __future__ import annotations

import importlib
import sys


def import_igraph() -> None:
    """Import igraph without the ``matplotlib.pyplot`` that it imports to draw, which takes longer than all the rest.

    Until the process ends igraph cannot draw; matplotlib can be imported afterwards, as usual. It is for
    processes of our own: a program that uses the library may want igraph to draw.
    """
    if "igraph" in sys.modules or "matplotlib" in sys.modules:
        return
    sys.modules["matplotlib"] = None  # pyright: ignore[reportArgumentType] - Python's way to say: not to be found
    try:
        importlib.import_module("igraph")
    finally:
        del sys.modules["matplotlib"]
