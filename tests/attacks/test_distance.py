"""The gradient distance: zero at the truth with its labels, positive elsewhere, blind to node order."""

from __future__ import annotations

import dataclasses
from typing import Any

import jax
import numpy as np
import pytest

from jgleak.attacks.distance import (
    MATCH,
    Fit,
    _dense,
    _distance,
    _task_slopes,
    descent,
    gradient_distances,
    labelled_distance,
)
from jgleak.attacks.node_labels import _alike, _share
from jgleak.attacks.noise import deviations, largest
from jgleak.attacks.turned_units import JITTER, TURNED, _jittered
from jgleak.defenses import parse
from jgleak.federated import LocalTraining, Observation, fedsgd
from jgleak.gnn.tree import at, put
from jgleak.graph import Graph

ZERO = 1e-5


def closest(observation: Observation, lab: Any, graph: Graph) -> tuple[float, Any]:
    """Distance and label of a graph given without one."""
    return gradient_distances(observation, lab.space, [dataclasses.replace(graph, y=None)])[0]


def shuffled(graph: Graph, seed: int) -> Graph:
    return graph.permute(np.random.default_rng(seed).permutation(graph.n))


@pytest.mark.parametrize(("loss", "classes"), [("bce", 2), ("ce", 4)])
def test_graph_classes(loss: str, classes: int, lab: Any) -> None:
    model = lab.model(classes=classes, hidden=16)
    for label in range(classes):
        truth = dataclasses.replace(lab.random(6, label), y=label)
        observation = lab.observe(model, truth, loss)
        for graph in (truth, shuffled(truth, label)):
            distance, found = closest(observation, lab, graph)
            assert distance < ZERO and found == label
        assert closest(observation, lab, lab.random(6, label + 10))[0] > 100 * ZERO


@pytest.mark.parametrize("target", [-3.5, 0.25, 40.0])
def test_regression_targets(target: float, lab: Any) -> None:
    model = lab.model(classes=1, hidden=16)
    truth = dataclasses.replace(lab.random(5, 3), y=target)
    observation = lab.observe(model, truth, "mse")
    distance, found = closest(observation, lab, shuffled(truth, 0))
    assert distance < ZERO and found == pytest.approx(target, rel=1e-4, abs=1e-4)
    assert closest(observation, lab, lab.path([0, 0, 1]))[0] > 100 * ZERO


@pytest.mark.parametrize(
    ("readout", "loss"), [("node_mlp", "bce"), ("node_mlp", "ce"), ("node_scores", "bce"), ("node_scores", "ce")]
)
def test_node_classes(readout: str, loss: str, lab: Any) -> None:
    """Nodes with equal outputs share their classes' counts, whatever their order."""
    model = lab.model(classes=3, hidden=32, readout=readout, per_node=readout == "node_mlp")
    labels = np.array([0, 1, 2, 0, 1, 1, 2])
    different = dataclasses.replace(lab.path([0, 1, 2, 3]), y=np.array([2, 0, 1, 1]))
    twins = lab.graph([0, 1, 1, 1, 2, 2, 2], [(0, k) for k in range(1, 4)] + [(k, k + 3) for k in range(1, 4)], labels)
    for truth in (different, twins):
        observation = lab.observe(model, truth, loss)
        for order in (np.arange(truth.n), np.random.default_rng(1).permutation(truth.n)):
            graph = truth.permute(order)
            distance, found = closest(observation, lab, graph)
            assert distance < ZERO
            if truth is different:
                np.testing.assert_array_equal(found, graph.y)
            else:
                assert sorted(found.tolist()) == sorted(labels.tolist())
    assert closest(lab.observe(model, different, loss), lab, twins)[0] > 100 * ZERO


