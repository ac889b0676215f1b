"""What an attacker may assume of a client's graphs, beside the update."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np
from jaxtyping import Float, Num

from jgleak.features import FeatureSpace
from jgleak.graph import Graph

LARGEST = 10_000
"""Most nodes of a graph that is looked for."""


@dataclasses.dataclass(frozen=True)
class Knowledge:
    """What the attacker is allowed to assume. Everything but the public feature space is off unless given.

    Attributes:
      space: the public feature space.
      n: number of nodes; of a batch's largest graph. Known edges and features tell it.
      sizes: number of nodes of every graph of a batch, in the order of ``labels``; none given: each has ``n``.
      adjacency: true adjacency ``(n, n)`` ("+A" in the papers); of a batch ``(B, n, n)``, padded to the largest graph.
      features: true node features ``(n, G)`` ("+X"); of a batch ``(B, n, G)``.
      labels: graph labels of the batch, or the node labels; targets in a regression. Of several tasks ``(B, T)``, NaN
        where a label is missing.
      max_n: no client graph is larger than this (``N_max``); None: unknown, and a search states how far it went.
      max_degree: no node has more neighbours.
      auxiliary: public graphs of the same kind.
      connected: client graphs are connected.
      distinct_nodes: no two nodes of a client share a feature vector (GRAIN's uniqueness heuristic).
      prior: how graphs with the same gradient are ranked: ``none``, ``plain``, ``molecule``, or ``auto``, which is
        ``molecule`` where the features name atoms and ``plain`` elsewhere (``jgleak.attacks.census.prior``).
      noise: standard deviation of independent noise on every entry of the update, which the server knows because it
        publishes the defence's parameters; None: none was added. What GRAIN and the census do with it, and what to say
        of updates in low precision: docs/noise.md.

    Raises:
      ValueError: naming the field, where one is out of range, does not fit the space, or disagrees with another.
    """

    space: FeatureSpace
    n: int | None = None
    sizes: Sequence[int] = ()
    adjacency: Float[np.ndarray, "*B n n"] | None = None
    features: Num[np.ndarray, "*B n G"] | None = None
    labels: Num[np.ndarray, "..."] | None = None
    max_n: int | None = None
    max_degree: int | None = None
    auxiliary: tuple[Graph, ...] = ()
    connected: bool = True
    distinct_nodes: bool = False
    prior: str = "auto"
    noise: float | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "sizes", tuple(int(n) for n in self.sizes))
        if self.n is None and self.sizes:
            object.__setattr__(self, "n", max(self.sizes))
        if any(n < 1 for n in (*self.sizes, self.n) if n is not None):
            raise ValueError(f"n: a graph has at least one node, got {min(self.sizes, default=self.n)}")
        if self.sizes and max(self.sizes) != self.n:
            raise ValueError(f"sizes: the largest graph has {max(self.sizes)} nodes, n says {self.n}; leave n out")
        if self.features is not None:
            rows = np.asarray(self.features)
            try:
                self.space.check(rows.reshape(-1, rows.shape[-1]) if rows.ndim else rows)
            except ValueError as error:
                raise ValueError(f"features: what is known of nodes does not fit the feature space: {error}") from None
        if self.adjacency is not None:
            _check(np.asarray(self.adjacency))
        parts = [(name, part) for name in ("adjacency", "features") if (part := getattr(self, name)) is not None]
        given = {name: np.shape(part)[-2] for name, part in parts if np.ndim(part) >= 2}
        batched = bool(self.sizes) and any(np.ndim(part) == 3 for _, part in parts)
        if self.n is not None and not batched:
            given["n"] = self.n
        if self.sizes and any(np.ndim(part) == 2 for _, part in parts):
            given["the smallest graph"] = min(self.sizes)
        if batched:
            given["the largest graph"] = max(self.sizes)
            counts = {len(self.sizes), *(np.shape(part)[0] for _, part in parts if np.ndim(part) == 3)}
            if len(counts) > 1:
                raise ValueError(f"sizes: {len(self.sizes)} given, and edges or features of another number of graphs")
        if len(set(given.values())) > 1:
            said = ", ".join(f"{name} of {nodes} nodes" for name, nodes in given.items())
            raise ValueError(f"knowledge: what is given disagrees: {said}")
        if self.n is None and given:
            object.__setattr__(self, "n", max(given.values()))
        if self.max_n is not None and self.max_n < 1:
            raise ValueError(f"max_n: must be at least 1, got {self.max_n}")
        if self.n is not None and self.max_n is not None and self.n > self.max_n:
            object.__setattr__(self, "max_n", self.n)
        for name, most in (("n", self.n), ("max_n", self.max_n)):
            if most is not None and most > LARGEST:
                raise ValueError(
                    f"{name}: {most} nodes; graphs are dense here, so that the adjacency alone would take "
                    f"{4 * most**2 / 2**30:,.1f} GiB; at most {LARGEST:,} nodes are looked for: give the number "
                    "of nodes of one client's graph"
                )
        if self.noise is not None and not 0.0 <= self.noise < float("inf"):
            raise ValueError(f"noise: a standard deviation is finite and not negative, got {self.noise}; None for none")


def _check(adjacency: np.ndarray) -> None:
    """Known edges are those of simple undirected graphs.

    Raises:
      ValueError: they are not.
    """
    if adjacency.ndim not in (2, 3) or adjacency.shape[-1] != adjacency.shape[-2]:
        raise ValueError(f"adjacency: expected (n, n), or (B, n, n) of a batch, got shape {adjacency.shape}")
    if not np.all((adjacency == 0) | (adjacency == 1)):
        raise ValueError("adjacency: its entries are 1 for an edge and 0 for none")
    if not np.array_equal(adjacency, np.swapaxes(adjacency, -1, -2)):
        raise ValueError(
            "adjacency: it is not symmetric; graphs are undirected here: give (A + A.T) > 0 of directed edges"
        )
    if np.any(np.diagonal(adjacency, axis1=-2, axis2=-1)):
        raise ValueError("adjacency: its diagonal is 0; convolutions add their own self-loops")
