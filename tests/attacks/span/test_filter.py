"""The block filter against brute force: every star as a dense graph through the model, then the spans' distances."""

from __future__ import annotations

import dataclasses
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from itertools import product
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jaxtyping import Array

from jgleak.attacks.span import combinations as planning
from jgleak.attacks.span import filter as filtering
from jgleak.attacks.span import ranges
from jgleak.attacks.span.combinations import Slot
from jgleak.attacks.span.filter import BlockFilter, Request
from jgleak.attacks.span.leak_points import View
from tests.clocks import HELD as FOREVER

from .stars import (
    ALL,
    DEGREES,
    TABLE,
    THREE,
    TWO,
    Stars,
    agree,
    as_dict,
    assert_same,
    listed,
    plan_of,
    some,
    whole,
)

pytestmark = pytest.mark.usefixtures("tiled")


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


@pytest.mark.parametrize(("reach", "tail", "tile"), [(64, 64, (4, 4)), (1, 64, (2, 8)), (64, 3, (2, 8))])
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
    monkeypatch.setattr(ranges, "TAILS", (8, padded))
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


@pytest.mark.parametrize("distinct", [False, True])
@pytest.mark.parametrize(("tile", "tails", "wide"), [((2, 8), 64, False), ((2, 3), 27, True)])
def test_every_neighbourhood_is_found_once_where_all_pass(
    tile: tuple[int, int],
    tails: int,
    wide: bool,
    distinct: bool,
    stars: Callable[..., Stars],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Also of a slice that has one row, and where JAX computes with 64 bits unless it is told not to."""
    monkeypatch.setattr(ranges, "TAILS", (tails,))
    monkeypatch.setattr(ranges, "TILE", tile)
    table = stars("gcn")
    everything = table.check(some(THREE, 84), "aggregate")
    with jax.enable_x64(wide):
        for slots, number in ((THREE, 35 if distinct else 84), (TWO, 12 if distinct else 24)):
            assert agree(table, [(0, slots)], everything, distinct=distinct) == number


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
