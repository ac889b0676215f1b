"""Features behind a GCN's mixing: exact where it lets them show, the prior where it does not, and said which."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jgleak.attacks.closed_form import gcn_inversion, least_squares
from jgleak.attacks.closed_form.activations import VALUES
from jgleak.attacks.closed_form.gcn_inversion import inverted
from jgleak.attacks.closed_form.layers import LayerGradient, mixing_of
from jgleak.attacks.closed_form.null_space import completed
from jgleak.attacks.closed_form.propositions import ConditionFailed
from jgleak.attacks.closed_form.tolerances import ClosedFormLimits, ClosedFormSettings, ClosedFormTolerances
from jgleak.gnn import GCNConv
from tests.attacks.closed_form.test_layers import connected

WIDTHS = {"sigmoid": 1.0, "tanh": 0.6, "relu": 1.0, "identity": 1.0}

GCN = GCNConv(4)


def pendant_paths() -> np.ndarray:
    """A hub with two pendant paths of two nodes and a triangle: three directions are hidden."""
    adjacency = np.zeros((8, 8))
    for u, v in [(0, 1), (1, 2), (0, 3), (3, 4), (0, 5), (5, 6), (5, 7), (6, 7)]:
        adjacency[u, v] = adjacency[v, u] = 1.0
    return adjacency


def made(
    rng: np.random.Generator, mixing: np.ndarray, x: np.ndarray, act: str, depth: int, width: int = 12, blocks: int = 1
) -> tuple[list[LayerGradient], np.ndarray]:
    """A GCN on ``x`` with its gradients in float32, by backpropagation written out, and the last ``dL/dZ``."""
    sizes = [x.shape[1], *[width] * depth]
    weights = [WIDTHS[act] * rng.normal(size=pair) / np.sqrt(pair[0]) for pair in zip(sizes, sizes[1:], strict=False)]
    biases = [0.3 * rng.normal(size=size) for size in sizes[1:]]
    states, inner = [x], list[np.ndarray]()
    for w, b in zip(weights, biases, strict=True):
        inner.append(mixing @ states[-1] @ w + b)
        states.append(VALUES[act](inner[-1]))
    upstream = rng.normal(size=(blocks, len(x), width))
    upstream[2:] = 0.0
    output, layers = upstream, list[LayerGradient]()
    for level in reversed(range(depth)):
        gradient = np.stack([(mixing @ states[level]).T @ one for one in upstream]).astype(np.float32)
        layers.append(LayerGradient(GCN, {"kernel": weights[level]}, biases[level], {"kernel": gradient}))
        if level:
            value = states[level]
            slopes = {"sigmoid": value * (1 - value), "tanh": 1 - value**2, "relu": (value > 0).astype(float)}
            slope = slopes.get(act, 1.0)
            upstream = mixing.T @ upstream @ weights[level].T * slope
    return layers[::-1], output


HIDDEN = np.linalg.svd(mixing_of(GCN, pendant_paths()))[2][-3:]
"""Directions that pendant paths hide."""


def left(seed: int, act: str, depth: int) -> tuple[float, float, float]:
    """For any features and weights on pendant paths: the misfit, the error of what is not hidden, and its doubt."""
    rng = np.random.default_rng(seed)
    mixing, x = mixing_of(GCN, pendant_paths()), rng.normal(size=(8, 9))
    layers, output = made(rng, mixing, x, act, depth)
    found = inverted(layers, output, mixing, act)
    np.testing.assert_allclose(HIDDEN @ found.features, 0.0, atol=1e-9)  # the prior's
    beyond = np.square(found.doubt) - np.sum(np.square(HIDDEN), axis=0)
    assert beyond.min() > -1e-9
    return found.misfit, float(np.abs(mixing @ (found.features - x)).max()), float(np.sqrt(max(beyond.max(), 0.0)))


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10**6), st.sampled_from(["sigmoid", "tanh"]), st.integers(1, 2))
def test_all_that_the_edges_let_through_comes_back_as_far_as_is_said(seed: int, act: str, depth: int) -> None:
    """On a graph that hides three directions of eight.

    Where hardly any gradient reaches a direction, or the passes turn in circles far from the gradients (seeds 2768 and
    12982 with tanh), the misfit and the doubt say so.
    """
    misfit, error, doubt = left(seed, act, depth)
    assert misfit < 1e-4
    assert error < 1e-6 + 5.0 * doubt


def test_passes_that_came_no_nearer_once_go_on_to_rounding() -> None:
    """Graphs of which some pass gained less than a tenth, or nothing: all end where float32 does."""
    for seed, act in [*((seed, "tanh") for seed in (501, 978, 1899, 13160)), (32, "sigmoid"), (4672, "sigmoid")]:
        misfit, error, doubt = left(seed, act, 2)
        assert misfit < 3e-7 and error < 5e-6 and doubt < 5e-3


def test_a_relu_takes_the_hidden_states_along_too() -> None:
    """Its slopes jump, so that a few graphs of many end elsewhere; of these the misfit says so."""
    mixing, exact = mixing_of(GCN, pendant_paths()), 0
    for seed in range(12):
        rng = np.random.default_rng(seed)
        x = rng.normal(size=(8, 9))
        layers, output = made(rng, mixing, x, "relu", 2)
        found = inverted(layers, output, mixing, "relu")
        near = np.abs(mixing @ (found.features - x)).max() < 1e-3
        assert near == (found.misfit < 1e-5)
        exact += near
    assert exact >= 10


@pytest.mark.parametrize("act", ["sigmoid", "tanh", "relu"])
def test_hidden_states_follow_from_what_shows_of_them(act: str) -> None:
    """Also a ReLU's, which cannot be undone: all minima of a convex function have the same states."""
    rng = np.random.default_rng(0)
    mixing, bias = mixing_of(GCN, pendant_paths()), rng.normal(size=5)
    states = VALUES[act](mixing @ rng.normal(size=(8, 5)) * 3 + bias)
    hidden = np.linalg.svd(mixing)[2][-3:]
    shown = states - hidden.T @ hidden @ states
    assert np.abs(shown - states).max() > 0.01
    np.testing.assert_allclose(completed(shown, mixing, act, bias), states, atol=1e-3)
    whole = mixing_of(GCN, np.zeros((8, 8)))
    np.testing.assert_array_equal(completed(states, whole, act, bias), states)


