"""A table of rows and a layer, and what the layer makes of every neighbourhood of them: each star as a dense graph."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations, combinations_with_replacement, product
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jaxtyping import Array
from models import flat

from jgleak.attacks.attack import Budget
from jgleak.attacks.span.check import SpanCheck
from jgleak.attacks.span.combinations import Neighbourhoods, Slot, neighbourhoods
from jgleak.attacks.span.filter import BlockFilter, FoundBlocks, Request
from jgleak.attacks.span.leak_points import View
from jgleak.attacks.span.ranges import Unsearched
from jgleak.attacks.span.subspace import Subspace
from jgleak.gnn.activation import activation
from tests.clocks import HELD as FOREVER

WIDTH, TABLE, NODES, BATCH = 12, 7, 16, 128
DEGREES = np.array([3, 1, 2, 3, 2, 4, 1])
ALL = Budget(time_limit=1e6)
THREE = [Slot(np.arange(TABLE), 3)]
TWO = [Slot(np.array([1, 2, 4]), 2), Slot(np.array([0, 3, 5, 6]), 1)]

Block = tuple[int, tuple[int, ...]]


class Stars:
    """A layer of a model, a table of rows, and what the layer makes of any neighbourhood, densely and in float64."""

    def __init__(self, lab: Any, conv: str, layer: int = 0) -> None:
        self.model, self.number = flat(in_features=WIDTH, conv=conv, hidden=24, bias=True), layer
        self.params = lab.params(self.model)
        self.layer: Any = self.model.layers[layer]
        self.rows = np.random.default_rng(3).normal(size=(TABLE, WIDTH if layer == 0 else 24))
        weights = jax.tree.map(lambda w: w.astype(np.float64), self.params[f"layers_{layer}"]["conv"])

        def one(rows: Array, adjacency: Array, mask: Array) -> dict[View, Array]:
            out: dict[View, Array] = {"state": self.layer.by({"conv": weights}, "__call__", rows, adjacency, mask)}
            degrees = adjacency.sum(axis=1)
            if conv == "gcn":
                looped = (adjacency + jnp.diag(mask.astype(float))) / jnp.sqrt(jnp.outer(degrees + 1, degrees + 1))
                out["aggregate"] = looped @ rows
            if conv == "sage":
                out["aggregate"] = adjacency @ rows / jnp.maximum(degrees, 1)[:, None]
            if conv == "gin":
                out["aggregate"] = rows + adjacency @ rows
                out["hidden"] = activation(self.layer.conv.inner)(
                    out["aggregate"] @ weights["kernel"] + weights["inner_bias"]
                )
            return {view: values[0] for view, values in out.items()}

        self.dense = jax.jit(jax.vmap(one))

    def views(self, centre: int, arounds: Sequence[tuple[int, ...]]) -> dict[View, np.ndarray]:
        """Every view's row of a centre in each neighbourhood."""
        parts = []
        for start in range(0, len(arounds), BATCH):
            part = arounds[start : start + BATCH]
            with jax.enable_x64(True):
                found = self.dense(*self.graphs(centre, part))
            parts.append({view: np.asarray(rows)[: len(part)] for view, rows in found.items()})
        return {view: np.concatenate([part[view] for part in parts]) for view in parts[0]}

    def graphs(self, centre: int, arounds: Sequence[tuple[int, ...]]) -> tuple[np.ndarray, ...]:
        """Neighbours get leaves of an arbitrary kind until they have their degree."""
        rows, adjacency = np.zeros((BATCH, NODES, self.rows.shape[1])), np.zeros((BATCH, NODES, NODES))
        mask = np.zeros((BATCH, NODES), bool)
        for i, around in enumerate(arounds):
            members = [centre, *around]
            pairs = [(0, k) for k in range(1, len(members))]
            for place, member in enumerate(around, start=1):
                for _ in range(DEGREES[member] - 1):
                    members.append(0)
                    pairs.append((place, len(members) - 1))
            rows[i, : len(members)] = self.rows[members]
            mask[i, : len(members)] = True
            for u, v in pairs:
                adjacency[i, u, v] = adjacency[i, v, u] = 1.0
        return rows, adjacency, mask

    def check(
        self,
        blocks: Sequence[Block],
        view: View = "state",
        fixed: np.ndarray | None = None,
        noise: float | None = None,
    ) -> SpanCheck:
        """The span of the rows of some blocks, as a float32 gradient would show it, perhaps under noise."""
        rows = np.concatenate([self.views(centre, [around])[view] for centre, around in blocks])
        if fixed is not None:
            rows = np.c_[fixed[[centre for centre, _ in blocks]], rows]
        upstream = np.random.default_rng(5).normal(size=(rows.shape[0], 40)).astype(np.float32)
        gradient = rows.astype(np.float32).T @ upstream
        if noise is not None:
            gradient += np.random.default_rng(6).normal(scale=noise, size=gradient.shape)
        subspace = Subspace.of_gradient(gradient, noise=noise)
        assert subspace.informative
        return SpanCheck.of(subspace, view=view, fixed=0 if fixed is None else fixed.shape[1])

    def filter(self, *checks: SpanCheck, **more: Any) -> BlockFilter:
        """What is tested."""
        return BlockFilter(*self.model.layer_at(self.params, self.number), self.rows, DEGREES, checks, **more)

    def passing(
        self, requests: Sequence[Request], *checks: SpanCheck, distinct: bool = False, fixed: np.ndarray | None = None
    ) -> dict[Block, tuple[np.ndarray, float]]:
        """What it should find: each block's state and distance."""
        out = {}
        parts = np.zeros((TABLE, 0)) if fixed is None else fixed
        for centre, slots in requests:
            arounds = listed(slots, distinct)
            if not arounds:
                continue
            views, part = self.views(centre, arounds), np.tile(parts[centre], (len(arounds), 1))
            distances = [check.distances(part[:, : check.fixed], views[check.view]) for check in checks]
            inside = [d <= check.subspace.tolerance for d, check in zip(distances, checks, strict=True)]
            for i, around in enumerate(arounds):
                if all(passed[i] for passed in inside):
                    out[centre, around] = views["state"][i], float(distances[0][i])
        return out


