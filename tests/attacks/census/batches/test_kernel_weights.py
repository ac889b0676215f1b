"""Weights of blocks whose rows and slopes are random, beside terms of later steps: known in closed form."""

from __future__ import annotations

import numpy as np
import pytest

from jgleak.attacks.attack import Budget
from jgleak.attacks.census.batches import kernel_weights as weights_of_blocks
from jgleak.attacks.census.batches.first_kernel import ONE_PASS, WITHIN, Head, Roots
from jgleak.attacks.census.batches.kernel_weights import kernel_weights
from jgleak.attacks.census.batches.upstream import Upstream
from jgleak.attacks.span.subspace import Subspace

INTO, UNITS, OUTPUTS, LATER = 40, 30, 2, 6
FOREVER, ENDED = (Budget(time_limit=seconds).start() for seconds in (1e6, 1e-9))
UPSTREAM = Upstream(np.eye(OUTPUTS), None, None, np.ones(OUTPUTS))


def seen(rows: np.ndarray, slopes: np.ndarray, weights: np.ndarray, later: int = LATER) -> tuple[Head, Roots]:
    """The gradient of blocks of these weights, beside some terms of rank one, and what is known of each block."""
    rng = np.random.default_rng(5)
    gradient = np.einsum("kp,kcf,kc->pf", rows, slopes, weights)
    gradient += rng.normal(size=(INTO, later)) @ rng.normal(size=(later, UNITS)) / 30
    left, values, across = np.linalg.svd(gradient, full_matrices=False)
    rank = int(np.sum(values > 1e-10 * values[0]))
    span = Subspace(left[:, :rank], np.ones(INTO), Subspace.of_gradient(gradient).margin)
    off = np.linalg.norm(rows - rows @ left[:, :rank] @ left[:, :rank].T, axis=1) / np.linalg.norm(rows, axis=1)
    logits = np.zeros((len(rows), 1, OUTPUTS))
    return Head(span, gradient, left, values, across, ONE_PASS), Roots(logits, rows[:, None], slopes[:, None], off)


