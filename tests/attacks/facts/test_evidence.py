"""What an update is made of, read from updates of which it is known: rows times gradients, decay, rounding, noise."""

from __future__ import annotations

import dataclasses
from typing import Any

import jax
import numpy as np
import pytest

from jgleak.attacks.facts.evidence import Evidence, Kernel
from jgleak.attacks.facts.fact import ADAM, DECAY, Silent
from jgleak.attacks.facts.labels import label
from jgleak.features import FeatureSpace, binary, onehot
from jgleak.federated import LocalTraining, Observation
from jgleak.gnn import GNN, MLP, GCNConv, Layer, LinearEncoder, NodeMLP, NodeScores, SAGEConv

from .known_updates import MOVED, NODES, NORMAL, PLAIN, SPACE, UNITS, WEIGHTS, evidence, model

RNG = np.random.default_rng(5)


@pytest.fixture(autouse=True)
def same_draws() -> None:
    """Every test draws the same numbers, whatever ran before it."""
    RNG.bit_generator.state = np.random.default_rng(5).bit_generator.state


def test_rows_that_are_multiples_of_their_weights_and_no_more_are_found() -> None:
    weights = RNG.normal(size=(6, 8))
    gradient = 0.3 * weights
    gradient[1] += RNG.normal(size=8)  # has a gradient of its own
    gradient[2] = 0.0  # did not move
    weights[3] = 0.0  # has no weights
    gradient[4] *= -2.0
    error = np.full((6, 8), 1e-9)
    assert Kernel(gradient, weights, error).decayed() == pytest.approx([0.3, -0.6, 0.3])
    assert Kernel(gradient, weights, error).zero.tolist() == [False, False, True, False, False, False]


@pytest.mark.parametrize("scale", [1.0, 1e3])
@pytest.mark.parametrize(
    ("beside", "error", "found"),
    [(0.9e-3, 0.0, 1), (1.1e-3, 0.0, 0), (0.05, 0.06, 1), (0.05, 0.04, 0), (0.095, 0.5, 1), (0.11, 0.5, 0)],
)
def test_a_row_beside_its_weights_is_a_multiple_as_far_as_rounding_goes(
    beside: float, error: float, found: int, scale: float
) -> None:
    """Within a thousandth of its length and its rounding error, but never further than a tenth of its length; whatever
    the size of the update and of another row."""
    weights = np.array([[1.0, 0.0], [1.0, 0.0]])
    gradient = np.array([[np.sqrt(1 - beside**2), beside], [0.0, 50.0]])
    rounding = np.array([[error, 0.0], [1.0, 0.0]])
    assert len(Kernel(scale * gradient, weights, scale * rounding).decayed()) == found


CLEAN: dict[str, tuple[Evidence, float | None, bool | None]] = {
    "raw": (evidence(PLAIN), 0.0, True),
    "raw and decayed": (evidence(PLAIN + 0.25 * WEIGHTS), 0.25, True),
    "normalised": (evidence(MOVED, NORMAL), 0.0, True),
    "normalised and decayed": (evidence(MOVED + 0.25 * WEIGHTS, NORMAL), 0.25, True),
    "signs": (evidence(np.sign(PLAIN)), 0.0, False),
    "noise": (evidence(PLAIN + 0.1 * RNG.normal(size=PLAIN.shape)), None, False),
    "one feature": (
        evidence(PLAIN[:4], FeatureSpace(SPACE.features[:1]), weights=WEIGHTS[:4], built=model().clone(in_features=4)),
        0.0,
        None,
    ),
    "one feature whose values all occur": (
        evidence(
            PLAIN[:2], FeatureSpace((onehot("c", "rg"),)), weights=WEIGHTS[:2], built=model().clone(in_features=2)
        ),
        None,
        None,
    ),
    "nothing": (evidence(0.0 * PLAIN), None, None),
    "single precision": (evidence(PLAIN + 0.25 * WEIGHTS, kind=np.float32), 0.25, True),
    "half precision": (evidence(PLAIN, kind=np.float16), 0.0, True),
}


@pytest.mark.parametrize("case", CLEAN)
def test_decay_and_whether_rows_add_up_are_told(case: str) -> None:
    found, decay, linear = CLEAN[case]
    assert found.linear is linear
    assert found.decay == (None if decay is None else pytest.approx(decay, rel=1e-3))
    assert found.altered is (linear is False and decay is None or bool(decay))
    assert found.rounded is (linear is not True or case == "half precision")