def test_labels_where_the_last_map_is_narrow(lab: Any) -> None:
    """Ten different nodes in a readout of four last units: the maps below tell them apart."""
    model = lab.model(classes=2, hidden=32, readout_widths=(24, 4), per_node=True)
    labels = np.array([0, 1, 1, 0, 1, 0, 0, 1, 1, 0])
    truth = dataclasses.replace(lab.path([0, 1, 2, 3, 0, 2, 1, 3, 3, 0]), y=labels)
    distance, found = closest(lab.observe(model, truth), lab, truth)
    assert distance < ZERO
    np.testing.assert_array_equal(found, labels)


def test_equal_outputs_are_equal_up_to_rounding() -> None:
    """A pair on both sides of a rounding boundary is a pair; what differs by more is none."""
    logits = np.array([[1.0, 0.499995], [1.0, 0.500004], [1.0, 0.51], [1.0, 0.499995]])
    np.testing.assert_array_equal(_alike(logits), [0, 0, 1, 0])
    np.testing.assert_array_equal(_alike(1e3 * logits[:, 1:]), [0, 1, 2, 0])
    np.testing.assert_array_equal(_alike(np.array([[500.0], [500.004], [501.0]])), [0, 0, 1])


@pytest.mark.parametrize("share", [0.5, 0.9])
@pytest.mark.parametrize(("readout", "loss"), [("pooled", "mse"), ("node_mlp", "bce"), ("node_scores", "ce")])
def test_labels_follow_from_the_entries_that_pruning_left(readout: str, loss: str, share: float, lab: Any) -> None:
    """Read as zeros, entries that were left out pull targets and votes to the model's own outputs."""
    labels: Any = 7.5 if loss == "mse" else np.array([2, 0, 1, 1])
    model = lab.model(classes=1 if loss == "mse" else 3, hidden=32, readout=readout, per_node=readout == "node_mlp")
    truth = dataclasses.replace(lab.path([0, 1, 2, 3]), y=labels)
    observation = lab.observe(model, truth, loss)
    sent = parse(f"prune:{share}").apply(observation.update, key=jax.random.key(0))
    sent = jax.tree.map(np.asarray, sent)
    distance, found = closest(dataclasses.replace(observation, update=sent, pruned=True), lab, truth)
    assert distance < ZERO
    np.testing.assert_allclose(found, labels, rtol=1e-4)
    as_zeros, pulled = closest(dataclasses.replace(observation, update=sent), lab, truth)
    assert as_zeros > 100 * ZERO
    if loss == "mse":
        assert abs(pulled - labels) > 10 * 1e-4 * labels


def test_a_pruned_update_of_zeros_has_finite_distances(lab: Any) -> None:
    for readout, loss in (("pooled", "mse"), ("node_scores", "ce")):
        model = lab.model(classes=1 if loss == "mse" else 3, hidden=16, readout=readout)
        truth = dataclasses.replace(lab.path([0, 1]), y=1.0 if loss == "mse" else np.array([0, 1]))
        observation = lab.observe(model, truth, loss)
        blank = jax.tree.map(np.zeros_like, observation.update)
        assert np.isfinite(closest(dataclasses.replace(observation, update=blank, pruned=True), lab, truth)[0])


@pytest.mark.parametrize("pruned", [False, True])
def test_an_update_of_zeros_under_noise_says_nothing(pruned: bool, lab: Any) -> None:
    observation = lab.observe(lab.model(hidden=16), lab.path([0, 1]))
    blank = jax.tree.map(np.zeros_like, observation.update)
    fit = Fit.of(dataclasses.replace(observation, update=blank, pruned=pruned), 1e-3)
    assert np.isfinite(fit.most) and not fit.informative
    assert Fit.of(observation, 1e-9).informative
    assert not pruned or fit.entries == 1


