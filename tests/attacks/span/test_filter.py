"""The block filter against brute force: every star as a dense graph through the model, then the spans' distances."""

from __future__ import annotations

import dataclasses
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from itertools import combinations, combinations_with_replacement, product
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jaxtyping import Array
from models import flat

from jgleak.attacks.attack import Budget, Clock
from jgleak.attacks.span import combinations as planning
from jgleak.attacks.span import filter as filtering
from jgleak.attacks.span import ranges
from jgleak.attacks.span.check import SpanCheck
from jgleak.attacks.span.combinations import Neighbourhoods, Slot, neighbourhoods
from jgleak.attacks.span.filter import BlockFilter, FoundBlocks, Request
from jgleak.attacks.span.leak_points import View
from jgleak.attacks.span.ranges import Unsearched
from jgleak.attacks.span.settings import SpanLimits
from jgleak.attacks.span.subspace import Subspace
from jgleak.gnn.activation import activation
from tests.clocks import HELD as FOREVER
from tests.clocks import Ticking

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

    def check(self, blocks: Sequence[Block], view: View = "state", fixed: np.ndarray | None = None) -> SpanCheck:
        """The span of the rows of some blocks, as a float32 gradient would show it."""
        rows = np.concatenate([self.views(centre, [around])[view] for centre, around in blocks])
        if fixed is not None:
            rows = np.c_[fixed[[centre for centre, _ in blocks]], rows]
        upstream = np.random.default_rng(5).normal(size=(rows.shape[0], 40)).astype(np.float32)
        subspace = Subspace.of_gradient(rows.astype(np.float32).T @ upstream)
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


