"""How the prefixes of an enumeration are shared among devices."""

from __future__ import annotations

from itertools import pairwise

import jax
import pytest

from jgleak.attacks.span.filter import local_mesh
from jgleak.attacks.span.ranges import Cut, _ranges, accelerated


@pytest.mark.parametrize("cut", [Cut(2, 8, 8, 64), Cut(4, 8, 4, 10**6), Cut(2, 8, 32, 10**6), Cut(3, 5, 12, 1)])
@pytest.mark.parametrize("devices", [1, 3])
def test_ranges_hold_every_prefix_once_in_whole_tiles(cut: Cut, devices: int) -> None:
    """Of no more prefixes than are unranked at once, and of no row of tiles beyond the candidates that one may have;
    every device gets some where there are many."""
    for stop in (0, 1, 2, 7, 8, 9, 24, 50):
        for tail_rows in (1, 9, 28):
            works = list(_ranges(stop, tail_rows, devices, cut))
            assert [n for w in works for n in range(w.first, w.first + w.size)] == list(range(stop))
            assert all((w.row, w.column) == (0, 0) and 0 < w.size <= cut.reach for w in works)
            assert all(before.size % cut.high == 0 for before, _ in pairwise(works))
            assert all((w.size - cut.high) * tail_rows < cut.most for w in works)
            assert stop < devices**2 * cut.high or len(works) >= devices


def test_a_processor_is_no_accelerator() -> None:
    assert accelerated(local_mesh()) is (jax.default_backend() != "cpu")