def test_a_tiny_gradient_is_still_compared(lab: Any) -> None:
    """Output and target nearly agree, and the update is about 1e-20 long: its squares are no float32."""
    model = lab.model(classes=1, hidden=16)
    params = jax.tree.map(np.copy, lab.params(model))
    last = model.readout.last(model.readout_of(params))
    last["kernel"] *= 1e-20
    last["bias"] *= 0
    truth, other = (dataclasses.replace(lab.path(colours), y=0.0) for colours in ([0, 1, 2], [0, 0, 3]))
    observation = fedsgd(model, params, [truth], lab.space, loss="mse")
    size = max(float(np.abs(leaf).max()) for leaf in jax.tree.leaves(observation.update))
    assert 0 < size < 1e-18
    assert closest(observation, lab, truth)[0] < ZERO
    assert closest(observation, lab, other)[0] > 100 * ZERO


def test_ratings(lab: Any) -> None:
    ratings = np.array([0.0, 4.5, -1.0, 2.0])
    model = lab.model(readout="dot", hidden=8)
    truth = dataclasses.replace(lab.path([0, 1, 2, 3]), y=ratings)
    distance, found = closest(lab.observe(model, truth, "mse"), lab, truth)
    assert distance < ZERO
    np.testing.assert_allclose(found, ratings, atol=1e-2)


def test_a_flattened_readout_holds_so_many_nodes(lab: Any) -> None:
    model = lab.model(readout="flattened", slots=8, hidden=8)
    truth = lab.path([0, 1, 2, 3])
    observation = lab.observe(model, truth)
    assert closest(observation, lab, truth)[0] < ZERO
    assert 100 * ZERO < closest(observation, lab, lab.path([0] * 8))[0] < np.inf
    assert closest(observation, lab, lab.path([0] * 9))[0] == np.inf


def test_a_client_is_trained_again_where_it_sent_more_than_one_gradient(lab: Any) -> None:
    """After several steps; one plain step is a gradient, and steps of Adam are not made again."""
    once = lab.observe(lab.model(hidden=8), lab.path([0, 1]))
    assert descent(once) is None
    for steps in (1, 2, 3):
        seen = dataclasses.replace(once, protocol="fedavg", local=LocalTraining(0.1, steps))
        assert (descent(seen) is not None) is (steps > 1)
        adam = dataclasses.replace(seen, local=LocalTraining(0.1, steps, optimiser="adam"))
        with pytest.raises(ValueError, match="steps of 'sgd' are made here"):
            descent(adam)


def test_a_vanishing_gradient_has_no_infinite_distance(lab: Any) -> None:
    model = lab.model(classes=1, hidden=16)
    observation = lab.observe(model, dataclasses.replace(lab.path([0, 1]), y=1.0), "mse")
    blank = jax.tree.map(lambda leaf: leaf * 0, observation.update)
    assert np.isfinite(closest(dataclasses.replace(observation, update=blank), lab, lab.path([1, 1]))[0])


def test_without_noise_rounding_alone_is_explained(lab: Any) -> None:
    observation = lab.observe(lab.model(hidden=8), lab.random(4, 1))
    fit = Fit.of(observation, None)
    assert fit.deviation is None and fit.most == MATCH and fit.informative
    assert fit.entries == sum(np.size(leaf) for leaf in jax.tree.leaves(observation.update))
    np.testing.assert_array_equal(fit.excess([0.1, 0.5]), [0.0, 0.0])
    assert fit.likely([0.1, 0.5]).all() and fit.excess([]).shape == (0,)


