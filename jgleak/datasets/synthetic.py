"""Random graphs from networkx with discrete or Gaussian node features."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Literal

import networkx as nx
import numpy as np
from jaxtyping import Int

from jgleak.datasets.dataset import Dataset, LoadReport
from jgleak.datasets.fit import fit_apart
from jgleak.features import FeatureSpace, onehot, real
from jgleak.graph import Graph

Kind = Literal["er", "ba", "regular", "tree"]

OTHERS = 100
"""Further graphs whose statistics are public: the clients' own are not looked at."""

ATTEMPTS = 1000
"""Draws a graph before ``connected`` is given up."""


def _er(n: int, degree: float, seed: int) -> nx.Graph:
    return nx.gnp_random_graph(n, min(1.0, degree / max(n - 1, 1)), seed=seed)


def _ba(n: int, degree: float, seed: int) -> nx.Graph:
    return nx.barabasi_albert_graph(n, min(max(1, round(degree / 2)), n - 1), seed=seed) if n > 1 else nx.empty_graph(n)


def _regular(n: int, degree: float, seed: int) -> nx.Graph:
    return nx.random_regular_graph(int(degree), n, seed=seed)


def _tree(n: int, degree: float, seed: int) -> nx.Graph:
    return nx.random_labeled_tree(n, seed=seed)


KINDS: Mapping[Kind, Callable[[int, float, int], nx.Graph]] = {"er": _er, "ba": _ba, "regular": _regular, "tree": _tree}
"""The generators: Erdos-Renyi G(n, p), Barabasi-Albert, random regular, uniform labelled tree."""


@dataclasses.dataclass(frozen=True)
class Topology:
    """How the nodes and edges of random graphs are drawn.

    ``p = degree / (n - 1)`` for ``er``; ``degree / 2`` edges a new node, rounded, for ``ba``; exact degrees for
    ``regular`` (only sizes that allow them are drawn); ``tree`` ignores ``degree``.

    Attributes:
      kind: a key of ``KINDS``.
      nodes: smallest and largest size, drawn uniformly.
      degree: mean degree.
      connected: draw again until connected (this conditions sparse ``er`` graphs).

    Raises:
      ValueError: a value out of range, or no size allows ``degree``.
    """

    kind: Kind
    nodes: tuple[int, int] = (10, 30)
    degree: float = 4
    connected: bool = True

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise ValueError(f"kind: no generator {self.kind!r}; known are {', '.join(KINDS)}")
        if not 1 <= self.nodes[0] <= self.nodes[1]:
            raise ValueError(f"nodes: expected 1 <= smallest <= largest, got {self.nodes}")
        if not 0 < self.degree < np.inf:
            raise ValueError(f"degree: must be positive and finite, got {self.degree}")
        if self.kind == "regular" and self.degree != int(self.degree):
            raise ValueError(f"degree: a regular graph needs an integer, got {self.degree}")
        if self.sizes.size == 0:
            low, high = self.nodes
            raise ValueError(f"nodes: no size in {low}..{high} allows a {int(self.degree)}-regular graph")

    @property
    def sizes(self) -> Int[np.ndarray, " s"]:
        """The numbers of nodes that are drawn from."""
        sizes = np.arange(self.nodes[0], self.nodes[1] + 1)
        if self.kind != "regular":
            return sizes
        return sizes[(sizes > self.degree) & (sizes * int(self.degree) % 2 == 0)]

    def draw(self, rng: np.random.Generator) -> nx.Graph:
        """One graph without features.

        Raises:
          ValueError: no connected graph in ``ATTEMPTS`` draws.
        """
        n = int(rng.choice(self.sizes))
        for _ in range(ATTEMPTS):
            drawn = KINDS[self.kind](n, self.degree, int(rng.integers(2**31)))
            if not self.connected or nx.is_connected(drawn):
                return drawn
        raise ValueError(
            f"connected: no connected {self.kind} graph of {n} nodes with degree {self.degree} in {ATTEMPTS} draws; "
            "raise degree or pass connected=False"
        )


def synthetic(
    topology: Topology,
    *,
    graphs: int = 100,
    features: Literal["discrete", "gaussian"] = "discrete",
    width: int = 8,
    classes: int = 2,
    labels: Literal["graph", "node"] = "graph",
    seed: int,
) -> Dataset:
    """Random graphs with random features and labels; the same arguments give the same graphs.

    Labels are uniform, as in GLG's synthetic set (section 5, "Synthetic", with ``gaussian`` features, n = 50 and mean
    degree 4). The normalisation of the space is that of ``OTHERS`` further graphs, and of one node of every type and
    degree.

    Args:
      topology: how nodes and edges are drawn.
      graphs: how many.
      features: ``discrete`` gives a one-hot type (``width`` values, uniform) and the one-hot degree; ``gaussian`` gives
        ``width`` real features from N(0, 1) and no degree.
      width: number of types or of real features.
      classes: number of classes ``C``.
      labels: one class a graph, or one a node.
      seed: seeds ``numpy.random.default_rng``.

    Raises:
      ValueError: an argument out of range, or no connected graph in ``ATTEMPTS`` draws.
    """
    if graphs < 1 or width < 1 or classes < 2:
        raise ValueError("graphs and width must be at least 1, classes at least 2")
    if features not in ("discrete", "gaussian"):
        raise ValueError(f"features: must be 'discrete' or 'gaussian', got {features!r}")
    if labels not in ("graph", "node"):
        raise ValueError(f"labels: must be 'graph' or 'node', got {labels!r}")

    def draw(rng: np.random.Generator) -> Graph:
        drawn = topology.draw(rng)
        edges = np.array(sorted(drawn.edges), np.int64).reshape(-1, 2)
        n = drawn.number_of_nodes()
        if features == "discrete":
            types, degrees = rng.integers(width, size=n), np.bincount(edges.ravel(), minlength=n)
            x = np.stack([types, degrees], axis=1).astype(np.int32)
        else:
            x = rng.standard_normal((n, width))
        return Graph(x, edges, rng.integers(classes, size=n) if labels == "node" else int(rng.integers(classes)))

    rng, other = np.random.default_rng(seed), np.random.default_rng([seed, 1])
    name, largest = f"synthetic-{topology.kind}", int(topology.sizes[-1])
    drawn = [dataclasses.replace(draw(rng), name=f"{name} {i} of seed {seed}") for i in range(graphs)]
    others = [draw(other) for _ in range(OTHERS)]
    task = "node" if labels == "node" else "binary" if classes == 2 else "multiclass"
    possible = range(0) if topology.kind == "regular" else range(largest)
    fitted = _fitted(_space(features, width, largest), others, possible)
    return Dataset(name, drawn, fitted, task, classes, LoadReport(graphs, graphs))


def _fitted(space: FeatureSpace, others: list[Graph], possible: range) -> FeatureSpace:
    """Statistics of other graphs, and of one node of every type and of every possible degree."""
    if space.degree is None:
        return fit_apart(space, [g.x for g in others], [], possible)
    types = [*(g.x[:, :1] for g in others), np.arange(len(space.features[0].values))[:, None]]
    return fit_apart(space, types, [g.degree for g in others], possible)


def _space(features: str, width: int, largest: int) -> FeatureSpace:
    if features == "gaussian":
        return FeatureSpace(tuple(real(f"feature_{k}") for k in range(width)))
    return FeatureSpace((onehot("type", range(width)), onehot("degree", range(largest))), degree="degree")
