"""The target of several local steps, where it has a closed form."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import pytest

from jgleak.attacks.trained_target import ROUNDS, trained_target


@pytest.mark.parametrize("rate", [1e-3, 0.1])
@pytest.mark.parametrize("target", [-7.0, 0.3, 500.0])
def test_the_target_of_one_weight_comes_back(target: float, rate: float) -> None:
    """Output ``w`` with loss ``(w - y)^2``: after ``t`` steps it is ``y + (1 - 2 rate)^t (w - y)``."""
    steps, begun = 5, 1.5
    shrunk = sum((1.0 - 2.0 * rate) ** t for t in range(steps)) / steps
    seen = 2.0 * (begun - target) * shrunk

    def residual(y: jax.Array) -> jax.Array:
        return 2.0 * (begun - y) * shrunk - seen

    first = jnp.asarray(begun - seen / 2.0)
    assert abs(float(first) - target) > 1e-4 * abs(target), "the target of one step is another"
    assert float(jax.jit(lambda y: trained_target(residual, y))(first)) == pytest.approx(target, rel=1e-5)


def test_a_bent_residual_is_followed_and_no_step_is_much_longer_than_the_last() -> None:
    found = trained_target(lambda y: 2.0 * (3.0 - y) + 0.02 * (3.0 - y) ** 3, jnp.asarray(2.0))
    assert float(found) == pytest.approx(3.0, abs=1e-6)
    assert float(trained_target(lambda y: jnp.asarray(0.5), jnp.asarray(1.0))) == 1.25, "no slope, no further step"
    tried: list[float] = []

    def flat(y: jax.Array) -> jax.Array:
        tried.append(float(y))
        return jnp.where(y > 2.0, 1.9, 2.0)

    with jax.disable_jit():
        trained_target(flat, jnp.asarray(1.5))
    moves = [abs(b - a) for a, b in zip(tried, tried[1:], strict=False)]
    assert moves[1] == pytest.approx(4.0 * moves[0]) and len(tried) == 1 + ROUNDS
