"""Batch normalisation in training mode as sums over nodes: what a norm subtracts from gradients, and its moments."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jgleak.attacks.census.problem import CensusProblem
from jgleak.attacks.census.training_norms import taken, training_norms
from jgleak.gnn import BatchNorm

NODES, WIDTH = 6, 3
PATHS = ("layers_0", "conv", "norms_0"), ("layers_0", "norm")
NORM = BatchNorm(training=True)


def drawn(seed: int) -> tuple[np.ndarray, np.ndarray, dict[str, np.ndarray]]:
    """The rows that enter a norm, the gradients at its output, and its parameters."""
    rng = np.random.default_rng(seed)
    rows, upstream = rng.normal(1.0, 0.3, (NODES, WIDTH)), rng.normal(size=(NODES, WIDTH))
    return rows, upstream, {"scale": rng.uniform(0.5, 2.0, WIDTH), "bias": rng.normal(size=WIDTH)}


def normed(rows: Any, weights: Any) -> Any:
    centred = rows - rows.mean(axis=0)
    return weights["scale"] * centred / jnp.sqrt((centred**2).mean(axis=0) + NORM.epsilon) + weights["bias"]


@pytest.fixture(params=[True, False], ids=["numbers", "shares"])
def problem(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> CensusProblem:
    """Two norms of one batch."""
    params: dict[str, Any] = {"layers_0": {"conv": {}}}
    update: dict[str, Any] = {"layers_0": {"conv": {}}}
    batch = {}
    for seed, path in enumerate(PATHS):
        rows, upstream, weights = drawn(seed)
        gradient = jax.grad(lambda w, rows=rows, up=upstream: jnp.sum(up * normed(rows, w)))(weights)
        for tree, part in ((params, weights), (update, jax.tree.map(np.asarray, gradient))):
            inside = tree["layers_0"]["conv"] if "conv" in path else tree["layers_0"]
            inside[path[-1]] = part
        batch[path] = rows.mean(axis=0), rows.var(axis=0, ddof=1)
    model = SimpleNamespace(norms=dict.fromkeys(PATHS, NORM))
    some = object.__new__(CensusProblem)
    some.__dict__.update(observation=SimpleNamespace(params=params, update=update, model=model))
    for name, value in (("batch", batch), ("most_nodes", NODES), ("absolute", request.param)):
        monkeypatch.setattr(CensusProblem, name, property(lambda _, value=value: value))
    return some


def test_gradients_behind_a_norm_are_those_of_fixed_statistics_less_what_is_taken(problem: CensusProblem) -> None:
    """For each node of a sum, and for as many times its gradient under a mean."""
    norms, times = training_norms(problem), 1 if problem.absolute else NODES
    assert [norm.path for norm in norms] == list(PATHS)
    for seed, norm in enumerate(norms):
        rows, upstream, weights = drawn(seed)
        whole = jax.grad(lambda z, w=weights, up=upstream: jnp.sum(up * normed(z, w)))(jnp.asarray(rows))
        fixed = weights["scale"] / np.sqrt(rows.var(axis=0) + NORM.epsilon) * upstream
        less = [jax.grad(taken, argnums=1)(norm.pull, jnp.asarray(row, jnp.float32)) for row in rows]
        np.testing.assert_allclose(times * fixed - np.stack(less), times * np.asarray(whole), rtol=1e-5, atol=1e-4)


def test_rows_have_the_mean_and_the_variance_of_the_batch(problem: CensusProblem) -> None:
    """In shares and in numbers of nodes; of other rows the equations say how far off they are, in deviations."""
    weights = np.ones(NODES) if problem.absolute else np.full(NODES, 1 / NODES)
    for seed, norm in enumerate(training_norms(problem)):
        rows, _, _ = drawn(seed)
        matrix, right = norm.moments(rows)
        assert norm.total == (NODES if problem.absolute else 1)
        np.testing.assert_allclose(matrix @ weights, right, atol=1e-6)
        variance = rows.var(axis=0)
        np.testing.assert_allclose(right[WIDTH:] / norm.total, variance / (variance + NORM.epsilon), rtol=1e-5)
        deviation = np.sqrt(variance + NORM.epsilon)
        matrix, right = norm.moments(rows + 0.5 * deviation)
        off = (matrix @ weights - right) / norm.total
        np.testing.assert_allclose(off, np.repeat([0.5, 0.25], WIDTH), atol=1e-5)
