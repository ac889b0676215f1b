"""1-hop blocks: every neighbourhood of centres with few candidates; of the others only those next to a block found."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool

from jgleak.attacks.attack import Budget, Clock
from jgleak.attacks.span.check import SpanCheck
from jgleak.attacks.span.combinations import Slot
from jgleak.attacks.span.filter import BlockFilter, FoundBlocks, Request
from jgleak.attacks.span.hops import (
    Blocks,
    Neighbours,
    Nodes,
    encoded,
    fixed_rows,
    joined,
    reciprocal,
    repeated,
    turned,
)
from jgleak.attacks.span.settings import LIMITS, SpanLimits
from jgleak.gnn import GNN, Params


def one_hop(
    model: GNN,
    params: Params,
    nodes: Nodes,
    checks: Sequence[SpanCheck],
    *,
    clock: Clock,
    budget: Budget,
    limits: SpanLimits = LIMITS,
    mutual: bool = True,
) -> Blocks:
    """Blocks of a node and its neighbours that pass ``checks`` (GRAIN: ``H_1`` in the span of the second convolution).

    Centres with the fewest candidates are searched first, and what is found is used at once: a neighbour already
    searched must itself have a passing block that holds this centre. This is GRAIN's structure check, made earlier;
    it removes most candidates where many feature vectors pass the node filter by accident.

    Where all centres together would have more than ``limits.whole_candidates``, the remaining ones are searched only
    next to blocks found: a neighbourhood is checked when it holds a node whose own block holds this centre. In a
    connected graph every node is reached from any other along edges, so nothing is missed where one node of the graph
    is among the centres searched in full. That is the condition of the result.

    Args:
      mutual: a block needs one around each neighbour that holds its centre; False where some true blocks are known to
        fail the checks.
    """
    first = model.layer_at(params, 0)
    searching = _Searching(
        BlockFilter(
            *first,
            encoded(model, params, nodes),
            nodes.degrees,
            checks,
            fixed=fixed_rows(model, nodes),
            classes=nodes.classes,
        ),
        clock,
        budget,
        limits,
    )
    number = nodes.degrees.size
    if nodes.listed is not None:
        parts, condition = [searching([_exactly(*block) for block in nodes.listed])], None
    else:
        parts, possible, waiting = _cheapest(searching, nodes, mutual)
        condition = None
        if waiting:
            parts += _beside(searching, parts, possible, waiting, nodes)
            condition = f"some node has fewer than {nodes.degrees[list(waiting)].min()} neighbours"
    blocks = dataclasses.replace(joined(parts, np.arange(number)), condition=condition, classes=nodes.classes)
    return reciprocal(blocks) if mutual else blocks


class _Searching(NamedTuple):
    """A filter and what bounds it."""

    search: BlockFilter
    clock: Clock
    budget: Budget
    limits: SpanLimits

    def __call__(self, requests: Sequence[Request]) -> FoundBlocks:
        """Blocks of some requests that pass."""
        return self.search.blocks(requests, clock=self.clock, budget=self.budget, limits=self.limits)


def _cheapest(
    searching: _Searching, nodes: Nodes, mutual: bool
) -> tuple[list[FoundBlocks], Bool[np.ndarray, "T U"], set[int]]:
    """All blocks of centre after centre, the cheapest first, as long as they have few enough candidates.

    Returns:
      The blocks, the neighbours that each centre may still have (centre, neighbour), and the centres left.
    """
    number, degrees, limits, classes = nodes.degrees.size, nodes.degrees.tolist(), searching.limits, nodes.classes
    possible: Bool[np.ndarray, "T U"] = np.tile(np.repeat(nodes.degrees > 0, classes), (number, 1))
    waiting, spent = set(range(number)), 0
    parts = [searching([])]
    while waiting:
        options = possible.sum(axis=1).tolist()
        ways = {c: math.comb(options[c] + degrees[c] - 1, degrees[c]) if degrees[c] else 1 for c in waiting}
        least = min(ways.values())
        centres = [c for c in sorted(waiting) if ways[c] == least][: limits.centres_together]
        spent += least * len(centres)
        if spent > limits.whole_candidates and min(degrees[c] for c in waiting) > 1:
            break
        waiting.difference_update(centres)
        found = searching([(c, repeated(possible[c], degrees[c])) for c in centres])
        parts.append(found)
        seen = np.zeros_like(possible)
        for root, neighbours in zip(found.centres.tolist(), found.neighbours, strict=True):
            around = np.array(neighbours, np.int64)
            seen[around // classes, classes * root + around % classes] = True
        for centre in centres if mutual else ():  # of one that was not searched to the end too: a partner is asked for
            along = slice(classes * centre, classes * (centre + 1))
            possible[:, along] &= seen[:, along]
    return parts, possible, waiting


def _exactly(centre: int, neighbours: Neighbours) -> Request:
    return centre, [Slot(np.array([t]), neighbours.count(t)) for t in sorted(set(neighbours))]


def likely(nodes: Nodes, blocks: Blocks) -> list[Request]:
    """Neighbourhoods that hold a node whose block, among ``blocks``, holds the centre; then all of every centre. This
    is the order in which to list them where not all can be listed: most true neighbourhoods are next to a known block.
    """
    possible = np.repeat(nodes.degrees > 0, nodes.classes)
    blocks_of = zip(blocks.roots.tolist(), blocks.neighbours, strict=True)
    pairs = {turned(root, t, nodes.classes) for root, around in blocks_of for t in around}
    beside = [
        (centre, [Slot(np.array([holder]), 1), *repeated(possible, int(nodes.degrees[centre]) - 1)])
        for centre, holder in sorted(pairs)
    ]
    return [*beside, *((c, repeated(possible, degree)) for c, degree in enumerate(nodes.degrees.tolist()))]


def _beside(
    searching: _Searching,
    found: Iterable[FoundBlocks],
    possible: Bool[np.ndarray, "T U"],
    waiting: set[int],
    nodes: Nodes,
) -> list[FoundBlocks]:
    """Blocks of the waiting centres that hold a node whose block holds the centre, until none is new.

    The neighbourhoods of a centre are listed by the first such node they hold, so none is looked at twice. Once the
    clock has ended nothing new is found, and what was still to be looked at is listed as unsearched.
    """
    parts: list[FoundBlocks] = []
    degrees, classes = nodes.degrees.tolist(), nodes.classes
    used = {centre: np.zeros(possible.shape[1], bool) for centre in waiting}
    fresh = _holders(found, used, classes)
    while fresh:
        cheapest = min(degrees[centre] for centre in fresh)
        requests = []
        for centre in [c for c in sorted(fresh) if degrees[c] == cheapest][: searching.limits.centres_together]:
            for holder in sorted(fresh.pop(centre)):
                rest = possible[centre] & ~used[centre]
                requests.append((centre, [Slot(np.array([holder]), 1), *repeated(rest, cheapest - 1)]))
                used[centre][holder] = True
        parts.append(searching(requests))
        for centre, holders in _holders(parts[-1:], used, classes).items():
            fresh.setdefault(centre, set()).update(holders)
    return parts


def _holders(
    found: Iterable[FoundBlocks], used: dict[int, Bool[np.ndarray, " U"]], classes: int
) -> dict[int, set[int]]:
    """For each waiting centre the neighbours whose blocks hold it, those already used left out."""
    holders: dict[int, set[int]] = {}
    for part in found:
        for root, neighbours in zip(part.centres.tolist(), part.neighbours, strict=True):
            for centre, holder in {turned(root, t, classes) for t in neighbours}:
                if centre in used and not used[centre][holder]:
                    holders.setdefault(centre, set()).add(holder)
    return holders
