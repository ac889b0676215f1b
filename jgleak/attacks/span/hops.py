"""Building blocks hop by hop (GRAIN, Algorithm 3), grown from the feature vectors that passed the node filter."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Float, Int

from jgleak.attacks.attack import Budget, Clock
from jgleak.attacks.span.check import SpanCheck
from jgleak.attacks.span.combinations import Slot, total
from jgleak.attacks.span.filter import BlockFilter, FoundBlocks, Request
from jgleak.attacks.span.ranges import Unsearched
from jgleak.attacks.span.settings import LIMITS, SpanLimits
from jgleak.gnn import GNN, Params

Neighbours = tuple[int, ...]


@dataclasses.dataclass(frozen=True)
class Nodes:
    """Feature vectors that may occur, each with a degree.

    Attributes:
      codes: feature codes ``(T, G)``.
      rows: encoded rows ``(T, m)``.
      degrees: number of neighbours ``(T,)``.
      certain: all of them occur: no others pass, and they are as many as the span has dimensions.
      complete: all that pass are here; False where a budget ended the filter.
      listed: the neighbourhoods that may occur, each a node and its sorted neighbours; None: all.
      classes: number ``K`` of edge classes; a neighbour ``t`` along class ``k`` is the number ``K t + k``.
      hidden: dimensions of the nodes' rows that the input's gradient lacks.
    """

    codes: Int[np.ndarray, "T G"]
    rows: Float[np.ndarray, "T m"]
    degrees: Int[np.ndarray, " T"]
    certain: bool = False
    complete: bool = True
    listed: tuple[tuple[int, Neighbours], ...] | None = None
    classes: int = 1
    hidden: int = 0


@dataclasses.dataclass(frozen=True)
class Blocks:
    """Blocks of one hop count: a root entry of the level below and a sorted tuple of neighbour entries.

    An entry of the level below is a row of ``Nodes`` for 1-hop blocks, else a row of the ``Blocks`` of one hop less.
    A neighbour is an entry ``t`` along an edge of class ``k``, as the number ``classes * t + k``; where edges are alike
    it is the entry.

    Attributes:
      roots: entry of the level below at the root ``(K,)``.
      kinds: row of ``Nodes`` at the root ``(K,)``.
      neighbours: for each block the neighbours around it, sorted.
      states: embedding of the root ``(K, D)``.
      below: embeddings of the root after fewer layers, side by side ``(K, S)``.
      distances: relative span distances ``(K,)``.
      checked: candidates looked at.
      unsearched: ranges of candidates that the budget left out.
      condition: what was assumed of the graph to leave candidates out.
      classes: number ``K`` of edge classes.
    """

    roots: Int[np.ndarray, " K"]
    kinds: Int[np.ndarray, " K"]
    neighbours: tuple[Neighbours, ...]
    states: Float[np.ndarray, "K D"]
    below: Float[np.ndarray, "K S"]
    distances: Float[np.ndarray, " K"]
    checked: int
    unsearched: tuple[Unsearched, ...] = ()
    condition: str | None = None
    classes: int = 1

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
            kinds=self.kinds[mask],
            neighbours=neighbours,
            states=self.states[mask],
            below=self.below[mask],
            distances=self.distances[mask],
        )


def next_hop(
    model: GNN,
    params: Params,
    nodes: Nodes,
    hops: Sequence[Blocks],
    checks: Sequence[SpanCheck],
    *,
    clock: Clock,
    budget: Budget,
    limits: SpanLimits = LIMITS,
) -> Blocks:
    """Blocks of one hop more than the last of ``hops`` (1, 2, ..) that pass ``checks``.

    A neighbour of root entry ``t`` is any block below with root ``t`` that holds the centre's root entry. The fixed
    part of a checked row is the centre's input row (GRAIN's readout sees ``[X | H_2]``).
    """
    below = hops[-1]
    search, requests = next_search(model, params, nodes, hops, checks)
    found = search.blocks(requests, clock=clock, budget=budget, limits=limits)
    return dataclasses.replace(joined([found], below.kinds, _history(below)), classes=below.classes)


def next_search(
    model: GNN, params: Params, nodes: Nodes, hops: Sequence[Blocks], checks: Sequence[SpanCheck]
) -> tuple[BlockFilter, list[Request]]:
    """A filter for blocks of one hop more, and every centre with the neighbours it may have, the fewest ways first."""
    layer, below = model.layer_at(params, len(hops)), hops[-1]
    rows = below.states, below.degrees
    search = BlockFilter(*layer, *rows, checks, fixed=fixed_rows(model, nodes, below), classes=below.classes)
    return search, sorted(enumerate(_slots(below)), key=lambda request: total(request[1]))


def _slots(below: Blocks) -> list[list[Slot]]:
    classes = below.classes
    holding: dict[tuple[int, int], list[int]] = {}
    for entry, (root, neighbours) in enumerate(zip(below.roots.tolist(), below.neighbours, strict=True)):
        for other in set(neighbours):
            holding.setdefault((root, other), []).append(classes * entry + other % classes)
    plans = []
    for root, neighbours in zip(below.roots.tolist(), below.neighbours, strict=True):
        ends = {t: turned(root, t, classes) for t in sorted(set(neighbours))}
        options = {t: np.array(holding.get(end, []), np.int64) for t, end in ends.items()}
        plans.append([Slot(entries, neighbours.count(t)) for t, entries in options.items()])
    return plans


def turned(root: int, neighbour: int, classes: int) -> tuple[int, int]:
    """An edge from its other end: of a root and its neighbour, the neighbour's entry and the root as its neighbour."""
    return neighbour // classes, classes * root + neighbour % classes


