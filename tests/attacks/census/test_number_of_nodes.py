"""How far blocks are from a batch's moments under each number of nodes, against rows and least squares by hand."""

from __future__ import annotations

import dataclasses
from types import SimpleNamespace
from typing import Any

import jax
import numpy as np
import pytest
from models import some_params
from scipy.optimize import nnls

from jgleak.attacks.attack import Budget, Clock
from jgleak.attacks.census import number_of_nodes as module
from jgleak.attacks.census.number_of_nodes import _misfit
from jgleak.attacks.census.problem import CensusProblem
from jgleak.attacks.census.settings import DEFAULTS
from jgleak.attacks.closed_form.propositions import ConditionFailed
from jgleak.attacks.span.hops import Blocks, Nodes
from jgleak.features import FeatureSpace, onehot
from jgleak.federated import Knowledge, Observation
from jgleak.federated.observation import STATISTICS
from jgleak.gnn import GNN, MLP, BatchNorm, GINConv, Layer, Pooled
from jgleak.gnn.tree import at, put
from tests.clocks import HELD

WIDTH, KINDS = 4, 3
SPACE = FeatureSpace((onehot("kind", range(KINDS)),))
NORM = BatchNorm(training=True)
MODEL = GNN(KINDS, (Layer(GINConv(WIDTH, bias=True, norm=NORM), norm=NORM),), Pooled(mlp=MLP((2,))))
NODES = Nodes(np.arange(KINDS)[:, None], np.random.default_rng(0).normal(size=(KINDS, KINDS)), np.array([1, 2, 3]))
AROUND = ((1,), (0, 2), (1, 1, 0), (0, 0))
BLOCKS = Blocks(
    np.array([0, 1, 2, 1]), np.array([0, 1, 2, 1]), AROUND, np.zeros((4, 0)), np.zeros((4, 0)), np.zeros(4), 0
)
COUNTS = np.array([4, 1, 2, 1])
"""Of eight nodes."""


def rows_of(params: Any, inside: dict[str, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """What enters the inner norm, whose running statistics are given, and the outer one."""
    conv = jax.tree.map(lambda leaf: np.asarray(leaf, float), params["layers_0"]["conv"])
    sums = [
        NODES.rows[root] + NODES.rows[list(around)].sum(axis=0)
        for root, around in zip(BLOCKS.roots, AROUND, strict=True)
    ]
    first = np.stack(sums) @ conv["kernel"] + conv["inner_bias"]
    scaled = (first - inside["mean"]) / np.sqrt(inside["variance"] + NORM.epsilon)
    hidden = np.maximum(scaled * conv["norms_0"]["scale"] + conv["norms_0"]["bias"], 0.0)
    return first, hidden @ conv["out_kernel"] + conv["bias"]


@pytest.mark.parametrize("place", [0, 1], ids=["inside", "behind"])
def test_misfits_are_those_of_the_best_shares_and_zero_for_the_true_number(
    place: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    params = some_params(MODEL)
    still = {name: np.asarray(params["layers_0"]["conv"]["norms_0"][name], float) for name in ("mean", "variance")}
    rows, shares = rows_of(params, still)[place], COUNTS / 8
    mean = shares @ rows
    unbiased = shares @ (rows - mean) ** 2 * 8 / 7
    path = list(MODEL.layers[0].norms)[place]
    evaluated = MODEL.clone(
        layers=(Layer(GINConv(WIDTH, bias=True, norm=NORM.clone(training=False)), norm=NORM.clone(training=False)),)
    )
    some = object.__new__(CensusProblem)
    some.__dict__.update(observation=SimpleNamespace(model=evaluated, params=params), settings=DEFAULTS)
    batch = {("layers_0", *path): (mean, unbiased)}
    monkeypatch.setattr(CensusProblem, "batch", property(lambda _: batch))
    rest = _misfit(some, NODES, BLOCKS, path, HELD)
    assert rest(8) < 1e-10, "rows are in double precision"
    for n in (2, 5, 7, 9, 20):
        biased = unbiased * (n - 1) / n
        off = (rows - mean) / np.sqrt(biased)
        system, goal = np.r_[off.T, off.T**2, np.ones((1, 4))], np.r_[np.zeros(WIDTH), np.ones(WIDTH), 1.0]
        wanted = nnls(system, goal)[1] / np.sqrt(2 * WIDTH + 1)
        assert wanted > 1e-4
        np.testing.assert_allclose(rest(n), wanted, rtol=1e-4)
    assert _misfit(some, NODES, BLOCKS, path, Clock(0.0, 0.0))(8) == np.inf, "no time is left"


@pytest.mark.parametrize(
    ("inside", "asked"),
    [(None, [("hidden", "aggregate"), ("aggregate",)]), (NORM, [("aggregate",)])],
    ids=["behind", "inside"],
)
def test_blocks_are_those_of_checks_before_the_first_norm(
    inside: BatchNorm | None, asked: list[tuple[str, ...]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of one hop, within what the settings allow; a norm inside the convolution stands before its hidden row."""
    model = MODEL.clone(layers=(Layer(GINConv(WIDTH, bias=True, norm=inside), norm=NORM),))
    params, returned, found = some_params(model), {}, list[tuple[str, ...]]()
    for path in model.norms:
        returned = put(returned, path, {name: at(params, path)[name] for name in STATISTICS})
    seen = Observation(model, params, params, "ce", statistics=returned)
    limits = dataclasses.replace(DEFAULTS.limits, span=dataclasses.replace(DEFAULTS.limits.span, word_faces=7))
    known, settings = Knowledge(SPACE, max_n=9), dataclasses.replace(DEFAULTS, limits=limits)
    tolerances = CensusProblem.of(seen, Knowledge(SPACE, n=9), settings).tolerances.span
    assert tolerances != DEFAULTS.tolerances.span

    def nodes(*given: Any, **how: Any) -> Nodes:
        assert given == (seen, known) and how == {"clock": HELD, "tolerances": tolerances, "limits": limits.span}
        return NODES

    def checks(*given: Any) -> list[Any]:
        assert given[:3] == (seen, known, 1) and given[4] == tolerances
        found.append(given[3])
        return []

    monkeypatch.setattr(module, "find_nodes", nodes)
    monkeypatch.setattr(module, "block_checks", checks)
    monkeypatch.setattr(module, "one_hop", lambda *_, **__: pytest.fail("nothing checks blocks"))
    with pytest.raises(ConditionFailed, match="do not determine the number of nodes"):
        module.number_of_nodes(seen, known, settings, HELD, Budget())
    assert found == asked