@pytest.mark.parametrize("act", sorted(VALUES))
@pytest.mark.parametrize("ridge", [0.1, 3.0])
def test_a_ridge_balances_what_shows(act: str, ridge: float) -> None:
    """``Rᵀ act(R b + bias) + ridge b`` is what shows, whatever the activation; after a single step it is not yet."""
    rng = np.random.default_rng(1)
    mixing, bias = mixing_of(GCN, pendant_paths()), rng.normal(size=5)
    reach, shown = np.linalg.svd(mixing)[0][:, :5], VALUES[act](rng.normal(size=(8, 5)))
    tolerances = ClosedFormTolerances(ridge=ridge)
    gaps = []
    for steps in (1, 500):
        limited = ClosedFormSettings(tolerances=tolerances, limits=ClosedFormLimits(steps=steps))
        states = completed(shown, mixing, act, bias, limited)
        b = reach.T @ (shown - states) / ridge
        gaps.append(np.abs(VALUES[act](reach @ b + bias) - states).max())
    assert gaps[1] < 1e-3 < gaps[0]


@pytest.mark.parametrize("ridge", [0.5, 3.0])
def test_a_ridge_shrinks_what_linear_states_show(ridge: float) -> None:
    """By the closed form of ridge regression."""
    rng = np.random.default_rng(1)
    mixing, bias = mixing_of(GCN, pendant_paths()), rng.normal(size=5)
    reach = np.eye(8) - HIDDEN.T @ HIDDEN
    shown = reach @ rng.normal(size=(8, 5))
    strong = ClosedFormSettings(tolerances=ClosedFormTolerances(ridge=ridge))
    wanted = (shown - reach @ np.tile(bias, (8, 1))) / (1 + ridge) + bias
    np.testing.assert_allclose(completed(shown, mixing, "identity", bias, strong), wanted, atol=1e-4)


@pytest.mark.parametrize("act", sorted(VALUES))
def test_nodes_in_another_order_give_the_same_features(act: str) -> None:
    rng = np.random.default_rng(1)
    a, order = connected(rng, 9), rng.permutation(9)
    mixing, x = mixing_of(GCN, a), rng.normal(size=(9, 7))
    layers, output = made(rng, mixing, x, act, 2)
    one = inverted(layers, output, mixing, act)
    other = inverted(layers, output[:, order], mixing[np.ix_(order, order)], act)
    np.testing.assert_allclose(other.features, one.features[order], atol=1e-3)


