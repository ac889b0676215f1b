"""The block search against brute force: every star as a dense graph through the model, then the span's distance."""

from __future__ import annotations

from itertools import combinations, combinations_with_replacement, product
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jgleak.attacks.attack import Budget, Clock
from jgleak.attacks.span import combinations as planning
from jgleak.attacks.span import search as searching
from jgleak.attacks.span.check import SpanCheck
from jgleak.attacks.span.combinations import Slot
from jgleak.attacks.span.search import BlockSearch
from jgleak.attacks.span.subspace import Subspace
from jgleak.gnn import GNN

WIDTH, TABLE, SLOTS = 6, 7, 16
DEGREES = np.array([3, 1, 2, 3, 2, 4, 1])
FOREVER = Budget(seconds=1e6).start()
CONVS = ("gcn", "gat", "sage", "gin")


class Stars:
    """A model's layer, a table of rows, and what the layer makes of any neighbourhood, computed densely."""

    def __init__(self, lab: Any, conv: str) -> None:
        self.model = GNN(in_features=WIDTH, conv=conv, hidden=24, bias=True)
        self.params = lab.params(self.model)
        self.rows = np.random.default_rng(3).normal(size=(TABLE, WIDTH)).astype(np.float32)
        layer: Any = self.model.convolution(0)
        weights = {"params": self.params["conv_0"]}

        def one(rows: Any, adjacency: Any, mask: Any) -> Any:
            return self.model.activate(0, layer.apply(weights, rows, adjacency, mask))[0]

        self.dense = jax.jit(jax.vmap(one))

    def states(self, centre: int, neighbourhoods: list[tuple[int, ...]]) -> np.ndarray:
        """Neighbours get leaves of an arbitrary kind until they have their degree."""
        rows, adjacency = np.zeros((len(neighbourhoods), SLOTS, WIDTH)), np.zeros((len(neighbourhoods), SLOTS, SLOTS))
        mask = np.zeros((len(neighbourhoods), SLOTS), bool)
        for i, around in enumerate(neighbourhoods):
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
        return np.asarray(self.dense(jnp.asarray(rows, jnp.float32), jnp.asarray(adjacency, jnp.float32), mask))


