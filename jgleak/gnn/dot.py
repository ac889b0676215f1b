"""FedGNN's readout: ratings as products of states."""

from __future__ import annotations

from typing import ClassVar

from jaxtyping import Array, Bool, Float

from jgleak.gnn.readout import Readout


class DotProduct(Readout):
    """FedGNN's rating predictor: node 0 is the user, every node's output is its state times the user's (N,)."""

    kind: ClassVar[str] = "dot"

    @property
    def node_level(self) -> bool:
        return True

    @property
    def rates(self) -> bool:
        return True

    def __call__(
        self, rows: Float[Array, "N m"], states: Float[Array, "N D"], mask: Bool[Array, " N"]
    ) -> Float[Array, "..."]:
        return states @ states[0]