@pytest.mark.parametrize("eigenvalue", [1e-2, 1e-4, 1e-6])
def test_a_nearly_singular_mixing_costs_no_more_than_the_prior(eigenvalue: float) -> None:
    """Least squares amplifies rounding by the inverse of each eigenvalue, at every layer; the filter never does."""
    rng = np.random.default_rng(2)
    basis = np.linalg.qr(rng.normal(size=(10, 10)))[0]
    mixing = basis @ np.diag([eigenvalue, *np.linspace(0.3, 1.0, 9)]) @ basis.T
    x = rng.normal(size=(10, 8))
    layers, output = made(rng, mixing, x, "sigmoid", 2)
    found = inverted(layers, output, mixing, "sigmoid")
    along = basis.T @ (found.features - x)
    assert np.abs(along[1:]).max() < 1e-3  # whatever happens along the weak direction
    truth = np.linalg.norm(basis.T[0] @ x)
    assert np.linalg.norm(along[0]) < {1e-2: 1e-2, 1e-4: 0.2, 1e-6: 1.2}[eigenvalue] * truth


@pytest.mark.parametrize("noise", [1e-3, 1e-2, 1e-1, 10.0])
def test_the_doubt_is_the_error_that_noise_makes(noise: float) -> None:
    """Expected and actual error of one layer's rows agree, from hardly any to all."""
    rng = np.random.default_rng(3)
    design, rows = rng.normal(size=(1, 12, 40)) * np.geomspace(1, 1e-2, 12)[:, None], rng.normal(size=(12, 300))
    clean = rows.T @ design
    seen = clean + noise * np.sqrt(np.mean(clean**2)) * rng.normal(size=clean.shape)
    found = least_squares.regularised(design, seen, np.zeros(rows.shape))
    actual = np.sqrt(np.mean((found.rows() - rows) ** 2))
    assert np.isclose(np.sqrt(np.mean(found.doubt() ** 2)), actual, rtol=0.3)
    assert actual < 1.1
    plain = np.linalg.lstsq(design[0].T, seen[0].T, rcond=None)[0]
    assert actual <= np.sqrt(np.mean((plain - rows) ** 2)) * 1.001


def test_the_filter_is_least_squares_where_nothing_is_noisy_and_the_prior_where_nothing_shows() -> None:
    rng = np.random.default_rng(4)
    design, rows = rng.normal(size=(2, 6, 9)), rng.normal(size=(6, 5))
    design[:, 5] = 0.0  # no gradient has a part of it
    prior = rng.normal(size=(6, 5))
    found = least_squares.regularised(design, rows.T @ design, prior)
    np.testing.assert_allclose(found.rows()[:5], rows[:5], atol=1e-5)
    np.testing.assert_allclose(found.rows()[5], prior[5], atol=1e-5)
    np.testing.assert_allclose(found.doubt()[[0, 5]], [0.0, 1.0], atol=1e-5)
    assert np.abs(found.rows(1e30) - prior).max() < 1e-3


@pytest.mark.parametrize("blocks", [1, 2, 3])
@pytest.mark.parametrize("depth", [1, 2])
def test_the_misfit_is_the_distance_of_the_kernels_gradients(depth: int, blocks: int) -> None:
    """What least squares cannot reach included: features that miss the gradients by far, in one layer and in all. Of
    three nodes' gradients the third is zero and does not count."""
    rng, act = np.random.default_rng(depth), "tanh"
    mixing, x = mixing_of(GCN, pendant_paths()), rng.normal(size=(8, 9))
    layers, output = made(rng, mixing, x, act, depth, blocks=blocks)
    for level, layer in enumerate(layers):
        gradient = layer.gradients["kernel"]
        off = rng.normal(size=gradient.shape) * np.abs(gradient).max()
        off[2:] = 0.0
        layers[level] = layer._replace(gradients={"kernel": gradient + off})
    rows = gcn_inversion._upstream(layers, output, mixing, x, act)
    fit = gcn_inversion._fit(layers[0], rows[0][1], mixing, np.zeros_like(x))
    assert fit.missed > 0.1
    shares = []
    for layer, (states, gradient) in zip(layers, rows, strict=True):
        for told, one in zip(layer.gradients["kernel"][:2], gradient[:2], strict=True):
            shares.append(np.sum((states.T @ (mixing.T @ one) - told) ** 2) / np.sum(told**2))
    assert gcn_inversion._misfit(layers, rows, mixing, fit) == pytest.approx(np.sqrt(np.mean(shares)), rel=1e-6)


