"""The order of a found graph's nodes in the client's file: known rows fix it, the habit of public files suggests it."""

from __future__ import annotations

import dataclasses
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int
from scipy.optimize import linear_sum_assignment

from jgleak.attacks.public.positions import HABITS, HabitSettings, position_frequencies
from jgleak.federated.knowledge import Knowledge
from jgleak.graph import Graph, bucket

FORBIDDEN = -1e6
"""Gain of a node at a place where it cannot stand."""

FEWEST = 40
"""Places to begin with, so that few shapes compile."""

LEAST = 1e-6
"""A smaller gain is rounding."""


@dataclasses.dataclass(frozen=True)
class OrderSettings:
    """How long the likeliest order is searched for.

    Attributes:
      order_starts: starts of the search.
      order_rounds: most rounds of each.
      habit: how far public files are trusted.
    """

    order_starts: int = 8
    order_rounds: int = 50
    habit: HabitSettings = HABITS


ORDER = OrderSettings()
"""The defaults."""


@dataclasses.dataclass(frozen=True)
class KnownRows:
    """The feature rows that are known (``Knowledge.features``), of discrete features.

    Attributes:
      codes: the different ones ``(R, G)``.
      counts: how many nodes have each ``(R,)``.
      order: which of them the node at each place has ``(n,)``.
    """

    codes: Int[np.ndarray, "R G"]
    counts: Int[np.ndarray, " R"]
    order: Int[np.ndarray, " n"]

    @staticmethod
    def of(knowledge: Knowledge) -> KnownRows | None:
        """None where no rows are known."""
        if knowledge.features is None:
            return None
        known = np.asarray(knowledge.features).astype(np.int64)
        codes, order, counts = np.unique(
            known.reshape(-1, known.shape[-1]), axis=0, return_inverse=True, return_counts=True
        )
        return KnownRows(codes, counts, order.ravel())

    def index(self, codes: Int[np.ndarray, "K G"]) -> Int[np.ndarray, " K"]:
        """Which row each of ``codes`` is; -1 for one that is not known."""
        same = (np.asarray(codes)[:, None] == self.codes).all(axis=-1)
        return np.where(same.any(axis=1), same.argmax(axis=1), -1)

    def agree(self, codes: Int[np.ndarray, "k G"]) -> bool:
        """True when ``codes`` are the known rows, in any order."""
        found = self.index(codes)
        return bool((found >= 0).all()) and np.array_equal(np.bincount(found, minlength=len(self.counts)), self.counts)


def numbered(graph: Graph, knowledge: Knowledge, settings: OrderSettings = ORDER) -> Graph:
    """The graph with its nodes in the order that known rows ask for, and among those the likeliest in public files.

    A gradient does not show the order of nodes. Without rows or public graphs, and where the known rows are not the
    graph's, the graph stays as it is.
    """
    rows = KnownRows.of(knowledge)
    fits = np.ones((graph.n, graph.n), bool)
    if rows is not None:
        if not rows.agree(graph.x):
            return graph
        fits = rows.index(graph.x)[:, None] == rows.order
    if not knowledge.auxiliary:
        return graph if rows is None else graph.permute(_assigned(np.where(fits, 0.0, FORBIDDEN)))
    slots = bucket(max(graph.n, knowledge.max_n or FEWEST))
    habit = position_frequencies(knowledge.auxiliary, knowledge.space, slots, settings.habit)
    raw, n = dataclasses.replace(knowledge.space, mean=None, std=None).encode(graph.x), jnp.asarray(graph.n)
    nodes = raw @ np.asarray(habit.node_logits(n, slots))[: graph.n].T
    edges = np.asarray(habit.edge_logits(n, slots), np.float64)[: graph.n, : graph.n]
    gains = graph.adjacency, (edges + edges.T) / 2, np.where(fits, nodes, FORBIDDEN)
    return graph.permute(likeliest(*gains, settings))


def likeliest(
    adjacency: Float[np.ndarray, "n n"],
    edges: Float[np.ndarray, "n n"],
    nodes: Float[np.ndarray, "n n"],
    settings: OrderSettings = ORDER,
) -> Int[np.ndarray, " n"]:
    """The order of a graph's nodes with the largest sum of gains that the search meets.

    A quadratic assignment with a linear part: Frank-Wolfe steps over doubly stochastic matrices from several starts
    (FAQ, Vogelstein et al. 2015), each rounded by an assignment and improved by exchanges of two nodes.

    Args:
      adjacency: of the graph.
      edges: gain of an edge between two positions, symmetric and zero on the diagonal.
      nodes: gain of a node (row) at a place (column).
      settings: how long it searches.

    Returns:
      The node at each place, as ``Graph.permute`` takes it.
    """
    rng, n = np.random.default_rng(0), len(adjacency)
    gains = _Gains(adjacency, edges, nodes)
    best, most = np.arange(n), -np.inf
    for start in range(settings.order_starts):
        weight = np.full((n, n), 1.0 / n)
        if start:
            weight = (weight + np.eye(n)[_assigned(nodes + 1e-3 * rng.random((n, n)))].T) / 2
        order = gains.exchanged(gains.relaxed(weight, settings.order_rounds))
        value = gains.value(order)
        if value > most:
            best, most = order, value
    return best


def _assigned(gain: Float[np.ndarray, "n n"]) -> Int[np.ndarray, " n"]:
    """The node at each place in the best assignment of nodes (rows) to positions (columns)."""
    nodes, at = linear_sum_assignment(gain, maximize=True)
    return nodes[np.argsort(at)]


class _Gains(NamedTuple):
    """A graph, and what an order of its nodes gains: see ``likeliest``."""

    adjacency: Float[np.ndarray, "n n"]
    edges: Float[np.ndarray, "n n"]
    nodes: Float[np.ndarray, "n n"]

    def value(self, order: Int[np.ndarray, " n"]) -> float:
        """What an order gains in all."""
        inside = self.adjacency[np.ix_(order, order)]
        return float((inside * self.edges).sum() / 2 + self.nodes[order, np.arange(len(order))].sum())

    def relaxed(self, weight: Float[np.ndarray, "n n"], rounds: int) -> Int[np.ndarray, " n"]:
        """Frank-Wolfe steps from ``weight`` (nodes to positions), each as far as its quadratic says, then rounded."""
        eye = np.eye(len(weight))
        for _ in range(rounds):
            slope = self.adjacency @ weight @ self.edges + self.nodes
            way = eye[_assigned(slope)].T - weight
            gain, bend = (slope * way).sum(), (self.adjacency @ way @ self.edges * way).sum() / 2
            if gain <= LEAST:
                break
            weight = weight + (1.0 if bend >= 0 else min(1.0, -gain / (2 * bend))) * way
        return _assigned(np.where(self.nodes <= FORBIDDEN / 2, FORBIDDEN, weight))

    def exchanged(self, order: Int[np.ndarray, " n"]) -> Int[np.ndarray, " n"]:
        """As long as it helps, the exchange of two positions that gains most."""
        order = order.copy()
        while True:
            inside, at = self.adjacency[np.ix_(order, order)], self.nodes[order]
            moved = inside @ self.edges  # [i, j]: the edges of the node at place i, were it at place j
            stays = np.diag(moved)
            gain = moved + moved.T - stays[:, None] - stays + 2 * inside * self.edges  # an edge between the two stays
            gain += at + at.T - np.diag(at)[:, None] - np.diag(at)
            i, j = np.unravel_index(np.argmax(gain), gain.shape)
            if gain[i, j] <= LEAST:
                return order
            order[[i, j]] = order[[j, i]]
