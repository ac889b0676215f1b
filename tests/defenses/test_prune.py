"""What a pruned update says of a gradient."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jgleak.defenses import parse
from jgleak.defenses.prune import bounds, seen_part

compiled_bounds, compiled_part = jax.jit(bounds), jax.jit(seen_part)


@given(st.integers(0, 1000), st.sampled_from([0.5, 0.99]))
@settings(max_examples=10, deadline=None)
def test_the_gradient_behind_a_pruned_update_is_told_from_others(seed: int, share: float) -> None:
    rng = np.random.default_rng(seed)
    gradient = {"kernel": rng.normal(size=(7, 5)).astype(np.float32), "bias": rng.normal(size=5).astype(np.float32)}
    sent = parse(f"prune:{share}").apply(gradient, key=jax.random.key(0))
    bound = jax.tree.map(np.asarray, compiled_bounds(sent))
    seen_part = compiled_part
    for name, leaf in gradient.items():
        left, least = np.asarray(sent[name]), bound[name]
        assert float(least.squeeze()) == np.abs(leaf)[left != 0].min()
        np.testing.assert_array_equal(seen_part(leaf, left, least), left)
        np.testing.assert_allclose(seen_part(2 * leaf, left, least)[left != 0], 2 * leaf[left != 0], rtol=1e-6)
        beyond = np.sign(leaf) * np.maximum(3 * np.abs(leaf) - np.asarray(least), 0)
        np.testing.assert_allclose(seen_part(3 * leaf, left, least)[left == 0], beyond[left == 0], rtol=1e-5, atol=1e-6)


def test_each_of_several_gradients_has_bounds_of_its_own() -> None:
    kernel = jnp.asarray([[[0.0, -2.0], [3.0, 0.0]], [[0.0, 0.0], [0.0, 0.0]], [[0.0, 0.0], [0.0, 0.0]]])
    found = bounds({"kernel": kernel, "bias": jnp.asarray([[0.0, 7.0], [0.0, 5.0], [0.0, 0.0]])}, axis=1)
    assert found["kernel"].shape == (3, 1, 1) and found["bias"].shape == (3, 1)
    np.testing.assert_array_equal(np.ravel(found["kernel"]), [2.0, 5.0, 0.0])  # nothing sent of it: no more than 5
    np.testing.assert_array_equal(np.ravel(found["bias"]), [7.0, 5.0, 0.0])


def test_a_tensor_without_entries_bounds_nothing() -> None:
    found = bounds({"none": jnp.zeros((0, 3)), "kernel": jnp.asarray([[0.0, -2.0], [3.0, 0.0]])})
    assert float(found["kernel"].squeeze()) == float(found["none"].squeeze()) == 2.0


def test_the_largest_entries_of_a_whole_update_leave_tensors_without_any() -> None:
    """Another client's pruning: the truth still explains what was sent."""
    rng = np.random.default_rng(0)
    gradient = {name: scale * rng.normal(size=(6, 5)) for name, scale in (("small", 1e-3), ("large", 1.0))}
    least = np.quantile(np.abs(np.concatenate([leaf.ravel() for leaf in gradient.values()])), 0.8)
    sent = {name: np.where(np.abs(leaf) >= least, leaf, 0.0) for name, leaf in gradient.items()}
    assert not sent["small"].any() and sent["large"].any()
    for name, bound in bounds(sent).items():
        np.testing.assert_array_equal(seen_part(gradient[name], sent[name], bound), np.float32(sent[name]))


@pytest.mark.parametrize(("share", "size", "left"), [(0.99, 100, 1), (0.99, 90_000, 900), (0.7, 10, 3), (0.5, 7, 4)])
def test_as_many_entries_leave_as_the_share_says(share: float, size: int, left: int) -> None:
    gradient = np.random.default_rng(0).permutation(np.arange(1.0, size + 1)).astype(np.float32)
    assert np.count_nonzero(parse(f"prune:{share}").apply(gradient, key=jax.random.key(0))) == left


def test_zero_entries_may_have_been_left_out_by_pruning_only() -> None:
    assert parse("clip:1+prune:0.5").drops
    assert not any(parse(text).drops for text in ("", "clip:1", "gaussian:0.1", "sign", "quantise:2", "clip-inf:1"))
