"""Means of rows before a norm: solved from chosen statistics, and refused where rounding blurs them."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest
from models import some_params

from jgleak.attacks.span import mean_rows as module
from jgleak.attacks.span.mean_rows import BLURRED, mean_rows
from jgleak.federated import Observation
from jgleak.gnn import GNN, MLP, BatchNorm, GATConv, GCNConv, GINConv, Layer, NodeMLP, SAGEConv
from jgleak.gnn.tree import at, put

WIDTH, WIDE = 5, 20
KERNELS = ("self_kernel", "neighbour_kernel")
NORM = ("layers_0", "norm")


def seen(first: Layer, params: Any = None) -> Observation:
    """What a server sees of a client whose model's first layer has a norm in training mode, with chosen weights."""
    model = GNN(WIDTH, (first, Layer(GCNConv(4))), NodeMLP(MLP((4, 2))))
    weights = some_params(model) if params is None else params(some_params(model))
    norms = [path for path, norm in model.norms.items() if norm.returns_statistics]
    statistics: Any = {}
    for path in norms:
        statistics = put(statistics, path, {name: at(weights, path)[name] for name in ("mean", "variance")})
    return Observation(model, weights, some_params(model, 2), "bce", statistics=statistics)


@pytest.mark.parametrize("unit", [1e-3, 1.0, 1e3])
def test_a_mean_row_is_used_where_rounding_moves_it_little(unit: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two kernels, whose rows are orthonormal, share a norm: a mean of small rows is blurred before one of large rows
    is, relative to its own length, whatever the unit."""
    rng = np.random.default_rng(0)
    both = np.linalg.qr(rng.normal(size=(WIDE, 2 * WIDTH)))[0].T.astype(np.float32)
    bias = rng.normal(size=WIDE).astype(np.float32)

    def weights(params: Any) -> Any:
        for name, kernel in zip(KERNELS, np.split(both, 2), strict=True):
            params = put(params, ("layers_0", "conv", name), kernel)
        return put(params, ("layers_0", "conv", "bias"), bias)

    observation = seen(Layer(SAGEConv(WIDE, bias=True), norm=BatchNorm(training=True)), weights)
    small, large = unit * np.eye(WIDTH)[0], 4.0 * unit * np.eye(WIDTH)[1]
    mean = np.r_[small, large] @ both.astype(np.float64) + bias
    for share, known in ((0.9, (True, True)), (1.1, (False, True)), (3.9, (False, True)), (4.1, (False, False))):
        error = np.full(WIDE, share * BLURRED * unit / np.sqrt(WIDTH))
        monkeypatch.setattr(module, "of_batch", lambda *_: {NORM: (mean, np.ones(WIDE))})
        monkeypatch.setattr(module, "blur", lambda *_, error=error: {NORM: (error, np.full(WIDE, np.nan))})
        found = mean_rows(observation, 0)
        assert list(found) == [("conv", name) for name in KERNELS]
        for row, wanted, there in zip(found.values(), (small, large), known, strict=True):
            assert (row is not None) is there
            assert row is None or np.allclose(row, wanted, rtol=1e-4, atol=1e-4 * unit)
    assert mean_rows(observation, 1) == {}, "no norm"


def test_more_rows_than_a_norm_has_columns_are_unknown() -> None:
    for wide, known in ((2 * WIDTH - 1, False), (2 * WIDTH, True)):
        observation = seen(Layer(SAGEConv(wide), norm=BatchNorm(training=True)))
        found = mean_rows(observation, 0)
        assert list(found) == [("conv", name) for name in KERNELS] and known is all(
            row is not None for row in found.values()
        )
    blind = dataclasses.replace(observation, statistics=None)
    assert mean_rows(blind, 0) == dict.fromkeys(found), "nothing came back"
    assert mean_rows(seen(Layer(GATConv(WIDE), norm=BatchNorm(training=True))), 0) == {}, "weights differ by neighbour"


def test_a_norm_inside_a_convolution_is_behind_its_first_kernel() -> None:
    found = mean_rows(seen(Layer(GINConv(WIDE, norm=BatchNorm(training=True)))), 0)
    assert list(found) == [("conv", "kernel")]