def test_a_row_that_stands_still_shows_that_nothing_decays() -> None:
    assert evidence(PLAIN).still
    assert not evidence(PLAIN + 0.25 * WEIGHTS).still
    assert not evidence(0.0 * PLAIN).still, "a kernel that is zero as a whole is frozen"
    weightless = np.where(np.any(PLAIN, axis=1)[:, None], WEIGHTS, 0.0)
    assert not evidence(PLAIN, weights=weightless).still, "weights of zero do not decay"


def test_most_rows_that_decay_alone_agree_on_the_rate() -> None:
    """Adam's steps, in which sums say nothing: rows of absent values are multiples of their weights."""
    gradient = np.sign(PLAIN) + 0.25 * WEIGHTS
    assert evidence(gradient).decay == pytest.approx(0.25)
    two = gradient.copy()
    two[3] = 0.5 * WEIGHTS[3]  # two rows of r, g, k disagree, and no other row shows anything
    assert evidence(two).decay is None and evidence(two).altered


@pytest.mark.parametrize(
    ("rates", "found"),
    [
        ([0.25], None),
        ([0.25, 0.25], 0.25),
        ([0.25, 0.26], None),
        ([0.1, 0.25, 0.25, 0.7], None),
        ([0.1, 0.25, 0.25, 0.25], 0.25),
        ([0.1, 0.25, 0.25, 0.5, 0.7], None),
    ],
)
def test_a_rate_is_that_of_more_than_half_of_the_rows_that_decay_alone(rates: list[float], found: float | None) -> None:
    """Of steps whose other rows have a sign each; one row may be a multiple of its weights by chance."""
    gradient = np.sign(RNG.normal(size=PLAIN.shape))
    gradient[: len(rates)] = np.array(rates)[:, None] * WEIGHTS[: len(rates)]
    assert evidence(gradient).decay == found


@pytest.mark.parametrize(("units", "found"), [(7, None), (8, 0.25)])
def test_rows_of_fewer_than_eight_entries_may_be_multiples_of_their_weights_by_chance(
    units: int, found: float | None
) -> None:
    gradient, weights = np.sign(RNG.normal(size=(SPACE.width, units))), WEIGHTS[:, :units]
    gradient[:6] = 0.25 * weights[:6]
    assert evidence(gradient, weights=weights, built=model(conv=GCNConv(units))).decay == found


@pytest.mark.parametrize("seed", range(4))
def test_steps_of_one_length_are_not_taken_for_weight_decay(seed: int) -> None:
    """Whose nearest multiple of the weights is no decay, and would turn the sign of a bias with large weights."""
    rng, place = np.random.default_rng(seed), "readout/mlp/linears_0/bias"
    steps = 0.01 * np.sign(np.where(MOVED == 0, rng.normal(size=MOVED.shape), MOVED))
    bias: dict[str, Any] = {"sent": {place: np.array([20.0, -20.0])}, "back": {place: np.array([0.01, -0.01])}}
    told = label(evidence(steps, NORMAL, weights=0.1 * rng.normal(size=MOVED.shape), **bias))
    assert told.value == 1 and ADAM in told.exact_under and DECAY not in told.exact_under


@pytest.mark.parametrize("noise", [None, 1e-12])
def test_weight_decay_that_may_turn_a_sign_hides_the_label_beside_noise_too(noise: float | None) -> None:
    place, weights = "readout/mlp/linears_0/bias", np.array([-20.0, 20.0])
    bias: dict[str, Any] = {"sent": {place: weights}, "back": {place: np.array([0.01, -0.01]) + 0.25 * weights}}
    with pytest.raises(Silent, match="single out a class"):
        label(evidence(PLAIN + 0.25 * WEIGHTS, noise=noise, **bias))


