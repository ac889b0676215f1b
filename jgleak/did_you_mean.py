"""What a mistyped word may have been."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """``did you mean 'x'? `` with the known word that is nearest to ``word``, small letters or not; empty where none is
    near."""
    close = difflib.get_close_matches(word.lower(), list(known), n=1)
    return f"did you mean {close[0]!r}? " if close else ""
