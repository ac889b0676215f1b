"""The census and GRAIN under noise of known deviation: exact where attacks for exact gradients fail, silent where noise
hides the graph."""

from __future__ import annotations

import dataclasses
from itertools import product
from typing import Any

import jax
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree

from jgleak.attacks.attack import Budget
from jgleak.attacks.census.census import CENSUS
from jgleak.attacks.census.sphere_decoder import within_sphere
from jgleak.attacks.distance import MATCH, Fit, gradient_distances
from jgleak.attacks.grain.grain import GRAIN
from jgleak.attacks.noise import RATE, largest
from jgleak.federated import Knowledge, Observation
from tests.clocks import HELD as FOREVER


def noisy(observation: Observation, relative: float, seed: int = 0) -> tuple[Observation, float]:
    """The observation with noise, and its deviation: ``relative`` times the typical entry of the update."""
    flat, back = ravel_pytree(observation.update)
    noise = relative * float(np.sqrt(np.mean(np.square(flat))))
    drawn = noise * np.random.default_rng(seed).normal(size=flat.size).astype(np.float32)
    return dataclasses.replace(observation, update=back(flat + drawn)), noise


@pytest.mark.parametrize("attack", [CENSUS, GRAIN], ids=["census", "grain"])
@pytest.mark.long
def test_exact_where_the_attack_without_noise_fails(attack: Any, lab: Any) -> None:
    exact = 0
    for seed in (5, 6, 7):
        graph = lab.random(7, seed)
        observation, noise = noisy(lab.observe(lab.model(), graph), 3e-4, seed)
        key, budget = jax.random.key(0), Budget(time_limit=20)
        if seed == 5:
            blind = attack(observation, Knowledge(lab.space, n=7), key=key, budget=Budget(time_limit=2))
            assert blind.stop != "match"
        found = attack(observation, Knowledge(lab.space, n=7, noise=noise), key=key, budget=budget)
        assert found.stop == "match" and found.gradient_distance is not None
        exact += found.best is not None and found.best.isomorphic(graph)
        if found.certificate is not None:
            assert any(g.isomorphic(graph) for g in found.graphs)
            assert any(f"deviation {noise:.1e}" in says for says in found.certificate.conditions)
            assert any("above the noise" in says for says in found.certificate.conditions)
    assert exact >= 2


@pytest.mark.parametrize("attack", [CENSUS, GRAIN], ids=["census", "grain"])
def test_hopeless_noise_is_named_and_nothing_is_found(attack: Any, lab: Any) -> None:
    for relative in (20.0, 300.0):
        observation, noise = noisy(lab.observe(lab.model(), lab.random(7, 0)), relative)
        known = Knowledge(lab.space, n=7, noise=noise)
        found = attack(observation, known, key=jax.random.key(0), budget=Budget(time_limit=20))
        assert (found.graphs, found.stop, found.certificate) == ((), "no information", None)
        assert f"deviation {noise:.1e}" in found.info["reason"]


def test_the_true_graph_fits_and_a_zero_gradient_does_not(lab: Any) -> None:
    graph = lab.random(7, 1)
    for relative in (1e-6, 1e-3, 0.3):
        observation, noise = noisy(lab.observe(lab.model(), graph), relative)
        fit = Fit.of(observation, noise)
        [(distance, label)] = gradient_distances(observation, lab.space, [graph])
        assert distance <= fit.most < 1.0 and fit.informative and label == graph.y
    hidden, noise = noisy(lab.observe(lab.model(), graph), 300.0)
    assert not Fit.of(hidden, noise).informative
    assert Fit.of(hidden, None).most == MATCH and Fit.of(hidden, None).likely([1e-7, 9e-5]).all()


def test_of_two_graphs_that_fit_the_less_likely_one_is_left_out() -> None:
    fit = Fit(1e-3, 10_000)
    base = np.full(3, 1e-3 * 100.0)
    assert fit.likely(base.tolist()).all()
    base[1] = np.sqrt(base[0] ** 2 + 100.0 * 1e-6)  # a hundred squared deviations farther away
    assert base[1] < fit.most and fit.likely(base.tolist()).tolist() == [True, False, True]
    np.testing.assert_allclose(fit.excess(base.tolist()), [0.0, 50.0, 0.0], rtol=1e-2)
    assert Fit(1e-9, 10_000).likely([1e-7, 3e-7]).all(), "float32 alone may differ so much"


@pytest.mark.parametrize("seed", range(8))
def test_nearest_counts_are_brute_force(seed: int) -> None:
    rng = np.random.default_rng(seed)
    columns, n = int(rng.integers(2, 5)), 4
    system = rng.normal(size=(columns + 2 - 3 * (seed % 2), columns))
    true = np.bincount(rng.integers(columns, size=n), minlength=columns)
    right = system @ true + 0.3 * rng.normal(size=system.shape[0])
    best = np.linalg.lstsq(system, right)[0]
    radius = 1.5
    expected = {
        x
        for x in product(range(n + 1), repeat=columns)
        if sum(x) == n and np.linalg.norm(system @ (np.array(x) - best)) <= radius
    }
    found = list(within_sphere(system, right, n=n, radius=radius, clock=FOREVER, steps=10**5))
    assert all(x is not None for x in found)
    assert {tuple(x.tolist()) for x in found if x is not None} == expected and len(found) == len(expected)
    assert list(within_sphere(system, right, n=n, radius=1e3, clock=FOREVER, steps=2)) == [None]


def test_quantiles() -> None:
    draws = np.random.default_rng(0).chisquare(50, 100_000)
    assert abs(np.mean(draws > largest(50, 1e-2) ** 2) - 1e-2) < 2e-3
    assert RATE < 1e-3 and np.mean(draws > largest(50) ** 2) < 10 * RATE


@pytest.mark.parametrize("noise", [-1.0, float("nan"), float("inf")])
def test_a_deviation_is_a_number(noise: float, lab: Any) -> None:
    with pytest.raises(ValueError, match="noise: a standard deviation is finite and not negative"):
        Knowledge(lab.space, noise=noise)
