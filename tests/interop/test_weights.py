"""Lists of weights before and after: one step is the gradient, several their mean, and what rounding leaves."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from jgleak.features import FeatureSpace, real
from jgleak.federated import LocalTraining, load, save
from jgleak.federated.observation import flatten
from jgleak.interop import Client, from_arrays, from_weights, named, rounding
from jgleak.interop.weights import mean_gradient
from tests.interop.conftest import UNCOMPARED, Stranger

pytestmark = UNCOMPARED


def lists(one: Stranger, rate: float) -> tuple[list[str], list[np.ndarray], list[np.ndarray]]:
    """What Flower moves: the names' order, the arrays sent, the arrays returned after one step."""
    names = list(one.state)
    before = [one.state[name] for name in names]
    zero = np.zeros(1, np.float32)
    return names, before, [w - np.float32(rate) * one.gradient.get(n, zero) for n, w in zip(names, before, strict=True)]


@pytest.mark.parametrize("name", ["gcn", "gin"])
def test_one_step_is_the_gradient_up_to_rounding(name: str, strangers: dict[str, Stranger]) -> None:
    one, local = strangers[name], LocalTraining(0.1)
    names, sent, returned = lists(one, local.rate)
    before, after = named(names, sent), named(names, returned)
    example = dataclasses.replace(one.example, labels=None)
    seen = from_weights(before, after, one.layers, client=Client(local=local), loss=one.loss, example=example)
    wanted = from_arrays(**one.given)
    assert seen.protocol == "fedsgd" and seen.loss == wanted.loss
    error = np.concatenate(
        [(leaf - flatten(wanted.update)[path]).ravel() for path, leaf in flatten(seen.update).items()]
    )
    expected = rounding(before, after, local)
    assert seen.noise == expected and wanted.noise is None
    assert 0.3 * expected < np.sqrt(np.mean(error**2)) < 2 * expected


def test_several_steps_are_their_mean(strangers: dict[str, Stranger]) -> None:
    one = strangers["sage"]
    names, sent, returned = lists(one, 0.5)
    before, after, local = named(names, sent), named(names, returned), LocalTraining(rate=0.1, steps=5)
    seen = from_weights(before, after, one.layers, client=Client(local=local), loss=one.loss)
    assert (seen.protocol, seen.local) == ("fedavg", local)
    np.testing.assert_allclose(seen.update["readout"]["mlp"]["linears_0"]["bias"], one.gradient["lin1.bias"], atol=1e-5)


def test_the_observation_says_what_the_client_did(strangers: dict[str, Stranger], tmp_path: Path) -> None:
    one, local = strangers["gcn"], LocalTraining(0.1)
    names, sent, returned = lists(one, local.rate)
    before, after = named(names, sent), named(names, returned)
    did = Client(clipped=True, pruned=True, noise=1e-3, local=local)
    seen = from_weights(before, after, one.layers, loss=one.loss, client=did)
    save(tmp_path / "one", seen)
    again, _ = load(tmp_path / "one", FeatureSpace(tuple(real(f"c{i}") for i in range(seen.model.in_features))))
    for read in (seen, again):
        assert (
            read.scaled and read.pruned and read.noise == pytest.approx(np.hypot(1e-3, rounding(before, after, local)))
        )
    wide, moved = ({name: array.astype(np.float64) for name, array in arrays.items()} for arrays in (before, after))
    assert from_weights(wide, moved, one.layers, client=Client(local=local), loss=one.loss).noise is None, (
        "64 bits leave less than 32 show"
    )


def test_weights_that_do_not_fit_are_refused(strangers: dict[str, Stranger]) -> None:
    one = strangers["gcn"]
    names, before, after = lists(one, 0.1)
    good: dict[str, Any] = {"layers": one.layers, "loss": one.loss, "client": Client(local=LocalTraining(0.1))}
    with pytest.raises(ValueError, match="7 arrays for 8 names; .*order"):
        named(names, before[1:])
    sent = named(names, before)
    with pytest.raises(ValueError, match="after: lacks 'conv1.bias'; give both"):
        from_weights(sent, named(names[1:], after[1:]), **good)
    with pytest.raises(ValueError, match="before: lacks 'conv1.bias'; give both"):
        from_weights(named(names[1:], before[1:]), named(names, after), **good)
    with pytest.raises(ValueError, match="after: 'conv1.bias' has shape .* it was sent as"):
        from_weights(sent, named(names, [np.ones(3, np.float32), *after[1:]]), **good)
    with pytest.raises(ValueError, match="'conv1.bias' holds NaN"):
        from_weights(sent, named(names, [np.full(6, np.nan, np.float32), *after[1:]]), **good)


def test_how_the_client_trained_must_be_said_and_frozen_parts_may(strangers: dict[str, Stranger]) -> None:
    one, local = strangers["gcn"], LocalTraining(0.1)
    names, sent, returned = lists(one, local.rate)
    before, after = named(names, sent), named(names, returned)
    with pytest.raises(ValueError, match=r"client: .*nothing says which; give client=Client\(local=LocalTraining"):
        from_weights(before, after, one.layers, loss=one.loss, client=Client())
    frozen = ["conv1.lin.weight", "conv1.bias"]
    after |= {name: before[name] for name in frozen}
    seen = from_weights(before, after, one.layers, loss=one.loss, client=Client(frozen, local=local))
    assert set(seen.model.frozen) == {"layers_0/conv/kernel", "layers_0/conv/bias"}