@pytest.mark.parametrize("pruned", [False, True])
def test_of_noise_so_much_is_explained_as_entries_can_have(pruned: bool, lab: Any) -> None:
    observation = lab.observe(lab.model(hidden=8), lab.random(4, 1))
    leaves = [np.asarray(leaf) for leaf in jax.tree.leaves(observation.update)]
    entries = sum(int(np.count_nonzero(leaf)) if pruned else leaf.size for leaf in leaves)
    length = np.sqrt(sum(float((leaf.astype(float) ** 2).sum()) for leaf in leaves))
    fit = Fit.of(dataclasses.replace(observation, pruned=pruned), 1e-3)
    assert fit.entries == entries and fit.deviation is not None
    assert fit.deviation == pytest.approx(np.hypot(1e-3 / length, 3e-6 / np.sqrt(entries)))
    assert fit.most == pytest.approx(fit.deviation * largest(entries))
    for share, informative in ((0.99, True), (1.01, False)):
        assert Fit(share / largest(entries), entries).informative is informative
    exact = next(one for one in (Fit(1.0 / largest(k), k) for k in range(1, 99)) if one.most == 1.0)
    assert not exact.informative, "a gradient of zeros is as far, and accepted"
    assert Fit.of(dataclasses.replace(observation, pruned=pruned), 0.0).deviation == pytest.approx(
        3e-6 / np.sqrt(entries)
    )


def test_of_two_graphs_the_farther_is_less_likely_by_the_squares_of_their_distances() -> None:
    """``d² - d0² = (c sigma + 2 AGREE)²`` is ``c`` deviations, of which ``c² / 2`` is the negative logarithm."""
    fit = Fit(1e-3, 500)
    assert fit.excess([]).shape == (0,) and fit.likely([0.02]).tolist() == [True]
    for c in (0.0, 1.0, 3.0):
        far = np.sqrt(0.02**2 + (c * 1e-3 + 6e-7) ** 2)
        np.testing.assert_allclose(fit.excess([far, 0.02]), [c**2 / 2, 0.0], atol=1e-6)
    bound = deviations(2)
    for c, likely in ((0.999 * bound, True), (1.001 * bound, False)):
        far = np.sqrt(0.02**2 + (c * 1e-3 + 6e-7) ** 2)
        assert fit.likely([0.02, far]).tolist() == [True, likely]


@pytest.mark.parametrize(
    ("votes", "count", "wanted"),
    [
        ((0.2, 1.9, 0.9), 3, (0, 2, 1)),
        ((1.4, 1.3, 0.3), 3, (2, 1, 0)),
        ((0.4, 0.3, 0.3), 1, (1, 0, 0)),
        ((2.0, 2.0, 0.0), 3, (1, 2, 0)),
        ((-0.5, 1.2, 1.3), 2, (0, 1, 1)),
        ((5.0, 0.0, 0.0), 3, (3, 0, 0)),
        ((0.9999999, 1.0, 0.0), 2, (1, 1, 0)),
        ((-3.0, -2.0, -4.0), 5, (1, 3, 1)),
    ],
)
def test_counts_of_equal_nodes_are_the_whole_numbers_nearest_to_their_votes(
    votes: tuple[float, ...], count: int, wanted: tuple[int, ...]
) -> None:
    assert tuple(_share(np.array(votes), count)) == wanted and sum(wanted) == count


def test_a_graph_with_its_label_is_compared_with_that_one(lab: Any) -> None:
    truth = dataclasses.replace(lab.random(4, 1), y=1)
    observation = lab.observe(lab.model(hidden=16, readout="flattened", slots=5), truth)
    assert labelled_distance(observation, lab.space, truth) < ZERO
    assert labelled_distance(observation, lab.space, dataclasses.replace(truth, y=0)) > 100 * ZERO
    assert labelled_distance(observation, lab.space, dataclasses.replace(lab.random(6, 1), y=1)) == np.inf
    for wrong in (None, 2, -1, 0.5, np.array([0, 1, 0, 1])):
        with pytest.raises(ValueError, match="y: "):
            labelled_distance(observation, lab.space, dataclasses.replace(truth, y=wrong))


