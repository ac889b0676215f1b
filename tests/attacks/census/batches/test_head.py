"""What the gradient of the map behind pooling shows, on gradients whose parts are known."""

from __future__ import annotations

import dataclasses
from types import SimpleNamespace
from typing import Any

import jax
import numpy as np
import pytest

from jgleak.attacks.census.batches import head as module
from jgleak.attacks.census.batches.head import FAINT, SHORT, UNLIT, WORST, HeadGradient, _largest_gap
from jgleak.federated import LocalTraining, Observation

SIZES = pytest.mark.parametrize("size", [1e-3, 1.0, 1e3])


def bare(**fields: Any) -> HeadGradient:
    """A gradient of which only this is known."""
    head = object.__new__(HeadGradient)
    head.__dict__.update(fields)
    return head


def factored(kernel: np.ndarray, rank: int, **fields: Any) -> HeadGradient:
    columns, values, rows = np.linalg.svd(kernel, full_matrices=False)
    return bare(columns=columns[:, :rank], values=values[:rank], rows=rows[:rank].T, **fields)


@pytest.mark.parametrize(("loss", "directions"), [("ce", 3), ("bce", 4)])
def test_gradients_of_a_softmax_add_up_to_zero_and_others_may_be_any(loss: str, directions: int) -> None:
    head = bare(observation=SimpleNamespace(model=SimpleNamespace(outputs=4), loss=loss))
    assert head.directions.shape == (4, directions)
    np.testing.assert_allclose(head.directions.T @ head.directions, np.eye(directions), atol=1e-12)
    assert np.allclose(head.directions.sum(axis=0), 0.0) is (loss == "ce")


@SIZES
def test_units_are_those_to_which_weights_lead_and_that_some_graph_lights(size: float) -> None:
    """Beside the most that lead to one and the longest entries, whatever either's unit is."""
    leads, lit = np.array([1.0, 1.1, 0.9, 0.5, 0.5]), np.array([0.5, 0.5, 0.5, 1.1, 0.9])
    outgoing = np.outer([20.0, *leads[:3] * [1.0, FAINT * 20.0, FAINT * 20.0], *leads[3:] * 20.0], [0.6, 0.8])
    rows = np.outer([*lit[:3], 1.0, *lit[3:] * UNLIT], [0.8, -0.6])
    head = bare(outgoing=size * outgoing, rows=rows / size)
    assert head.units.tolist() == [0, 2, 4]


def test_rows_and_weights_at_units_are_in_units_of_the_weights_length() -> None:
    outgoing, rows = np.array([[3.0, 4.0], [1.0, 0.0], [0.0, 0.1]]), np.arange(6.0).reshape(3, 2)
    own, weights = bare(outgoing=outgoing, rows=rows).at_units(np.array([0, 2]))
    np.testing.assert_allclose(own, [[0.0, 0.2], [40.0, 50.0]])
    np.testing.assert_allclose(weights, [[0.6, 0.8], [0.0, 1.0]])


def parts() -> tuple[np.ndarray, np.ndarray]:
    """Three pooled rows, and what flows back to them."""
    rng = np.random.default_rng(0)
    return rng.normal(size=(3, 5)), rng.normal(size=(3, 9))


def reading(back: np.ndarray) -> Any:
    """A readout whose first map's bias has the gradient that flows back to all rows."""
    model = SimpleNamespace(readout=SimpleNamespace(first=lambda tree: tree), readout_of=lambda tree: tree)
    return SimpleNamespace(model=model, update={"bias": back.sum(axis=0)})


@SIZES
@pytest.mark.parametrize(("short", "told"), [(1.0, True), (2.0 * SHORT, True), (0.5 * SHORT, False)])
def test_from_what_flows_back_follow_all_pooled_rows(size: float, short: float, told: bool) -> None:
    """Up to its lengths and signs, of which none may be next to nothing beside the others."""
    rows, back = parts()
    back /= np.linalg.norm(back, axis=1, keepdims=True)
    back *= size * np.array([[1.0], [short], [1.0]])
    head = factored(rows.T @ back, 3, observation=reading(back))
    vectors = np.array([[2.0], [-2.0], [2.0]]) * (back @ head.rows) / np.linalg.norm(back, axis=1, keepdims=True)
    found = head.implied(vectors)
    assert (found is not None) is told
    if found is not None:
        np.testing.assert_allclose(found, rows, rtol=1e-7)


@pytest.mark.parametrize(("angle", "told"), [(4.0, True), (1.0, False)])
def test_vectors_that_depend_on_each_other_imply_no_rows(angle: float, told: bool) -> None:
    """Their condition number is two over the angle between two of them."""
    back = np.eye(3, 9)
    back[1, :2] = [1.0, angle / WORST]
    head = factored(parts()[0].T @ back, 3, observation=reading(back))
    assert (head.implied(back @ head.rows) is not None) is told


