"""How far a true row may be from a span: by rounding and by noise, in closed form."""

from __future__ import annotations

import numpy as np
import pytest

from jgleak.attacks.noise import deviations, largest
from jgleak.attacks.span.margin import NoiseMargin, RoundingMargin
from jgleak.attacks.span.settings import TOLERANCES

LENGTHS = np.array([4.0, 0.0, 2.0, 0.5])
RESTS = np.array([1.0, 2.0, 0.0, 0.125])


def rounded(tolerance: float) -> RoundingMargin:
    """One whose gap allows this much."""
    return RoundingMargin(TOLERANCES.row_margin / tolerance)


def test_a_gap_allows_its_inverse_within_bounds() -> None:
    assert TOLERANCES.row_least < 1e-4 < TOLERANCES.row_most
    assert rounded(1e-4).tolerance == pytest.approx(1e-4) == rounded(1e-4).share
    assert rounded(1e-12).tolerance == TOLERANCES.row_least == RoundingMargin(np.inf).tolerance
    assert rounded(1e3).tolerance == TOLERANCES.row_most
    assert rounded(1e-4).loosened(3.0).tolerance == pytest.approx(3e-4)


def test_a_gap_below_the_least_shows_no_rank() -> None:
    assert RoundingMargin(TOLERANCES.rank_gap).fault is None
    fault = RoundingMargin(0.5 * TOLERANCES.rank_gap).fault
    assert fault is not None and f"largest gap {0.5 * TOLERANCES.rank_gap:.1f}" in fault


def test_rounding_is_relative_to_a_row_s_length() -> None:
    margin = rounded(1e-4)
    assert margin.distances(RESTS, np.zeros((4, 2)), LENGTHS).tolist() == [0.25, 1.0, 0.0, 0.25]
    assert margin.spread.size == 0
    residual, more = margin.partial(np.full(4, 5.0), RESTS, 4, lambda _: np.ones(4))
    assert residual is RESTS and more == 0.0


def test_few_coordinates_bound_a_row_by_the_smallest_singular_value() -> None:
    margin, rounding = rounded(1e-4), TOLERANCES.device_rounding
    assert margin.bound(np.zeros((3, 2)), np.array([0.5, 0.1]), 4) == pytest.approx(1e-4 / (0.1 - 2e-4) + rounding)
    assert margin.bound(np.zeros((3, 2)), np.array([0.5, 1e-4]), 4) == pytest.approx(2.0 + rounding)


SPREAD = np.array([0.3, 0.04])
NOISY = NoiseMargin(SPREAD, deviation=1e-3, gap=2.0, free=7)
SHARE = TOLERANCES.row_rounding


def test_noise_allows_each_direction_its_own() -> None:
    """A row is as far as ``tolerance`` where it uses up what it is allowed; a row of zeros is always too far."""
    assert pytest.approx(np.hypot(SHARE, 0.3)) == NOISY.tolerance and NOISY.share == SHARE
    assert NoiseMargin(SPREAD[:0], 1e-3, 2.0, 7).tolerance == pytest.approx(SHARE)
    along = np.array([[2.0, 0.0], [0.0, 0.0], [0.0, 5.0], [0.0, 0.0]])
    allowed = np.hypot(SHARE * LENGTHS, [0.6, 0.0, 0.2, 0.0])
    three, beyond = 3 * NOISY.tolerance, 1 + NOISY.tolerance
    np.testing.assert_allclose(NOISY.distances(3.0 * allowed, along, LENGTHS), [three, beyond, three, three])
    np.testing.assert_allclose(NOISY.distances(np.ones(1), along[1:2], np.zeros(1)), [beyond])
    np.testing.assert_allclose(NOISY.loosened(3.0).spread, 3 * SPREAD)
    np.testing.assert_allclose(NOISY.tilt, SPREAD / largest(7))
    assert "1.0e-03" in NOISY.empty and NOISY.fault is None


def test_under_noise_few_coordinates_bound_what_the_least_clear_direction_does() -> None:
    margin = NoiseMargin(0.02 * SPREAD, deviation=1e-3, gap=2.0, free=7)
    rho = max(margin.tilt * [2.0, 4.0])
    wanted = largest(3) * rho / (1.0 - rho * deviations(1)) + SHARE * 4.0 + TOLERANCES.device_rounding
    assert margin.bound(np.diag([0.5, 0.25]), np.array([0.5, 0.25]), 3) == pytest.approx(wanted)
    assert margin.loosened(1e4).bound(np.diag([0.5, 0.25]), np.array([0.5, 0.25]), 3) == np.inf


def test_relations_are_tested_together_under_noise() -> None:
    residual, more = NOISY.partial(np.array([3.0]), np.array([4.0]), 5, lambda tilt: tilt[:1])
    assert residual.tolist() == [5.0]
    np.testing.assert_allclose(more, SPREAD[:1] / largest(7) * largest(5))
