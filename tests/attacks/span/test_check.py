"""The cheap span check is sound: what the full check accepts it never rejects."""

from __future__ import annotations

import dataclasses
from collections import Counter
from typing import Any

import jax
import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from scipy import stats

from jgleak.attacks.span import check as check_module
from jgleak.attacks.span.check import CHOICES, SpanCheck
from jgleak.attacks.span.leak_points import LeakPoint, View, leak_points
from jgleak.attacks.span.margin import RoundingMargin
from jgleak.attacks.span.settings import TOLERANCES
from jgleak.attacks.span.subspace import Subspace
from jgleak.gnn import GNN, Params
from jgleak.gnn.activation import activation
from jgleak.graph import Graph, GraphBatch

PROBES = 200


def cheap(check: SpanCheck, fixed: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """The check on the chosen coordinates, in the device's precision."""
    scaled = fixed * check.fixed_scale
    chosen = rows[:, check.columns].astype(np.float32) * check.row_scale.astype(np.float32)
    residual = (scaled @ check.fixed_null).astype(np.float32) + chosen @ check.row_null.astype(np.float32)
    length = np.sum(scaled**2, axis=1).astype(np.float32) + np.sum(chosen**2, axis=1)
    return (np.sum(residual**2, axis=1) <= np.float32(check.bound) ** 2 * length) & (length > 0)


def full(check: SpanCheck, fixed: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """The check in all coordinates, in float64."""
    return check.distances(fixed, rows) <= check.subspace.tolerance


def at_the_tolerance(check: SpanCheck, rng: np.random.Generator, number: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows just within the tolerance, half of them off in the chosen coordinates only: fixed parts, and the rest."""
    subspace = check.subspace
    inside = rng.normal(size=(number, subspace.rank)) @ subspace.basis.T
    error = rng.normal(size=inside.shape) * (rng.random((number, 1)) < 0.5)
    chosen = np.r_[np.flatnonzero(check.fixed_scale), check.columns + check.fixed]
    error[:, chosen] += 3 * rng.normal(size=(number, chosen.size))
    error -= (error @ subspace.basis) @ subspace.basis.T
    length = 0.999 * subspace.tolerance * np.linalg.norm(inside, axis=1) / np.linalg.norm(error, axis=1)
    rows = (inside + length[:, None] * error) * subspace.scale
    return rows[:, : check.fixed], rows[:, check.fixed :]


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
    probes = at_the_tolerance(check, rng, 40)
    assert np.all(full(check, *probes))
    assert np.all(cheap(check, *probes))


def true_rows(model: GNN, params: Params, graph: Graph, states: list[np.ndarray], hop: int, view: View) -> np.ndarray:
    """What the last convolution of every node's block makes of it, from the graph as a whole."""
    if view == "state":
        return states[hop]
    below, adjacency = states[hop - 1], graph.adjacency.astype(np.float64)
    degrees = adjacency.sum(axis=1, keepdims=True)
    mixed = {
        "gcn": (adjacency / np.sqrt((degrees + 1) * (degrees + 1).T)) @ below + below / (degrees + 1),
        "sage": adjacency @ below / np.maximum(degrees, 1),
        "gin": adjacency @ below + below,
    }[model.layers[hop - 1].conv.kind]
    if view == "aggregate":
        return mixed
    return np.asarray(
        activation(model.layers[hop - 1].conv.inner)(mixed @ params[f"layers_{hop - 1}"]["conv"]["kernel"])
    )


@pytest.mark.parametrize(
    ("conv", "layers", "names"),
    [
        ("gcn", 2, {"node": 1, "aggregate": 2, "readout": 1}),
        ("gat", 2, {"node": 1, "readout": 1}),
        ("sage", 2, {"node": 1, "aggregate": 2, "readout": 1}),
        ("gin", 2, {"node": 1, "aggregate": 2, "hidden": 2, "readout": 1}),
        ("gin", 3, {"node": 2, "aggregate": 3, "hidden": 3, "readout": 1}),
    ],
)
def test_true_rows_pass_at_every_site(conv: str, layers: int, names: dict[str, int], lab: Any) -> None:
    model = lab.model(conv=conv, layers=layers, hidden=64)
    params = lab.params(model)
    states_of = jax.jit(lambda x, a, m: model.apply({"params": params}, x, a, m, method="states"))
    nodes: Counter[tuple[str, int]] = Counter()
    passed: Counter[tuple[str, int]] = Counter()

    @settings(max_examples=25, deadline=None)
    @example(8, 1, 22714)  # rows of the gradient's size are small beside what is known of the centre there
    @given(st.integers(2, 8), st.integers(0, 2), st.integers(0, 2**31))
    def at_every_site(n: int, extra: int, seed: int) -> None:
        graph = lab.random(n, seed, extra)
        batch = GraphBatch.from_graphs([graph], lab.space)
        dense = states_of(batch.nodes[0], batch.adjacency[0], batch.node_mask[0])
        states = [np.asarray(h, np.float64)[: graph.n] for h in dense]
        observation = lab.observe(model, graph)
        rng = np.random.default_rng(seed)
        for hop in range(1, layers + 1):
            for site in leak_points(observation, hop):
                rows, fixed = true_rows(model, params, graph, states, hop, site.view), states[0][:, : site.fixed]
                assert rows.shape[1] + fixed.shape[1] == site.gradient.shape[0]
                check = SpanCheck.at(site, most=40)
                if check is None:
                    continue
                slightly = [rows * (1 + size * rng.normal(size=rows.shape)) for size in (0, 1e-6, 1e-5, 1e-4, 1e-3)]
                probes = np.tile(fixed, (len(slightly), 1)), np.concatenate(slightly)
                accepted = full(check, *probes)
                assert np.all(cheap(check, *probes)[accepted])
                assert np.all(cheap(check, *at_the_tolerance(check, rng, 20)))
                scale = check.subspace.scale[site.fixed :]
                anything = rng.normal(size=(PROBES, rows.shape[1])) * scale * np.sqrt(np.mean((rows / scale) ** 2))
                random = fixed[rng.integers(graph.n, size=PROBES)], anything
                assert not np.any(full(check, *random))
                assert np.mean(cheap(check, *random)) <= 0.02
                nodes[site.name, hop] += graph.n
                passed[site.name, hop] += int(accepted[: graph.n].sum())

    at_every_site()
    assert Counter(name for name, _ in nodes) == names
    assert all(passed[site] > 0.5 * nodes[site] for site in nodes), "so the test is not about nothing"


def test_few_coordinates_decide() -> None:
    rng = np.random.default_rng(0)
    subspace = Subspace.of_gradient(rng.normal(size=(300, 12)) @ rng.normal(size=(12, 300)))
    check = SpanCheck.of(subspace, fixed=20)
    assert check.columns.size + np.count_nonzero(check.fixed_scale) == 12 + CHOICES[0][0]
    assert np.all(np.diff(check.columns) > 0) and check.columns.max() < 280
    null = np.r_[check.fixed_null, check.row_null]
    np.testing.assert_allclose(null.T @ null, np.eye(CHOICES[0][1]), atol=1e-12)
    assert not np.any(cheap(check, np.zeros((1, 20)), np.zeros((1, 280)))), "a row of zeros never passes"


@pytest.mark.parametrize(
    ("rates", "taken"),
    [
        ((0.9, 0.5, 0.1, 0.1, 0.1, 0.1, 0.1), 0),
        ((1.1, 9.0, 0.9, 0.1, 0.1, 0.1, 0.1), 2),
        ((9.0, 8.0, 7.0, 6.0, 1.1, 5.0, 4.0), 4),
        ((np.inf,) * 6 + (9.0,), 6),
    ],
    ids=["the cheapest", "the first that does", "none does", "the last"],
)
def test_the_first_choice_of_coordinates_that_rejects_enough_is_taken(
    rates: tuple[float, ...], taken: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Or the one that rejects most; the share of a direction that lies in some coordinates has a beta distribution."""
    subspace = Subspace.of_gradient(np.random.default_rng(0).normal(size=(200, 10)) @ np.ones((10, 30)))
    bounds = list[float]()
    for rate, (extra, vectors) in zip(rates, CHOICES, strict=True):
        size, most = subspace.rank + extra, min(rate * TOLERANCES.chance_rate, 1.0)
        bounds.append(float(np.sqrt(stats.beta.ppf(most, vectors / 2, (size - vectors) / 2))))
    asked = list[tuple[int, int]]()

    def null(_: Subspace, *, fixed: int, extra: int, vectors: int) -> tuple[np.ndarray, np.ndarray, float]:
        asked.append((extra, vectors))
        size = subspace.rank + extra
        return np.arange(size), np.zeros((size, vectors)), bounds[len(asked) - 1]

    monkeypatch.setattr(check_module, "sparse_null", null)
    chosen, _, bound = check_module._cheapest(subspace, 0)
    assert (chosen.size, bound) == (subspace.rank + CHOICES[taken][0], bounds[taken])
    assert tuple(asked) == CHOICES[: taken + 1] if rates[taken] < 1 else tuple(asked) == CHOICES


def test_a_check_of_many_dimensions_looks_at_more() -> None:
    """Where rounding blurs a span of many dimensions, a few null vectors would let nearly everything pass."""
    rng = np.random.default_rng(0)
    gradient = rng.normal(size=(300, 128)) @ rng.normal(size=(128, 300))
    check = SpanCheck.of(Subspace.of_gradient(gradient + 0.02 * rng.normal(size=gradient.shape)))
    assert check.subspace.rank == 128 and check.subspace.tolerance > 1e-3
    anything = rng.normal(size=(20_000, 300)) * check.subspace.scale
    assert not np.any(full(check, np.zeros((20_000, 0)), anything))
    assert np.mean(cheap(check, np.zeros((20_000, 0)), anything)) <= 1e-3
    assert np.all(cheap(check, *at_the_tolerance(check, rng, 200)))


@pytest.mark.parametrize("seed", range(5))
def test_units_that_are_off_are_not_chosen(seed: int) -> None:
    """A coordinate that is zero in every row would be in no relation that could reject anything."""
    rng = np.random.default_rng(seed)
    gradient = rng.normal(size=(100, 5)) @ rng.normal(size=(5, 100))
    off = rng.permutation(100)[:60]
    gradient[off] = 0.0
    check = SpanCheck.of(Subspace.of_gradient(gradient))
    assert check.columns.size == 5 + CHOICES[0][0] and not np.isin(check.columns, off).any()
    assert np.all(np.abs(check.row_null).sum(axis=1) > 0)


def test_a_check_of_a_place_is_one_of_its_gradient_s_span() -> None:
    """Singular values 1, 1, 1, then 0.01 twice and 1e-9 twice: the largest gap, the second one, the most rows there can
    be, and what stands above noise are different ranks."""
    rng = np.random.default_rng(0)
    left, right = (np.linalg.qr(rng.normal(size=(size, 7)))[0] for size in (40, 60))
    gradient = (left * [1.0, 1.0, 1.0, 1e-2, 1e-2, 1e-9, 1e-9]) @ right.T
    site = LeakPoint("aggregate", 1, "aggregate", 4, gradient, "")

    def rank(**more: Any) -> int:
        check = SpanCheck.at(site, **more)
        assert check is not None and (check.view, check.fixed) == ("aggregate", 4)
        return check.subspace.rank

    assert (rank(), rank(place=1), rank(most=4), rank(noise=2e-3)) == (5, 3, 3, 3)
    coarse = dataclasses.replace(TOLERANCES, row_least=1e-3)
    check, strict = SpanCheck.at(site, tolerances=coarse), SpanCheck.at(site)
    assert check is not None and strict is not None and check.subspace.tolerance == 1e-3 > strict.subspace.tolerance
    assert SpanCheck.at(dataclasses.replace(site, gradient=0.0 * gradient)) is None


def test_a_looser_check_is_the_same_with_a_wider_margin() -> None:
    rng = np.random.default_rng(0)
    subspace = Subspace.of_gradient(rng.normal(size=(60, 8)) @ rng.normal(size=(8, 70)))
    subspace = dataclasses.replace(subspace, margin=RoundingMargin(TOLERANCES.row_margin / 1e-4))
    check = SpanCheck.of(subspace, view="aggregate", fixed=6)
    loose = check.loosened(5.0)
    assert (loose.view, loose.fixed, loose.subspace.tolerance) == ("aggregate", 6, pytest.approx(5e-4))
    fixed, rows = at_the_tolerance(loose, rng, 40)
    assert (
        np.all(full(loose, fixed, rows)) and np.all(cheap(loose, fixed, rows)) and not np.any(full(check, fixed, rows))
    )


def test_a_true_row_leaves_no_more_than_its_bound() -> None:
    """Rows as far off a span as its margin allows, in every direction, seen by a null vector of two columns."""
    margin, s = RoundingMargin(gap=TOLERANCES.row_margin / 2e-3), 1e-2
    assert np.isclose(margin.tolerance, 2e-3)
    turns = np.linspace(0.0, 2 * np.pi, 721)
    chosen = np.array([s, 0.0]) + margin.tolerance * np.c_[np.cos(turns), np.sin(turns)]  # of a row of length 1
    seen = np.abs(chosen[:, 1]) / np.linalg.norm(chosen, axis=1)
    bound = margin.bound(np.array([[s], [0.0]]), np.array([s]), 1)
    assert seen.max() <= bound < 2 * seen.max()