def next_hop_count(below: Blocks) -> int:
    """Number of all blocks of one hop more, unchecked."""
    return sum(total(slots) for slots in _slots(below))


def one_hop_count(nodes: Nodes) -> int:
    """Number of all 1-hop neighbourhoods of these nodes that may occur, unchecked."""
    if nodes.listed is not None:
        return len(nodes.listed)
    possible = np.repeat(nodes.degrees > 0, nodes.classes)
    different, centres = np.unique(nodes.degrees, return_counts=True)  # few distinct degrees among millions of nodes
    ways = (total(repeated(possible, degree)) for degree in different.tolist())
    return sum(one * count for one, count in zip(ways, centres.tolist(), strict=True))


def reciprocal(blocks: Blocks) -> Blocks:
    """Drop blocks until every neighbour in a block has a block that holds this block's root."""
    return blocks.keep(partnered(blocks, np.ones(blocks.size, bool)))


def partnered(blocks: Blocks, among: Bool[np.ndarray, " K"]) -> Bool[np.ndarray, " K"]:
    """Which blocks ``among`` these remain after every block is removed, again and again, that has a neighbour without a
    block that holds its root."""
    alive = among.copy()
    roots, classes = blocks.roots.tolist(), blocks.classes
    while True:
        holds = {(roots[i], t) for i in np.flatnonzero(alive) for t in blocks.neighbours[i]}
        dead = [
            i
            for i in np.flatnonzero(alive)
            if any(turned(roots[i], t, classes) not in holds for t in blocks.neighbours[i])
        ]
        if not dead:
            return alive
        alive[dead] = False


def repeated(options: Bool[np.ndarray, " T"], count: int) -> list[Slot]:
    """The slots of ``count`` neighbours of the same options."""
    return [Slot(np.flatnonzero(options), count)] if count else []


def encoded(model: GNN, params: Params, nodes: Nodes) -> Float[np.ndarray, "T F"]:
    """What enters the first layer, in float64; once a client and for any number of rows, so it is not compiled."""
    if not model.encoder.taps:
        return nodes.rows
    with jax.enable_x64(True):
        wide = jax.tree.map(lambda w: np.asarray(w, np.float64), {"encoder": params["encoder"]})
        return np.asarray(model.apply({"params": wide}, jnp.asarray(nodes.rows, np.float64), method="encode"))


def fixed_rows(model: GNN, nodes: Nodes, below: Blocks | None = None) -> Float[np.ndarray, "K f"]:
    """The part of the readout's input row that the block's centre alone determines: in GRAIN's readout the node's
    features, under jumping knowledge the states after fewer layers."""
    kinds = np.arange(nodes.degrees.size) if below is None else below.kinds
    rows = nodes.rows[kinds] if model.readout.sees_input else np.zeros((kinds.size, 0))
    if below is None or model.jumping.keeps != "all":
        return rows
    return np.c_[rows, _history(below)]


def _history(blocks: Blocks) -> Float[np.ndarray, "K S"]:
    """The root's embeddings after every layer so far."""
    return np.c_[blocks.below, blocks.states]


def joined(
    parts: Sequence[FoundBlocks], kinds: Int[np.ndarray, " T"], below: Float[np.ndarray, "T S"] | None = None
) -> Blocks:
    """The blocks of several searches. ``kinds`` and ``below`` hold the node and the embeddings of each entry of one hop
    less."""
    centres = np.concatenate([part.centres for part in parts])
    return Blocks(
        centres,
        kinds[centres],
        tuple(neighbours for part in parts for neighbours in part.neighbours),
        np.concatenate([part.states for part in parts]),
        np.zeros((centres.size, 0)) if below is None else below[centres],
        np.concatenate([part.distances for part in parts]),
        sum(part.checked for part in parts),
        tuple(left for part in parts for left in part.unsearched),
    )
