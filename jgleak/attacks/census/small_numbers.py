"""Small numbers of nodes one after another, where the returned statistics do not determine the number."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence

from jgleak.attacks.attack import Clock, Reconstruction

TRIED = "the graph has {} nodes, the first number of those tried with which a graph was found"
"""The condition of what is found."""

Single = Callable[[int, Clock], Reconstruction]
"""The census of a graph of so many nodes, within some time."""


def small_numbers(ways: Sequence[Single], sizes: range, clock: Clock) -> Reconstruction | None:
    """The graphs of the first number of nodes that has any, as an open list; None where none of ``sizes`` has.

    Args:
      ways: of finding them, each tried with all numbers before the next. Every number gets the same share of the time
        that is left.
      sizes: the numbers.
      clock: ends the search.
    """
    tries = [(way, n) for way in ways for n in sizes]
    for left, (way, n) in zip(range(len(tries), 0, -1), tries, strict=True):
        if clock.left <= 0:
            break
        found = way(n, clock.part(1.0 / left))
        if found.certificate is not None:
            conditions = (*found.certificate.conditions, TRIED.format(n))
            given = {"status": "at_least_k", "n_known": False, "conditions": conditions}
            return dataclasses.replace(found, certificate=dataclasses.replace(found.certificate, **given))
    return None