def test_a_unit_that_rounding_turns_is_no_other_graph(lab: Any) -> None:
    """A unit's input is above zero in our computation and below in the client's, by 1e-7: the gradient is off by
    percents, and yet that of this graph."""
    model, truth = lab.model(hidden=16), lab.random(6, 1)
    params = jax.tree.map(np.array, lab.params(model))

    def seen(bias: float) -> Observation:
        at_bias = jax.tree.map(np.array, params)
        at_bias["readout"]["mlp"]["linears_0"]["bias"][0] = bias
        return fedsgd(model, at_bias, [truth], lab.space, loss="bce")

    def slope(bias: float) -> float:
        return float(seen(bias).update["readout"]["mlp"]["linears_0"]["bias"][0])

    on, off = 3.0, -3.0  # the unit is on at all nodes, and at none
    while on - off > 2e-7:
        middle = (on + off) / 2
        on, off = (on, middle) if abs(slope(middle) - slope(off)) < abs(slope(middle) - slope(on)) else (middle, off)
    client = dataclasses.replace(seen(on), params=seen(off).params)
    assert _distance(client, lab.space, truth)[0] > 100 * MATCH
    assert gradient_distances(client, lab.space, [truth])[0] == (pytest.approx(0.0, abs=MATCH), truth.y)
    assert gradient_distances(client, lab.space, [truth], 2 * MATCH)[0] == _distance(client, lab.space, truth), "noise"
    assert labelled_distance(client, lab.space, truth) <= MATCH
    assert labelled_distance(client, lab.space, dataclasses.replace(truth, y=1 - truth.y)) > TURNED
    other = lab.random(6, 2)
    assert gradient_distances(client, lab.space, [other])[0] == _distance(client, lab.space, other)


def test_weights_are_moved_by_rounding(lab: Any) -> None:
    params = {"kernel": np.full((200, 300), 2.0, np.float32), "bias": np.zeros(3, np.float32)}
    moved = _jittered(params, 0)
    off = moved["kernel"] / 2.0 - 1.0
    assert np.std(off) == pytest.approx(JITTER, rel=0.1) and abs(np.mean(off)) < 1e-7
    assert moved["kernel"].dtype == np.float32 and not moved["bias"].any()
    assert np.any(_jittered(params, 1)["kernel"] != moved["kernel"])


def test_slopes_of_tasks_are_the_bias_s_or_the_nearest_to_all_entries_that_were_sent(lab: Any) -> None:
    """A bias without noise has zeros for missing labels. Noise on it is averaged out by what entered the last map; of a
    pruned update the entries that are there tell."""
    model = lab.model(hidden=16, classes=3, readout="pooled", readout_widths=(8,))
    labels = np.array([[1.0, 0.0, 1.0]])
    truth = dataclasses.replace(lab.random(5, 1), y=labels)
    observation = lab.observe(model, truth, "masked_bce")
    path = model.nearest_output[0]
    wanted = np.asarray(model.output_bias(observation.update), np.float64)
    one = _dense(observation, lab.space, truth)
    assert one is not None and np.all(wanted != 0)

    def found(bias: np.ndarray, kept: Any = 1.0, pruned: bool = False) -> np.ndarray:
        last = dict(at(observation.update, path))
        last = {"kernel": last["kernel"] * np.float32(kept), "bias": bias.astype(np.float32)}
        seen = dataclasses.replace(observation, update=put(observation.update, path, last), pruned=pruned)
        return _task_slopes(seen, one)[1]

    np.testing.assert_allclose(found(wanted), wanted, rtol=1e-5)
    noisy = found(wanted + 0.1)
    assert np.all((wanted < noisy) & (noisy < wanted + 0.1))
    missing = wanted * [1.0, 0.0, 1.0]
    np.testing.assert_allclose(found(missing), missing, rtol=1e-6)
    sent = np.random.default_rng(0).random(np.shape(at(observation.update, path)["kernel"])) < 0.5
    np.testing.assert_allclose(found(missing, sent, pruned=True), wanted, rtol=1e-5)
    np.testing.assert_array_equal(found(0.0 * wanted, sent * [1.0, 1.0, 0.0], pruned=True)[2], 0.0)
