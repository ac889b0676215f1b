"""Products and distances of gradients in factors are those of the gradients, and small ones are not lost."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jgleak.attacks.matching import leaves
from jgleak.attacks.matching.leaves import Compressed, Dense, Whole, compressed
from jgleak.attacks.matching.objectives import entrywise, squared
from jgleak.attacks.matching.product import product, product_left, product_right
from jgleak.defenses.prune import bounds, seen_part
from jgleak.federated.factors import Outer

ROWS, F, D = 6, 40, 30


def outer(seed: int, rank: int = ROWS, scale: float = 1.0) -> Outer:
    """Rows and slopes of ``ROWS`` nodes of which only ``rank`` differ."""
    rng = np.random.default_rng(seed)
    same = np.arange(ROWS) % rank
    rows, slopes = rng.normal(size=(rank, F))[same], rng.normal(size=(1, ROWS, D)) * scale
    return Outer(jnp.asarray(rows, jnp.float32), jnp.asarray(slopes, jnp.float32))


def sent(*arguments: Any) -> Any:
    """``compressed``, taken to the device."""
    return jax.tree.map(jnp.asarray, compressed(*arguments))


def slope(value: Any, at: Any) -> Any:
    """A derivative, compiled as one program."""
    return jax.jit(jax.grad(value))(at)


def dense(leaf: Outer) -> np.ndarray:
    return np.einsum("rf,trd->tfd", *(np.asarray(part, np.float64) for part in leaf))


def formed(gradients: Any) -> Dense:
    return Dense(jnp.swapaxes(jnp.asarray(gradients, jnp.float32), 1, 2))


@given(st.integers(0, 100), st.integers(1, ROWS), st.integers(1, ROWS), st.floats(0.01, 100.0))
@settings(max_examples=25, deadline=None)
def test_products_in_factors(seed: int, rank: int, other: int, scale: float) -> None:
    found, truth = outer(seed, rank), outer(seed + 1, other, scale)
    a, b = dense(found), dense(truth)
    seen = sent(b.astype(np.float32), ROWS)
    assert isinstance(seen, Compressed)
    assert seen.left.shape == (F, ROWS) and seen.right.shape == (D, ROWS)
    np.testing.assert_allclose((seen.left * seen.values) @ seen.right.T, b[0], atol=1e-5 * np.abs(b).max())
    np.testing.assert_allclose(leaves.gap(found, seen), [np.sum((a - b) ** 2)], rtol=1e-4)
    np.testing.assert_allclose(leaves.size(found, seen), [np.sum(a**2)], rtol=1e-4)
    np.testing.assert_allclose(leaves.inner(found, seen), [np.sum(a * b)], atol=4e-4 * float(np.linalg.norm(a)) * scale)
    np.testing.assert_allclose(leaves.wanted(seen), [np.sum(b**2)], rtol=1e-4)
    for one in (leaves.gap, leaves.size, leaves.inner):
        np.testing.assert_allclose(one(found, seen), one(found, formed(b)), rtol=1e-3, atol=1e-3 * scale)


def test_plain_arrays_are_the_gradients_however_they_are_held() -> None:
    """An objective of these is the one in factors; of a frozen leaf there is none."""
    found, truth = outer(0), dense(outer(1)).astype(np.float32)
    a, bias = dense(found), jnp.asarray(np.arange(3.0)[None])
    few = np.where(np.abs(truth) > 1.0, truth, 0.0)
    ways = (
        sent(truth, ROWS),
        Whole(jnp.asarray(truth[0])),
        formed(truth),
        jax.tree.map(jnp.asarray, leaves.kept(few, np.asarray(bounds(few, axis=1)), kernel=True)),
    )
    for seen in ways:
        mine, other = leaves.arrays([found, bias, bias], [seen, 2.0 * bias, leaves.Untrained()])
        observed = few if isinstance(seen, leaves.Kept) else truth
        assert len(mine) == len(other) == 2
        np.testing.assert_allclose(other[0], observed, atol=1e-4)
        np.testing.assert_array_equal(other[1], 2.0 * bias)
        shown = seen_part(a, few, bounds(few, axis=1)) if isinstance(seen, leaves.Kept) else a
        np.testing.assert_allclose(mine[0], shown, atol=1e-4)

    def summed(mine: list[Any], other: list[Any]) -> Any:
        gap = sum(jnp.sum((a - b) ** 2) for a, b in zip(mine, other, strict=True))
        return gap / sum(jnp.sum(b**2) for b in other)

    trees = {"w": found, "b": bias}, {"w": sent(truth, ROWS), "b": 2.0 * bias}
    np.testing.assert_allclose(entrywise(summed)(*trees), squared(*trees), rtol=1e-4)
    ours, own = (jax.grad(lambda tree, one=one: one(tree, trees[1]))(trees[0]) for one in (entrywise(summed), squared))
    jax.tree.map(lambda x, y: np.testing.assert_allclose(x, y, atol=1e-3 * float(jnp.abs(y).max())), ours, own)


def test_a_gradient_of_zeros_has_the_lowest_rank() -> None:
    seen = compressed(np.zeros((1, F, D), np.float32), ROWS)
    assert isinstance(seen, Compressed) and not np.any(seen.values)


@pytest.mark.parametrize("rank", [1, 3, ROWS])
def test_small_distances_are_told_from_zero(rank: int) -> None:
    """A shift of one part in 1e5 of the slopes: its square is 1e-10 of the whole, far below float32's resolution."""
    truth = outer(0, rank)
    seen = sent(dense(truth).astype(np.float32), ROWS)
    whole = np.sum(dense(truth) ** 2)
    assert float(leaves.gap(truth, seen)[0]) < 1e-13 * whole
    shifted = truth._replace(slopes=truth.slopes * (1 + 1e-5))
    np.testing.assert_allclose(leaves.gap(shifted, seen), [1e-10 * whole], rtol=0.1)


