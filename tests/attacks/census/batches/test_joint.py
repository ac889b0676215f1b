"""Parts of a batch's gradient: their sum, what they leave, and the lists they are compared with."""

from __future__ import annotations

import dataclasses
from typing import Any

import jax
import numpy as np
import pytest

from jgleak.attacks.census.batches import joint
from jgleak.attacks.census.batches.joint import (
    TAKEN,
    distance,
    each_gradient,
    remaining,
    replayed,
    retrained,
    summed,
    together,
    without,
)
from jgleak.attacks.distance import MATCH
from jgleak.federated import LocalTraining, Observation, fedsgd


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
    two = remaining(seen, [part])
    assert two.batch_size == 2
    for own, whole in zip(jax.tree.leaves(two.update), jax.tree.leaves(seen.update), strict=True):
        np.testing.assert_allclose(own, 3.0 / 2.0 * (np.asarray(whole) - 0.5), rtol=1e-6)


def test_parts_are_those_of_the_update_where_a_readout_has_places_for_nodes(lab: Any) -> None:
    """More of them than graphs of this size are padded to."""
    graphs, model = [lab.path([0, 1]), lab.path([2, 1, 0], 0)], lab.model(hidden=4, readout="flattened", slots=10)
    update = fedsgd(model, lab.params(model), graphs, lab.space, loss="bce")
    assert distance(update, each_gradient(update, lab.space, graphs)) < 1e-6


def test_graphs_are_trained_again_in_the_order_that_is_given(
    seen: Observation, lab: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where the client drew one: it is what is sought."""
    graphs, asked = [lab.path([0, 1]), lab.path([2, 1, 0])], list[Any]()

    def fedavg(model: Any, params: Any, some: Any, space: Any, *, loss: str, local: LocalTraining) -> Any:
        asked.append((some, loss, local))
        return seen

    monkeypatch.setattr(joint, "fedavg", fedavg)
    drawn = LocalTraining(0.1, 2, loader=1, shuffled=True)
    retrained(dataclasses.replace(seen, protocol="fedavg", local=drawn), lab.space, graphs)
    assert asked == [(graphs, "bce", dataclasses.replace(drawn, shuffled=False))]


def test_the_distance_of_parts_is_that_of_their_sum_relative_to_the_update(seen: Observation) -> None:
    shares = [jax.tree.map(lambda leaf, share=share: share * leaf, seen.update) for share in (0.25, 0.25, 0.75)]
    assert distance(seen, shares) == pytest.approx(0.25)
    assert distance(seen, without(shares, 0)) == pytest.approx(0.0, abs=1e-7)
    faint = dataclasses.replace(seen, update=jax.tree.map(lambda leaf: np.float32(1e-30) * leaf, seen.update))
    assert distance(faint, [jax.tree.map(lambda leaf: 0.25 * leaf, faint.update)]) == pytest.approx(0.75)
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


@pytest.mark.parametrize("unit", [1e-4, 1.0, 1e4])
def test_of_a_batch_that_is_not_all_found_each_graph_takes_away_a_dimension(
    unit: float, lab: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a gradient with the singular values 3 and 2, a graph whose part is all of the first leaves none, and others
    what they miss of it, relative to the least of both."""
    model = lab.model(hidden=4, readout="pooled", readout_widths=(3,), last_act=True)
    params = lab.params(model)

    def gradient(*values: float) -> Any:
        tree = jax.tree.map(np.zeros_like, params)
        kernel = model.readout.first(model.readout_of(tree))["kernel"]
        np.fill_diagonal(kernel, np.float32(unit) * np.array(values, np.float32))
        return tree

    shares = iter([3.0, 2.5, 1.0])
    monkeypatch.setattr(joint, "each_gradient", lambda *_: [gradient(next(shares), 0.0, 0.0)])
    seen = Observation(model, params, gradient(3.0, 2.0, 0.0), "bce", batch_size=3)
    found = together(seen, lab.space, [[lab.path([0])], [lab.path([1]), lab.path([2])]])
    assert found.furthest == pytest.approx([0.0, 1.0], abs=1e-6) and found.most == TAKEN
    shares = iter([3.0, 2.5])
    found = together(seen, lab.space, [[lab.path([0])], [lab.path([1])]])
    assert found.furthest == pytest.approx([0.0, 0.25], abs=1e-6) and "others are missing" in found.text


@pytest.mark.parametrize("steps", [2, 3])
def test_of_several_steps_each_listed_graph_is_trained_in_its_own_place(
    steps: int, seen: Observation, lab: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Beside the first graphs of the other lists; where graphs are missing nothing is."""
    graphs, asked = [lab.path([colour]) for colour in range(4)], list[list[int]]()

    def replayed(_: Any, __: Any, some: Any) -> float:
        asked.append([graphs.index(one) for one in some])
        return 0.25 if 1 in asked[-1] else 0.5

    monkeypatch.setattr(joint, "replayed", replayed)
    several = dataclasses.replace(seen, protocol="fedavg", local=LocalTraining(0.1, steps))
    found = together(several, lab.space, [graphs[:1], graphs[1:3], graphs[3:]])
    assert asked == [[0, 1, 3], [0, 1, 3], [0, 2, 3], [0, 1, 3], [0, 1, 3]]
    assert found.furthest == [0.25, 0.5, 0.25] and found.most == MATCH and "2.5e-01" in found.text
    found = together(several, lab.space, [graphs[:1], graphs[1:3]])
    assert found.furthest == [np.inf] * 2 and found.most == MATCH and len(asked) == 5