@SIZES
def test_what_is_explained_is_relative_to_what_flows_back(size: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of three rows two have just what their gradients at the logits give, and the third as much beside it."""
    rng, rows = np.random.default_rng(0), parts()[0]
    jacobians = np.stack([np.linalg.qr(rng.normal(size=(9, 3)))[0] for _ in range(3)])
    sought = size * rng.normal(size=(3, 2))
    back = np.einsum("kfc,kc->kf", jacobians[:, :, :2], sought)
    back[2] += jacobians[2, :, 2] * np.linalg.norm(back[2])
    head = factored(rows.T @ back, 3, directions=np.eye(2))
    monkeypatch.setattr(HeadGradient, "back", lambda *_: jacobians[:, :, :2])
    found, rest = head.explained(rows)
    np.testing.assert_allclose(found, sought)
    np.testing.assert_allclose(rest, [0.0, 0.0, np.sqrt(0.5)], atol=1e-9)


@SIZES
def test_a_rank_is_that_of_all_values_and_of_a_path_that_before_the_largest_gap(size: float, lab: Any) -> None:
    model = lab.model(hidden=8, readout="pooled", readout_widths=(6,), last_act=True)
    params = lab.params(model)
    update = jax.tree.map(np.zeros_like, params)
    kernel = model.readout.first(model.readout_of(update))["kernel"]
    np.fill_diagonal(kernel, np.float32(size) * np.array([1.0, 0.5, 1e-4, 1e-5, 0.0, 0.0], np.float32))
    seen = Observation(model, params, update, "bce", batch_size=3)
    assert HeadGradient.of(seen).rank == 4
    several = dataclasses.replace(seen, protocol="fedavg", local=LocalTraining(0.1, 3))
    assert HeadGradient.of(several).moved and HeadGradient.of(several).rank == 2
    np.fill_diagonal(kernel, np.float32(size) * np.array([1.0, 0.5, 0.4, 1e-4, 0.0, 0.0], np.float32))
    assert HeadGradient.of(several).rank == 3


@SIZES
@pytest.mark.parametrize(("values", "rank"), [([1.0, 1e-4, 1e-9], 1), ([1.0, 1e-3, 1e-9], 2), ([1.0, 0.5, 0.01], 2)])
def test_below_rounding_no_value_falls_further(values: list[float], rank: int, size: float) -> None:
    """Beside the largest; of three graphs."""
    seen: Any = object.__new__(Observation)
    seen.__dict__["batch_size"] = 3
    assert _largest_gap(size * np.array(values), seen) == rank
    assert module.ROUNDING == 5e-7


def test_rows_whose_gradients_cancel_at_the_bias_are_not_told() -> None:
    rows, back = parts()
    head = factored(rows.T @ back, 3, observation=reading(0.0 * back))
    assert head.implied(back @ head.rows) is None


@SIZES
def test_a_row_alone_says_what_flows_back_to_it_and_its_part_leaves_the_others(
    size: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One direction of each Jacobian lies in the space of what flows back, and the other beside it."""
    rng, rows = np.random.default_rng(0), parts()[0]
    jacobians, sought = size * rng.normal(size=(3, 9, 2)), rng.normal(size=(3, 2))
    back = np.einsum("kfc,kc->kf", jacobians, sought)
    seen: Any = object.__new__(Observation)
    head = factored(rows.T @ back, 3, directions=np.eye(2), observation=seen)
    place = {row.tobytes(): k for k, row in enumerate(rows)}
    monkeypatch.setattr(HeadGradient, "back", lambda _, some: jacobians[[place[one.tobytes()] for one in some]])
    for k, row in enumerate(rows):
        found, outside = head.of_row(row)
        np.testing.assert_allclose(found, sought[k], rtol=1e-6)
        assert outside < 1e-7
    less = head.without(rows[:1])
    np.testing.assert_allclose(less.kernel, rows[1:].T @ back[1:], atol=1e-7 * size)
    assert less.rank == 2 and np.linalg.norm(head.without(rows).kernel) < 1e-7 * size


@SIZES
def test_a_row_is_as_far_from_the_gradient_as_the_nearest_that_may_flow_back(
    size: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The sine of its angle; of a row that the gradient does not have nothing is known."""
    head = factored(np.eye(4, 5)[:, :3] @ np.diag([3.0, 2.0, 1.0]) @ np.eye(3, 5), 3, directions=np.eye(2))
    jacobian = size * np.array([[0.8, 0.0, 0.0, 0.6, 0.0], [0.0, 0.0, 0.0, 0.0, 1.0]]).T
    monkeypatch.setattr(HeadGradient, "back", lambda *_: jacobian[None])
    assert head.of_row(np.eye(4)[0])[1] == pytest.approx(0.6)
    found, outside = head.of_row(np.eye(4)[3])
    assert outside == np.inf and not found.any()