@pytest.mark.parametrize(
    ("blocks", "noise", "width"), [(1, 0.0, 9), (3, 0.0, 9), (1, 0.05, 9), (1, 0.05, 7), (3, 0.05, 9)]
)
def test_the_filter_is_wieners(blocks: int, noise: float, width: int) -> None:
    """Row by row along the design's own directions, with what least squares leaves as the noise (its docstring)."""
    rng = np.random.default_rng(blocks)
    design = rng.normal(size=(blocks, 6, width)) * np.geomspace(1, 1e-2, 6)[:, None]
    rows, prior = rng.normal(size=(6, 50)), 0.1 * rng.normal(size=(6, 50))
    clean = rows.T @ design
    seen = clean + noise * np.sqrt(np.mean(clean**2)) * rng.normal(size=clean.shape)
    found = least_squares.regularised(design, seen, prior)
    scale = 1 / np.linalg.norm(seen, axis=(1, 2))
    whole, wide = np.hstack(list(scale[:, None, None] * seen)), np.hstack(list(scale[:, None, None] * design))
    left, values, _ = np.linalg.svd(wide, full_matrices=False)
    answer = np.linalg.lstsq(wide.T, whole.T, rcond=None)[0]
    missed = whole - answer.T @ wide
    entries, columns = whole.size, whole.shape[1]
    assert found.missed == pytest.approx(np.linalg.norm(missed) / np.sqrt(blocks), abs=1e-7)
    rounding = 2.0**-48 * blocks / entries
    variance = max(np.sum(missed**2) / (50 * (columns - 6)), rounding)
    assert found.noise == pytest.approx(np.sqrt(variance * entries / blocks), rel=1e-4)
    spread = np.median((np.mean((left.T @ (answer - prior)) ** 2, axis=1) - variance / values**2)[:3])
    assert found.ratio == pytest.approx(variance / spread, rel=1e-4)
    for strength in (1.0, 100.0):
        kept = values**2 / (values**2 + strength * variance / spread)
        filtered = prior + left @ (kept[:, None] * (left.T @ (answer - prior)))
        np.testing.assert_allclose(found.rows(strength), filtered, rtol=1e-4, atol=1e-6)
        np.testing.assert_allclose(found.doubt(strength), np.sqrt(1 - left**2 @ kept), rtol=1e-3, atol=1e-5)


def test_blocks_without_a_gradient_do_not_count() -> None:
    rng = np.random.default_rng(0)
    design, rows = rng.normal(size=(2, 4, 7)), rng.normal(size=(4, 3))
    seen = rows.T @ design
    seen[1] = 0.0
    np.testing.assert_array_equal(least_squares.block_weights(seen), [1 / np.linalg.norm(seen[0]), 0.0])
    alone, both = (least_squares.regularised(design[:k], seen[:k], np.zeros((4, 3))) for k in (1, 2))
    np.testing.assert_allclose(alone.rows(), both.rows(), atol=1e-9)
    assert alone.ratio == pytest.approx(both.ratio) and alone.noise == pytest.approx(both.noise)
    for size in (1e-3, 1e25):  # whose squares no single precision holds
        weights = least_squares.block_weights(np.full((1, 2, 2), size, np.float32))
        np.testing.assert_allclose(weights, 1 / (2 * size), rtol=1e-6)


@pytest.mark.parametrize("size", [1e-8, 1.0, 1e8])
def test_directions_that_rounding_alone_made_do_not_count(size: float) -> None:
    """Of a design whose six nodes have three directions between them."""
    rng = np.random.default_rng(0)
    design = (rng.normal(size=(6, 3)) @ rng.normal(size=(3, 40)))[None]
    found = least_squares.regularised(design, size * rng.normal(size=(5, 6)) @ design, np.zeros((6, 5)))
    assert found.values.size == 3


def test_as_many_columns_as_directions_leave_rounding_alone_to_be_the_noise() -> None:
    rng = np.random.default_rng(0)
    design, rows = rng.normal(size=(1, 6, 6)), rng.normal(size=(6, 5))
    assert least_squares.regularised(design, rows.T @ design, np.zeros((6, 5))).noise == pytest.approx(2.0**-24)


def test_without_a_gradient_nothing_shows() -> None:
    rng = np.random.default_rng(5)
    for design, seen in ((np.zeros((1, 4, 3)), np.ones((1, 2, 3))), (rng.normal(size=(1, 4, 3)), np.zeros((1, 2, 3)))):
        with pytest.raises(ConditionFailed, match="no gradient reaches the layer"):
            least_squares.regularised(design, seen, np.zeros((4, 2)))


