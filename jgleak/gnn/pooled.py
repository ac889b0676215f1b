"""GraphDLG's and FedGIG's readout: one vector for all nodes, and how its gradient gives it away."""

from __future__ import annotations

from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from flax import linen as nn
from jaxtyping import Array, Bool, Float

from jgleak.gnn.mlp import MLP
from jgleak.gnn.readout import Additive, Labelled, Readout, ReadoutTask, Weights

POOLINGS = ("mean", "sum", "max")


class Pooled(Readout):
    """Mean, sum or max of the node states, or several side by side, then an MLP (GraphDLG and FedGIG: one linear map).

    Max is log-sum-exp, as in GraphDLG, appendix A.1. Under mean and sum together their quotient is the number of nodes.
    Where max is among them nothing adds up: it sends every node's state another gradient.

    Attributes:
      pooling: ``mean``, ``sum`` or ``max``, or several of them with commas between.
      mlp: from the pooled state to the logits.
    """

    kind: ClassVar[str] = "pooled"
    labels: ClassVar[tuple[Labelled, ...]] = ("graph",)

    pooling: str = "mean"
    mlp: MLP = MLP((2,))

    @classmethod
    def for_task(cls, task: ReadoutTask) -> Pooled:
        widths = (task.head, task.outputs) if task.head else (task.outputs,)
        return cls(task.pooling, MLP(widths, task.act, task.dropout))

    @nn.nowrap
    def check(self) -> None:
        self.mlp.check()
        unknown = sorted(set(self.poolings) - set(POOLINGS))
        if unknown:
            raise ValueError(f"pooling: unknown {unknown[0]!r}; choose one of {', '.join(POOLINGS)}")
        if len(set(self.poolings)) < len(self.poolings):
            raise ValueError(f"pooling: {self.pooling!r} names one twice; name it once")

    @property
    def poolings(self) -> tuple[str, ...]:
        """What stands side by side."""
        return tuple(self.pooling.split(","))

    @property
    def outputs(self) -> int:
        return self.mlp.widths[-1]

    @property
    def additive(self) -> Additive | None:
        return None if "max" in self.poolings else "pooled"

    @property
    def counts_nodes(self) -> bool:
        return "sum" in self.poolings and self.additive is not None

    @property
    def pools(self) -> bool:
        return len(self.poolings) == 1

    @property
    def masks(self) -> bool:
        return self.maps == 2 and self.mlp.act == "relu"

    @property
    def maps(self) -> int:
        return len(self.mlp.widths)

    @property
    def dropout(self) -> float:
        return self.mlp.dropout if self.maps > 1 else 0.0

    def __call__(
        self, rows: Float[Array, "N m"], states: Float[Array, "N D"], mask: Bool[Array, " N"]
    ) -> Float[Array, "..."]:
        return self.behind_pooling(self.pool(states, mask))

    def pool(self, states: Float[Array, "N D"], mask: Bool[Array, " N"]) -> Float[Array, " P"]:
        """One row for all nodes."""
        return jnp.concatenate([_pooled(pooling, states, mask) for pooling in self.poolings])

    def behind_pooling(self, row: Float[Array, " P"]) -> Float[Array, " C"]:
        return self.mlp(row)

    def behind_first(self, row: Float[Array, " F"]) -> Float[Array, " C"]:
        """The logits, from what leaves the first map."""
        return self.mlp.behind_first(row)

    @property
    def first_map(self) -> tuple[str, ...]:
        return "mlp", self.mlp.first

    @property
    def last_map(self) -> tuple[str, ...]:
        return "mlp", self.mlp.last

    def upstream(self, weights: Weights, update: Weights) -> Float[np.ndarray, " D"]:
        return self._spreading(weights, update) @ np.asarray(self.first(update)["bias"], np.float64)

    def upstream_spread(self, weights: Weights, update: Weights) -> tuple[int, float]:
        kernel, delta = self._spreading(weights, update), np.asarray(self.first(update)["bias"], np.float64)
        return delta.size, float(np.linalg.norm(kernel, 2) / np.linalg.norm(kernel @ delta))

    def summed(self, row: Float[np.ndarray, " P"]) -> Float[np.ndarray, " D"]:
        parts = dict(zip(self.poolings, np.split(row, len(self.poolings)), strict=True))
        return parts.get("sum", parts.get("mean", row))

    def _spreading(self, weights: Weights, update: Weights) -> Float[np.ndarray, "D F"]:
        """What leads the gradient behind the first map to the states that add up.

        The mean's part of it is divided by the number of nodes beside a sum, which adds up instead of the mean.
        """
        kernel = np.asarray(self.first(weights)["kernel"], np.float64)
        parts = dict(zip(self.poolings, np.split(kernel, len(self.poolings)), strict=True))
        if len(parts) == 1:
            return kernel
        row = np.asarray(self.pooled_row(jax.tree.map(lambda leaf: np.asarray(leaf, np.float64), update)))
        pooled = dict(zip(self.poolings, np.split(row, len(parts)), strict=True))
        square = float(pooled["mean"] @ pooled["mean"])
        nodes = max(1, round(float(pooled["sum"] @ pooled["mean"]) / square)) if square else 1
        return parts["sum"] + parts["mean"] / nodes

    def row_of(self, mean: Float[np.ndarray, " D"], nodes: float) -> Float[np.ndarray, " P"]:
        return np.concatenate([mean * (nodes if pooling == "sum" else 1.0) for pooling in self.poolings])

    def pooled_row(self, update: Weights) -> Any:
        first = self.first(update)
        return entering(first["kernel"], first["bias"])


def _pooled(pooling: str, states: Float[Array, "N D"], mask: Bool[Array, " N"]) -> Float[Array, " D"]:
    if pooling == "max":
        return jax.nn.logsumexp(jnp.where(mask[:, None], states, -jnp.inf), axis=0)
    weight = mask.astype(states.dtype)
    return jnp.matmul(weight, states, precision="highest") / (weight.sum() if pooling == "mean" else 1.0)


def entering(kernel: Any, delta: Any) -> Any:
    """``p (D,)`` of ``dL/dW = p delta^T (D, F)`` by least squares, each entry from its own row's; host or traced.

    Only entries of ``dL/dW`` that are not 0 count: pruning may have left out the others, and of an update that was not
    pruned they are 0 where ``p`` or ``delta`` is, which changes nothing.
    """
    square = (kernel != 0) @ (delta * delta)
    return kernel @ delta / (square + (square == 0))
