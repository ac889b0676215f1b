"""Where gradients along local steps were taken: which updates show it, and what the head's gradient mixes."""

from __future__ import annotations

import jax
import numpy as np
import pytest

from jgleak.attacks.census.local_path import LocalPath, Point, every_step_whole, midway, moved, root_shares, straight
from jgleak.federated import LocalTraining, Observation
from jgleak.gnn import GNN, MLP, BatchNorm, GCNConv, Layer, Pooled

MODEL = GNN(3, (Layer(GCNConv(5)),), Pooled("mean", MLP((4, 2))))
ZEROS = jax.tree.map(lambda s: np.zeros(s.shape), jax.eval_shape(lambda: MODEL.initial(key=jax.random.key(0))))


def sent(local: LocalTraining | None, **marks: bool) -> Observation:
    protocol = "fedsgd" if local is None else "fedavg"
    return Observation(MODEL, ZEROS, ZEROS, "ce", protocol=protocol, local=local, batch_size=4, **marks)


def test_weights_moved_where_several_whole_steps_are_behind_an_update() -> None:
    two = LocalTraining(0.1, 2)
    assert moved(sent(two)) and not moved(sent(LocalTraining(0.1, 1))) and not moved(sent(None))
    for marks in ({"scaled": True}, {"pruned": True}, {"scaled": True, "pruned": True}):
        assert not moved(sent(two, **marks))


@pytest.mark.parametrize(("loader", "whole"), [(None, True), (5, True), (4, True), (3, False)])
def test_a_step_sees_all_graphs_where_the_loader_gives_as_many(loader: int | None, whole: bool) -> None:
    assert every_step_whole(sent(LocalTraining(0.1, 2, loader=loader))) is whole
    assert not every_step_whole(sent(None))


@pytest.mark.parametrize("steps", [1, 3])
def test_shares_of_pooled_rows_are_those_in_the_row_that_the_head_shows(steps: int) -> None:
    """Each step adds its row times what flowed back, and the row that shows is the least-squares answer of the sum."""
    rng = np.random.default_rng(steps)
    rows, behind, shares = rng.normal(size=(steps, 5)), rng.normal(size=(steps, 4)), rng.random(steps)
    shares /= shares.sum()
    kernel, bias = np.einsum("e,ep,eo->po", shares, rows, behind), shares @ behind

    def path(slopes: np.ndarray) -> LocalPath:
        first = [{"mlp": {"linears_0": {"bias": slope}}} for slope in slopes]
        return tuple(Point(ZEROS, readout, float(share)) for readout, share in zip(first, shares, strict=True))

    found = root_shares(MODEL, path(behind))
    assert found.sum() == pytest.approx(1.0)
    np.testing.assert_allclose(found @ rows, kernel @ bias / (bias @ bias), rtol=1e-9)
    np.testing.assert_array_equal(root_shares(MODEL, path(0.0 * behind)), shares)


@pytest.mark.parametrize(
    "model",
    [MODEL, MODEL.clone(frozen=("layers_0",)), MODEL.clone(layers=(Layer(GCNConv(5), norm=BatchNorm()),))],
    ids=["all trained", "a part frozen", "running statistics"],
)
@pytest.mark.parametrize("local", [LocalTraining(0.1, 4, 0.5, 0.3), LocalTraining(0.2, 3)])
def test_along_equal_gradients_the_straight_path_is_the_client_s(model: GNN, local: LocalTraining) -> None:
    """What is frozen, and statistics, do not decay."""
    rng, whole = np.random.default_rng(0), jax.eval_shape(lambda: model.initial(key=jax.random.key(0)))
    weights, slope = (jax.tree.map(lambda s: rng.normal(size=s.shape).astype(np.float32), whole) for _ in range(2))
    slope = jax.tree.map(np.asarray, model.trained(slope))
    seen = Observation(model, weights, slope, "ce", protocol="fedavg", local=local, batch_size=4)
    path, middle = straight(seen), jax.tree.map(np.zeros_like, weights)
    speed = jax.tree.map(np.zeros_like, weights)
    assert len(path) == local.steps
    for point, share in zip(path, local.shares, strict=True):
        assert point.share == pytest.approx(share)
        jax.tree.map(lambda got, want: np.testing.assert_allclose(got, want, atol=1e-5), point.params, weights)
        middle = jax.tree.map(lambda sum_, one, share=share: sum_ + share * one, middle, weights)
        gradient = jax.tree.map(lambda g, w: g + local.weight_decay * w, slope, model.trained(weights))
        speed = jax.tree.map(lambda v, g: local.momentum * v + g, speed, gradient)
        weights = jax.tree.map(lambda w, v: w - local.rate * v, weights, speed)
    jax.tree.map(lambda got, want: np.testing.assert_allclose(got, want, atol=1e-5), midway(seen).params, middle)