def test_noise_that_a_fit_cannot_show_is_judged_by_the_whole_model() -> None:
    """As many nodes as units: every gradient is fitted, rounding and all, so the layer alone tells nothing of it."""
    actual, stated = list[float](), list[float]()
    for seed in range(6):
        rng = np.random.default_rng(seed)
        basis = np.linalg.qr(rng.normal(size=(16, 16)))[0]
        mixing = basis @ np.diag(np.geomspace(1, 1e-4, 16)) @ basis.T
        x = rng.normal(size=(16, 9))
        layers, output = made(rng, mixing, x, "sigmoid", 2, width=16)
        found = inverted(layers, output, mixing, "sigmoid")
        actual.append(float(np.linalg.norm(found.features - x) / np.linalg.norm(x)))
        stated.append(float(np.sqrt(np.mean(found.doubt**2))))
    assert max(actual) < 1.0  # the prior's; least squares has 4 to 34
    np.testing.assert_allclose(stated, actual, rtol=0.5)


def test_what_the_gradients_do_not_fit_is_doubted() -> None:
    """Passes end at some distance from the gradients, which says more about the features than their rounding does."""
    rng = np.random.default_rng(6)
    adjacency = connected(rng, 12)
    mixing, x = mixing_of(GCN, adjacency), rng.normal(size=(12, 9))
    layers, output = made(rng, mixing, x, "sigmoid", 2, width=12)
    for noise in (0.0, 1e-4, 1e-2):
        spoilt = list[LayerGradient]()
        for layer in layers:
            kernel = layer.gradients["kernel"]
            size = noise * np.sqrt(np.mean(np.square(kernel)))
            spoilt.append(layer._replace(gradients={"kernel": kernel + size * rng.normal(size=kernel.shape)}))
        found = inverted(spoilt, output, mixing, "sigmoid")
        error = np.linalg.norm(found.features - x) / np.linalg.norm(x)
        assert error < 2.0 * np.sqrt(np.mean(found.doubt**2)) + 1e-6


@pytest.mark.parametrize(("gain", "patience", "passes"), [(1.0, 1, 2), (1.0, 2, 3), (0.995, 3, 4), (0.98, 1, 9)])
def test_passes_end_where_so_many_in_a_row_come_no_nearer(
    gain: float, patience: int, passes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By less than a hundredth of the distance; else they end after nine, as told."""
    rng, done = np.random.default_rng(0), list[float]()
    mixing, x = mixing_of(GCN, pendant_paths()), rng.normal(size=(8, 9))
    layers, output = made(rng, mixing, x, "tanh", 2)

    def nearer(*_: object) -> float:
        done.append(gain ** len(done))
        return done[-1]

    monkeypatch.setattr(gcn_inversion, "_misfit", nearer)
    limits = ClosedFormLimits(passes=9, patience=patience, strengths=1)
    found = inverted(layers, output, mixing, "tanh", ClosedFormSettings(limits=limits))
    assert len(done) == passes and found.misfit == min(done)


def test_a_misfit_is_noise_to_the_doubt(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its square, in units of what the fit itself took for noise; and no state is surer than the settings say."""
    rng, fits, fit = np.random.default_rng(0), list[least_squares.Regularised](), gcn_inversion._fit
    mixing, x = mixing_of(GCN, pendant_paths()), rng.normal(size=(8, 9))
    layers, output = made(rng, mixing, x, "tanh", 2)

    def kept(*given: Any) -> least_squares.Regularised:
        fits.append(fit(*given))
        return fits[-1]

    monkeypatch.setattr(gcn_inversion, "_fit", kept)
    once = ClosedFormSettings(limits=ClosedFormLimits(passes=1, strengths=1))
    found = inverted(layers, output, mixing, "tanh", once)
    ratio = found.misfit / fits[-1].noise
    assert ratio > 1.2
    np.testing.assert_allclose(found.doubt, fits[-1].doubt(ratio**2))
    sure = layers[0]._replace(tolerances=ClosedFormTolerances(smallest=1e20))
    assert fit(sure, output, mixing, np.zeros_like(x)).ratio == pytest.approx(1e-20)


def test_a_pass_without_gradient_leaves_the_answer_of_the_one_before(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(7)
    mixing, x = mixing_of(GCN, connected(rng, 9)), rng.normal(size=(9, 7))
    layers, output = made(rng, mixing, x, "sigmoid", 2)
    once = ClosedFormSettings(limits=ClosedFormLimits(passes=1))
    first = inverted(layers, output, mixing, "sigmoid", once)
    calls = list[int]()

    def dries_up(
        design: np.ndarray, gradients: np.ndarray, prior: np.ndarray, **more: float
    ) -> least_squares.Regularised:
        calls.append(len(calls))
        return least_squares.regularised(design * (len(calls) < 3), gradients, prior, **more)

    monkeypatch.setattr(gcn_inversion, "regularised", dries_up)
    np.testing.assert_array_equal(inverted(layers, output, mixing, "sigmoid").features, first.features)
    assert len(calls) == 3
