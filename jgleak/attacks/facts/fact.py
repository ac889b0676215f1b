"""What a fact is, and under which ways of making an update it can be proved."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

ONE = "one gradient"
STEPS = "several plain steps"
MOMENTUM = "momentum"
ADAM = "Adam"
DECAY = "weight decay"
BATCH = "a batch"
CLIPPING = "clipping"
PRUNING = "pruning"
QUANTISATION = "quantisation"
NOISE = "noise of known size"

PROTOCOLS = (ONE, STEPS, MOMENTUM, ADAM, DECAY, BATCH, CLIPPING, PRUNING, QUANTISATION, NOISE)
"""Ways in which a client makes and alters its update, one at a time. Optimisers begin every round with an empty memory;
weight decay is that of plain steps, momentum and AdamW; quantisation keeps zeros; noise is tested at the rate of
``attacks.noise``."""

LINEAR = (ONE, STEPS, MOMENTUM, DECAY, BATCH, CLIPPING)
"""Ways under which a kernel's update is ``X^T M`` with the rows ``X`` that entered it, up to a multiple of itself."""


class Silent(Exception):
    """A fact's conditions do not hold here; the message says which."""


@dataclasses.dataclass(frozen=True)
class Fact:
    """Something that is certain about a client's data.

    Attributes:
      name: its name in ``facts.registry.FACTS``.
      value: what is known, in JSON's own types.
      exact_under: those of ``PROTOCOLS`` under which it is proved.
      line: the same in plain English.
      condition: what else must be true; None: nothing.
    """

    name: str
    value: Any
    exact_under: tuple[str, ...]
    line: str
    condition: str | None = None

    def provided(self, condition: str) -> Fact:
        """The fact under a condition, which the line says first."""
        if self.condition is None:
            return dataclasses.replace(self, condition=condition, line=f"if {condition}, {self.line}")
        every = f"{condition} and {self.condition}"
        return dataclasses.replace(self, condition=every, line=self.line.replace(self.condition, every, 1))

    def to_json(self) -> dict[str, Any]:
        """``value`` and ``exact_under``; ``condition`` where there is one."""
        told = {} if self.condition is None else {"condition": self.condition}
        return {"value": self.value, "exact_under": list(self.exact_under), **told}


@dataclasses.dataclass(frozen=True)
class Facts:
    """The facts of one update.

    Attributes:
      found: those that are certain, by name.
      silent: of each of the others, why nothing is said.
    """

    found: Mapping[str, Fact]
    silent: Mapping[str, str]

    def to_json(self) -> dict[str, dict[str, Any]]:
        """Name to ``value`` and ``exact_under``, and ``condition`` where there is one."""
        return {name: fact.to_json() for name, fact in self.found.items()}