def test_gradients_along_several_steps_say_so(strangers: dict[str, Stranger]) -> None:
    local = LocalTraining(0.1, steps=3)
    seen = from_arrays(**{**strangers["sage"].given, "client": Client(local=local)})
    assert (seen.protocol, seen.local) == ("fedavg", local)


def moved(one: Stranger, local: LocalTraining, kind: Any, still: str = "") -> tuple[dict[str, Any], dict[str, Any]]:
    """Weights before and after steps with one gradient and decay, in numbers of some type; ``still`` is not trained."""
    before = {name: array.astype(kind) for name, array in one.state.items()}
    after = dict(before)
    for _ in range(local.steps):
        for name, slope in one.gradient.items():
            if name != still:
                step = slope.astype(kind) + kind(local.weight_decay) * after[name]
                after[name] = after[name] - kind(local.rate) * step
    return before, after


def test_what_did_not_decay_was_not_trained(strangers: dict[str, Stranger]) -> None:
    """Weights that decay by less than their rounding say nothing of it."""
    one, local = strangers["gcn"], LocalTraining(0.1, 3, weight_decay=0.01)
    for decay, frozen in ((0.01, ("layers_0/conv/kernel",)), (1e-9, ())):
        how = dataclasses.replace(local, weight_decay=decay)
        before, after = moved(one, how, np.float32, still="conv1.lin.weight")
        seen = from_weights(before, after, one.layers, loss=one.loss, client=Client(local=how))
        assert seen.model.frozen == frozen
    said = Client(["conv1.lin.weight"], local=how)
    assert from_weights(before, after, one.layers, loss=one.loss, client=said).model.frozen == ("layers_0/conv/kernel",)


def test_entries_that_decayed_alone_are_zero(strangers: dict[str, Stranger]) -> None:
    """Of weights in 64 bits, whose rounding nothing else shows."""
    one, local = strangers["gcn"], LocalTraining(0.1, 3, weight_decay=0.01)
    quiet = {name: np.array(slope) for name, slope in one.gradient.items()}
    off, on, *_ = np.flatnonzero(np.any(quiet["conv2.lin.weight"], axis=1)).tolist()
    quiet["conv2.lin.weight"][off] = 0.0  # rows of PyTorch's maps are columns here
    before, after = moved(dataclasses.replace(one, gradient=quiet), local, np.float64)
    seen = from_weights(before, after, one.layers, loss=one.loss, client=Client(local=local))
    kernel = flatten(seen.update)["layers_1/conv/kernel"]
    assert not np.any(kernel[:, off]) and np.any(kernel[:, on])


def test_rounding_is_that_of_the_loudest_array_that_moved() -> None:
    small, large = np.full((3, 3), 0.3, np.float32), np.full(4, 1.5, np.float32)
    before = {"a": small, "b": large, "still": np.full(2, 9.0, np.float32)}
    after = before | {"a": small + np.float32(0.1), "b": large + np.float32(0.1)}
    local = LocalTraining(0.1, 4)
    spacing = 2.0**-23  # of numbers from 1 to 2
    assert rounding(before, after, local) == pytest.approx(spacing / np.sqrt(12) * 2 / 0.4)
    assert rounding(before, before | {"a": after["a"]}, local) == pytest.approx(spacing / 4 / np.sqrt(12) * 2 / 0.4)
    assert rounding(before, before, local) == 0.0


def test_the_factor_of_decoupled_decay_is_rounded_at_every_step_alike() -> None:
    """Entries without a gradient under AdamW, which PyTorch multiplies with ``1 - rate decay``."""
    local = LocalTraining(1e-2, 40, weight_decay=0.02, optimiser="adam")
    before = np.random.default_rng(0).normal(size=500).astype(np.float32)
    for kind, left in ((np.float32, True), (np.float64, False)):
        sent = before.astype(kind)
        after = sent
        for _ in range(local.steps):
            after = after * kind(1 - local.rate * local.weight_decay)
        rest = mean_gradient(sent, after, local)
        assert np.any(rest) == left and np.sqrt(np.mean(rest**2)) <= rounding({"a": sent}, {"a": after}, local)
    assert np.sqrt(np.mean(rest**2)) == 0.0 and local.kept[-1] == pytest.approx((1 - 2e-4) ** 40, rel=1e-12)


def test_weights_of_adam_are_read_as_directions(strangers: dict[str, Stranger]) -> None:
    """Their sums are no gradient's: three classes under cross-entropy are not refused for it."""
    one, local = strangers["sage"], LocalTraining(1e-3, 4, weight_decay=0.01, optimiser="adam")
    signs = {name: slope / (np.abs(slope) + np.float32(1e-4)) for name, slope in one.gradient.items()}
    before, after = moved(dataclasses.replace(one, gradient=signs), local, np.float64)
    seen = from_weights(before, after, one.layers, loss=one.loss, client=Client(local=local))
    assert (seen.protocol, seen.local) == ("fedavg", local) and seen.loss == "ce" and seen.noise is None
    np.testing.assert_allclose(seen.update["readout"]["mlp"]["linears_0"]["bias"], signs["lin1.bias"], atol=1e-9)
