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
    """Mean, sum or max of the node states, then an MLP (GraphDLG and FedGIG: one linear map).

    Max is log-sum-exp, as in GraphDLG, appendix A.1.

    Attributes:
      pooling: ``mean``, ``sum`` or ``max``.
      mlp: from the pooled state to the logits.
    """

    kind: ClassVar[str] = "pooled"
    labels: ClassVar[tuple[Labelled, ...]] = ("graph",)

    pooling: str = "mean"
    mlp: MLP = MLP((2,))

    @classmethod
    def for_task(cls, task: ReadoutTask) -> Pooled:
        return cls(task.pooling, MLP((task.outputs,), task.act))

    @nn.nowrap
    def check(self) -> None:
        self.mlp.check()
        if self.pooling not in POOLINGS:
            raise ValueError(f"pooling: unknown {self.pooling!r}; choose one of {', '.join(POOLINGS)}")

    @property
    def outputs(self) -> int:
        return self.mlp.widths[-1]

    @property
    def additive(self) -> Additive | None:
        return None if self.pooling == "max" else "pooled"

    @property
    def counts_nodes(self) -> bool:
        return self.pooling == "sum"

    @property
    def pools(self) -> bool:
        return True

    @property
    def maps(self) -> int:
        return len(self.mlp.widths)

    def __call__(
        self, rows: Float[Array, "N m"], states: Float[Array, "N D"], mask: Bool[Array, " N"]
    ) -> Float[Array, "..."]:
        return self.mlp(self.pool(states, mask))

    def pool(self, states: Float[Array, "N D"], mask: Bool[Array, " N"]) -> Float[Array, " D"]:
        """One row for all nodes."""
        if self.pooling == "max":
            return jax.nn.logsumexp(jnp.where(mask[:, None], states, -jnp.inf), axis=0)
        weight = mask.astype(states.dtype)
        return weight @ states / (weight.sum() if self.pooling == "mean" else 1.0)

    @property
    def first_map(self) -> tuple[str, ...]:
        return "mlp", self.mlp.first

    @property
    def last_map(self) -> tuple[str, ...]:
        return "mlp", self.mlp.last

    def upstream(self, weights: Weights, update: Weights) -> Float[np.ndarray, " D"]:
        kernel, delta = self.first(weights)["kernel"], self.first(update)["bias"]
        return np.asarray(kernel, np.float64) @ np.asarray(delta, np.float64)

    def upstream_spread(self, weights: Weights, update: Weights) -> tuple[int, float]:
        kernel = np.asarray(self.first(weights)["kernel"], np.float64)
        delta = np.asarray(self.first(update)["bias"], np.float64)
        return delta.size, float(np.linalg.norm(kernel, 2) / np.linalg.norm(kernel @ delta))

    def pooled_row(self, update: Weights) -> Any:
        first = self.first(update)
        return entering(first["kernel"], first["bias"])


def entering(kernel: Any, delta: Any) -> Any:
    """``p (D,)`` of ``dL/dW = p delta^T (D, F)`` by least squares, each entry from its own row's; host or traced.

    Only entries of ``dL/dW`` that are not 0 count: pruning may have left out the others, and of an update that was not
    pruned they are 0 where ``p`` or ``delta`` is, which changes nothing.
    """
    square = (kernel != 0) @ (delta * delta)
    return kernel @ delta / (square + (square == 0))
