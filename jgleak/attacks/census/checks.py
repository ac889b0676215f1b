"""The span checks of the census's attempts, from the strongest to the weakest."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import NamedTuple

from jgleak.attacks.span.check import SpanCheck
from jgleak.attacks.span.leak_points import LeakPoint


@dataclasses.dataclass(frozen=True)
class Attempt:
    """The checks that candidates must pass in one attempt.

    Attributes:
      below: checks of the blocks below the last hop.
      top: checks of the last hop's blocks.
      conic: the blocks that enter the last convolution are those whose states make up its gradient (``conic``);
        ``below`` then applies to the hops below these.
      completed: number of dimensions that the spans of the node checks are assumed to lack (see ``Arithmetic.weaker``).
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
"""Made one after another until graphs are found, roughly from the fewest candidates to the most; the last has no check.
A check whose leak point the model lacks is left out."""

SPARSE = ATTEMPTS[:3]
"""Attempts with nodes of few neighbours, tried first where features state no degree."""

HIDDEN = (
    *(attempt for attempt in ATTEMPTS if "node" not in attempt.below),
    *(attempt for attempt in ATTEMPTS if attempt.conic),
)
"""Attempts for nodes whose rows no span contains: blocks below are not checked by their states, which are hidden
too."""

WEAKEST = Attempt((), ("readout",))
"""The checks that a certificate rests on where the limits allow: the readout's alone, whose condition does not depend
on the adjacency."""


CONIC = "no {}-hop block occurs other than those that make up the last convolution's gradient"
"""The condition of ``Attempt.conic``; that gradient is a non-negative combination of blocks' states."""


class NamedCheck(NamedTuple):
    """A check of one hop.

    Attributes:
      name: equal names are equal checks of the same nodes.
      check: the check.
      condition: what it assumes.
      likeliest: the largest gap in the singular values decides its span's rank; with another rank true rows may fail.
    """

    name: str
    check: SpanCheck
    condition: str
    likeliest: bool = True


Chosen = tuple[NamedCheck, ...]
"""The checks of one hop."""


def condition_of(site: LeakPoint, hop: int) -> str:
    """What a check assumes, in words."""
    what = f"{hop}-hop block" if hop else "node"
    return f"no true {what} fails the {site.name} check ({site.condition})"


def loosened(chosen: Chosen, factor: float) -> Chosen:
    """Checks with a wider margin than the noise explains, for a row's part along directions below the noise."""
    allowed = f"off by at most {factor:g} times what noise explains"
    return tuple(
        NamedCheck(f"{name} x{factor:g}", check.loosened(factor), f"{condition}, {allowed}", likeliest)
        for name, check, condition, likeliest in chosen
    )


def names(chosen: Sequence[Chosen]) -> tuple[tuple[str, ...], ...]:
    """The names of the checks of every hop, which identify a choice of checks."""
    return tuple(tuple(check.name for check in hop) for hop in chosen)