def test_what_is_not_of_low_rank_stays_whole() -> None:
    truth = dense(outer(0)).astype(np.float32)
    noisy = truth + 1e-2 * np.random.default_rng(0).normal(size=truth.shape).astype(np.float32)
    assert isinstance(sent(truth, ROWS), Compressed)
    whole = sent(noisy, ROWS)
    assert isinstance(whole, Whole)
    np.testing.assert_array_equal(whole.gradient, noisy[0])
    slightly = truth + 1e-5 * (noisy - truth)
    assert not isinstance(sent(slightly, ROWS), Whole)
    little = truth + 1e-2 * (noisy - truth)
    many = np.concatenate([truth, truth])
    for leaf, rows, why in (
        (little, ROWS, "near enough that a square expanded would lose what is left"),
        (many, ROWS, "several gradients"),
        (truth, 10, "factors of ten columns are not smaller by half"),
    ):
        kept = sent(leaf, rows)
        assert isinstance(kept, Dense), why
        np.testing.assert_array_equal(kept.columns, leaf.swapaxes(1, 2))


@pytest.mark.parametrize(("rows", "form"), [(9, Compressed), (10, Dense)])
def test_factors_hold_less_than_half_of_the_numbers(rows: int, form: type) -> None:
    """Those of ten rows of 40 columns have half as many as the gradient."""
    left, right = np.random.default_rng(0).normal(size=(2, 40, 9))
    assert isinstance(compressed((left @ right.T)[None].astype(np.float32), rows), form)


@pytest.mark.parametrize("one", [leaves.gap, leaves.size, leaves.inner], ids=["gap", "size", "inner"])
def test_several_gradients_of_one_kernel_are_compared_one_by_one(one: Any) -> None:
    """Each of three has its own number, and its own derivative: those of the arrays themselves."""
    rng = np.random.default_rng(0)
    parts = [rng.normal(size=(ROWS, F)), rng.normal(size=(3, ROWS, D))]
    found = Outer(*(jnp.asarray(part, jnp.float32) for part in parts))
    seen, weights = jnp.asarray(rng.normal(size=(3, F, D)), jnp.float32), jnp.asarray([1.0, -2.0, 0.5])
    by_hand = jnp.einsum("rf,trd->tfd", *found)
    np.testing.assert_allclose(one(found, formed(seen)), one(by_hand, seen), rtol=1e-4, atol=1e-2)
    slopes = slope(lambda leaf: weights @ one(leaf, formed(seen)), found)
    wanted = slope(lambda leaf: weights @ one(jnp.einsum("rf,trd->tfd", *leaf), seen), found)
    for a, b in zip(slopes, wanted, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-3 * float(np.abs(b).max()))


