"""Which features and edges the nodes of a file have by their place: files follow habits, and public graphs show them.

A gradient does not tell like nodes apart, so a metric in file order also measures what no gradient shows. Places are
counted from both ends, taken as independent. Without any gradient the habit of features names .82, .68, .80 of the
nodes of clients of MUTAG, PTC_MR, ENZYMES from one part of a split; the commonest node .68, .68, .47 (``file-habit``
and ``empty`` in ``benchmarks/results/graphdlg.md``).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int
from scipy.special import expit

from jgleak.attacks.public.rows import encoded
from jgleak.attacks.relaxations import groups, softmax_features
from jgleak.features import FeatureSpace
from jgleak.graph import Graph


@dataclasses.dataclass(frozen=True)
class HabitSettings:
    """How far the shares at one place are trusted.

    Attributes:
      habit_weight: the overall shares count as so many graphs at every place, so that rare positions say little.
      habit_rarest: no share is smaller than this, nor the rest of a binary one.
    """

    habit_weight: float = 4.0
    habit_rarest: float = 1e-3


HABITS = HabitSettings()
"""The defaults."""


class Habit(NamedTuple):
    """What is usual at a place, as logarithms (or as means, of real features).

    Attributes:
      first: ``(S, ..)`` by the distance from the first node of a graph.
      last: ``(S, ..)`` by the distance from the last one.
      overall: of all positions.
    """

    first: Float[Array | np.ndarray, "S ..."]
    last: Float[Array | np.ndarray, "S ..."]
    overall: Float[Array | np.ndarray, "..."]


class PositionFrequencies(NamedTuple):
    """The habits of public files.

    Attributes:
      features: of nodes; log shares of one-hot columns, log odds of binary ones, means of real ones, of raw columns.
      edges: of pairs of positions.
    """

    features: Habit
    edges: Habit

    def node_logits(self, n: Int[Array, ""], slots: int) -> Float[Array, "N m"]:
        """Of the features of the nodes of a graph of ``n`` nodes; zero beyond."""
        (first, last), inside = _read(self.features, n, slots)
        found = jnp.asarray(self.features.first)[first] + jnp.asarray(self.features.last)[last] - self.features.overall
        return jnp.where(inside[:, None], found, 0.0)

    def edge_logits(self, n: Int[Array, ""], slots: int) -> Float[Array, "N N"]:
        """Of the edges of a graph of ``n`` nodes; zero beyond and on the diagonal."""
        (first, last), inside = _read(self.edges, n, slots)
        forward, backward = jnp.asarray(self.edges.first), jnp.asarray(self.edges.last)
        found = forward[first[:, None], first] + backward[last[:, None], last] - self.edges.overall
        return jnp.where(inside[:, None] & inside & ~jnp.eye(slots, dtype=bool), found, 0.0)

    def edges_of(self, n: int) -> Float[np.ndarray, "n n"]:
        """Edge probabilities of a graph of ``n`` nodes, on the host."""
        logits = np.asarray(self.edge_logits(jnp.asarray(n), max(n, len(self.edges.first))))
        return expit(logits[:n, :n]) * (1.0 - np.eye(n, dtype=np.float32))

    def rows_of(self, n: int, space: FeatureSpace) -> Float[np.ndarray, "n m"]:
        """Its features, as shares of their values, encoded."""
        logits = self.node_logits(jnp.asarray(n), max(n, len(self.features.first)))
        raw = softmax_features(logits, groups(space))
        return space.normalise(np.asarray(raw)[:n]).astype(np.float32)


def _read(
    habit: Habit, n: Int[Array, ""], slots: int
) -> tuple[tuple[Int[Array, " N"], Int[Array, " N"]], Bool[Array, " N"]]:
    """Where every node stands in the tables, and whether it is one of the graph."""
    place, most = jnp.arange(slots), len(habit.first) - 1
    return (jnp.clip(place, 0, most), jnp.clip(n - 1 - place, 0, most)), place < n


def position_frequencies(
    graphs: Sequence[Graph], space: FeatureSpace, slots: int, settings: HabitSettings = HABITS
) -> PositionFrequencies:
    """The habits of public graphs, for graphs of up to ``slots`` nodes."""
    weight, rarest = settings.habit_weight, settings.habit_rarest
    raw = [_raw(space, g) for g in graphs]
    overall = np.concatenate(raw).mean(axis=0)
    ends = (
        _share([r[:slots] for r in raw], overall, (slots,), weight),
        _share([r[::-1][:slots] for r in raw], overall, (slots,), weight),
    )
    corners = [_corners(g, slots) for g in graphs]
    density = np.array(2 * sum(len(g.edges) for g in graphs) / max(sum(g.n * (g.n - 1) for g in graphs), 1))
    sides = [_share([pair[side] for pair in corners], density, (slots, slots), weight) for side in (0, 1)]
    return PositionFrequencies(
        Habit(*(_logits(space, share, rarest) for share in (*ends, overall))),
        Habit(*(_odds(share, rarest) for share in (*sides, density))),
    )


def _corners(graph: Graph, slots: int) -> tuple[Float[np.ndarray, "k k"], Float[np.ndarray, "k k"]]:
    """The adjacency of the first nodes, and that of the last ones from the end; never the whole matrix."""
    kept = min(graph.n, slots)
    found = []
    for edges in (graph.edges, graph.n - 1 - graph.edges):
        corner, near = np.zeros((kept, kept), np.float32), edges[(edges < kept).all(axis=1)]
        corner[near[:, 0], near[:, 1]] = corner[near[:, 1], near[:, 0]] = 1.0
        found.append(corner)
    return found[0], found[1]


def _share(
    tables: Sequence[Float[np.ndarray, "..."]], overall: Float[np.ndarray, "..."], slots: tuple[int, ...], weight: float
) -> Float[np.ndarray, "..."]:
    """The mean of tables whose first axes are positions, up to ``slots`` of them."""
    total, count = np.full((*slots, *overall.shape), weight * overall), np.full(slots, weight)
    for table in tables:
        kept = tuple(slice(0, size) for size in table.shape[: len(slots)])
        total[kept] += table
        count[kept] += 1
    return total / count.reshape(count.shape + (1,) * overall.ndim)


def _odds(share: Float[np.ndarray, "..."], rarest: float) -> Float[np.ndarray, "..."]:
    share = np.clip(share, rarest, 1 - rarest)
    return np.asarray(np.log(share) - np.log1p(-share), np.float32)


def _logits(space: FeatureSpace, shares: Float[np.ndarray, "... m"], rarest: float) -> Float[np.ndarray, "... m"]:
    logits = np.empty(shares.shape, np.float32)
    for feature, start in zip(space.features, space.offsets, strict=True):
        columns = slice(start, start + feature.columns)
        share = shares[..., columns]
        if feature.kind == "onehot":
            logits[..., columns] = np.log(np.maximum(share, rarest))
        elif feature.kind == "binary":
            logits[..., columns] = _odds(share, rarest)
        else:
            logits[..., columns] = share
    return logits


def _raw(space: FeatureSpace, graph: Graph) -> Float[np.ndarray, "n m"]:
    rows = encoded(graph, space)
    return rows if space.mean is None or space.std is None else rows * space.std + space.mean
