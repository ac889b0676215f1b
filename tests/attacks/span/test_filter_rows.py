"""What the block filter makes of whole candidates: the rows that it embeds, and those that its screen lets pass."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import numpy as np
import pytest

from jgleak.attacks.attack import Budget
from jgleak.attacks.span import filter as filtering
from jgleak.attacks.span.combinations import Slot
from jgleak.attacks.span.filter import BlockFilter
from tests.clocks import HELD as FOREVER

from .stars import ALL, DEGREES, TABLE, THREE, WIDTH, Stars, as_dict, assert_same, listed, plan_of, some

pytestmark = pytest.mark.usefixtures("tiled")


@pytest.mark.parametrize("classes", [1, 3])
def test_rows_that_enter_the_kernels_of_candidates(classes: int, stars: Callable[..., Stars]) -> None:
    """GraphSAGE: a node's own row, and the mean of its neighbours'; of none, and of more than are embedded at once."""
    table = stars("sage")
    search = table.filter(classes=classes)
    centres = np.arange(40) % TABLE
    around = [[(k + 3 * place) % TABLE for place in range(DEGREES[c])] for k, c in enumerate(centres)]
    neighbours = [[classes * t + t % classes for t in one] for one in around]
    np.testing.assert_array_equal(search.entering(centres, neighbours, "own"), table.rows[centres])
    means = [table.rows[one].mean(axis=0) for one in around]
    np.testing.assert_allclose(search.entering(centres, neighbours, "mixed"), means, atol=1e-12)
    for which in ("own", "mixed"):
        assert search.entering(centres[:0], [], which).shape == (0, WIDTH)


@pytest.mark.parametrize("conv", ["gcn", "sage"])
def test_classes_of_edges_are_other_numbers_for_what_is_alike(conv: str, stars: Callable[..., Stars]) -> None:
    """Where a layer makes the same of edges of every class, a neighbour ``t`` along class ``k`` is ``3 t + k``."""
    table = stars(conv)
    check = table.check(some(THREE, 8, centre=3))
    plain = table.filter(check).blocks([(3, THREE)], clock=FOREVER, budget=Budget(candidates=74))
    slots = [Slot(3 * np.arange(TABLE) + np.arange(TABLE) % 3, 3)]
    found = table.filter(check, classes=3).blocks([(3, slots)], clock=FOREVER, budget=Budget(candidates=74))
    assert found.unsearched == plain.unsearched and found.unsearched[0].centre == 3
    assert found.neighbours == tuple(tuple(3 * t + t % 3 for t in around) for around in plain.neighbours) != ()
    np.testing.assert_allclose(found.states, plain.states, rtol=1e-12)


@pytest.mark.parametrize(("noise", "last"), [(None, 84), (None, 60), (1e-3, 84)])
def test_survivors_are_screened_as_the_host_confirms_them(
    noise: float | None, last: int, stars: Callable[..., Stars], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the cheap check lets everything pass there has to be room for what the host accepts, and for no more."""
    monkeypatch.setattr(filtering, "CONFIRM", 1)
    table = stars("gcn")
    blocks = [(0, tuple(sorted(around))) for around in plan_of(THREE).all()[:last:10].tolist()]
    check = dataclasses.replace(table.check(blocks, noise=noise), bound=1e3)
    expected = table.passing([(0, THREE)], check)
    assert len(blocks) <= len(expected) < 40 and bool(check.subspace.margin.spread.size) is (noise is not None)
    found = table.filter(check).blocks([(0, THREE)], clock=FOREVER, budget=Budget(blocks=len(expected)))
    assert found.complete
    assert_same(as_dict(found), expected)


def test_rounding_on_the_device_costs_no_row_at_the_tolerance(
    stars: Callable[..., Stars], monkeypatch: pytest.MonkeyPatch
) -> None:
    """All rows but one are of the span; the last one moves the others that hold it by up to nearly the tolerance."""
    monkeypatch.setattr(filtering, "CONFIRM", 1)
    table = stars("gcn")
    check = table.check(some(THREE, 84), "aggregate")
    check = dataclasses.replace(check, bound=1e3)
    rng = np.random.default_rng(0)
    layer, arounds = table.model.layer_at(table.params, 0), listed(THREE)
    away = rng.normal(size=table.rows.shape)

    def moved(size: float) -> BlockFilter:
        return BlockFilter(*layer, table.rows + size * away, DEGREES, [check])

    far = check.subspace.distances(moved(1e-5).entering(np.zeros(84, int), arounds, "mixed"))
    search = moved(1e-5 * 0.99 * check.subspace.tolerance / far.max())
    found = search.blocks([(0, THREE)], clock=FOREVER, budget=ALL)
    assert found.distances.max() > 0.98 * check.subspace.tolerance and found.centres.size == 84
