"""Where gradients along local steps were taken: which updates show it, and what the head's gradient mixes."""

from __future__ import annotations

import jax
import numpy as np
import pytest

from jgleak.attacks.census.local_path import LocalPath, Point, every_step_whole, moved, root_shares
from jgleak.federated import LocalTraining, Observation
from jgleak.gnn import GNN, MLP, GCNConv, Layer, Pooled

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
