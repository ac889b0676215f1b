"""The block filter under budgets and clocks: what was not looked at is named, and nothing is named that was."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from jgleak.attacks.attack import Budget, Clock
from jgleak.attacks.span import filter as filtering
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
