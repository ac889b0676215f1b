"""The readouts of the five papers: from node states to the model's output, and what their gradients show."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from flax import linen as nn
from jaxtyping import Array, Bool, Float

from jgleak.gnn.convolution import at_least_one
from jgleak.gnn.mlp import MLP, LinearMap

POOLINGS = ("mean", "sum", "max")

Weights = Mapping[str, Any]
"""A part's parameters, or what its gradient has in their place."""

Additive = Literal["nodes", "pooled"]
"""What adds up: every node's logits, or every node's state before the first linear map."""


Labelled = Literal["graph", "node"]
"""What has a label."""


class ReadoutTask(NamedTuple):
    """What is learnt, and what users chose, where a readout is made from its name.

    Attributes:
      outputs: number of outputs ``C``.
      by_node: nodes are labelled, not graphs.
      act: activation between linear maps.
      pooling: a name of ``POOLINGS``, for readouts that pool.
      slots: number of nodes that graphs are padded to.
    """

    outputs: int
    by_node: bool
    act: str
    pooling: str
    slots: int


class Readout(nn.Module):
    """Base of the readouts; ``__call__(rows, states, mask)`` returns the logits.

    Attacks ask a readout what it leaks, not for its name. ``weights`` and ``update`` below are its own part of the
    parameters and of the update (``GNN.readout_of``).

    Class attributes:
      kind: what users type.
      labels: what it labels; empty: nothing, and users cannot choose it by name.
    """

    kind: ClassVar[str] = ""
    labels: ClassVar[tuple[Labelled, ...]] = ()

    @classmethod
    def for_task(cls, task: ReadoutTask) -> Readout:
        """The readout that ``kind`` stands for on the command line."""
        raise NotImplementedError

    @nn.nowrap
    def check(self) -> None:
        """Raise ``ValueError`` for an unknown name or an impossible size."""

    @property
    def outputs(self) -> int:
        """Number of outputs ``C`` (of a node, where ``node_level``)."""
        return 1

    @property
    def node_level(self) -> bool:
        """The output is one row a node (node classification, ratings)."""
        return False

    @property
    def additive(self) -> Additive | None:
        """What adds up over nodes, so that the gradient counts blocks; None: nothing does."""
        return None

    @property
    def counts_nodes(self) -> bool:
        """It adds nodes up without dividing by their number, so that the number shows."""
        return False

    @property
    def slots(self) -> int | None:
        """Number of nodes that a graph has to be padded to; None: any number will do."""
        return None

    @property
    def sees_input(self) -> bool:
        """The nodes' input rows enter it beside their states."""
        return False

    @property
    def passes_states(self) -> bool:
        """The last states are the logits themselves."""
        return False

    @property
    def rates(self) -> bool:
        """The outputs are ratings, not class scores."""
        return False

    @property
    def pools(self) -> bool:
        """One vector for all nodes enters its first linear map: their states' mean, sum or log-sum-exp."""
        return False

    @property
    def maps(self) -> int:
        """Number of linear maps one after another."""
        return 0

    def __call__(
        self, rows: Float[Array, "N m"], states: Float[Array, "N D"], mask: Bool[Array, " N"]
    ) -> Float[Array, "..."]:
        raise NotImplementedError

    @property
    def first_map(self) -> tuple[str, ...]:
        """Where in its parameters the linear map lies that takes the states in; empty: there is none."""
        return ()

    @property
    def last_map(self) -> tuple[str, ...]:
        """Where the linear map lies whose outcome the logits are; empty: there is none."""
        return ()

    def first(self, weights: Weights) -> Weights:
        """``kernel`` and ``bias`` of the first map; empty where there is none."""
        return _at(weights, self.first_map)

    def last(self, weights: Weights) -> Weights:
        """``kernel`` and ``bias`` of the last map; empty where there is none."""
        return _at(weights, self.last_map)

    def head_span(self, update: Weights) -> Float[np.ndarray, "d h"]:
        """The gradient of the first map's kernel, whose columns lie in the span of the rows that enter it.

        Raises:
          KeyError: there is no map.
        """
        return np.asarray(self.first(update)["kernel"])

    def upstream(self, weights: Weights, update: Weights) -> Float[np.ndarray, " C"]:
        """The gradient at what ``additive`` names, for all nodes together.

        Raises:
          TypeError: nothing adds up.
        """
        raise TypeError(f"the readout {self.kind!r} does not add up over nodes")

    def upstream_spread(self, weights: Weights, update: Weights) -> tuple[int, float]:
        """How noise reaches ``upstream``: the number of noisy entries, and the deviation that unit noise on each gives
        it at most, relative to itself.

        Raises:
          TypeError: nothing adds up.
        """
        raise TypeError(f"the readout {self.kind!r} does not add up over nodes")

    def pooled_row(self, update: Weights) -> Any:
        """The vector that enters ``first`` where it is one for all nodes; of a batch a weighted mean (``entering``).

        Raises:
          TypeError: the nodes are not pooled before.
        """
        raise TypeError(f"the readout {self.kind!r} does not pool its nodes")


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
        return cls(MLP((300, 64, task.outputs), task.act), per_node=task.by_node)

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
        at_least_one(size=self.size, classes=self.classes)

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


def _at(tree: Weights, path: tuple[str, ...]) -> Weights:
    for name in path:
        tree = tree[name]
    return tree if path else {}


def entering(kernel: Any, delta: Any) -> Any:
    """``p (D,)`` of ``dL/dW = p delta^T (D, F)`` by least squares, each entry from its own row's; host or traced.

    Only entries of ``dL/dW`` that are not 0 count: pruning may have left out the others, and of an update that was not
    pruned they are 0 where ``p`` or ``delta`` is, which changes nothing.
    """
    square = (kernel != 0) @ (delta * delta)
    return kernel @ delta / (square + (square == 0))
