"""GLG's readout for nodes: the last states themselves."""

from __future__ import annotations

from typing import ClassVar

from jaxtyping import Array, Bool, Float

from jgleak.gnn.readout import Labelled, Readout, ReadoutTask


class NodeScores(Readout):
    """GLG's node task: the last layer's states are the class scores; no weight of its own.

    Attributes:
      classes: width of the last layer.
    """

    kind: ClassVar[str] = "node_scores"
    labels: ClassVar[tuple[Labelled, ...]] = ("node",)

    classes: int = 2

    @classmethod
    def for_task(cls, task: ReadoutTask) -> NodeScores:
        return cls(task.outputs)

    @property
    def outputs(self) -> int:
        return self.classes

    @property
    def node_level(self) -> bool:
        return True

    @property
    def passes_states(self) -> bool:
        return True

    def __call__(
        self, rows: Float[Array, "N m"], states: Float[Array, "N D"], mask: Bool[Array, " N"]
    ) -> Float[Array, "..."]:
        return states