def test_sums_of_features_are_as_many_as_features_less_one_and_all_of_normalised_ones() -> None:
    assert evidence(PLAIN).relations == 2 and evidence(MOVED, NORMAL).relations == 3
    flags = FeatureSpace((binary("a"), binary("b")))
    assert evidence(PLAIN[:2], flags, weights=WEIGHTS[:2], built=model().clone(in_features=2)).relations == 0
    assert NORMAL.mean is not None
    rare = NORMAL.mean.copy()
    rare[:4] /= 2.0  # a tenth value of the feature has no column: nodes have one of four values or none
    assert evidence(MOVED, dataclasses.replace(NORMAL, mean=rare)).relations == 2
    same = SPACE.fit([NODES * np.array([1, 1, 1, 0], np.int32)])  # all nodes are of one kind, whose columns say nothing
    assert evidence(MOVED, same).relations == 2


@pytest.mark.parametrize("scale", [1e-3, 1.0, 1e3])
@pytest.mark.parametrize("features", [2, 4])
def test_sums_agree_to_a_share_of_what_is_summed_up(features: int, scale: float) -> None:
    """Three in 100,000 of it, of columns of two or three one-hot features and whatever the size of the update."""
    space = FeatureSpace(SPACE.features[:features])
    onehots = [
        np.isin(np.arange(space.width), np.arange(start, start + feature.columns)).astype(float)
        for feature, start in zip(space.features, space.offsets, strict=True)
        if feature.kind == "onehot"
    ]
    sums = np.stack([one - onehots[0] for one in onehots[1:]])
    clean, weights = scale * PLAIN[: space.width], WEIGHTS[: space.width]
    rounding = 3e-5 * np.linalg.norm(np.abs(sums) @ np.abs(clean))
    for share, linear in ((0.98, True), (1.02, False)):
        moved = clean.copy()
        moved[0, 0] += share * rounding / np.sqrt(len(sums))
        built = model().clone(in_features=space.width)
        assert evidence(moved, space, weights=weights, built=built).linear is linear


def test_rows_of_normalised_columns_under_a_raw_schema_are_known() -> None:
    """Of four colours two occur: the rows of the other two are one row times numbers, those of three wide features."""
    space = FeatureSpace((onehot("colour", "rgbkwy"), onehot("size", (1, 2, 3))))
    nodes = np.array([[0, 0], [1, 1], [0, 2], [1, 0]], np.int32)
    public = np.concatenate([nodes, [[2, 0], [3, 1], [4, 2], [5, 1]]]).astype(np.int32)
    normal, upstream = space.fit([public]), RNG.normal(size=(4, UNITS))
    built = model().clone(in_features=9)
    weights = RNG.normal(size=(9, UNITS))
    moved = normal.encode(nodes).T @ upstream
    raw = space.encode(nodes).T @ upstream
    for gradient, schema, looks in ((moved, space, True), (moved, normal, False), (raw, space, False)):
        for scale in (1.0, 1e-4):
            assert evidence(scale * gradient, schema, weights=weights, built=built).looks_normalised is looks
    alike = np.outer(np.arange(1.0, 5.0), upstream[0])  # as under activations that are nearly linear
    assert not evidence(space.encode(nodes).T @ alike, space, weights=weights, built=built).looks_normalised
    even = FeatureSpace(
        (onehot("colour", "rgbkwy"), onehot("size", range(6)))
    )  # whose sums agree after x -> 2 x - 1 too
    moved = (2 * even.encode(nodes) - 1).T @ upstream
    found = evidence(moved, even, weights=RNG.normal(size=(12, UNITS)), built=model().clone(in_features=12))
    assert found.linear and found.looks_normalised
    half = np.concatenate([nodes, [[2, 0]]]).astype(np.int32)  # three of six colours occur
    moved = normal.encode(half).T @ RNG.normal(size=(5, UNITS))
    assert not evidence(moved, space, weights=weights, built=built).looks_normalised, "three rows of six are alike"


@pytest.mark.parametrize(
    ("cosine", "kind", "looks"),
    [(0.995, np.float64, False), (0.9995, np.float64, True), (0.995, np.float16, True), (0.985, np.float16, False)],
)
def test_three_rows_of_four_are_alike_to_rounding(cosine: float, kind: Any, looks: bool) -> None:
    gradient = np.zeros((4, UNITS))
    gradient[:3, 0] = 1.0
    gradient[[0, 1, 2], [1, 2, 3]] = np.sqrt(1 / cosine - 1)
    gradient[3, 4] = 1.0
    one = FeatureSpace(SPACE.features[:1])
    found = evidence(gradient, one, kind=kind, weights=WEIGHTS[:4], built=model().clone(in_features=4))
    assert found.looks_normalised is looks


