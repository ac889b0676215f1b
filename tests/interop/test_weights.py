"""Lists of weights before and after: one step is the gradient, several their mean, and what rounding leaves."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from jgleak.federated.observation import flatten
from jgleak.interop import from_arrays, from_weights, rounding
from tests.interop.conftest import Stranger


def lists(one: Stranger, rate: float) -> tuple[list[str], list[np.ndarray], list[np.ndarray]]:
    """What Flower moves: the names' order, the arrays sent, the arrays returned after one step."""
    names = list(one.state)
    before = [one.state[name] for name in names]
    zero = np.zeros(1, np.float32)
    return names, before, [w - np.float32(rate) * one.gradient.get(n, zero) for n, w in zip(names, before, strict=True)]


@pytest.mark.parametrize("name", ["gcn", "gin"])
def test_one_step_is_the_gradient_up_to_rounding(name: str, strangers: dict[str, Stranger]) -> None:
    one, rate = strangers[name], 0.1
    names, before, after = lists(one, rate)
    seen = from_weights(names, before, after, one.layers, rate=rate, loss=one.loss, example=one.example)
    wanted = from_arrays(**one.given)
    assert seen.protocol == "fedsgd" and seen.loss == wanted.loss
    error = np.concatenate(
        [(leaf - flatten(wanted.update)[path]).ravel() for path, leaf in flatten(seen.update).items()]
    )
    expected = rounding(names, after, rate=rate)
    assert 0.3 * expected < np.sqrt(np.mean(error**2)) < 2 * expected


def test_several_steps_are_their_mean(strangers: dict[str, Stranger]) -> None:
    one = strangers["sage"]
    names, before, after = lists(one, 0.5)
    seen = from_weights(names, before, after, one.layers, rate=0.1, steps=5, loss=one.loss)
    assert (seen.protocol, seen.local_steps, seen.local_rate) == ("fedavg", 5, 0.1)
    np.testing.assert_allclose(seen.update["readout"]["mlp"]["linears_0"]["bias"], one.gradient["lin1.bias"], atol=1e-5)


def test_lists_that_do_not_fit_are_refused(strangers: dict[str, Stranger]) -> None:
    one = strangers["gcn"]
    names, before, after = lists(one, 0.1)
    good: dict[str, Any] = {"layers": one.layers, "loss": one.loss, "rate": 0.1}
    with pytest.raises(ValueError, match="before: 7 arrays for 8 names; .*order"):
        from_weights(names, before[1:], after, **good)
    with pytest.raises(ValueError, match="after: 'conv1.bias' has shape .* it was sent as"):
        from_weights(names, before, [np.ones(3, np.float32), *after[1:]], **good)
    with pytest.raises(ValueError, match="a rate above 0, got 1 at 0"):
        from_weights(names, before, after, **{**good, "rate": 0})
    with pytest.raises(ValueError, match="'conv1.bias' holds NaN"):
        from_weights(names, before, [np.full(6, np.nan, np.float32), *after[1:]], **good)
