"""What a pruned update says of a gradient."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from jgleak.defenses import parse
from jgleak.defenses.prune import smallest, told


@given(st.integers(0, 1000), st.sampled_from([0.1, 0.5, 0.9, 0.99]))
@settings(max_examples=20, deadline=None)
def test_the_gradient_behind_a_pruned_update_is_told_from_others(seed: int, share: float) -> None:
    rng = np.random.default_rng(seed)
    gradient = {"kernel": rng.normal(size=(7, 5)).astype(np.float32), "bias": rng.normal(size=5).astype(np.float32)}
    sent = parse(f"prune:{share}").apply(gradient, key=jax.random.key(0))
    for name, leaf in gradient.items():
        left, least = np.asarray(sent[name]), smallest(sent[name])
        assert float(least.squeeze()) == np.abs(leaf)[left != 0].min()
        np.testing.assert_array_equal(told(leaf, left, least), left)
        np.testing.assert_allclose(told(2 * leaf, left, least)[left != 0], 2 * leaf[left != 0], rtol=1e-6)
        beyond = np.sign(leaf) * np.maximum(3 * np.abs(leaf) - np.asarray(least), 0)
        np.testing.assert_allclose(told(3 * leaf, left, least)[left == 0], beyond[left == 0], rtol=1e-5, atol=1e-6)


def test_each_of_several_gradients_has_its_own_smallest_entry() -> None:
    sent = jnp.asarray([[[0.0, -2.0], [3.0, 0.0]], [[0.0, 0.0], [0.0, 0.0]]])
    found = smallest(sent, (1, 2))
    assert found.shape == (2, 1, 1)
    np.testing.assert_array_equal(np.ravel(found), [2.0, 0.0])  # the largest entry is always sent: this one is zero


def test_zero_entries_may_have_been_left_out_by_pruning_only() -> None:
    assert parse("clip:1+prune:0.5").drops
    assert not any(parse(text).drops for text in ("", "clip:1", "gaussian:0.1", "sign", "quantise:2", "clip-inf:1"))
