"""Jumping knowledge: which of the layers' states the readout sees (Xu et al., ICML 2018)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from operator import add
from typing import Any, Literal, NamedTuple

from jgleak.names import parts
from jgleak.names.entries import Entries


class Jump(NamedTuple):
    """How the states of all layers become the row that enters the readout.

    Attributes:
      combine: ``[H_1, .., H_L]``, each ``(..., D_l)``, to one row a node; of JAX or of NumPy arrays.
      keeps: the states that can be read off that row: the last one, all of them one after the other, or none.
    """

    combine: Callable[[Sequence[Any]], Any]
    keeps: Literal["last", "all"] | None


LAST = Jump(lambda states: states[-1], "last")
CAT = Jump(lambda states: states[0].__array_namespace__().concat(states, axis=-1), "all")
MAX = Jump(lambda states: reduce(states[0].__array_namespace__().maximum, states), None)
SUM = Jump(lambda states: reduce(add, states), None)

JUMPS: Entries[Jump] = Entries(parts.JUMPS)
"""Ways of jumping knowledge, by the names that users type."""
