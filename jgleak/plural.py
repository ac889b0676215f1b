"""Numbers with their nouns, as messages say them."""

from __future__ import annotations


def counted(number: int, noun: str) -> str:
    """The number and the noun, with an ``s`` where there is not one: ``1 graph``, ``1,200 graphs``."""
    return f"{number:,} {noun}{'s' * (number != 1)}"
