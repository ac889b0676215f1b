"""The readouts of the five papers: from node states to the model's output."""

from __future__ import annotations

import math

import jax
import jax.numpy as jnp
from flax import linen as nn
from jaxtyping import Array, Bool, Float

from jgleak.gnn.activation import activation
from jgleak.gnn.tap import apply_kernel

POOLINGS = ("mean", "sum", "max")


class Readout(nn.Module):
    """Base of the readouts; ``__call__(rows, states, mask)`` returns the logits.

    Attributes:
      in_features: width ``m`` of the input rows.
      state_features: width ``D`` of the last node states.
      classes: number of outputs ``C``.
      per_node: True where the output is one row of logits a node ``(N, C)``.
    """

    in_features: int
    state_features: int
    classes: int
    per_node: bool = False

    def __call__(
        self, rows: Float[Array, "N m"], states: Float[Array, "N D"], mask: Bool[Array, " N"]
    ) -> Float[Array, "..."]:
        raise NotImplementedError


class NodeMLP(Readout):
    """GRAIN's readout: an MLP on every node's ``[X | H]``, logits averaged over nodes for graph tasks.

    Attributes:
      widths: hidden widths; GRAIN's code has (300, 64).
      act: activation between the linear maps.
      see_input: put the input row ``X`` beside the state.
    """

    widths: tuple[int, ...] = (300, 64)
    act: str = "relu"
    see_input: bool = True

    def setup(self) -> None:
        self.linears = _linears((*self.widths, self.classes))

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
        out = jnp.concatenate([rows, states], axis=1) if self.see_input else states
        for linear in self.linears[:-1]:
            out = activation(self.act)(linear(out))
        return out, self.linears[-1](out)


class Pooled(Readout):
    """Mean, sum or max of the node states, then an MLP (GraphDLG and FedGIG: one linear map).

    Max is log-sum-exp, as in GraphDLG, appendix A.1.
    """

    widths: tuple[int, ...] = ()
    act: str = "relu"
    pooling: str = "mean"

    def setup(self) -> None:
        if self.pooling not in POOLINGS:
            raise ValueError(f"pooling: unknown {self.pooling!r}; choose one of {POOLINGS}")
        self.linears = _linears((*self.widths, self.classes))

    def __call__(
        self, rows: Float[Array, "N m"], states: Float[Array, "N D"], mask: Bool[Array, " N"]
    ) -> Float[Array, "..."]:
        return _mlp(self.linears, self.pool(states, mask), self.act)

    def pool(self, states: Float[Array, "N D"], mask: Bool[Array, " N"]) -> Float[Array, " D"]:
        """One row for all nodes."""
        if self.pooling == "max":
            return jax.nn.logsumexp(jnp.where(mask[:, None], states, -jnp.inf), axis=0)
        weight = mask.astype(states.dtype)
        return weight @ states / (weight.sum() if self.pooling == "mean" else 1.0)


class Flattened(Readout):
    """GLG's graph readout: all node states in one vector, one linear map. Not invariant to node order.

    Attributes:
      slots: number of node slots ``N`` the weight is made for.
    """

    slots: int = 0

    def setup(self) -> None:
        self.linear = _linear(self.classes)

    def __call__(
        self, rows: Float[Array, "N m"], states: Float[Array, "N D"], mask: Bool[Array, " N"]
    ) -> Float[Array, "..."]:
        if states.shape[0] != self.slots:
            raise ValueError(
                f"slots: this readout is made for {self.slots} node slots, got a batch of {states.shape[0]}"
            )
        return self.linear(states.reshape(-1))


class NodeScores(Readout):
    """GLG's node task: the last layer's states are the class scores; no weight of its own."""

    def __call__(
        self, rows: Float[Array, "N m"], states: Float[Array, "N D"], mask: Bool[Array, " N"]
    ) -> Float[Array, "..."]:
        return states


class DotProduct(Readout):
    """FedGNN's rating predictor: node 0 is the user, every node's output is its state times the user's (N,)."""

    def __call__(
        self, rows: Float[Array, "N m"], states: Float[Array, "N D"], mask: Bool[Array, " N"]
    ) -> Float[Array, "..."]:
        return states @ states[0]


def _uniform(fan_in: int) -> nn.initializers.Initializer:
    bound = 1.0 / math.sqrt(fan_in)
    return lambda key, shape, dtype=jnp.float32: jax.random.uniform(key, shape, dtype, -bound, bound)


class _Linear(nn.Module):
    """Linear map with weights and bias uniform in ±1/sqrt(fan_in), the usual default of the papers' framework."""

    features: int

    @nn.compact
    def __call__(self, x: Float[Array, "... F"]) -> Float[Array, "... D"]:
        start = _uniform(x.shape[-1])
        kernel = self.param("kernel", start, (x.shape[-1], self.features))
        return apply_kernel(self, "kernel", kernel, x) + self.param("bias", start, (self.features,))


def _linear(features: int) -> _Linear:
    return _Linear(features)


def _linears(widths: tuple[int, ...]) -> list[_Linear]:
    return [_linear(w) for w in widths]


def _mlp(linears: list[_Linear], x: Float[Array, "... F"], act: str) -> Float[Array, "... C"]:
    for linear in linears[:-1]:
        x = activation(act)(linear(x))
    return linears[-1](x)
