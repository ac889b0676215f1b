"""The block filter under budgets and clocks: what was not looked at is named, and nothing is named that was."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from jgleak.attacks.attack import Budget, Clock
from jgleak.attacks.span import filter as filtering
from jgleak.attacks.span import ranges
from jgleak.attacks.span.combinations import Slot
from jgleak.attacks.span.leak_points import View
from jgleak.attacks.span.settings import SpanLimits
from tests.clocks import HELD as FOREVER
from tests.clocks import Ticking

from .stars import ALL, THREE, TWO, Stars, as_dict, assert_same, plan_of, searched, some, whole

pytestmark = pytest.mark.usefixtures("tiled")


def test_a_budget_of_candidates_is_spent_on_the_first_prefixes(stars: Callable[..., Stars]) -> None:
    """Seven prefixes with 28, 21, 15, 10, 6, 3 and 1 candidates."""
    table = stars("gcn")
    check = table.check(some(THREE, 8))
    expected = table.passing([(0, THREE)], check)
    search, plan = table.filter(check), plan_of(THREE)
    assert (plan.prefix_count, plan.tail.shape[0]) == (7, 28)
    for candidates, prefixes, checked in ((28, 1, 28), (48, 1, 28), (49, 2, 49), (74, 4, 74), (83, 6, 83)):
        found = search.blocks([(0, THREE)], clock=FOREVER, budget=Budget(candidates=candidates))
        assert [(part.prefixes, part.tails) for part in found.unsearched] == [((prefixes, 7), (0, 28))]
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


@pytest.mark.parametrize("screen", [32, 1000])
def test_without_a_check_as_many_blocks_are_kept_as_the_budget_says(
    screen: int, stars: Callable[..., Stars], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whether those of one centre are confirmed before the next is looked at or not."""
    monkeypatch.setattr(filtering, "SCREEN", screen)
    search, requests = stars("gcn").filter(), [(0, THREE), (3, THREE)]
    for blocks, left in ((83, [0, 3]), (84, [3]), (167, [3]), (168, [])):
        found = search.blocks(requests, clock=FOREVER, budget=Budget(blocks=blocks))
        assert found.unsearched == tuple(whole(centre, THREE) for centre in left)
        assert found.centres.size == found.checked == 168 - 84 * len(left) == len(as_dict(found))


def test_blocks_of_earlier_centres_count_against_the_budget(stars: Callable[..., Stars]) -> None:
    """Everything passes around two centres, and around a third, whose neighbours are none of the span's, nothing."""
    table = stars("gcn")
    check, requests = table.check(some(THREE, 84), "aggregate"), [(0, THREE), (3, THREE)]
    found = table.filter(check).blocks(requests, clock=FOREVER, budget=Budget(blocks=100))
    assert found.unsearched == (whole(3, THREE),) and found.checked == found.centres.size == 84
    few = [Slot(np.arange(4), 3)]
    check = table.check(some(few, 20), "aggregate")
    requests = [(0, few), (5, THREE), (4, THREE)]
    expected = table.passing(requests, check)
    assert {centre for centre, _ in expected} == {0} and len(expected) == 20
    for blocks, complete in ((20, True), (19, False)):
        found = table.filter(check).blocks(requests, clock=FOREVER, budget=Budget(blocks=blocks))
        assert found.complete is complete and (not complete or as_dict(found).keys() == expected.keys())


def test_a_late_clock_leaves_everything(stars: Callable[..., Stars], monkeypatch: pytest.MonkeyPatch) -> None:
    table = stars("gcn")
    search, late = table.filter(table.check(some(THREE, 8))), Clock(0.0, 0.0)
    requests = [(0, THREE), (3, TWO), (2, [Slot(np.zeros(0, np.int64), 2)])]
    for small in (0, 512):
        monkeypatch.setattr(filtering, "SMALL", small)
        found = search.blocks(requests, clock=late, budget=ALL)
        assert (found.centres.size, found.neighbours, found.checked) == (0, (), 0)
        assert found.unsearched == (whole(0, THREE), whole(3, TWO)) and not found.complete


@pytest.mark.parametrize(("view", "reach"), [("state", 8), ("aggregate", 8), ("aggregate", 2)])
def test_what_a_clock_leaves_is_named(
    view: View, reach: int, stars: Callable[..., Stars], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Even where it ends between two looks at a full buffer (every aggregate row passes, so that what was looked at is
    what was found), or between two ranges. Once it has ended nothing is sent to the device."""
    monkeypatch.setattr(ranges, "REACH", reach)
    table = stars("gcn")
    check = table.check(some(THREE, 8 if view == "state" else 84), view)
    expected = table.passing([(0, THREE)], check)
    search, numbers, clock = table.filter(check), [], Ticking(0.0, 0.0)
    _watched(monkeypatch, lambda: clock.ticks < clock.seconds)
    for looks in range(2, 8 if reach > 2 else 12):
        clock = Ticking(0.0, looks)
        found = search.blocks([(0, THREE)], clock=clock, budget=ALL)
        inside = searched(THREE, found.unsearched)
        blocks = as_dict(found)
        assert blocks.keys() <= expected.keys()
        assert {key for key in expected if key[1] in inside} <= blocks.keys()
        assert_same(blocks, {key: expected[key] for key in blocks})
        assert view == "state" or len(blocks) == len(inside)
        numbers.append(len(inside))
    assert numbers == sorted(numbers) and 0 < len({*numbers} - {0, 84})


def test_a_centre_where_nearly_everything_passes_is_given_up(stars: Callable[..., Stars]) -> None:
    table = stars("gcn")
    check = table.check(some(THREE, 84), "aggregate")
    found = table.filter(check).blocks([(0, THREE)], clock=FOREVER, budget=ALL, limits=SpanLimits(passing_blocks=20))
    inside = searched(THREE, found.unsearched)
    assert not found.complete and len(inside) < 84
    assert 20 < found.centres.size < 84 and inside <= {around for _, around in as_dict(found)}


def test_a_centre_is_given_up_as_soon_as_more_than_the_limit_have_passed(
    stars: Callable[..., Stars], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every limit below the number of blocks; all pass, so that what was looked at is what was found."""
    table = stars("gcn")
    search = table.filter(table.check(some(THREE, 84), "aggregate"))
    around = search._around(0, plan_of(THREE), search.checks[0])
    numbers, passed = set[int](), 0

    scan = filtering.kernels.scan

    def counted(*given: Any) -> Any:
        nonlocal passed
        assert passed <= most, "nothing is looked at once too many have passed"
        found = scan(*given)
        passed += int(found[0][0, 0])
        return found

    monkeypatch.setattr(ranges, "AHEAD", 1)
    monkeypatch.setattr(filtering.kernels, "scan", counted)
    for most in range(84):
        passed = 0
        found, left = around.survivors(FOREVER, ALL.candidates, most)
        inside = searched(THREE, left)
        assert len(found) == len(inside) == passed > most
        numbers.add(passed)
    assert len(numbers) > 3 and 84 in numbers


def _watched(monkeypatch: pytest.MonkeyPatch, may: Callable[[], bool]) -> None:
    """Functions of the device are run only where they may be."""
    for name, run in {name: getattr(filtering.kernels, name) for name in ("scan", "tail_sums")}.items():

        def checked(*given: Any, run: Any = run) -> Any:
            assert may()
            return run(*given)

        monkeypatch.setattr(filtering.kernels, name, checked)
