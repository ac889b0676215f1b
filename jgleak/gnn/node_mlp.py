"""GRAIN's readout: an MLP on every node."""

from __future__ import annotations

from typing import ClassVar

import jax.numpy as jnp
import numpy as np
from flax import linen as nn
from jaxtyping import Array, Bool, Float

from jgleak.gnn.mlp import MLP
from jgleak.gnn.readout import Additive, Labelled, Readout, ReadoutTask, Weights


class NodeMLP(Readout):
    """GRAIN's readout: an MLP on every node's ``[X | H]``, logits averaged over nodes for graph tasks.

    Attributes:
      mlp: GRAIN's code has hidden widths 300 and 64.
      per_node: the logits are not averaged.
      see_input: put the input row ``X`` beside the state.
    """

    kind: ClassVar[str] = "node_mlp"
    labels: ClassVar[tuple[Labelled, ...]] = ("graph", "node")

    mlp: MLP = MLP((300, 64, 2))
    per_node: bool = False
    see_input: bool = True

    @classmethod
    def for_task(cls, task: ReadoutTask) -> NodeMLP:
        return cls(MLP((300, 64, task.outputs), task.act, task.dropout), per_node=task.by_node)

    @nn.nowrap
    def check(self) -> None:
        self.mlp.check()

    @property
    def outputs(self) -> int:
        return self.mlp.widths[-1]

    @property
    def node_level(self) -> bool:
        return self.per_node

    @property
    def additive(self) -> Additive:
        return "nodes"

    @property
    def sees_input(self) -> bool:
        return self.see_input

    @property
    def maps(self) -> int:
        return len(self.mlp.widths)

    @property
    def dropout(self) -> float:
        return self.mlp.dropout if self.maps > 1 else 0.0

    def __call__(
        self, rows: Float[Array, "N m"], states: Float[Array, "N D"], mask: Bool[Array, " N"]
    ) -> Float[Array, "..."]:
        _, logits = self.node_hidden(rows, states)
        if self.per_node:
            return logits
        weight = mask.astype(logits.dtype)
        return (weight @ logits) / weight.sum()

    def node_hidden(
        self, rows: Float[Array, "N m"], states: Float[Array, "N D"]
    ) -> tuple[Float[Array, "N h"], Float[Array, "N C"]]:
        """Every node's input to the last linear map, and its logits before any averaging."""
        return self.mlp.hidden(jnp.concatenate([rows, states], axis=1) if self.see_input else states)

    @property
    def first_map(self) -> tuple[str, ...]:
        return "mlp", self.mlp.first

    @property
    def last_map(self) -> tuple[str, ...]:
        return "mlp", self.mlp.last

    def upstream(self, weights: Weights, update: Weights) -> Float[np.ndarray, " C"]:
        return np.asarray(self.last(update)["bias"], np.float64)

    def upstream_spread(self, weights: Weights, update: Weights) -> tuple[int, float]:
        delta = self.upstream(weights, update)
        return delta.size, 1.0 / float(np.linalg.norm(delta))