def listed(slots: Sequence[Slot], distinct: bool = False) -> list[tuple[int, ...]]:
    """Every way to fill the slots, sorted inside."""
    ways = combinations if distinct else combinations_with_replacement
    filled = product(*(list(ways(s.options.tolist(), s.count)) for s in slots))
    return [tuple(sorted(v for part in parts for v in part)) for parts in filled]


def some(slots: Sequence[Slot], number: int, centre: int = 0, distinct: bool = False) -> list[Block]:
    """Up to ``number`` blocks around a centre, evenly spaced."""
    arounds = listed(slots, distinct)
    return [(centre, around) for around in arounds[:: -(-len(arounds) // number)]]


def as_dict(found: FoundBlocks) -> dict[Block, tuple[np.ndarray, float]]:
    """Blocks, none found twice."""
    keys = list(zip(found.centres.tolist(), found.neighbours, strict=True))
    assert len(keys) == len(set(keys)) == found.states.shape[0] == found.distances.size
    return dict(zip(keys, zip(found.states, found.distances.tolist(), strict=True), strict=True))


def assert_same(found: dict[Block, Any], expected: dict[Block, Any]) -> None:
    """The same blocks, states and distances."""
    assert found.keys() == expected.keys()
    for key, (state, distance) in expected.items():
        np.testing.assert_allclose(found[key][0], state, rtol=1e-9, atol=1e-9)
        assert found[key][1] == pytest.approx(distance, abs=1e-9)


def agree(stars: Stars, requests: Sequence[Request], *checks: SpanCheck, **more: Any) -> int:
    """Filter and compare with brute force; the number of blocks that pass."""
    expected = stars.passing(requests, *checks, **more)
    found = stars.filter(*checks, **more).blocks(requests, clock=FOREVER, budget=ALL)
    assert found.complete
    assert found.checked == sum(len(listed(slots, more.get("distinct", False))) for _, slots in requests)
    assert_same(as_dict(found), expected)
    return len(expected)


def plan_of(slots: Sequence[Slot]) -> Neighbourhoods:
    plan = neighbourhoods(slots)
    assert plan is not None
    return plan


def whole(centre: int, slots: Sequence[Slot]) -> Unsearched:
    """Everything around a centre."""
    plan = plan_of(slots)
    return Unsearched(centre, (0, plan.prefix_count), (0, plan.tail.shape[0]), len(plan.all()))


def searched(slots: Sequence[Slot], unsearched: Sequence[Unsearched]) -> set[tuple[int, ...]]:
    """Neighbourhoods that no range names; ranges do not overlap, and say how many candidates they hold."""
    plan = plan_of(slots)
    rows, keys = plan.prefix(np.arange(plan.prefix_count))
    around = {
        (i, j): tuple(sorted([*rows[i].tolist(), *plan.tail[j].tolist()]))
        for i, j in product(range(plan.prefix_count), range(plan.tail.shape[0]))
        if keys[i] <= plan.tail_first[j]
    }
    left: set[tuple[int, int]] = set()
    for part in unsearched:
        pairs = set(product(range(*part.prefixes), range(*part.tails)))
        assert part.size == len(pairs & around.keys()) and not pairs & left
        left |= pairs
    return {members for pair, members in around.items() if pair not in left}
