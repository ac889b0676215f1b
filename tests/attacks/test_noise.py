"""Tests at a stated rate: quantiles of the distributions they name, and tilts of directions that noise makes."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import chi2, norm

from jgleak.attacks.noise import RATE, allowances, deviations, edge, largest, tail, tilts


@pytest.mark.parametrize("dof", [1, 7, 500])
def test_lengths_are_exceeded_at_the_rate(dof: int) -> None:
    assert chi2.sf(largest(dof) ** 2, dof) == pytest.approx(RATE)
    assert chi2.sf(largest(dof, 0.2) ** 2, dof) == pytest.approx(0.2)
    assert largest(0) == largest(1)


@pytest.mark.parametrize("count", [1, 3, 1000])
def test_the_largest_of_many_is_exceeded_at_the_rate_all_together(count: int) -> None:
    assert count * norm.sf(deviations(count)) == pytest.approx(RATE)
    assert count * np.exp(-np.sqrt(2.0) * tail(count)) == pytest.approx(RATE)
    assert deviations(0) == deviations(1) and tail(0) == tail(1)


def test_noise_alone_has_singular_values_up_to_the_edge() -> None:
    drawn = [np.linalg.norm(0.3 * np.random.default_rng(k).normal(size=(200, 50)), 2) for k in range(5)]
    assert np.mean(drawn) == pytest.approx(edge(0.3, (200, 50)), rel=0.03)
    assert edge(0.3, (9, 16)) == pytest.approx(0.3 * 7)


@pytest.mark.parametrize("size", [2.0, 3.0, 30.0])
@pytest.mark.parametrize("shape", [(300, 60), (60, 300)])
def test_noise_tilts_a_direction_by_what_its_value_says(size: float, shape: tuple[int, int]) -> None:
    """One direction of some size beside noise; the tangent of the angle, drawn and as told from the value alone."""
    told, seen = list[float](), list[float]()
    for seed in range(8):
        rng = np.random.default_rng(seed)
        left, right = (vector / np.linalg.norm(vector) for vector in (rng.normal(size=n) for n in shape))
        noise = 1.0 / np.sqrt(max(shape))
        left_seen, values, _ = np.linalg.svd(size * np.outer(left, right) + noise * rng.normal(size=shape))
        cosine = abs(float(left_seen[:, 0] @ left))
        seen.append(float(np.sqrt(1.0 - cosine**2) / cosine))
        told.append(float(tilts(values[:1], noise, shape)[0]))
    assert np.mean(told) == pytest.approx(np.mean(seen), rel=0.1)
    far = tilts(np.array([1e4]), 0.1, shape)[0]
    assert far == pytest.approx(0.1 * np.sqrt(shape[0]) / 1e4, rel=1e-3)


def test_what_a_true_row_may_be_off_is_a_quantile_of_its_tilt() -> None:
    """Far from the edge a chi-square's; near it the angle is unsure too, by what one deviation of the value changes."""
    shape, noise = (40, 30), 0.1
    far = allowances(np.array([1e5]), noise, shape)[0]
    assert far == pytest.approx(noise * largest(40) / 1e5, rel=1e-3)
    for value in (1.3, 2.0):
        angle = tilts(np.array([value]), noise, shape)[0]
        lower = tilts(np.array([max(value - noise, 1.02 * edge(noise, shape))]), noise, shape)[0]
        alone, unsure = np.sqrt(2 / 40), lower / angle - 1
        both = np.sqrt(alone**2 + (2 * unsure) ** 2)  # of a squared length, whose deviation is twice the length's
        squared = largest(40) ** 2 / 40 + deviations(1) * (both - alone)
        assert allowances(np.array([value]), noise, shape)[0] == pytest.approx(angle * np.sqrt(squared))
    assert np.isfinite(allowances(np.array([1.001 * edge(noise, shape)]), noise, shape)).all()
