"""Python's search for garbage, made seldom."""

from __future__ import annotations

import atexit
import gc


def look_seldom() -> None:
    """Look for garbage after 500,000 new objects, not after 700, and not at the end.

    Imports and the tracing of functions make objects by the ten thousand that stay, and every look at all of them finds
    next to nothing. The last looks, as Python ends, take a second. It is for processes of our own: a program that uses
    the library decides for itself.
    """
    gc.set_threshold(500_000, 50, 100)
    atexit.register(gc.freeze)
