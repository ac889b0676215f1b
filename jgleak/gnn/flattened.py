"""GLG's readout for graphs: all node states in one vector."""

from __future__ import annotations

from typing import ClassVar

from flax import linen as nn
from jaxtyping import Array, Bool, Float

from jgleak.gnn.convolution import check_sizes
from jgleak.gnn.mlp import LinearMap
from jgleak.gnn.readout import Labelled, Readout, ReadoutTask


class Flattened(Readout):
    """GLG's graph readout: all node states in one vector, one linear map. Not invariant to node order.

    Attributes:
      size: number of node slots ``N`` the weight is made for.
      classes: number of outputs ``C``.
    """

    kind: ClassVar[str] = "flattened"
    labels: ClassVar[tuple[Labelled, ...]] = ("graph",)

    size: int
    classes: int = 2

    @classmethod
    def for_task(cls, task: ReadoutTask) -> Flattened:
        return cls(task.slots, task.outputs)

    @nn.nowrap
    def check(self) -> None:
        check_sizes(size=self.size, classes=self.classes)

    @property
    def outputs(self) -> int:
        return self.classes

    @property
    def slots(self) -> int:
        return self.size

    @property
    def maps(self) -> int:
        return 1

    def setup(self) -> None:
        self.linear = LinearMap(self.classes)

    def __call__(
        self, rows: Float[Array, "N m"], states: Float[Array, "N D"], mask: Bool[Array, " N"]
    ) -> Float[Array, "..."]:
        if states.shape[0] != self.size:
            raise ValueError(
                f"slots: this readout is made for {self.size} node slots, got a batch of {states.shape[0]}"
            )
        return self.linear(states.reshape(-1))

    @property
    def first_map(self) -> tuple[str, ...]:
        return ("linear",)

    @property
    def last_map(self) -> tuple[str, ...]:
        return ("linear",)
