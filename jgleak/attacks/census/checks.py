"""Which span checks the census demands, from the strongest to the weakest."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import NamedTuple

from jgleak.attacks.span.check import SpanCheck
from jgleak.attacks.span.leak_points import LeakPoint


@dataclasses.dataclass(frozen=True)
class Attempt:
    """Which checks are demanded.

    Attributes:
      below: of the blocks below the last hop.
      top: of the last hop's blocks.
      conic: blocks that enter the last convolution are those whose states make up its gradient (``conic``); ``below``
        is then of the hops below those.
      completed: dimensions that the spans of the node checks are taken to lack (see ``Arithmetic.weaker``).
    """

    below: tuple[str, ...]
    top: tuple[str, ...]
    completed: int = 0
    conic: bool = False


ATTEMPTS = (
    Attempt(("node", "hidden"), ("readout", "node", "hidden")),
    Attempt(("node", "hidden"), ("aggregate",)),
    Attempt(("node", "hidden"), ()),
    Attempt(("node", "hidden"), (), conic=True),
    Attempt(("node",), ("readout", "node", "hidden"), completed=1),
    Attempt(("node",), ("aggregate",), completed=1),
    Attempt(("node",), (), completed=1),
    Attempt(("aggregate", "hidden"), ("readout", "hidden")),
    Attempt(("node",), ("readout", "node", "hidden"), completed=2),
    Attempt((), ("readout", "hidden")),
    Attempt(("aggregate", "hidden"), ("aggregate",)),
    Attempt(("aggregate", "hidden"), ()),
    Attempt(("aggregate",), ("aggregate",)),
    Attempt((), ()),
)
"""Made one after another until graphs are found: roughly from the fewest candidates to the most, the last without any
check. A model that lacks a leak point of that name goes without the check."""

SPARSE = ATTEMPTS[:3]
"""Those for nodes of few neighbours, tried before others where features state no degree."""

HIDDEN = (
    *(attempt for attempt in ATTEMPTS if "node" not in attempt.below),
    *(attempt for attempt in ATTEMPTS if attempt.conic),
)
"""Those for nodes whose rows no span shows: blocks below are not checked by states, which are hidden likewise."""

WEAKEST = Attempt((), ("readout",))
"""What a certificate rests on where that can be afforded: no check but the readout's, whose condition does not depend
on the adjacency."""


CONIC = "no {}-hop block occurs beside those that make up the last convolution's gradient"
"""The condition of ``Attempt.conic``; that gradient is a non-negative combination of blocks' states."""


class NamedCheck(NamedTuple):
    """A check of one hop.

    Attributes:
      name: equal names are equal checks of the same nodes.
      check: the check.
      condition: what it takes for granted.
      likeliest: its span has the rank that the singular values make likeliest; with another, true rows may fail.
    """

    name: str
    check: SpanCheck
    condition: str
    likeliest: bool = True


Chosen = tuple[NamedCheck, ...]
"""The checks of one hop."""


def condition_of(site: LeakPoint, hop: int) -> str:
    """What a check takes for granted, for people."""
    what = f"{hop}-hop block" if hop else "node"
    return f"no true {what} fails the {site.name} check ({site.condition})"


def loosened(chosen: Chosen, factor: float) -> Chosen:
    """Checks that allow a row more than the noise explains: its part along directions that do not stand above it."""
    allowed = f"off by at most {factor:g} times what noise explains"
    return tuple(
        NamedCheck(f"{name} x{factor:g}", check.loosened(factor), f"{condition}, {allowed}", likeliest)
        for name, check, condition, likeliest in chosen
    )


def names(chosen: Sequence[Chosen]) -> tuple[tuple[str, ...], ...]:
    """The names of the checks of every hop: what tells one choice of checks from another."""
    return tuple(tuple(check.name for check in hop) for hop in chosen)
