"""1-hop and 2-hop building blocks (GRAIN, Algorithm 3), grown from the feature vectors that passed the node filter."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
from jaxtyping import Bool, Float, Int

from jgleak.attacks.attack import Budget, Clock
from jgleak.attacks.span.check import SpanCheck
from jgleak.attacks.span.combinations import Slot, total
from jgleak.attacks.span.search import BlockSearch
from jgleak.gnn import GNN, Params

Neighbours = tuple[int, ...]


@dataclasses.dataclass(frozen=True)
class Nodes:
    """Feature vectors that may occur, each with a degree.

    Attributes:
      codes: feature codes ``(T, G)``.
      rows: encoded rows ``(T, m)``.
      degrees: number of neighbours ``(T,)``.
      certain: all of them occur: as many passed as the span has dimensions.
    """

    codes: Int[np.ndarray, "T G"]
    rows: Float[np.ndarray, "T m"]
    degrees: Int[np.ndarray, " T"]
    certain: bool = False


@dataclasses.dataclass(frozen=True)
class Blocks:
    """Blocks of one hop count: a root entry of the level below and a sorted tuple of neighbour entries.

    Attributes:
      roots: entry of the level below at the root ``(K,)``.
      neighbours: for each block the entries of the level below around it, sorted.
      states: embedding of the root ``(K, D)``.
      distances: relative span distances ``(K,)``.
      checked: candidates looked at.
      skipped: centres that were not searched to the end, because the budget ended.
    """

    roots: Int[np.ndarray, " K"]
    neighbours: tuple[Neighbours, ...]
    states: Float[np.ndarray, "K D"]
    distances: Float[np.ndarray, " K"]
    checked: int
    skipped: int

    @property
    def size(self) -> int:
        """Number of blocks ``K``."""
        return len(self.neighbours)

    @property
    def degrees(self) -> Int[np.ndarray, " K"]:
        """Number of neighbours of each root ``(K,)``."""
        return np.array([len(n) for n in self.neighbours], np.int64)

    def keep(self, mask: Bool[np.ndarray, " K"]) -> Blocks:
        """The blocks where ``mask`` holds."""
        neighbours = tuple(n for n, kept in zip(self.neighbours, mask.tolist(), strict=True) if kept)
        return dataclasses.replace(
            self,
            roots=self.roots[mask],
            neighbours=neighbours,
            states=self.states[mask],
            distances=self.distances[mask],
        )


def one_hop(
    model: GNN, params: Params, nodes: Nodes, check: SpanCheck | None, *, clock: Clock, budget: Budget
) -> Blocks:
    """Blocks of a node and its neighbours whose embedding ``H_1`` lies in the span of the second convolution.

    Centres are searched cheapest first, and what they teach is used at once: a neighbour already searched must itself
    have a passing block that holds this centre. This is GRAIN's structure check moved forward; it turns 1e8
    candidates into 1e5 where many feature vectors pass the node filter by accident.
    """
    search = BlockSearch(model, params, 0, nodes.rows, nodes.degrees, check)
    number, degrees = nodes.degrees.size, nodes.degrees.tolist()
    possible: Bool[np.ndarray, "T T"] = np.outer(nodes.degrees > 0, nodes.degrees > 0)
    waiting = set(range(number))
    parts = _Parts(model.width(1))
    while waiting:
        options = possible.sum(axis=1).tolist()
        ways = {c: math.comb(options[c] + degrees[c] - 1, degrees[c]) if degrees[c] else 0 for c in waiting}
        centre = min(waiting, key=lambda c, ways=ways: (ways[c], c))
        waiting.remove(centre)
        slots = _same(possible[centre], degrees[centre])
        found = search.around(centre, slots, np.zeros(0), clock=clock, candidates=budget.candidates)
        parts.add(centre, found.neighbours, found.states, found.distances, found.checked, found.complete)
        if found.complete:
            seen = np.zeros(number, bool)
            seen[found.neighbours.ravel()] = True
            possible[:, centre] &= seen
    return reciprocal(parts.blocks())


def two_hop(
    model: GNN,
    params: Params,
    nodes: Nodes,
    ones: Blocks,
    check: SpanCheck | None,
    *,
    layer: int = 1,
    clock: Clock,
    budget: Budget,
) -> Blocks:
    """Blocks of a 1-hop block and the 1-hop blocks of its neighbours whose embedding ``H_2`` lies in ``check``'s span.

    A neighbour of feature vector ``t`` is any 1-hop block with root ``t`` that holds the centre's feature vector.
    When the check's rows have a fixed part, it is the centre's input row (GRAIN's readout sees ``[X | H_2]``).
    """
    search = BlockSearch(model, params, layer, ones.states, ones.degrees, check)
    plans = _two_hop_slots(ones)
    parts = _Parts(model.width(layer + 1))
    wide = check is not None and check.fixed > 0
    for centre in sorted(range(ones.size), key=lambda c: total(plans[c])):
        fixed = nodes.rows[ones.roots[centre]].astype(np.float64) if wide else np.zeros(0)
        found = search.around(centre, plans[centre], fixed, clock=clock, candidates=budget.candidates)
        parts.add(centre, found.neighbours, found.states, found.distances, found.checked, found.complete)
    return parts.blocks()


def _two_hop_slots(ones: Blocks) -> list[list[Slot]]:
    holding: dict[tuple[int, int], list[int]] = {}
    for entry, (root, neighbours) in enumerate(zip(ones.roots.tolist(), ones.neighbours, strict=True)):
        for other in set(neighbours):
            holding.setdefault((root, other), []).append(entry)
    plans = []
    for root, neighbours in zip(ones.roots.tolist(), ones.neighbours, strict=True):
        options = {t: np.array(holding.get((t, root), []), np.int64) for t in sorted(set(neighbours))}
        plans.append([Slot(entries, neighbours.count(t)) for t, entries in options.items()])
    return plans


def two_hop_count(ones: Blocks) -> int:
    """Number of all 2-hop neighbourhoods of these 1-hop blocks, unchecked."""
    return sum(total(slots) for slots in _two_hop_slots(ones))


def one_hop_count(nodes: Nodes) -> int:
    """Number of all 1-hop neighbourhoods of these nodes, unchecked."""
    options = nodes.degrees > 0
    return sum(total(_same(options, int(degree))) for degree in nodes.degrees)


def reciprocal(blocks: Blocks) -> Blocks:
    """Drop blocks until every neighbour in a block has a block that holds this block's root."""
    alive = np.ones(blocks.size, bool)
    roots = blocks.roots.tolist()
    while True:
        holds = {(roots[i], t) for i in np.flatnonzero(alive) for t in blocks.neighbours[i]}
        dead = [i for i in np.flatnonzero(alive) if any((t, roots[i]) not in holds for t in blocks.neighbours[i])]
        if not dead:
            return blocks.keep(alive)
        alive[dead] = False


def _same(options: Bool[np.ndarray, " T"], count: int) -> list[Slot]:
    return [Slot(np.flatnonzero(options), count)] if count else []


class _Parts:
    """Collects the blocks of one level, centre by centre."""

    def __init__(self, width: int) -> None:
        self.roots: list[int] = []
        self.neighbours: list[Neighbours] = []
        self.states, self.distances = [np.zeros((0, width), np.float32)], [np.zeros(0)]
        self.checked = self.skipped = 0

    def add(
        self,
        centre: int,
        neighbours: Int[np.ndarray, "S k"],
        states: Float[np.ndarray, "S D"],
        distances: Float[np.ndarray, " S"],
        checked: int,
        complete: bool,
    ) -> None:
        self.roots += [centre] * neighbours.shape[0]
        self.neighbours += [tuple(row) for row in neighbours.tolist()]
        self.states.append(states)
        self.distances.append(distances)
        self.checked += checked
        self.skipped += not complete

    def blocks(self) -> Blocks:
        return Blocks(
            np.array(self.roots, np.int64),
            tuple(self.neighbours),
            np.concatenate(self.states),
            np.concatenate(self.distances),
            self.checked,
            self.skipped,
        )
