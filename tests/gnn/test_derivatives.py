"""Autodiff against central differences in float64, first and second order, for every part of the model."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree
from jaxtyping import Array
from models import READOUTS, SLOTS
from stars import by_class

from jgleak.federated.loss import LOSSES, MASKED, graph_loss
from jgleak.gnn import ACTIVATIONS, CONVOLUTIONS, standard
from jgleak.graph import DenseGraph

WIDTH, NODES = 3, 5
PLAIN = tuple(loss for loss in LOSSES if loss not in MASKED)
"""Those of several tasks have tests of their own (``federated/test_masked_loss.py``)."""

PRODUCT = [
    (conv, readout, act, loss)
    for conv, readout, act, loss in product(CONVOLUTIONS, READOUTS, ACTIVATIONS, PLAIN)
    if loss == "mse" or not READOUTS[readout](1, act).rates
]
AXES = tuple(map(list, (CONVOLUTIONS, READOUTS, ACTIVATIONS, PLAIN)))
TURNS = [[axis[i % len(axis)] for axis in AXES] for i in range(max(map(len, AXES)))]
CASES = [(conv, readout, act, "mse" if READOUTS[readout](1, act).rates else loss) for conv, readout, act, loss in TURNS]
"""A part of the product with every part in it; the whole is marked slow."""


def test_the_quick_cases_cover_every_part() -> None:
    assert set(CASES) <= set(PRODUCT)
    parts = [set(column) for column in zip(*CASES, strict=True)]
    assert parts == [set(CONVOLUTIONS), set(READOUTS), set(ACTIVATIONS), set(PLAIN)]


def problem(conv: str, readout: str, act: str, loss: str, make: Callable[..., Any], graph_of: Any) -> Any:
    """A loss of (parameters, relaxed adjacency, features), and a point to differentiate it at; call under x64."""
    head = READOUTS[readout](1 if loss == "mse" else 2, act)
    model = standard(WIDTH, conv, head, hidden=4, act=act, bias=True)
    rng = np.random.default_rng(0)
    rows, adjacency, mask = graph_of(NODES, SLOTS, WIDTH, seed=1)
    relaxed = np.triu(rng.uniform(0.1, 0.9, (SLOTS, SLOTS)) * np.outer(mask, mask), 1)
    classes = model.edge_classes
    label = jnp.array([1, 0, 1, 1, 0, 0]) if model.node_level else jnp.array(1)
    adjacency, relaxed = (by_class(jnp.asarray(a), classes) for a in (adjacency, relaxed + relaxed.T))
    weights = jax.tree.map(lambda w: 0.5 * w, make(model, SLOTS, WIDTH, 2, np.float64))  # no softmax saturates
    point = weights, relaxed, rows.astype(np.float64)

    def value(params: Any, adjacency: Array, rows: Array) -> Array:
        return graph_loss(model, params, DenseGraph(rows, adjacency, mask), label, loss)

    return value, jax.tree.map(jnp.asarray, point), adjacency.astype(np.float64)


def slope_error(value: Callable[..., Array], point: Any, gradient: Any, seed: int, step: float = 1e-5) -> float:
    """Difference of ``gradient`` and the central difference along a random direction of everything, over its norm."""
    flat, unravel = ravel_pytree(point)
    direction = np.random.default_rng(seed).normal(size=flat.shape)
    ahead, behind = value(*unravel(flat + step * direction)), value(*unravel(flat - step * direction))
    slopes = ravel_pytree(gradient)[0]
    return float(abs((ahead - behind) / (2 * step) - slopes @ direction) / jnp.linalg.norm(slopes))


@pytest.mark.parametrize(
    ("conv", "readout", "act", "loss"),
    [pytest.param(*case, marks=() if case in CASES else pytest.mark.slow) for case in PRODUCT],
)
def test_first_derivatives(
    conv: str, readout: str, act: str, loss: str, params_of: Any, graph_of: Any, quick_jit: Any
) -> None:
    with jax.enable_x64(True):
        value, point, _ = problem(conv, readout, act, loss, params_of, graph_of)
        both = quick_jit(jax.value_and_grad(value, argnums=(0, 1, 2)))
        gradient = both(*point)[1]
        flat = ravel_pytree(gradient)[0]
        assert flat.dtype == np.float64 and np.isfinite(flat).all() and abs(flat).max() > 1e-4
        assert max(slope_error(lambda *p: both(*p)[0], point, gradient, seed) for seed in (3, 4)) < 1e-7


@pytest.mark.parametrize(
    ("conv", "readout", "act"),
    [("gcn", "node_mlp", "tanh"), ("gat", "max", "gelu"), ("sage", "mean", "sigmoid"), ("gin", "per node", "tanh")],
)
def test_derivatives_of_the_gradient_distance(
    conv: str, readout: str, act: str, params_of: Any, graph_of: Any, quick_jit: Any
) -> None:
    """What gradient matching needs: d/d(A, X) of the squared distance between gradients."""
    with jax.enable_x64(True):
        value, (params, *point), binary = problem(conv, readout, act, "bce", params_of, graph_of)
        rng = np.random.default_rng(6)
        target = jax.tree.map(lambda w: rng.normal(size=w.shape), params)

        def distance(adjacency: Array, rows: Array) -> Array:
            dummy = jax.grad(value)(params, adjacency, rows)
            return jnp.sum((ravel_pytree(dummy)[0] - ravel_pytree(target)[0]) ** 2)

        both = quick_jit(jax.value_and_grad(distance, argnums=(0, 1)))
        gradient = both(*point)[1]
        assert abs(ravel_pytree(gradient)[0]).max() > 1e-6
        assert slope_error(lambda *p: both(*p)[0], point, gradient, seed=5) < 1e-7
        for corner in (binary, jnp.zeros_like(binary), jnp.ones_like(binary) - jnp.eye(SLOTS)):
            assert np.isfinite(ravel_pytree(both(corner, point[1]))[0]).all(), "binary, empty and full graphs"