@pytest.mark.parametrize("steps", [1, 5])
def test_rounding_is_no_larger_than_what_is_said_and_not_much_smaller(steps: int) -> None:
    """Weights of 32 bits before and after, whose difference is divided by the length of the way."""
    local = LocalTraining(0.05, steps)
    before = RNG.normal(size=(40, 25)).astype(np.float32)
    change = 1e-3 * RNG.normal(size=before.shape)
    after = (before.astype(np.float64) - change).astype(np.float32)
    update = (before.astype(np.float64) - after) / local.length
    off = np.abs(update - change / local.length)
    said = evidence(PLAIN, kind=np.float64, protocol="fedavg", local=local).error(update, before.astype(np.float64))
    assert np.all(off <= said) and off.max() > said.min() / 8


def test_the_update_alone_is_rounded_relatively_and_of_16_bits_from_the_least_number_on() -> None:
    double, half = evidence(PLAIN), evidence(PLAIN, kind=np.float16)
    entries, weights = np.array([2.0, 0.0]), np.array([1e6, 1e6])
    np.testing.assert_allclose(double.error(entries, weights), [2.0 * 2.0**-22, 0.0])
    np.testing.assert_allclose(half.error(entries, weights), [2.0 * half.precision + 2.0**-24, 2.0**-24])
    assert half.precision == 2.0**-11 and double.precision == 2.0**-24


def test_kernels_are_those_that_input_rows_enter() -> None:
    def shapes(**fields: Any) -> list[tuple[int, ...]]:
        built = model(**fields)
        zeros = jax.tree.map(lambda s: np.zeros(s.shape), jax.eval_shape(lambda: built.initial(key=jax.random.key(0))))
        seen = Observation(built, zeros, zeros, "ce")
        return [kernel.gradient.shape for kernel in Evidence(seen, SPACE).kernels]

    wide = SPACE.width
    assert shapes() == [(wide, UNITS)]
    assert shapes(conv=SAGEConv(UNITS)) == [(wide, UNITS)] * 2
    assert shapes(readout=NodeMLP(MLP((4, 2)))) == [(wide, UNITS), (wide, 4)], "the input's part of the readout's"
    assert shapes(readout=NodeMLP(MLP((4, 2)), see_input=False)) == [(wide, UNITS)]
    assert shapes(encoder=LinearEncoder(5)) == [(wide, 5)]


def test_gradients_side_by_side_stand_beside_each_other() -> None:
    """One of every node's loss: a matrix of one row a column of the input."""
    built = GNN(SPACE.width, (Layer(GCNConv(2, bias=True)),), NodeScores(2))
    shapes = jax.eval_shape(lambda: built.initial(key=jax.random.key(0)))
    params = jax.tree.map(lambda leaf: RNG.normal(size=leaf.shape), shapes)
    update = jax.tree.map(lambda leaf: RNG.normal(size=(3, *leaf.shape)), shapes)
    found = Evidence(Observation(built, params, update, "ce", protocol="node_losses"), SPACE).kernels[0]
    own, weights = update["layers_0"]["conv"]["kernel"], params["layers_0"]["conv"]["kernel"]
    assert found.gradient.shape == found.weights.shape == found.error.shape == (SPACE.width, 6)
    for node in range(3):
        for unit in range(2):
            k = 2 * node + unit
            np.testing.assert_array_equal(found.gradient[:, k], own[node, :, unit])
            np.testing.assert_array_equal(found.weights[:, k], weights[:, unit])


def test_rows_without_decay_are_the_gradients_own_to_the_zero() -> None:
    decayed = evidence(PLAIN + 0.25 * WEIGHTS)
    found = decayed.undecayed(decayed.kernels[0])
    np.testing.assert_allclose(found.gradient, PLAIN, atol=1e-6)
    np.testing.assert_array_equal(np.any(found.gradient, axis=1), np.any(PLAIN, axis=1))
    moved = evidence(MOVED + 0.25 * WEIGHTS, NORMAL)
    np.testing.assert_allclose(moved.undecayed(moved.kernels[0]).gradient, MOVED, atol=1e-6)
    faint = 1e4 * PLAIN
    faint[7] = 1e-3 * PLAIN[7]  # far above its own rounding, far below that of the others
    decayed = evidence(faint + 0.25 * WEIGHTS)
    np.testing.assert_allclose(decayed.undecayed(decayed.kernels[0]).gradient[7], faint[7], atol=1e-6)
    hidden = evidence(0.0 * PLAIN)
    with pytest.raises(Silent, match="nothing shows how much"):
        hidden.undecayed(hidden.kernels[0])


