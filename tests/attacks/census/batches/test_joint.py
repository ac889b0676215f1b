"""Parts of a batch's gradient: their sum, what they leave, and the lists they are compared with."""

from __future__ import annotations

import dataclasses
from typing import Any

import jax
import numpy as np
import pytest

from jgleak.attacks.census.batches import joint
from jgleak.attacks.census.batches.joint import TAKEN, distance, remaining, replayed, summed, together, without
from jgleak.attacks.distance import MATCH
from jgleak.federated import LocalTraining, Observation


@pytest.fixture(scope="module")
def seen(lab: Any) -> Observation:
    """Of three graphs; nothing is compiled."""
    model = lab.model(hidden=4, readout_widths=(3,))
    params = lab.params(model)
    return Observation(model, params, jax.tree.map(lambda leaf: 2.0 * leaf, params), "bce", batch_size=3)


def test_what_is_found_is_taken_from_the_mean_and_the_rest_is_a_mean_of_its_own(seen: Observation) -> None:
    part = jax.tree.map(lambda leaf: np.full_like(leaf, 0.5, dtype=np.float64), seen.update)
    steps = dataclasses.replace(seen, protocol="fedavg", local=LocalTraining(0.1, 1))
    left = remaining(steps, [part, part])
    assert (left.batch_size, left.protocol, left.local, left.scaled) == (1, "fedsgd", None, False)
    for own, whole in zip(jax.tree.leaves(left.update), jax.tree.leaves(seen.update), strict=True):
        assert own.dtype == np.float32
        np.testing.assert_allclose(own, 3.0 * (np.asarray(whole) - 1.0), rtol=1e-6)
    assert remaining(dataclasses.replace(seen, scaled=True), [part]).scaled
    assert remaining(dataclasses.replace(seen, loss="masked_bce"), [part]).scaled, "how many labels others have"
    assert remaining(seen, [part]).batch_size == 2


def test_the_distance_of_parts_is_that_of_their_sum_relative_to_the_update(seen: Observation) -> None:
    shares = [jax.tree.map(lambda leaf, share=share: share * leaf, seen.update) for share in (0.25, 0.25, 0.75)]
    assert distance(seen, shares) == pytest.approx(0.25)
    assert distance(seen, without(shares, 0)) == pytest.approx(0.0, abs=1e-7)
    for own, whole in zip(jax.tree.leaves(summed(shares)), jax.tree.leaves(seen.update), strict=True):
        np.testing.assert_allclose(own, 1.25 * np.asarray(whole), rtol=1e-6)


def test_lists_of_one_gradient_are_as_far_as_the_batch_and_each_of_their_graphs(
    seen: Observation, lab: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each graph is compared with what the first ones of the other lists leave."""
    graphs = [lab.path([colour]) for colour in range(4)]
    far = dict(zip(map(id, graphs), (0.0, 0.5, 0.25, 0.0), strict=True))
    left = list[int]()

    def each_gradient(observation: Any, space: Any, firsts: Any) -> list[Any]:
        assert firsts == [graphs[0], graphs[2], graphs[3]]
        return [jax.tree.map(lambda leaf: leaf / 4, seen.update) for _ in firsts]

    def fitting(observation: Any, space: Any, some: Any) -> list[float]:
        left.append(observation.batch_size)
        return [far[id(graph)] for graph in some]

    monkeypatch.setattr(joint, "each_gradient", each_gradient)
    monkeypatch.setattr(joint, "fitting", fitting)
    step = dataclasses.replace(seen, protocol="fedavg", local=LocalTraining(0.1, 1))  # is a gradient too
    found = together(step, lab.space, [graphs[:2], graphs[2:3], graphs[3:]])
    assert found.furthest == pytest.approx([0.5, 0.25, 0.25]) and left == [1, 1, 1]
    assert found.most == 3 * MATCH and "gradient distance of the batch: 2.5e-01" in found.text


def test_of_too_few_graphs_behind_another_readout_nothing_is_recomputed(seen: Observation, lab: Any) -> None:
    found = together(seen, lab.space, [[lab.path([0])], [lab.path([1])]])
    assert found.furthest == [np.inf] * 2 and found.most == TAKEN and "nothing was recomputed" in found.text


def test_weights_that_diverge_explain_no_update(seen: Observation, monkeypatch: pytest.MonkeyPatch, lab: Any) -> None:
    def diverging(*_: Any) -> Any:
        raise ValueError("not finite")

    monkeypatch.setattr(joint, "retrained", diverging)
    assert replayed(seen, lab.space, [lab.path([0])]) == np.inf
    monkeypatch.setattr(joint, "retrained", lambda *_: jax.tree.map(lambda leaf: 1.5 * leaf, seen.update))
    assert replayed(seen, lab.space, [lab.path([0])]) == pytest.approx(0.5)
