"""Random graphs from networkx with discrete or Gaussian node features."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Literal

import networkx as nx
import numpy as np

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


def synthetic(
    kind: Kind,
    *,
    graphs: int = 100,
    nodes: tuple[int, int] = (10, 30),
    degree: float = 4,
    features: Literal["discrete", "gaussian"] = "discrete",
    width: int = 8,
    classes: int = 2,
    connected: bool = True,
    labels: Literal["graph", "node"] = "graph",
    seed: int,
) -> Dataset:
    """Random graphs with random features and labels; the same arguments give the same graphs.

    ``p = degree / (n - 1)`` for ``er``; ``degree / 2`` edges a new node, rounded, for ``ba``; exact degrees for
    ``regular`` (only sizes that allow them are drawn); ``tree`` ignores ``degree``. Labels are uniform, as in GLG's
    synthetic set (section 5, "Synthetic", with ``gaussian`` features, n = 50 and mean degree 4). The normalisation of
    the space is that of ``OTHERS`` further graphs, and of one node of every type and degree.

    Args:
      kind: a key of ``KINDS``.
      graphs: how many.
      nodes: smallest and largest size, drawn uniformly.
      degree: mean degree.
      features: ``discrete`` gives a one-hot type (``width`` values, uniform) and the one-hot degree; ``gaussian`` gives
        ``width`` real features from N(0, 1) and no degree.
      width: number of types or of real features.
      classes: number of classes ``C``.
      connected: draw again until connected (this conditions sparse ``er`` graphs).
      labels: one class a graph, or one a node.
      seed: seeds ``numpy.random.default_rng``.

    Raises:
      ValueError: an argument out of range, no size allows ``degree``, or no connected graph in ``ATTEMPTS`` draws.
    """
    if kind not in KINDS:
        raise ValueError(f"kind: no generator {kind!r}; known are {', '.join(KINDS)}")
    if graphs < 1 or width < 1 or classes < 2:
        raise ValueError("graphs and width must be at least 1, classes at least 2")
    if features not in ("discrete", "gaussian"):
        raise ValueError(f"features: must be 'discrete' or 'gaussian', got {features!r}")
    if labels not in ("graph", "node"):
        raise ValueError(f"labels: must be 'graph' or 'node', got {labels!r}")
    sizes = _sizes(kind, nodes, degree)
    space = _space(features, width, int(sizes[-1]))

    def draw(rng: np.random.Generator) -> Graph:
        topology = _draw(kind, int(rng.choice(sizes)), degree, connected, rng)
        edges = np.array(sorted(topology.edges), np.int64).reshape(-1, 2)
        n = topology.number_of_nodes()
        if features == "discrete":
            types, degrees = rng.integers(width, size=n), np.bincount(edges.ravel(), minlength=n)
            x = np.stack([types, degrees], axis=1).astype(np.int32)
        else:
            x = rng.standard_normal((n, width))
        return Graph(x, edges, rng.integers(classes, size=n) if labels == "node" else int(rng.integers(classes)))

    rng, other = np.random.default_rng(seed), np.random.default_rng([seed, 1])
    drawn = [dataclasses.replace(draw(rng), name=f"synthetic-{kind} {i} of seed {seed}") for i in range(graphs)]
    others = [draw(other) for _ in range(OTHERS)]
    task = "node" if labels == "node" else "binary" if classes == 2 else "multiclass"
    fitted = _fitted(space, others, range(0) if kind == "regular" else range(int(sizes[-1])))
    return Dataset(f"synthetic-{kind}", drawn, fitted, task, classes, LoadReport(graphs, graphs))


def _fitted(space: FeatureSpace, others: list[Graph], possible: range) -> FeatureSpace:
    """Statistics of other graphs, and of one node of every type and of every possible degree."""
    if space.degree is None:
        return fit_apart(space, [g.x for g in others], [], possible)
    types = [*(g.x[:, :1] for g in others), np.arange(len(space.features[0].values))[:, None]]
    return fit_apart(space, types, [g.degree for g in others], possible)


def _sizes(kind: Kind, nodes: tuple[int, int], degree: float) -> np.ndarray:
    low, high = nodes
    if not 1 <= low <= high:
        raise ValueError(f"nodes: expected 1 <= smallest <= largest, got {nodes}")
    if not 0 < degree < np.inf:
        raise ValueError(f"degree: must be positive and finite, got {degree}")
    sizes = np.arange(low, high + 1)
    if kind == "regular":
        if degree != int(degree):
            raise ValueError(f"degree: a regular graph needs an integer, got {degree}")
        sizes = sizes[(sizes > degree) & (sizes * int(degree) % 2 == 0)]
        if sizes.size == 0:
            raise ValueError(f"nodes: no size in {low}..{high} allows a {int(degree)}-regular graph")
    return sizes


def _draw(kind: Kind, n: int, degree: float, connected: bool, rng: np.random.Generator) -> nx.Graph:
    for _ in range(ATTEMPTS):
        drawn = KINDS[kind](n, degree, int(rng.integers(2**31)))
        if not connected or nx.is_connected(drawn):
            return drawn
    raise ValueError(
        f"connected: no connected {kind} graph of {n} nodes with degree {degree} in {ATTEMPTS} draws; "
        "raise degree or pass connected=False"
    )


def _space(features: str, width: int, largest: int) -> FeatureSpace:
    if features == "gaussian":
        return FeatureSpace(tuple(real(f"feature_{k}") for k in range(width)))
    return FeatureSpace((onehot("type", range(width)), onehot("degree", range(largest))), degree="degree")
