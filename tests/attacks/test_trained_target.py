"""The target of several local steps, where it has a closed form."""

from __future__ import annotations

import math
from collections.abc import Callable

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


def tried(residual: Callable[[float], float], first: float) -> tuple[float, list[float]]:
    """The target that is found, and all that were tried."""
    asked: list[float] = []

    def told(y: jax.Array) -> jax.Array:
        asked.append(float(y))
        return jnp.asarray(residual(float(y)))

    with jax.disable_jit():
        return float(trained_target(told, jnp.asarray(first))), asked


def test_a_bent_residual_is_followed_until_it_is_close() -> None:
    found, asked = tried(lambda y: 2.0 * (3.0 - y) + 0.02 * (3.0 - y) ** 3, 2.0)
    assert found == pytest.approx(3.0, abs=2e-6) and found in asked and len(asked) < ROUNDS
    assert tried(lambda y: 0.0, 2.0) == (2.0, [2.0]), "the first target is the client's"
    assert tried(lambda y: 2.0 * (3.0 - y), 2.0) == (3.0, [2.0, 3.0]), "one step's slope"


@pytest.mark.parametrize("side", [1.0, -1.0])
def test_no_step_is_more_than_four_times_as_long_as_the_last(side: float) -> None:
    """The secant's own is 19 times as long."""
    found, asked = tried(lambda y: side * (0.95 if side * y > 1.75 else 1.0), 1.5 * side)
    assert asked[2] - asked[1] == pytest.approx(4.0 * (asked[1] - asked[0])) == 2.0 * side and found == asked[1]


def test_the_least_residual_counts() -> None:
    """Of one that has no zero."""
    found, asked = tried(lambda y: math.copysign(1.0 + abs(y), 1.0 - y), 0.5)
    assert len(asked) == 1 + ROUNDS and found == min(asked, key=abs)


def test_targets_whose_training_diverges_are_left() -> None:
    found, asked = tried(lambda y: 2.0 * (3.0 - y) ** 3 if y < 4.0 else math.nan, 1.0)
    assert max(asked) > 4.0 and found < 4.0
    assert asked[2] == pytest.approx((asked[0] + asked[1]) / 2.0), "halfway back"
    assert tried(lambda y: math.inf, 1.0) == (1.0, [1.0])
