"""Spans of weight gradients: rank, scale, tolerance, and what says nothing."""

from __future__ import annotations

import dataclasses
import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import linalg

from jgleak.attacks.noise import allowances
from jgleak.attacks.span.margin import NoiseMargin
from jgleak.attacks.span.settings import TOLERANCES
from jgleak.attacks.span.subspace import Subspace, _rank

SHAPES = st.tuples(st.integers(2, 30), st.integers(2, 30), st.integers(1, 12), st.integers(0, 2**31))


def low_rank(d: int, width: int, rank: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows and the gradient they leave: ``rows^T upstream`` in float32."""
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(rank, d)).astype(np.float32)
    return rows, rows.T @ rng.normal(size=(rank, width)).astype(np.float32)


@given(SHAPES)
def test_rank_is_read_off_the_gap(shape: tuple[int, int, int, int]) -> None:
    d, width, rank, seed = shape
    rows, gradient = low_rank(d, width, rank, seed)
    values = np.linalg.svd(gradient / np.linalg.norm(gradient, axis=1)[:, None], compute_uv=False)
    true = min(d, width, rank)
    if values[true - 1] < 1e-2 * values[0]:  # too ill-conditioned to have one clear gap
        return
    subspace = Subspace.of_gradient(gradient)
    assert (subspace.rank, subspace.ambient) == (true, d)
    np.testing.assert_allclose(subspace.basis.T @ subspace.basis, np.eye(true), atol=1e-10)
    if rank <= width:
        assert np.all(subspace.distances(rows) <= subspace.tolerance)


@given(SHAPES, st.floats(1e-12, 1e12))
def test_the_gradient_s_scale_does_not_matter(shape: tuple[int, int, int, int], factor: float) -> None:
    d, width, rank, seed = shape
    rows, gradient = low_rank(d, width, rank, seed)
    one, other = Subspace.of_gradient(gradient.astype(float)), Subspace.of_gradient(gradient.astype(float) * factor)
    assert one.rank == other.rank
    probes = np.r_[rows, np.random.default_rng(seed).normal(size=(5, d))]
    np.testing.assert_allclose(one.distances(probes), other.distances(probes), atol=1e-6)


def test_the_columns_scale_does_not_matter() -> None:
    rows, gradient = low_rank(20, 30, 4, 0)
    scale = np.logspace(-3, 3, 20)
    probes = np.random.default_rng(1).normal(size=(6, 20))
    plain, scaled = Subspace.of_gradient(gradient), Subspace.of_gradient(gradient * scale[:, None])
    assert scaled.rank == 4
    # Coordinates below a hundredth of the median are not blown up to the size of the others.
    middle = np.abs(np.log10(scale)) < 1.5
    assert np.all(scaled.distances(rows * scale) < 1e-5)
    part = Subspace.of_gradient(gradient[middle]), Subspace.of_gradient((gradient * scale[:, None])[middle])
    np.testing.assert_allclose(
        part[0].distances(probes[:, middle]), part[1].distances((probes * scale)[:, middle]), atol=1e-5
    )
    assert np.all(plain.distances(probes) > 0.1)


@pytest.mark.parametrize("noise", [0.0, 1e-6, 1e-5, 1e-4])
def test_the_tolerance_follows_the_noise(noise: float) -> None:
    rows, gradient = low_rank(40, 60, 5, 3)
    rng = np.random.default_rng(4)
    noisy = gradient + noise * np.linalg.norm(gradient, axis=1)[:, None] / 8 * rng.normal(size=gradient.shape)
    subspace = Subspace.of_gradient(noisy)
    assert subspace.rank == 5
    assert np.all(subspace.distances(rows) <= subspace.tolerance)
    assert 1e-5 <= subspace.tolerance <= max(1e-5, min(1e-2, 200 * noise))
    assert np.all(subspace.distances(rng.normal(size=(50, 40))) > subspace.tolerance)


def test_units_that_are_off_and_values_that_do_not_occur_change_nothing() -> None:
    rows, gradient = low_rank(20, 30, 4, 0)
    whole = np.zeros((50, 70), np.float32)
    whole[np.ix_(np.arange(20) * 2, np.arange(30) * 2 + 1)] = gradient
    plain, among = Subspace.of_gradient(gradient), Subspace.of_gradient(whole)
    assert among.rank == plain.rank == 4 and among.full == plain.full
    np.testing.assert_allclose(among.basis.T @ among.basis, np.eye(4), atol=1e-10)
    probes = np.zeros((10, 50))
    probes[:, np.arange(20) * 2] = np.r_[rows, np.random.default_rng(1).normal(size=(6, 20))]
    np.testing.assert_allclose(among.distances(probes), plain.distances(probes[:, np.arange(20) * 2]), atol=1e-10)
    assert (
        Subspace.of_gradient(np.zeros((3, 4))).rank == 0
        and Subspace.of_gradient(np.zeros((3, 4)), noise=1e-3).rank == 0
    )


def test_at_most_as_many_dimensions_as_nodes() -> None:
    _, gradient = low_rank(10, 20, 8, 5)
    assert Subspace.of_gradient(gradient, most=3).rank <= 3


def decaying(d: int, width: int, ratio: float) -> np.ndarray:
    """A matrix whose singular values fall by the same ratio, through the noise of float32 and on."""
    rng = np.random.default_rng(6)
    left, right = (np.linalg.qr(rng.normal(size=(size, size)))[0] for size in (d, width))
    values = ratio ** -np.arange(min(d, width))
    return (left[:, : values.size] * values) @ right[: values.size]


@pytest.mark.parametrize(
    ("gradient", "fault"),
    [
        (np.zeros((5, 7), np.float32), "the gradient is zero"),
        (low_rank(4, 9, 8, 6)[1], "the span has rank 4 and fills its space"),
        (low_rank(30, 5, 8, 6)[1], "the span has rank 5 and fills its space"),
        (decaying(40, 40, 2.0), r"the singular values show no rank \(largest gap [2-5]\.\d\)"),
        (low_rank(30, 5, 4, 6)[1], None),
        (low_rank(5, 7, 2, 7)[1], None),
        (np.outer([1.0, 0.0, 2.0], [1.0, 3.0]), None),
    ],
    ids=["zero", "as many rows as coordinates", "as many rows as columns", "no gap", "fewer rows", "low", "one row"],
)
def test_why_a_span_says_nothing(gradient: np.ndarray, fault: str | None) -> None:
    subspace = Subspace.of_gradient(gradient)
    assert subspace.informative == (fault is None)
    if fault is None:
        assert subspace.fault is None
    else:
        assert subspace.fault is not None and re.fullmatch(fault, subspace.fault)


FLOOR = TOLERANCES.rank_floor
"""Rounding, beside the largest singular value."""


@pytest.mark.parametrize(
    ("values", "most", "ranks"),
    [
        ([1.0, 0.9 * FLOOR**0.5], None, (1, 2, 2)),
        ([1.0, 1.1 * FLOOR**0.5], None, (2, 1, 1)),
        ([1e3, 0.9e3 * FLOOR**0.5], None, (1, 2, 2)),
        ([1e-6, 5e-7, 0.0, 0.0], None, (2, 1, 1)),
        ([1.0, 0.5, 0.0, 0.0], None, (2, 1, 1)),
        ([1.0, 0.5, 0.9 * FLOOR], None, (2, 1, 1)),
        ([1e3, 5e2, 9e2 * FLOOR], None, (2, 1, 1)),
        ([1.0, 0.1, 0.09, 30 * FLOOR, 29 * FLOOR], None, (3, 5, 1)),
        ([1.0, 0.9, 0.8, 0.1, 0.01], 3, (3, 2, 1)),
        ([2.0], None, (1, 1, 1)),
    ],
)
def test_the_rank_is_read_off_one_gap_or_the_next(
    values: list[float], most: int | None, ranks: tuple[int, ...]
) -> None:
    """Rounding of the largest value stands behind the last; values below it are none."""
    found = tuple(_rank(np.array(values), most, TOLERANCES, place) for place in range(3))
    assert found == ranks
    real = sum(value > FLOOR * values[0] for value in values)
    assert _rank(np.array(values), most, dataclasses.replace(TOLERANCES, rank_gap=0.0), 0) == real


def test_more_rows_than_nodes_show_no_rank() -> None:
    """A bound below the true rank cuts where there is no gap."""
    assert Subspace.of_gradient(low_rank(30, 40, 8, 3)[1]).rank == 8
    cut = Subspace.of_gradient(low_rank(30, 40, 8, 3)[1], most=4)
    assert cut.fault is not None and "no rank" in cut.fault


def test_an_empty_or_full_span_says_nothing_about_any_row() -> None:
    rng = np.random.default_rng(6)
    empty, full = Subspace.of_gradient(np.zeros((5, 7), np.float32)), Subspace.of_gradient(rng.normal(size=(4, 9)))
    assert (empty.rank, empty.ambient, empty.full) == (0, 5, False)
    assert (full.rank, full.ambient, full.full) == (4, 4, True)
    assert np.all(empty.distances(rng.normal(size=(3, 5))) == 1.0)
    assert np.all(full.distances(rng.normal(size=(3, 4))) < 1e-12)


def test_a_span_that_was_completed_to_its_whole_space_says_nothing() -> None:
    partial = Subspace.of_gradient(np.eye(3)[:, :2] @ np.ones((2, 5)) + np.eye(3, 5), most=2)
    assert not partial.full and partial.rank == 2
    whole = dataclasses.replace(partial, basis=np.eye(3))
    assert whole.fault == "the span has rank 3 and fills its space"


def test_a_cut_among_equal_values_is_no_gap() -> None:
    assert Subspace.of_gradient(np.eye(4), most=2).gap == 1.0


def test_a_row_of_zeros_is_never_inside() -> None:
    rows, gradient = low_rank(6, 8, 2, 8)
    subspace = Subspace.of_gradient(gradient)
    np.testing.assert_array_equal(subspace.distances(np.zeros((2, 6))), 1.0)
    distances = subspace.distances(np.random.default_rng(0).normal(size=(20, 6)))
    assert np.all((distances >= 0) & (distances <= 1))


def test_a_coordinate_without_gradient_must_be_zero() -> None:
    rows, gradient = low_rank(8, 10, 3, 9)
    rows[:, 2], gradient[2] = 0.0, 0.0
    subspace = Subspace.of_gradient(gradient)
    assert np.all(subspace.distances(rows) < 1e-5)
    rows[:, 2] = 0.5
    assert np.all(subspace.distances(rows) > 0.5)


def test_what_is_asked_for_again_is_not_worked_out_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """By content: the same numbers in another array are known, changed ones are not, and bounds still count."""
    gradient, asked = low_rank(30, 40, 6, 11)[1].astype(np.float64), []
    svd = linalg.svd
    monkeypatch.setattr(linalg, "svd", lambda *args, **kwargs: asked.append(1) or svd(*args, **kwargs))
    first, again = Subspace.of_gradient(gradient), Subspace.of_gradient(gradient.copy())
    assert len(asked) == 1 and first.rank == again.rank == 6
    np.testing.assert_array_equal(first.basis, again.basis)
    assert Subspace.of_gradient(gradient, most=4).rank == 4 and len(asked) == 1
    gradient[0] += 1.0
    assert Subspace.of_gradient(gradient).rank == 7 and len(asked) == 2
    with pytest.raises(ValueError, match="read-only"):
        first.basis[0, 0] = 2.0


@pytest.mark.parametrize(
    ("noise", "shape", "rank"), [(0.05, (6, 5), 3), (1e-12, (6, 5), 4), (0.05, (6, 2), 2), (9.0, (6, 5), 0)]
)
def test_directions_above_the_noise_are_kept(noise: float, shape: tuple[int, int], rank: int) -> None:
    """Of known singular values: rounding of the largest counts as noise, which has as much room as is left."""
    values = np.array([10.0, 5.0, 1.0, 0.2, 0.0])[: min(shape)]
    gradient = np.zeros(shape)
    np.fill_diagonal(gradient, values)
    span = Subspace.of_gradient(gradient, noise=noise)
    total = np.hypot(noise, TOLERANCES.rank_floor * 10.0 / (np.sqrt(shape[0]) + np.sqrt(shape[1])))
    floor = TOLERANCES.noise_edge * total * (np.sqrt(shape[0]) + np.sqrt(shape[1]))
    assert (span.rank, span.full) == (rank, rank == min(shape)) and values[rank:].max(initial=0.0) < floor
    margin = span.margin
    assert isinstance(margin, NoiseMargin) and margin.free == shape[0] - rank and margin.deviation == noise
    assert margin.gap == (pytest.approx(values[rank - 1] / floor) if rank else 0.0)
    room = shape[0] - rank, max(shape[1] - rank, 1)
    np.testing.assert_allclose(margin.spread, allowances(values[:rank], total, room) if rank else [])