@pytest.fixture(autouse=True)
def tiled(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small enumerations go through tiles too."""
    monkeypatch.setattr(searching, "SMALL", 0)
    monkeypatch.setattr(searching, "TILE", (16, 64))


@pytest.fixture(scope="module")
def stars(lab: Any) -> dict[str, Stars]:
    return {conv: Stars(lab, conv) for conv in CONVS}


def brute(slots: list[Slot], distinct: bool) -> list[tuple[int, ...]]:
    ways = combinations if distinct else combinations_with_replacement
    filled = product(*(list(ways(s.options.tolist(), s.count)) for s in slots))
    return [tuple(sorted(v for part in parts for v in part)) for parts in filled]


def span_of(states: np.ndarray, fixed: np.ndarray) -> Subspace:
    """The span of a few rows, as a float32 gradient would show it."""
    rows = np.concatenate([np.broadcast_to(fixed, (len(states), fixed.size)), states], axis=1).astype(np.float32)
    upstream = np.random.default_rng(5).normal(size=(rows.shape[0], 40)).astype(np.float32)
    return Subspace.of_gradient(rows.T @ upstream)


def agree(
    stars: Stars, slots: list[Slot], *, distinct: bool = False, wide: bool = False, centre: int = 0, step: int = 9
) -> int:
    """Search around a centre and compare with brute force; returns the number of candidates."""
    everything = brute(slots, distinct)
    states = stars.states(centre, everything)
    fixed = stars.rows[centre].astype(np.float64) if wide else np.zeros(0)
    subspace = span_of(states[::step], fixed)
    search = BlockSearch(
        stars.model, stars.params, 0, stars.rows, DEGREES, SpanCheck.of(subspace, fixed=fixed.size), distinct=distinct
    )
    found = search.around(centre, slots, fixed, clock=FOREVER, candidates=10**6)
    distances = subspace.distances(np.c_[np.broadcast_to(fixed, (len(states), fixed.size)), states])
    expected = {around for around, d in zip(everything, distances, strict=True) if d <= subspace.tolerance}
    assert found.complete and found.checked == len(everything)
    assert len(expected) >= len(everything[::step])
    rows = [tuple(row) for row in found.neighbours.tolist()]
    assert len(rows) == len(set(rows)) and set(rows) == expected
    place = {around: i for i, around in enumerate(everything)}
    order = [place[row] for row in rows]
    np.testing.assert_allclose(found.states, states[order], rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(found.distances, distances[order], atol=1e-5)
    return len(everything)


def test_few_candidates_skip_the_tiles(stars: dict[str, Stars], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(searching, "SMALL", 84)
    monkeypatch.setattr(searching.tiles, "accepted", lambda *arguments: pytest.fail("a tile was made"))
    assert agree(stars["gcn"], [Slot(np.arange(TABLE), 3)]) == 84


@pytest.mark.parametrize("conv", CONVS)
def test_around_is_brute_force(conv: str, stars: dict[str, Stars]) -> None:
    slots = [Slot(np.array([1, 2, 4]), 2), Slot(np.array([0, 3, 5, 6]), 1)]
    assert agree(stars[conv], slots) == 24
    assert agree(stars[conv], [Slot(np.arange(TABLE), 3)]) == 84


def test_a_fixed_part_and_distinct_neighbours(stars: dict[str, Stars]) -> None:
    assert agree(stars["gcn"], [Slot(np.arange(1, TABLE), 3)], wide=True) == 56
    assert agree(stars["gcn"], [Slot(np.arange(1, TABLE), 3)], distinct=True, step=4) == 20


def test_many_small_tiles_are_one_large_one(stars: dict[str, Stars], monkeypatch: pytest.MonkeyPatch) -> None:
    """Prefixes and tails that do not fill their tiles, tiles that overflow, a split slot, waiting for tiles."""
    monkeypatch.setattr(searching, "TILE", (4, 8))
    monkeypatch.setattr(searching, "AHEAD", 1)
    for tail in (3, 8, 30):
        monkeypatch.setattr(planning, "TAIL", tail)
        assert agree(stars["gcn"], [Slot(np.arange(TABLE), 3)]) == 84
        assert agree(stars["gcn"], [Slot(np.arange(TABLE), 3)], distinct=True) == 35
        assert agree(stars["gcn"], [Slot(np.array([1, 2, 4]), 2), Slot(np.array([0, 3, 5, 6]), 1)]) == 24


def test_a_node_alone(stars: dict[str, Stars]) -> None:
    alone = stars["gcn"]
    degrees = DEGREES * 0
    state = np.asarray(alone.states(0, [()]))
    search = BlockSearch(alone.model, alone.params, 0, alone.rows, degrees, SpanCheck.of(span_of(state, np.zeros(0))))
    found = search.around(0, [], np.zeros(0), clock=FOREVER, candidates=10)
    assert found.neighbours.shape == (1, 0) and found.complete
    np.testing.assert_allclose(found.states, state, rtol=1e-5, atol=1e-6)
    elsewhere = search.around(1, [], np.zeros(0), clock=FOREVER, candidates=10)
    assert elsewhere.neighbours.shape == (0, 0) and elsewhere.complete


def test_without_a_check_everything_is_kept(stars: dict[str, Stars]) -> None:
    table = stars["gcn"]
    search = BlockSearch(table.model, table.params, 0, table.rows, DEGREES, None)
    found = search.around(0, [Slot(np.arange(4), 3)], np.zeros(0), clock=FOREVER, candidates=100)
    assert [tuple(r) for r in found.neighbours.tolist()] == list(combinations_with_replacement(range(4), 3))
    expected = table.states(0, [tuple(r) for r in found.neighbours.tolist()])
    np.testing.assert_allclose(found.states, expected, rtol=1e-4, atol=1e-5)


def test_budgets_end_a_search_early_and_say_so(stars: dict[str, Stars]) -> None:
    table = stars["gcn"]
    slots = [Slot(np.arange(TABLE), 3)]
    subspace = span_of(table.states(0, brute(slots, False)[:3]), np.zeros(0))
    search = BlockSearch(table.model, table.params, 0, table.rows, DEGREES, SpanCheck.of(subspace))
    few = search.around(0, slots, np.zeros(0), clock=FOREVER, candidates=83)
    late = search.around(0, slots, np.zeros(0), clock=Clock(0.0, 0.0), candidates=100)
    for found in (few, late):
        assert (found.neighbours.shape, found.checked, found.complete) == ((0, 3), 0, False)
    nobody = search.around(0, [Slot(np.zeros(0, np.int64), 2)], np.zeros(0), clock=FOREVER, candidates=100)
    assert (nobody.neighbours.shape, nobody.complete) == ((0, 2), True)