def test_a_small_kernels_gradient_has_a_derivative_too() -> None:
    found, seen = outer(0), formed(dense(outer(1)))
    slopes = slope(lambda columns: leaves.gap(found, Dense(columns))[0], seen.columns)
    np.testing.assert_allclose(slopes, 2 * (seen.columns - formed(dense(found)).columns), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("one", [leaves.gap, leaves.size, leaves.inner, leaves.exact_gap])
def test_whole_gradients_are_compared_without_forming_the_other(one: Any) -> None:
    found, truth = outer(3), dense(outer(4)).astype(np.float32)
    truth += np.random.default_rng(0).normal(size=truth.shape).astype(np.float32)
    whole = sent(truth, ROWS)
    np.testing.assert_allclose(one(found, whole), one(found, formed(truth)), rtol=1e-4)
    np.testing.assert_allclose(leaves.wanted(whole), leaves.wanted(formed(truth)), rtol=1e-5)
    slopes = [slope(lambda leaf, seen=seen: one(leaf, seen)[0], found) for seen in (whole, formed(truth))]
    for a, b in zip(*slopes, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-3 * np.abs(b).max())


def test_the_distance_of_an_answer_loses_nothing() -> None:
    found = outer(3)
    near = dense(found).astype(np.float32) + 1e-2 * np.random.default_rng(0).normal(size=(1, F, D)).astype(np.float32)
    far = np.sum((dense(found) - near) ** 2)
    np.testing.assert_allclose(leaves.exact_gap(found, sent(near, ROWS)), [far], rtol=1e-2)


@pytest.mark.parametrize("one", [leaves.gap, leaves.size, leaves.inner, leaves.exact_gap, leaves.sent_size])
def test_of_a_pruned_kernel_only_what_was_sent_counts_and_what_was_too_large_to_be_left_out(one: Any) -> None:
    found, truth = outer(3), dense(outer(4)).astype(np.float32)
    bound = np.quantile(np.abs(truth), 0.9)
    sent = np.where(np.abs(truth) >= bound, truth, 0.0)
    seen = jax.tree.map(jnp.asarray, leaves.kept(sent, np.asarray(bounds(sent, axis=1)), kernel=True))

    def by_hand(leaf: Outer) -> Any:
        formed = jnp.einsum("rf,trd->tfd", *leaf)
        least = np.abs(sent[sent != 0]).min()
        rest = jnp.where(one is leaves.sent_size, 0.0, jnp.sign(formed) * jnp.maximum(jnp.abs(formed) - least, 0.0))
        shown = jnp.where(sent != 0, formed, rest)
        if one in (leaves.size, leaves.sent_size):
            return jnp.sum(shown**2)
        return jnp.sum(shown * sent) if one is leaves.inner else jnp.sum((shown - sent) ** 2)

    np.testing.assert_allclose(one(found, seen), [by_hand(found)], rtol=1e-4)
    slopes = slope(lambda leaf: one(leaf, seen)[0], found), slope(by_hand, found)
    for a, b in zip(*slopes, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-3 * float(np.abs(b).max()))
    assert float(leaves.gap(outer(4), seen)[0]) < 1e-8 * float(leaves.wanted(seen)[0])


def test_of_a_pruned_bias_too() -> None:
    seen = leaves.kept(np.array([[0.0, -2.0, 5.0]], np.float32), np.array([[2.0]], np.float32), kernel=False)
    seen = jax.tree.map(jnp.asarray, seen)
    np.testing.assert_allclose(leaves.gap(jnp.array([[1.9, -2.0, 5.0]]), seen), [0.0])
    np.testing.assert_allclose(leaves.gap(jnp.array([[-3.0, -1.0, 5.0]]), seen), [2.0])


@pytest.mark.parametrize("one", [leaves.gap, leaves.size, leaves.inner], ids=["gap", "size", "inner"])
def test_derivatives_in_factors(one: Any) -> None:
    found, truth = outer(3), dense(outer(4)).astype(np.float32)
    seen = sent(truth, ROWS)
    by_factors = slope(lambda leaf: one(leaf, seen)[0], found)
    by_hand = slope(lambda leaf: one(jnp.einsum("rf,trd->tfd", *leaf), jnp.asarray(truth))[0], found)
    for a, b in zip(by_factors, by_hand, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-3 * np.abs(b).max())


@pytest.mark.parametrize(
    ("one", "plain"),
    [
        (product, lambda a, b: a @ b),
        (product_right, lambda a, b: a @ b.T),
        (product_left, lambda a, b: a.T @ b),
    ],
    ids=["product", "right", "left"],
)
def test_second_derivatives_of_products(one: Any, plain: Any) -> None:
    rng = np.random.default_rng(0)
    a, b = (jnp.asarray(rng.normal(size=(4, 4)), jnp.float32) for _ in range(2))

    def twice(f: Any) -> Any:
        def slope(a: Any, b: Any) -> Any:
            first, second = jax.grad(lambda x, y: jnp.sum(jnp.sin(f(x, y))), (0, 1))(a, b)
            return jnp.sum(first * second**2)

        return jax.jit(jax.grad(slope, (0, 1)))(a, b)

    np.testing.assert_allclose(one(a, b), plain(a, b), rtol=1e-5)
    jax.tree.map(lambda x, y: np.testing.assert_allclose(x, y, rtol=1e-4, atol=1e-4), twice(one), twice(plain))
