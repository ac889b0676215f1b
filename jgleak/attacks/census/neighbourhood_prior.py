"""How likely a graph is by public graphs: the shares that its neighbourhoods have among theirs."""

from __future__ import annotations

import hashlib
import math
from collections import Counter
from collections.abc import Hashable, Sequence

import numpy as np
from jaxtyping import Int

from jgleak.graph import Graph

RADIUS = 4
"""Rooted neighbourhoods of up to so many hops are compared (colour refinement)."""

UNSEEN = 0.1
"""A neighbourhood that no public graph has counts as if this many nodes had it."""


def row_names(codes: Int[np.ndarray, "k G"]) -> list[bytes]:
    """A short name for every row of feature codes, equal for equal rows: word features have thousands of columns."""
    rows = np.ascontiguousarray(codes, np.int64)
    return [hashlib.blake2b(row.tobytes(), digest_size=16).digest() for row in rows]


class NeighbourhoodPrior:
    """The neighbourhoods of public graphs.

    Args:
      public: the graphs.
    """

    def __init__(self, public: Sequence[Graph]) -> None:
        self.names: dict[Hashable, int] = {}
        self.counts = [Counter[int]() for _ in range(RADIUS + 1)]
        for graph in public:
            for count, colours in zip(self.counts, self._colours(row_names(graph.x), graph.neighbours), strict=True):
                count.update(colour for colour in colours if colour is not None)
        self.nodes = sum(graph.n for graph in public)
        self.usual = [
            sum(number * self._nll(r, colour) for colour, number in count.items()) / self.nodes
            for r, count in enumerate(self.counts)
        ]

    def of_graphs(self, graphs: Sequence[Graph]) -> list[float]:
        """The negative log-likelihood of each graph."""
        return [self.negative_log_likelihood(row_names(graph.x), graph.neighbours) for graph in graphs]

    def negative_log_likelihood(
        self,
        nodes: Sequence[bytes],
        neighbours: Sequence[Sequence[int]],
        closed: Sequence[bool] | None = None,
    ) -> float:
        """The negative log-likelihood of a graph or a part of one, minus the mean of as many nodes of public graphs.

        The negative logarithms of its neighbourhoods' shares are added up over all radii and all nodes whose
        neighbourhood is known.

        Args:
          nodes: the names of their rows (``row_names``).
          neighbours: of every node.
          closed: which nodes have all their neighbours; None: all of them.
        """
        known = self._colours(nodes, neighbours, closed)
        return sum(
            self._nll(r, colour) - self.usual[r]
            for r, colours in enumerate(known)
            for colour in colours
            if colour is not None
        )

    def _nll(self, radius: int, colour: int) -> float:
        return -math.log(max(self.counts[radius][colour], UNSEEN) / self.nodes)

    def _colours(
        self,
        nodes: Sequence[bytes],
        neighbours: Sequence[Sequence[int]],
        closed: Sequence[bool] | None = None,
    ) -> list[list[int | None]]:
        """Every node's colour for each radius: equal where rooted neighbourhoods are; None where not all is known."""
        found: list[list[int | None]] = [[self._name(node) for node in nodes]]
        for _ in range(RADIUS):
            last, level = found[-1], list[int | None]()
            for v, near in enumerate(neighbours):
                around = [colour for u in near if (colour := last[u]) is not None]
                whole = (closed is None or closed[v]) and len(around) == len(near) and last[v] is not None
                level.append(self._name((last[v], tuple(sorted(around)))) if whole else None)
            found.append(level)
        return found

    def _name(self, key: Hashable) -> int:
        return self.names.setdefault(key, len(self.names))
