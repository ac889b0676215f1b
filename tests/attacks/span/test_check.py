"""The cheap span check is sound: what the full check accepts it never rejects."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jgleak.attacks.span.check import EXTRA, SpanCheck
from jgleak.attacks.span.subspace import Subspace
from jgleak.graph import GraphBatch


def cheap(check: SpanCheck, fixed: np.ndarray, states: np.ndarray) -> np.ndarray:
    """The check on the chosen coordinates, in the device's precision."""
    scaled = fixed * check.fixed_scale
    chosen = (states[:, check.columns] * check.state_scale).astype(np.float32)
    residual = (scaled @ check.fixed_null).astype(np.float32) + chosen @ check.state_null.astype(np.float32)
    length = np.sum(scaled**2, axis=1).astype(np.float32) + np.sum(chosen**2, axis=1)
    return (np.sum(residual**2, axis=1) <= np.float32(check.bound) ** 2 * length) & (length > 0)


@settings(max_examples=150, deadline=None)
@given(
    st.integers(3, 60), st.floats(0.05, 0.9), st.floats(0, 0.6), st.sampled_from([0, 1e-7, 1e-5, 1e-3]), st.integers(0)
)
def test_rows_at_the_tolerance_pass(d: int, share: float, known: float, noise: float, seed: int) -> None:
    rng = np.random.default_rng(seed)
    rank, fixed = max(1, min(d - 1, round(share * d))), round(known * (d - 1))
    gradient = rng.normal(size=(d, rank)) @ rng.normal(size=(rank, d + 5))
    gradient *= np.exp(rng.normal(size=(d, 1)))
    subspace = Subspace.of_gradient(gradient + noise * np.abs(gradient).mean() * rng.normal(size=gradient.shape))
    if not subspace.informative:
        return
    check = SpanCheck.of(subspace, fixed=fixed)
    inside = rng.normal(size=(40, subspace.rank)) @ subspace.basis.T
    error = rng.normal(size=inside.shape) * (rng.random((40, 1)) < 0.5)
    chosen = np.r_[np.flatnonzero(check.fixed_scale), check.columns + fixed]
    error[:, chosen] += 3 * rng.normal(size=(40, chosen.size))
    error -= (error @ subspace.basis) @ subspace.basis.T
    length = 0.999 * subspace.tolerance * np.linalg.norm(inside, axis=1) / np.linalg.norm(error, axis=1)
    rows = (inside + length[:, None] * error) * subspace.scale
    assert np.all(check.distances(rows[:, :fixed], rows[:, fixed:]) <= subspace.tolerance)
    assert np.all(cheap(check, rows[:, :fixed], rows[:, fixed:]))


@pytest.mark.parametrize("conv", ["gcn", "gat", "sage"])
def test_true_states_pass_in_every_span(conv: str, lab: Any) -> None:
    model = lab.model(conv=conv, hidden=64)
    params = lab.params(model)
    states = jax.jit(lambda x, a, m: model.apply({"params": params}, x, a, m, method="states"))
    found = 0
    for seed in range(12):
        graph = lab.random(4 + seed % 4, seed)
        update = lab.observe(model, graph).update
        batch = GraphBatch.from_graphs([graph], lab.space)
        x, h1, h2 = (np.asarray(h)[: graph.n] for h in states(batch.nodes[0], batch.adjacency[0], batch.node_mask[0]))
        kernel = update["conv_1"][model.convolution(1).span_kernel]
        for gradient, fixed, rows in ((kernel, x[:, :0], h1), (update["head"]["linears_0"]["kernel"], x, h2)):
            subspace = Subspace.of_gradient(gradient, most=40)
            check = SpanCheck.of(subspace, fixed=fixed.shape[1])
            rng = np.random.default_rng(seed)
            probes = np.r_[rows, rows * (1 + 1e-6 * rng.normal(size=rows.shape)), rng.normal(size=(200, rows.shape[1]))]
            parts = np.r_[fixed, fixed, np.zeros((200, fixed.shape[1]))].astype(np.float64)
            full = check.distances(parts, probes) <= subspace.tolerance
            quick = cheap(check, parts, probes)
            assert np.all(quick[full])
            assert not np.any(quick[-200:]), "and it rejects what is not in the span"
            found += int(full.sum())
    assert found > 60


def test_few_coordinates_decide() -> None:
    rng = np.random.default_rng(0)
    subspace = Subspace.of_gradient(rng.normal(size=(300, 12)) @ rng.normal(size=(12, 300)))
    check = SpanCheck.of(subspace, fixed=20)
    assert check.columns.size + np.count_nonzero(check.fixed_scale) == 12 + EXTRA
    assert np.all(np.diff(check.columns) > 0) and check.columns.max() < 280
    assert not np.any(cheap(check, np.zeros((1, 20)), np.zeros((1, 280)))), "a row of zeros never passes"
