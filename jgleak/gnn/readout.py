"""What every readout offers: from node states to the model's output, and what its gradient shows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np
from flax import linen as nn
from jaxtyping import Array, Bool, Float

from jgleak.gnn.precise import Precise
from jgleak.gnn.tree import at

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
      pooling: as in ``Pooled``, for readouts that pool.
      slots: number of nodes that graphs are padded to.
      dropout: after the activations between linear maps.
      head: width of a map before that of the output, for readouts that pool; 0: there is none.
    """

    outputs: int
    by_node: bool
    act: str
    pooling: str
    slots: int
    dropout: float = 0.0
    head: int = 0


class Readout(Precise):
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
    def masks(self) -> bool:
        """Behind its first map come ReLU and the last map alone: its gradient is that map's, or 0, at each unit."""
        return False

    @property
    def maps(self) -> int:
        """Number of linear maps one after another."""
        return 0

    @property
    def dropout(self) -> float:
        """Share of entries between its linear maps that are set to 0 while a client trains."""
        return 0.0

    def __call__(
        self, rows: Float[Array, "N m"], states: Float[Array, "N D"], mask: Bool[Array, " N"]
    ) -> Float[Array, "..."]:
        raise NotImplementedError

    def behind_pooling(self, row: Float[Array, " D"]) -> Float[Array, " C"]:
        """A graph's logits from what adds up over its nodes; by default that is the logits."""
        return row

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
        return at(weights, self.first_map) if self.first_map else {}

    def last(self, weights: Weights) -> Weights:
        """``kernel`` and ``bias`` of the last map; empty where there is none."""
        return at(weights, self.last_map) if self.last_map else {}

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

    def summed(self, row: Float[np.ndarray, " P"]) -> Float[np.ndarray, " D"]:
        """Of ``pooled_row`` the part that ``upstream`` is the gradient at: what the nodes' states add up to."""
        return row

    def row_of(self, mean: Float[np.ndarray, " D"], nodes: float) -> Float[np.ndarray, " P"]:
        """The row that enters ``first`` of a graph of so many nodes, from their mean state.

        Raises:
          TypeError: the nodes are not pooled before.
        """
        raise TypeError(f"the readout {self.kind!r} does not pool its nodes")

    def pooled_row(self, update: Weights) -> Any:
        """The vector that enters ``first`` where it is one for all nodes; of a batch a weighted mean (``entering``).

        Raises:
          TypeError: the nodes are not pooled before.
        """
        raise TypeError(f"the readout {self.kind!r} does not pool its nodes")
