"""Span checks under noise: the rank that stands above it, and tests that reject the truth as rarely as they say."""

from __future__ import annotations

import numpy as np
import pytest

from jgleak.attacks.noise import RATE, edge, largest, tilts
from jgleak.attacks.span.check import SpanCheck
from jgleak.attacks.span.nodes import TooManyCandidates, passing_nodes
from jgleak.attacks.span.settings import TOLERANCES
from jgleak.attacks.span.subspace import Subspace
from jgleak.features import FeatureSpace, onehot

D, WIDTH, RANK = 60, 50, 4


def noisy(seed: int, *, above: tuple[float, ...] = (40.0, 10.0, 4.0, 2.0)) -> tuple[np.ndarray, np.ndarray, float]:
    """Rows, a gradient with singular values ``above`` the edge so many times, and the noise's deviation."""
    rng = np.random.default_rng(seed)
    left = np.linalg.qr(rng.normal(size=(D, len(above))))[0]
    right = np.linalg.qr(rng.normal(size=(WIDTH, len(above))))[0]
    noise = 1e-3
    gradient = (left * np.array(above) * edge(noise, (D, WIDTH))) @ right.T + noise * rng.normal(size=(D, WIDTH))
    return rng.normal(size=(len(above), len(above))) @ left.T, gradient, noise


def used(subspace: Subspace, rows: np.ndarray) -> np.ndarray:
    """The chi-square statistic of each row."""
    dof = subspace.ambient - subspace.rank
    return (subspace.distances(rows) / subspace.tolerance * largest(dof)) ** 2


@pytest.mark.parametrize("above", [(40.0, 10.0, 8.0, 6.0), (40.0, 10.0, 4.0, 2.0), (3.0, 2.0, 1.6, 1.4)], ids=str)
def test_true_rows_are_rejected_at_the_stated_rate(above: tuple[float, ...]) -> None:
    draws, rejected, statistics = 250, 0, []
    for seed in range(draws):
        rows, gradient, noise = noisy(seed, above=above)
        subspace = Subspace.of_gradient(gradient, noise=noise)
        if subspace.rank != RANK:
            continue  # a direction fell under the floor, which no test can see
        statistics.append(used(subspace, rows))
        rejected += int(np.sum(subspace.distances(rows) > subspace.tolerance))
    found = np.concatenate(statistics)
    assert found.size > 0.9 * draws * RANK
    dof = D - RANK
    assert 0.75 < found.mean() / dof < 1.03
    for rate in (1e-1, 1e-2, 1e-3):
        assert np.sum(found > largest(dof, rate) ** 2) <= 3.0 * rate * found.size + 3  # three: luck of the draw
    assert rejected <= 3.0 * max(1.0, RATE * found.size)


def test_other_rows_are_rejected() -> None:
    rows, gradient, noise = noisy(0)
    subspace = Subspace.of_gradient(gradient, noise=noise)
    rng = np.random.default_rng(1)
    assert np.all(subspace.distances(rng.normal(size=(200, D))) > subspace.tolerance)
    assert np.all(subspace.distances(rows + 0.1 * rng.normal(size=rows.shape)) > subspace.tolerance)
    assert np.all(subspace.distances(np.zeros((2, D))) > subspace.tolerance)


def test_the_rank_is_what_stands_above_the_noise() -> None:
    for seed in range(50):
        _, gradient, noise = noisy(seed, above=(20.0, 5.0, 1.6, 0.3))
        subspace = Subspace.of_gradient(gradient, noise=noise)
        assert (subspace.rank, subspace.fault, subspace.gap > 1.0) == (3, None, True)
        assert Subspace.of_gradient(gradient, noise=noise, most=2).rank == 2
        nothing = Subspace.of_gradient(noise * np.random.default_rng(seed).normal(size=(D, WIDTH)), noise=noise)
        assert nothing.rank == 0 and nothing.fault is not None and f"{noise:.1e}" in nothing.fault


def test_angles_of_tilted_directions() -> None:
    """The closed form against the angles that drawn noise leaves, and its first order."""
    noise, s, angles, seen = 1e-2, 1.0 * edge(1e-2, (200, 300)), [], []
    for seed in range(20):
        rng = np.random.default_rng(seed)
        gradient = noise * rng.normal(size=(200, 300))
        gradient[0, 0] += s
        left, values, _ = np.linalg.svd(gradient, full_matrices=False)
        seen.append(tilts(values[:1], noise, gradient.shape)[0])
        angles.append(np.tan(np.arccos(abs(left[0, 0]))))
    assert abs(np.mean(angles) / np.mean(seen) - 1.0) < 0.05
    np.testing.assert_allclose(tilts(np.array([1e3]), noise, (200, 300)), noise * np.sqrt(200) / 1e3, rtol=1e-3)


def test_the_cheap_check_rejects_true_rows_as_rarely() -> None:
    rejected, wrong, number = 0, 0, 0
    for seed in range(150):
        rows, gradient, noise = noisy(seed, above=(200.0, 100.0, 60.0, 50.0))
        check = SpanCheck.of(Subspace.of_gradient(gradient, noise=noise))
        assert check.bound < 0.5
        others = np.random.default_rng(seed).normal(size=rows.shape)
        for which, some in enumerate((rows, others)):
            chosen = some[:, check.columns] * check.row_scale
            off = np.linalg.norm(chosen @ check.row_null, axis=1) > check.bound * np.linalg.norm(chosen, axis=1)
            rejected, wrong = rejected + int(off.sum()) * (which == 0), wrong + int(off.sum()) * (which == 1)
        number += len(rows)
    assert rejected <= 1 and wrong > 0.5 * number


def test_nodes_are_not_lost() -> None:
    space = FeatureSpace((onehot("a", range(6)), onehot("b", range(5)), onehot("c", range(7))))
    for seed in range(20):
        rng = np.random.default_rng(seed)
        codes = np.stack([rng.integers(k, size=5) for k in (6, 5, 7)], axis=1).astype(np.int32)
        rows = space.encode(codes).astype(float)
        gradient = rows.T @ rng.normal(size=(5, 40))
        noise = 1e-2
        subspace = Subspace.of_gradient(gradient + noise * rng.normal(size=gradient.shape), noise=noise)
        if subspace.rank < np.linalg.matrix_rank(rows):
            continue
        found = {tuple(code) for code in passing_nodes(space, subspace).tolist()}
        assert {tuple(code) for code in codes.tolist()} <= found and len(found) < 100
    with pytest.raises(TooManyCandidates, match="noise of deviation"):
        passing_nodes(space, Subspace.of_gradient(rng.normal(size=gradient.shape), noise=1.0))


def test_a_little_noise_is_rounding() -> None:
    """Noise far below what float32 rounds off changes neither the rank nor what is inside."""
    rows, gradient, _ = noisy(3, above=(1e3, 500.0, 300.0, 100.0))
    exact = (gradient - gradient + rows.T @ np.random.default_rng(0).normal(size=(RANK, WIDTH))).astype(np.float32)
    tiny, none = Subspace.of_gradient(exact, noise=1e-12), Subspace.of_gradient(exact)
    assert tiny.rank == none.rank == RANK and TOLERANCES.noise_edge > 1.0
    assert np.all(tiny.distances(rows) <= tiny.tolerance) and tiny.tolerance < 1e-4


def test_how_far_a_row_is_does_not_depend_on_the_others() -> None:
    rows, gradient, noise = noisy(0)
    subspace = Subspace.of_gradient(gradient, noise=noise)
    apart = [subspace.distances(row[None])[0] for row in rows]
    np.testing.assert_allclose(subspace.distances(rows), apart)
