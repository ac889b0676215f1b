"""Local steps against a loop in NumPy, and what does not decay in them."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
import pytest
from models import some_params

from jgleak.federated.descent import descended, stepped
from jgleak.federated.local_training import LocalTraining
from jgleak.gnn import GNN, BatchNorm, GCNConv, Layer, Pooled
from jgleak.gnn.tree import at

LOCAL = LocalTraining(0.1, 4, 0.5, 0.2)


def model_of(norm: BatchNorm | None = None, frozen: tuple[str, ...] = ()) -> GNN:
    return GNN(3, (Layer(GCNConv(2), norm=norm),), Pooled(), frozen=frozen)


@pytest.mark.parametrize("along", [False, True])
def test_steps_are_those_of_a_loop(along: bool) -> None:
    """Along a gradient that depends on the weights and on the step's number."""
    slopes, weight, speed = [], np.array([1.0, -2.0], np.float32), np.zeros(2, np.float32)
    weights = [weight]
    for number in range(4):
        slopes.append(weight**2 + number)
        speed = 0.5 * speed + slopes[-1] + 0.2 * weight
        weight = weight - 0.1 * speed
        weights.append(weight)

    def slope(tree: Any, number: Any) -> Any:
        return {"w": tree["w"] ** 2 + number}

    given: dict[str, Any] = {"along": True} if along else {}
    found = descended(model_of(), {"w": jax.numpy.asarray(weights[0])}, slope, LOCAL.descent, **given)
    np.testing.assert_allclose(found.update["w"], LOCAL.shares @ np.array(slopes), rtol=1e-5)
    if along:
        np.testing.assert_allclose(found.weights["w"], weights[:-1], rtol=1e-5)
        np.testing.assert_allclose(found.slopes["w"], slopes, rtol=1e-5)
    else:
        assert found.weights is None and found.slopes is None


def test_what_is_frozen_and_running_statistics_do_not_decay() -> None:
    """Without any gradient: all else shrinks by rate times decay."""
    norm = ("layers_0", "norm")
    for model, stays in (
        (model_of(), []),
        (model_of(frozen=("layers_0/conv",)), [("layers_0", "conv", "kernel")]),
        (model_of(BatchNorm()), [(*norm, "mean"), (*norm, "variance")]),
    ):
        weights = some_params(model)
        zero = jax.tree.map(np.zeros_like, weights)
        found, speed = stepped(model, LOCAL.descent, weights, zero, zero)
        for path, leaf in jax.tree_util.tree_leaves_with_path(weights):
            names = tuple(key.key for key in path)
            left = 1.0 if names in stays else 1.0 - 0.1 * 0.2
            np.testing.assert_allclose(at(found, names), left * leaf, rtol=1e-6)
            np.testing.assert_allclose(at(speed, names), 0.0 * leaf if names in stays else 0.2 * leaf, rtol=1e-6)