def test_linear_rows_are_of_size_one_and_noisy_ones_as_they_came() -> None:
    rows = evidence(3.0 * PLAIN).linear_rows()
    np.testing.assert_allclose(rows, PLAIN / np.linalg.norm(PLAIN))
    decayed = evidence(PLAIN + 0.25 * WEIGHTS).linear_rows()
    np.testing.assert_allclose(decayed, PLAIN / np.linalg.norm(PLAIN), atol=1e-6)
    noisy = PLAIN + 0.1 * RNG.normal(size=PLAIN.shape)
    np.testing.assert_array_equal(evidence(noisy, noise=0.1).linear_rows(), noisy)
    for wrong, said in (
        (evidence(noisy), "do not add up as a gradient's do"),
        (evidence(PLAIN, pruned=True), "were left out"),
        (evidence(PLAIN, protocol="fedavg", local=LocalTraining(0.1, optimiser="adam")), "do not add up"),
        (evidence(noisy, noise=0.1, protocol="fedavg", local=LocalTraining(0.1, optimiser="adam")), "do not add up"),
    ):
        with pytest.raises(Silent, match=said):
            wrong.linear_rows()


def test_what_does_not_add_up_is_no_fault_where_the_file_says_why() -> None:
    noisy = PLAIN + 0.1 * RNG.normal(size=PLAIN.shape)
    adam = {"protocol": "fedavg", "local": LocalTraining(0.1, optimiser="adam")}
    assert evidence(noisy).unbalanced and not evidence(PLAIN).unbalanced
    assert not evidence(noisy, noise=0.1).unbalanced
    assert not evidence(noisy, **adam).unbalanced and not evidence(noisy, **adam).linear
    assert not evidence(noisy, built=model().clone(dropout=0.5)).unbalanced, "the input is masked"
    behind = tuple(layer.clone(dropout=0.5) for layer in model().layers)
    assert evidence(noisy, built=model().clone(layers=behind)).unbalanced


def test_one_gradient_is_that_of_one_step_under_a_protocol_that_sends_it() -> None:
    adam, plain, steps = (LocalTraining(0.1, n, optimiser=o) for n, o in ((1, "adam"), (1, "sgd"), (2, "sgd")))
    one = [evidence(PLAIN, protocol="fedavg", local=local).one_gradient for local in (adam, plain, steps)]
    assert one == [False, True, False] and evidence(PLAIN).one_gradient
    built = GNN(SPACE.width, (Layer(GCNConv(2, bias=True)),), NodeScores(2))
    gradient = np.zeros((SPACE.width, 2))
    node = evidence(gradient, built=built, weights=gradient, protocol="target_node")
    assert not node.one_gradient


def test_a_rank_is_that_of_singular_values_above_rounding_and_noise() -> None:
    left, right = (np.linalg.qr(RNG.normal(size=(n, n)))[0] for n in (9, 6))
    matrix = left[:, :4] * np.array([1.0, 1e-2, 1e-4, 2e-5]) @ right[:4]
    quiet, none = evidence(PLAIN), np.zeros((9, 6))
    assert quiet.rank_at_least(matrix, none) == 4
    assert quiet.rank_at_least(matrix, np.full((9, 6), 3e-5 / np.sqrt(54))) == 3, "the error's norm is added"
    assert quiet.rank_at_least(np.diag([1.0, 0.9e-5]), np.zeros((2, 2))) == 1, "a hundred thousandth says nothing"
    assert quiet.rank_at_least(none, none) == 0
    edge = np.sqrt(9) + np.sqrt(6) + 5.0
    for noise, rank in ((0.9e-2 / edge, 2), (1.1e-2 / edge, 1), (0.98 / edge, 1), (1.01 / edge, 0)):
        assert evidence(PLAIN, noise=noise).rank_at_least(matrix, none) == rank
