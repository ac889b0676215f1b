"""How a client trains between the parameters that it gets and the update that it sends."""

from __future__ import annotations

import dataclasses
import math


@dataclasses.dataclass(frozen=True)
class LocalTraining:
    """A client's local training: plain gradient descent on the mean loss of all its graphs. The server prescribes it.

    Attributes:
      rate: learning rate of a step.
      steps: how many.

    Raises:
      ValueError: a rate that is not positive and finite, or less than one step.
    """

    rate: float
    steps: int = 1

    def __post_init__(self) -> None:
        if not isinstance(self.steps, int) or self.steps < 1:
            raise ValueError(f"steps: a client makes at least one local step, in whole numbers, got {self.steps!r}")
        if not (math.isfinite(self.rate) and self.rate > 0):
            raise ValueError(f"rate: a client's learning rate lies above 0, got {self.rate!r}")
        object.__setattr__(self, "rate", float(self.rate))

    @property
    def length(self) -> float:
        """Rate times steps: the weights' change is this times the mean gradient along the way."""
        return self.rate * self.steps