def drawn(number: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Rows, slopes and weights of some blocks, each of another size."""
    rng = np.random.default_rng(number)
    rows = rng.normal(size=(number, INTO)) * rng.uniform(0.1, 3.0, (number, 1))
    return rows, rng.normal(size=(number, OUTPUTS, UNITS)), rng.normal(size=(number, OUTPUTS))


def test_weights_of_blocks_that_stand_alone() -> None:
    """A block that the gradient lacks has none, even if its row is in the span."""
    rows, slopes, weights = drawn(7)
    weights[5:] = 0.0
    rows[6] = rows[0] + seen(rows, slopes, weights)[0].left[:, 8]  # a row of later steps has a part in it
    head, roots = seen(rows, slopes, weights)
    found = kernel_weights(head, roots, UPSTREAM, FOREVER)
    assert found is not None and roots.off[5] > 0.1 > 1e-9 > roots.off[6]
    np.testing.assert_allclose(found.values[:5], weights[:5], rtol=1e-9)
    assert np.all(found.errors[:5] < 1e-4 * np.linalg.norm(weights[:5], axis=1, keepdims=True))
    assert not found.values[5:].any() and not found.errors[5:].any()


def test_blocks_too_near_to_others_have_unknown_weights() -> None:
    """What tells two blocks apart is the product of how far rows and slopes are, which is less than rounding."""
    rows, slopes, weights = drawn(5)
    rows[1] = rows[0] + 1.5e-4 * np.random.default_rng(9).normal(size=INTO)
    slopes[1], weights[1] = slopes[0] + 1e-9 * slopes[2], 0.5 * weights[0]
    head, roots = seen(rows, slopes, weights)
    assert head.span.rank == 4 + LATER and np.all((roots.off[:2] > ONE_PASS.rows) & (roots.off[:2] < WITHIN))
    found = kernel_weights(head, roots, UPSTREAM, FOREVER)
    assert found is not None and np.isinf(found.errors[:2]).all()
    np.testing.assert_allclose(found.values[2:], weights[2:], atol=1e-3)


def test_weights_of_blocks_whose_rows_depend_on_each_other() -> None:
    """Four rows in three dimensions; and two beside a combination of them that does not occur."""
    rows, slopes, weights = drawn(8)
    rows[3] = rows[0] - rows[1] + rows[2]
    rows[7] = 2.0 * rows[4] - 0.5 * rows[5]
    weights[7] = 0.0
    head, roots = seen(rows, slopes, weights)
    assert head.span.rank == 6 + LATER and roots.off.max() < 1e-9
    found = kernel_weights(head, roots, UPSTREAM, FOREVER)
    assert found is not None
    np.testing.assert_allclose(found.values, weights, atol=1e-9)
    shown = np.any(np.abs(found.values) > found.errors, axis=1)
    np.testing.assert_array_equal(shown, [True] * 7 + [False])


def test_of_blocks_that_are_alike_the_sum_is_known() -> None:
    rows, slopes, weights = drawn(5)
    rows[[1, 4]], slopes[[1, 4]] = rows[0], slopes[0]
    found = kernel_weights(*seen(rows, slopes, weights), UPSTREAM, FOREVER)
    assert found is not None
    assert found.alike.tolist() == [0, 0, 2, 3, 0]
    np.testing.assert_allclose(found.values[[0, 1, 4]], np.tile(weights[[0, 1, 4]].sum(axis=0), (3, 1)), atol=1e-9)
    np.testing.assert_allclose(found.values[2:4], weights[2:4], atol=1e-9)


def test_nothing_is_known_where_other_weights_explain_the_gradient_as_well() -> None:
    """Two blocks of one row whose slopes lie in one plane: a part of one block's weight may be the other's."""
    rows, slopes, weights = drawn(4)
    rows[1] = rows[0]
    slopes[1] = np.array([[1.0, 2.0], [-1.0, 1.0]]) @ slopes[0]
    found = kernel_weights(*seen(rows, slopes, weights), UPSTREAM, FOREVER)
    assert found is not None
    assert np.isinf(found.errors[:2]).all() and np.isfinite(found.errors[2:]).all()


@pytest.mark.parametrize(("later", "some"), [(UNITS - 4, False), (UNITS - 5, True)])
def test_a_gradient_without_a_dimension_to_spare_says_nothing(later: int, some: bool) -> None:
    found = kernel_weights(*seen(*drawn(4), later), UPSTREAM, FOREVER)
    assert (found is not None) == some


@pytest.mark.parametrize("size", [1.0, 1000.0])
def test_blocks_are_alike_in_rows_and_in_slopes_whatever_the_size_of_either(size: float) -> None:
    rows, slopes, weights = drawn(4)
    rows[1], slopes[1] = rows[0] + 1e-3 * np.linalg.norm(rows[0]) * np.eye(INTO)[0], slopes[0]
    found = kernel_weights(*seen(rows, size * slopes, weights / size), UPSTREAM, FOREVER)
    assert found is not None and found.alike.tolist() == [0, 1, 2, 3]
    rows[1], slopes[1] = rows[0], slopes[0] + 1e-3 * np.linalg.norm(slopes[0]) * np.eye(OUTPUTS, UNITS)
    found = kernel_weights(*seen(rows, size * slopes, weights / size), UPSTREAM, FOREVER)
    assert found is not None and found.alike.tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize("most", [3, 4])
def test_weights_of_too_many_blocks_together_are_unknown(most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rows, slopes, weights = drawn(6)
    rows[3] = rows[0] - rows[1] + rows[2]
    monkeypatch.setattr(weights_of_blocks, "TOGETHER", most)
    found = kernel_weights(*seen(rows, slopes, weights), UPSTREAM, FOREVER)
    assert found is not None
    assert np.isinf(found.errors[:4]).all() == (most < 4) and np.isfinite(found.errors[4:]).all()


def test_weights_that_time_does_not_reach_are_unknown() -> None:
    found = kernel_weights(*seen(*drawn(5)), UPSTREAM, ENDED)
    assert found is not None and np.isinf(found.errors).all()


def test_what_a_slope_is_off_the_row_space_bounds_how_far_the_weight_is_off() -> None:
    rows, slopes, weights = drawn(5)
    head, roots = seen(rows, slopes, weights)
    moved = np.linalg.qr(head.across[: head.span.rank].T, mode="complete")[0][:, -1]  # beside the row space
    far = 0.5 * ONE_PASS.slopes * np.linalg.norm(slopes[2])
    found = kernel_weights(head, roots._replace(slopes=(slopes + far * moved)[:, None]), UPSTREAM, FOREVER)
    assert found is not None
    off = np.abs(found.values - weights)
    assert np.all(off[2] <= found.errors[2]) and np.isfinite(found.errors[2]).all()
    assert found.errors[2].max() > 1.2 * ONE_PASS.weights * np.linalg.norm(weights[2])


def test_a_weight_is_unknown_where_another_is_nearly_as_near_to_the_row_space() -> None:
    rows, slopes, weights = drawn(5)
    weights[2] = [1.0, 0.0]
    head, _ = seen(rows, slopes, weights)
    moved = np.linalg.qr(head.across[: head.span.rank].T, mode="complete")[0][:, -1]
    flow = weights[3] @ slopes[3]
    slopes[2, 1] = flow + 10.0 * ONE_PASS.slopes * np.linalg.norm(flow) * moved
    found = kernel_weights(*seen(rows, slopes, weights), UPSTREAM, FOREVER)
    assert found is not None
    assert np.isinf(found.errors[2]).all() and np.isfinite(np.delete(found.errors, 2, axis=0)).all()