@pytest.fixture(autouse=True)
def tiled(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small enumerations go through ranges and tiles too, and fill several of them."""
    sizes = {"TILE": (2, 8), "REACH": 8, "RANGE": 128, "FINE_REACH": 0, "SMALL": 0, "SCREEN": 32, "CONFIRM": 16}
    shapes = {"TABLES": (16,), "COLUMNS": (12,), "TAILS": (24,), "WIDTHS": (4,), "PLACES": (4,)}
    for name, value in (sizes | shapes).items():
        for module in (filtering, ranges):
            if hasattr(module, name):
                monkeypatch.setattr(module, name, value)
    monkeypatch.setattr(ranges, "accelerated", lambda mesh: False)  # tiles are those above on any device
    monkeypatch.setattr(planning, "LITTLE", 10)
    monkeypatch.setattr(planning, "SPREAD", 2)


@pytest.fixture(scope="module")
def stars(lab: Any) -> Callable[..., Stars]:
    made: dict[Any, Stars] = {}

    def of(conv: str, layer: int = 0) -> Stars:
        if (conv, layer) not in made:
            made[conv, layer] = Stars(lab, conv, layer)
        return made[conv, layer]

    return of


@pytest.fixture
def scans(monkeypatch: pytest.MonkeyPatch) -> list[np.ndarray]:
    """The work of every scan from here on: a row a device."""
    seen: list[np.ndarray] = []
    scan = filtering.kernels.scan

    def noted(*arguments: Any) -> Any:
        seen.append(np.array(arguments[-1]))
        return scan(*arguments)

    monkeypatch.setattr(filtering.kernels, "scan", noted)
    return seen


@pytest.mark.parametrize(
    ("conv", "view", "layer", "number"),
    [
        ("gcn", "state", 0, 8),
        ("gat", "state", 0, 8),
        ("sage", "state", 0, 8),
        ("gcn", "aggregate", 0, 4),
        ("sage", "aggregate", 0, 4),
        ("gin", "aggregate", 0, 4),
        ("gin", "hidden", 0, 8),
        ("gat", "state", 1, 8),
    ],
)
def test_blocks_are_brute_force(
    conv: str, view: View, layer: int, number: int, stars: Callable[..., Stars], scans: list[np.ndarray]
) -> None:
    """With one kind of slot and with two, on the first layer and on the last (no activation, GAT averages)."""
    table = stars(conv, layer)
    blocks = some(THREE, number)
    assert len(blocks) <= agree(table, [(0, THREE)], table.check(blocks, view)) < 84
    assert len(scans) >= 2
    blocks = some(TWO, number)
    assert len(blocks) <= agree(table, [(0, TWO)], table.check(blocks, view)) < 24


@pytest.fixture(params=["one pass", "passes"])
def passes(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """All columns of a check in one pass of the scan, or four in each."""
    if request.param == "passes":
        filtering.kernels._compiled.cache_clear()
        monkeypatch.setattr(filtering.kernels, "TOGETHER", 0)
        monkeypatch.setattr(filtering.kernels, "STEP", 4)
        monkeypatch.setattr(ranges, "COLUMNS", (16, 24))
    yield
    filtering.kernels._compiled.cache_clear()


@pytest.mark.usefixtures("passes")
@pytest.mark.parametrize(("conv", "view", "layer", "known"), [("gat", "state", 1, 5), ("gin", "hidden", 0, 0)])
def test_the_device_rejects_by_the_chosen_coordinates(
    conv: str, view: View, layer: int, known: int, stars: Callable[..., Stars]
) -> None:
    """The bound is moved among the candidates: as many pass as ``SpanCheck`` says, the fixed part included."""
    table = stars(conv, layer)
    fixed = np.random.default_rng(8).normal(size=(TABLE, known))
    blocks = [*some(THREE, 3), *some(THREE, 2, centre=3), (1, (5,)), (2, (0, 1)), (6, (2,))]
    check, arounds = table.check(blocks, view, fixed=fixed), listed(THREE)
    rows = table.views(0, arounds)[view][:, check.columns] * check.row_scale
    part = fixed[0] * check.fixed_scale
    assert bool(part.any()) == bool(known)
    residual = np.linalg.norm(part @ check.fixed_null + rows @ check.row_null, axis=1)
    ratios = residual / np.sqrt(part @ part + np.sum(rows**2, axis=1))
    for share in (0.3, 0.6, 0.9):
        bound = float(np.mean(np.sort(ratios)[int(share * 84) : int(share * 84) + 2]))
        search = table.filter(dataclasses.replace(check, bound=bound), fixed=fixed)
        survivors, left = search._around(0, plan_of(THREE), search.checks[0]).survivors(FOREVER, ALL.candidates, 10**6)
        found = {tuple(sorted(row)) for row in survivors.tolist()}
        assert not left and found == {around for around, ratio in zip(arounds, ratios, strict=True) if ratio <= bound}


def test_the_device_rejects_a_row_of_zeros(stars: Callable[..., Stars]) -> None:
    table = stars("gcn")
    check = table.check(some(THREE, 4), "aggregate")
    rows = table.rows * (np.arange(TABLE) > 1)[:, None]
    search = BlockFilter(*table.model.layer_at(table.params, 0), rows, DEGREES, [dataclasses.replace(check, bound=1e3)])
    survivors, _ = search._around(0, plan_of(THREE), search.checks[0]).survivors(FOREVER, ALL.candidates, 10**6)
    found = {tuple(sorted(row)) for row in survivors.tolist()}
    assert found == {around for around in listed(THREE) if max(around) > 1}


def test_few_candidates_skip_the_tiles(stars: Callable[..., Stars], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(filtering, "SMALL", 84)
    monkeypatch.setattr(filtering.kernels, "scan", lambda *arguments: pytest.fail("a tile was made"))
    table = stars("gcn")
    assert agree(table, [(0, THREE)], table.check(some(THREE, 8))) >= 8


@pytest.mark.parametrize(("reach", "tail", "tile"), [(64, 64, (4, 4)), (1, 64, (2, 8)), (64, 1, (2, 8))])
def test_few_prefixes_and_tail_rows_go_through_fine_tiles(
    reach: int, tail: int, tile: tuple[int, int], stars: Callable[..., Stars], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is found does not depend on the tile, nor does its order."""
    table = stars("gcn")
    check, used = table.check(some(THREE, 8)), list[tuple[int, int]]()
    request = {"clock": FOREVER, "budget": ALL}
    coarse = table.filter(check).blocks([(0, THREE)], **request)
    scan = filtering.kernels.scan
    monkeypatch.setattr(filtering.kernels, "scan", lambda *given: used.append(given[2]) or scan(*given))
    for name, value in {"FINE": (4, 4), "FINE_REACH": reach, "FINE_TAIL": tail}.items():
        monkeypatch.setattr(ranges, name, value)
    fine = table.filter(check).blocks([(0, THREE)], **request)
    assert set(used) == {tile}
    assert fine.neighbours == coarse.neighbours


@pytest.mark.parametrize("fine", [0, 64])
@pytest.mark.long
def test_an_accelerator_takes_a_slice_of_the_tail_at_a_time(
    fine: int, stars: Callable[..., Stars], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its tiles span all tail rows of a slice; what is found is the same, also where everything passes."""
    monkeypatch.setattr(ranges, "accelerated", lambda mesh: True)
    sizes = {"CELLS": 24, "WIDE": (12, 24), "LONG_REACH": 8, "LONG_RANGE": 96, "FOUND": (4,), "FINE_REACH": fine}
    for name, value in sizes.items():
        monkeypatch.setattr(ranges, name, value)
    used, scan = list[tuple[Any, ...]](), filtering.kernels.scan
    monkeypatch.setattr(filtering.kernels, "scan", lambda *given: used.append(given[2:4]) or scan(*given))
    table = stars("gcn")
    assert agree(table, [(0, THREE)], table.check(some(THREE, 8))) >= 8
    assert agree(table, [(0, THREE)], table.check(some(THREE, 84), "aggregate")) == 84
    assert set(used) == {((1, 24), fine or 8), ((2, 12), fine or 8)}


def test_the_real_sizes(stars: Callable[..., Stars], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    assert ranges.FINE_TAIL in ranges.TAILS
    for fine, accelerator, rows in product((True, False), (True, False), (1, 1024, 1025, 4096, 8192, 8193, 1 << 17)):
        if rows > ranges.FINE_TAIL and fine:
            continue
        cut = ranges.Cut.of(rows, fine=fine, accelerator=accelerator)
        assert cut.reach % cut.high == 0 == filtering.kernels.padded(rows, ranges.TAILS) % cut.wide
        assert cut.high * cut.wide == (ranges.CELLS if not fine else cut.reach * cut.wide) or not accelerator
    table = stars("gcn")
    monkeypatch.setattr(filtering, "SMALL", 0)
    assert agree(table, [(0, THREE)], table.check(some(THREE, 8))) >= 8


def test_a_fixed_part_and_distinct_neighbours(stars: Callable[..., Stars]) -> None:
    """As the readout sees the last states: beside the centres' input rows."""
    table = stars("gat", 1)
    fixed = np.random.default_rng(8).normal(size=(TABLE, 5))
    requests = [(centre, THREE) for centre in (0, 3)]
    check = table.check([*some(THREE, 5), *some(THREE, 3, centre=3)], fixed=fixed)
    assert 8 <= agree(table, requests, check, fixed=fixed) < 168
    shared = check.subspace.distances(np.c_[fixed[[3]], table.views(0, [(0, 0, 0)])["state"]])
    assert shared[0] > check.subspace.tolerance, "the fixed part matters"
    check = table.check(some(THREE, 8, distinct=True), fixed=fixed)
    assert 7 <= agree(table, requests[:1], check, fixed=fixed, distinct=True) < 35


@pytest.mark.parametrize("swapped", [False, True])
def test_two_checks(swapped: bool, stars: Callable[..., Stars], monkeypatch: pytest.MonkeyPatch) -> None:
    """Each rejects something that the other accepts; the first does so on the device, unless there is little to do."""
    table = stars("gcn")
    state, aggregate = table.check(some(THREE, 8)), table.check(some(THREE, 4), "aggregate")
    apart = [agree(table, [(0, THREE)], check) for check in (state, aggregate)]
    common = table.passing([(0, THREE)], state, aggregate)
    assert 1 <= len(common) < min(apart)
    checks = (aggregate, state) if swapped else (state, aggregate)
    assert agree(table, [(0, THREE)], *checks) == len(common)
    monkeypatch.setattr(filtering, "SMALL", 84)
    assert agree(table, [(0, THREE)], *checks) == len(common)


def test_gin_s_state_is_confirmed_where_its_hidden_row_rejects(stars: Callable[..., Stars]) -> None:
    table = stars("gin")
    state, hidden = table.check(some(THREE, 8)), table.check(some(THREE, 7), "hidden")
    common = table.passing([(0, THREE)], state, hidden)
    assert 1 <= len(common) < len(table.passing([(0, THREE)], hidden))
    assert agree(table, [(0, THREE)], state, hidden) == len(common)


def test_gin_s_state_alone_rejects_only_few_candidates(
    stars: Callable[..., Stars], monkeypatch: pytest.MonkeyPatch
) -> None:
    table = stars("gin")
    state = table.check(some(THREE, 8))
    found = table.filter(state).blocks([(0, THREE)], clock=FOREVER, budget=ALL)
    assert (found.centres.size, found.checked, found.unsearched) == (0, 0, (whole(0, THREE),))
    monkeypatch.setattr(filtering, "SMALL", 84)
    assert agree(table, [(0, THREE)], state) >= 8


SPLITS = (
    (3, 1, 1 << 19, 24),
    (3, 1, 1 << 19, 64),
    (3, 1, 5, 24),
    (8, 1, 1 << 19, 24),
    (30, 30, 5, 24),
    (100, 100, 5, 24),
)
"""Rows of a tail, rows that always fit, pairs of a split slot, padding."""


@pytest.mark.parametrize(
    ("tail", "little", "pairs", "padded", "distinct"),
    [
        pytest.param(*split, distinct, marks=() if split[0] != 8 and (split[3] == 24) != distinct else pytest.mark.slow)
        for split in SPLITS
        for distinct in (False, True)
    ],
)
def test_however_the_neighbourhoods_are_split(
    tail: int,
    little: int,
    pairs: int,
    padded: int,
    distinct: bool,
    stars: Callable[..., Stars],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Tails of single neighbours, of pairs, of whole slots and of several, in slices or padded; nothing waits."""
    for name, value in {"TAIL": tail, "LITTLE": little, "PAIRS": pairs}.items():
        monkeypatch.setattr(planning, name, value)
    monkeypatch.setattr(ranges, "TAILS", (padded,))
    monkeypatch.setattr(ranges, "AHEAD", 1)
    table = stars("gcn")
    for slots in (THREE, TWO):
        check = table.check(some(slots, 8, distinct=distinct))
        assert 1 <= agree(table, [(0, slots)], check, distinct=distinct) <= len(listed(slots, distinct))


def test_a_full_buffer_is_emptied_and_the_scan_goes_on(stars: Callable[..., Stars], scans: list[np.ndarray]) -> None:
    """Everything passes, so that a device stops again and again: inside the first row of tiles, and further down."""
    table = stars("gcn")
    everything = table.check(some(THREE, 84), "aggregate")
    assert agree(table, [(0, THREE)], everything) == 84
    resumed = {tuple(work[0, 2:].tolist()) for work in scans} - {(0, 0)}
    assert any(row > 0 for row, _ in resumed) and any(row == 0 and column > 0 for row, column in resumed)


@pytest.mark.parametrize(("size", "group"), [(16, 64), (48, 4), (60, 8), (640, 8), (7, 4)])
def test_survivors_are_gathered_first(size: int, group: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """None, a few in few groups, some in every group, all: the set places come first, in order."""
    monkeypatch.setattr(filtering.kernels, "GROUP", group)

    def compact(mask: Array) -> Any:
        return filtering.kernels._compact(mask, lambda places: jnp.zeros(size, jnp.int32).at[: places.size].set(places))

    compact = jax.jit(compact)
    rng = np.random.default_rng(size)
    for share in (0.0, 1 / size, 0.05, 0.2, 0.5, 1.0):
        for _ in range(5):
            mask = rng.random(size) < share
            number, places = map(np.asarray, compact(mask))
            assert places.shape == (size,) and int(number) == mask.sum()
            np.testing.assert_array_equal(places[: int(number)], np.flatnonzero(mask))


def test_a_node_alone(stars: Callable[..., Stars]) -> None:
    table = stars("gcn")
    check = table.check([(0, ())])
    search = BlockFilter(*table.model.layer_at(table.params, 0), table.rows, DEGREES * 0, [check])
    found = search.blocks([(0, []), (1, [])], clock=FOREVER, budget=ALL)
    assert (found.centres.tolist(), found.neighbours, found.checked, found.complete) == ([0], ((),), 2, True)
    np.testing.assert_allclose(found.states, table.views(0, [()])["state"], rtol=1e-9, atol=1e-9)


def test_without_a_check_everything_is_kept(stars: Callable[..., Stars]) -> None:
    table = stars("sage")
    less = dataclasses.replace(ALL, blocks=83)
    late = table.filter().blocks([(0, THREE)], clock=FOREVER, budget=less)
    assert (late.centres.size, late.unsearched) == (0, (whole(0, THREE),)), "that would be too many"
    found = table.filter().blocks([(0, THREE)], clock=FOREVER, budget=ALL)
    blocks = [around for _, around in as_dict(found)]
    assert sorted(blocks) == listed(THREE) and found.complete and not found.distances.any()
    np.testing.assert_allclose(found.states, table.views(0, blocks)["state"], rtol=1e-9, atol=1e-9)


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


def test_a_budget_of_candidates_is_spent_on_the_first_prefixes(stars: Callable[..., Stars]) -> None:
    """Seven prefixes with 28, 21, 15, 10, 6, 3 and 1 candidates."""
    table = stars("gcn")
    check = table.check(some(THREE, 8))
    expected = table.passing([(0, THREE)], check)
    search, plan = table.filter(check), plan_of(THREE)
    assert (plan.prefix_count, plan.tail.shape[0]) == (7, 28)
    for candidates, prefixes, checked in ((28, 1, 28), (48, 1, 28), (49, 2, 49), (74, 4, 74), (83, 6, 83)):
        found = search.blocks([(0, THREE)], clock=FOREVER, budget=Budget(candidates=candidates))
        assert [part.prefixes for part in found.unsearched] == [(prefixes, 7)]
        inside = searched(THREE, found.unsearched)
        assert len(inside) == found.checked == checked
        assert_same(as_dict(found), {key: value for key, value in expected.items() if key[1] in inside})
    found = search.blocks([(0, THREE)], clock=FOREVER, budget=Budget(candidates=5))
    assert len(searched(THREE, found.unsearched)) == found.checked == 5
    assert len(found.unsearched) == 2, "the rest of the first prefix, and the other prefixes"


def test_a_budget_of_blocks_leaves_the_centres_that_follow(stars: Callable[..., Stars]) -> None:
    table = stars("gcn")
    check = table.check(some(THREE, 84), "aggregate")
    requests = [(c, THREE) for c in (0, 3)]
    found = table.filter(check).blocks(requests, clock=FOREVER, budget=Budget(blocks=83))
    assert found.unsearched == (whole(3, THREE),) and found.checked == 84
    found = table.filter(check).blocks(requests, clock=FOREVER, budget=Budget(blocks=20))
    assert found.unsearched == (whole(0, THREE), whole(3, THREE)), "given up between two groups of survivors"
    assert found.checked == found.centres.size == 0


def test_a_late_clock_leaves_everything(stars: Callable[..., Stars], monkeypatch: pytest.MonkeyPatch) -> None:
    table = stars("gcn")
    search, late = table.filter(table.check(some(THREE, 8))), Clock(0.0, 0.0)
    requests = [(0, THREE), (3, TWO), (2, [Slot(np.zeros(0, np.int64), 2)])]
    for small in (0, 512):
        monkeypatch.setattr(filtering, "SMALL", small)
        found = search.blocks(requests, clock=late, budget=ALL)
        assert (found.centres.size, found.neighbours, found.checked) == (0, (), 0)
        assert found.unsearched == (whole(0, THREE), whole(3, TWO)) and not found.complete


@pytest.mark.parametrize("view", ["state", "aggregate"])
def test_what_a_clock_leaves_is_named(view: View, stars: Callable[..., Stars]) -> None:
    """Even where it ends between two looks at a full buffer (every aggregate row passes)."""
    table = stars("gcn")
    check = table.check(some(THREE, 8 if view == "state" else 84), view)
    expected = table.passing([(0, THREE)], check)
    search, numbers = table.filter(check), []
    for looks in range(2, 8):
        found = search.blocks([(0, THREE)], clock=Ticking(0.0, looks), budget=ALL)
        inside = searched(THREE, found.unsearched)
        blocks = as_dict(found)
        assert blocks.keys() <= expected.keys()
        assert {key for key in expected if key[1] in inside} <= blocks.keys()
        assert_same(blocks, {key: expected[key] for key in blocks})
        numbers.append(len(inside))
    assert numbers == sorted(numbers) and 0 < len({*numbers} - {0, 84})


def test_a_centre_where_nearly_everything_passes_is_given_up(stars: Callable[..., Stars]) -> None:
    table = stars("gcn")
    check = table.check(some(THREE, 84), "aggregate")
    found = table.filter(check).blocks([(0, THREE)], clock=FOREVER, budget=ALL, limits=SpanLimits(passing_blocks=20))
    inside = searched(THREE, found.unsearched)
    assert not found.complete and len(inside) < 84
    assert 20 < found.centres.size < 84 and inside <= {around for _, around in as_dict(found)}


def test_requests_together_are_requests_alone(stars: Callable[..., Stars], monkeypatch: pytest.MonkeyPatch) -> None:
    """Centres of several degrees: some confirmed at once, some tiled, one that cannot be filled."""
    monkeypatch.setattr(filtering, "SMALL", 20)
    table = stars("gcn")
    requests: list[Request] = [
        (0, THREE),
        (1, [Slot(np.arange(TABLE), 1)]),
        (2, [Slot(np.arange(TABLE), 2)]),
        (4, [Slot(np.array([0, 3]), 1), Slot(np.zeros(0, np.int64), 1)]),
        (4, [Slot(np.array([0, 3]), 1), Slot(np.array([1, 2, 5]), 1)]),
        (3, TWO),
        (6, [Slot(np.arange(3), 1)]),
    ]
    blocks = [*some(THREE, 3), *some(TWO, 2, centre=3), (1, (5,)), (2, (0, 1)), (4, (0, 2)), (6, (2,))]
    check = table.check(blocks)
    number = agree(table, requests, check)
    assert len(blocks) <= number < 84 + 7 + 28 + 6 + 24 + 3
    search = table.filter(check)
    parts = [search.blocks([request], clock=FOREVER, budget=ALL) for request in requests]
    single = {key: value for part in parts for key, value in as_dict(part).items()}
    assert sum(len(as_dict(part)) for part in parts) == len(single) == number
    assert_same(as_dict(search.blocks(requests, clock=FOREVER, budget=ALL)), single)
    none = search.blocks([], clock=FOREVER, budget=ALL)
    assert (none.centres.size, none.neighbours, none.states.shape) == (0, (), (0, 24)) and none.complete


SHARDED = """
import sys

import jax
import numpy as np
from jax.sharding import Mesh

from jgleak.attacks.attack import Budget
from jgleak.attacks.span import combinations, filter, kernels, ranges
from jgleak.attacks.span.check import SpanCheck
from jgleak.attacks.span.combinations import Slot
from jgleak.attacks.span.settings import SpanLimits
from jgleak.attacks.span.subspace import Subspace
from jgleak.gnn import standard

assert jax.device_count() == 4
ranges.TILE, ranges.REACH, ranges.RANGE, ranges.TAILS, ranges.COLUMNS = (4, 8), 8, 64, (24,), (16,)
ranges.FINE, ranges.FINE_REACH = (2, 4), int(sys.argv[1])
filter.SMALL, filter.WIDTHS, filter.SCREEN, filter.CONFIRM = 10**6, (4,), 64, 64
combinations.LITTLE, combinations.SPREAD = 10, 2
rng, clock = np.random.default_rng(0), Budget(time_limit=1e6).start()
model = standard(12, hidden=24)
params = {"layers_0": {"conv": {"kernel": rng.normal(size=(12, 24)).astype(np.float32)}}}
rows, degrees = rng.normal(size=(9, 12)), np.array([3, 4, 3, 3, 2, 1, 3, 4, 1])
requests = [(c, [Slot(np.arange(9), int(degrees[c]))]) for c in range(4)]
works, scan = [], kernels.scan
fine, kinds = ranges.CentreSearch.fine.fget, set()
ranges.CentreSearch.fine = property(lambda self: kinds.add(fine(self)) or fine(self))
kernels.scan = lambda *arguments: (works.append(arguments[-1]), scan(*arguments))[1]


def blocks(checks, devices=1):
    mesh = Mesh(np.array(jax.devices()[-devices:]), ("devices",))
    found = filter.BlockFilter(*model.layer_at(params, 0), rows, degrees, checks, mesh=mesh).blocks(
        requests, clock=clock, budget=Budget()
    )
    assert found.complete and found.checked == 165 + 495 + 165 + 165
    return found


everything = blocks([])
gradient = everything.states[::125].astype(np.float32).T @ rng.normal(size=(8, 40)).astype(np.float32)
check = SpanCheck.of(Subspace.of_gradient(gradient))
inside = check.subspace.distances(everything.states) <= check.subspace.tolerance
assert 8 <= inside.sum() < inside.size and not works
filter.SMALL = 0


def as_set(found):
    return dict(zip(zip(found.centres.tolist(), found.neighbours), zip(found.states.tolist(), found.distances)))


one = as_set(blocks([check]))
assert {len(work) for work in works} == {1}
works.clear()
four = as_set(blocks([check], devices=4))
assert {len(work) for work in works} == {4} and any((work[:, 1] > 0).all() for work in works)
assert (True in kinds) == (int(sys.argv[1]) > 0)
expected = zip(everything.centres.tolist(), everything.neighbours, inside, strict=True)
assert one == four and one.keys() == {(c, around) for c, around, passed in expected if passed}
"""


@pytest.mark.slow
@pytest.mark.parametrize("fine", [0, 60], ids=["tiles", "fine tiles"])
def test_four_devices_find_what_one_finds(fine: int) -> None:
    flags = {"JAX_PLATFORMS": "cpu", "XLA_FLAGS": "--xla_force_host_platform_device_count=4"}
    done = subprocess.run(
        [sys.executable, "-c", SHARDED, str(fine)],
        env=os.environ | flags,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr


def test_rows_that_enter_the_kernels_of_candidates(lab: Any) -> None:
    """GraphSAGE: a node's own row, and the mean of its neighbours'."""
    stars = Stars(lab, "sage")
    search = BlockFilter(stars.layer, stars.params["layers_0"], stars.rows, DEGREES)
    centres, neighbours = np.array([2, 0]), [[1, 4], [1, 2, 5]]
    np.testing.assert_array_equal(search.entering(centres, neighbours, "own"), stars.rows[centres])
    means = [stars.rows[around].mean(axis=0) for around in neighbours]
    np.testing.assert_allclose(search.entering(centres, neighbours, "mixed"), means, atol=1e-12)
