"""Clients that round what they computed to 16 bits: every entry has noise of its own size, which hides far less than
noise of one size would."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest

from jgleak.attacks.attack import Budget, _with_noise
from jgleak.attacks.census.arithmetic import arithmetic_of
from jgleak.attacks.census.census import CENSUS
from jgleak.attacks.census.settings import DEFAULTS
from jgleak.attacks.distance import Fit, gradient_distances
from jgleak.attacks.facts.registry import facts
from jgleak.attacks.grain.grain import GRAIN
from jgleak.attacks.noise import described, deviation, edge
from jgleak.attacks.span.leak_points import leak_points
from jgleak.attacks.span.levels import noise_at
from jgleak.defenses import parse
from jgleak.federated import Knowledge, Observation, fedsgd, load, save
from jgleak.graph import Graph
from jgleak.precision import DIGITS, TINY, rounding_of


def rounded(lab: Any, graph: Graph, name: str, **changes: Any) -> Observation:
    """What a client sends that rounds its gradient."""
    model = lab.model(**changes)
    return fedsgd(model, lab.params(model), [graph], lab.space, loss="ce", defense=parse(name), key=jax.random.key(0))


def test_a_tensors_noise_is_that_of_its_loudest_row_or_column(lab: Any) -> None:
    seen = dataclasses.replace(lab.observe(lab.model(), lab.random(4, 1)), rounding=0.1)
    rows = np.diag([3.0, 0.0, 4.0])[:, [0, 1, 2, 2]]  # two rows and three columns are not zero
    assert deviation(seen, 0.0, rows) == pytest.approx(0.1 * np.sqrt(32 / 3))
    assert deviation(seen, 0.0, np.array([[3.0, 1.0], [4.0, 0.0], [0.0, 0.0]])) == pytest.approx(0.1 * np.sqrt(25 / 2))
    assert deviation(seen, 0.0, rows.T) == deviation(seen, 0.0, rows)
    assert deviation(seen, 0.5, rows[:2]) == pytest.approx(np.hypot(0.5, 0.3))
    assert deviation(seen, 0.0, np.array([-2.0, 1.0])) == pytest.approx(0.2)
    assert deviation(seen, 0.5, np.zeros((0, 3))) == 0.5
    assert deviation(dataclasses.replace(seen, rounding=None), 0.5, rows) == 0.5


@pytest.mark.parametrize("name", DIGITS)
def test_rounding_stays_below_the_bounds_that_follow_from_it(name: str, lab: Any) -> None:
    """Of each span the largest singular value; of the whole gradient the distance."""
    graph = lab.random(7, 3)
    seen = rounded(lab, graph, name)
    whole = fedsgd(seen.model, seen.params, [graph], lab.space, loss="ce")
    knowledge = Knowledge(lab.space, noise=seen.noise)
    for hop in range(seen.model.depth + 1):
        for site, exact in zip(leak_points(seen, hop), leak_points(whole, hop), strict=True):
            noise = noise_at(site, seen, knowledge)
            assert noise is not None
            error = np.asarray(site.gradient, np.float64) - exact.gradient
            assert 0 < np.linalg.norm(error, 2) < edge(noise, error.shape)
            assert np.sqrt(np.mean(error**2)) < noise
            assert noise_at(site, seen, Knowledge(lab.space)) is None
    fit = Fit.of(seen, seen.noise)
    [(distance, label)] = gradient_distances(seen, lab.space, [graph], fit.most)
    assert fit.rounded == pytest.approx(2.0 ** -DIGITS[name], rel=0.01) and label == graph.y
    assert 0.2 * fit.rounded < distance < fit.most < 2.0 * fit.rounded


def test_numbers_of_a_few_units_are_rounded_far_from_at_random(lab: Any) -> None:
    """An update that float16 leaves a few units of says nothing; so its error is bounded in every tensor, and a graph
    that is not the client's is not certified."""
    graph = lab.random(4, 2)
    seen = lab.observe(lab.model(), graph)
    tiny = jax.tree.map(lambda leaf: (np.float32(1e-6) * leaf).astype(np.float16).astype(np.float32), seen.update)
    rough = dataclasses.replace(seen, update=tiny, scaled=True, rounding=rounding_of("float16"))
    for hop in range(seen.model.depth + 1):
        for site, exact in zip(leak_points(rough, hop), leak_points(seen, hop), strict=True):
            error = np.asarray(site.gradient, np.float64) - 1e-6 * exact.gradient
            noise = noise_at(site, rough, Knowledge(lab.space, noise=rough.noise))
            assert noise is not None and np.linalg.norm(error, 2) < edge(noise, error.shape)
    found = CENSUS(rough, Knowledge(lab.space, n=4), key=jax.random.key(0), budget=Budget(time_limit=5))
    assert found.stop == "no information" and found.certificate is None
    assert "noise of deviation 1.7e-08 and rounding of 2.8e-04" in found.info["reason"]


def test_noise_that_is_stated_is_no_less_than_that_of_the_smallest_numbers(lab: Any) -> None:
    seen = dataclasses.replace(rounded(lab, lab.random(4, 2), "float16"), noise=1e-9)
    assert seen.noise == TINY["float16"]
    for told, noise in ((None, TINY["float16"]), (0.0, TINY["float16"]), (1e-3, 1e-3)):
        assert _with_noise(seen, Knowledge(lab.space, noise=told)).noise == noise


def test_of_two_graphs_rounding_alone_excludes_neither_that_it_may_have_made() -> None:
    fit = Fit(1e-6, 500, rounded=1e-3)
    assert fit.most == pytest.approx(1e-3, rel=0.1)
    for c, likely in ((0.9, True), (5.0, False)):
        assert fit.likely([0.02, np.hypot(0.02, c * 1e-3)]).tolist() == [True, likely]


@pytest.mark.parametrize("name", DIGITS)
@pytest.mark.parametrize("attack", [CENSUS, GRAIN], ids=["census", "grain"])
def test_the_graph_comes_back(attack: Any, name: str, lab: Any) -> None:
    """With the noise of the loudest tensor on every entry it did not."""
    graph = lab.random(6, 5)
    seen = rounded(lab, graph, name)
    found = attack(seen, Knowledge(lab.space, n=6), key=jax.random.key(0), budget=Budget(time_limit=20))
    assert found.stop == "match" and found.best is not None and found.best.isomorphic(graph)
    if found.certificate is not None:
        assert any(f"rounding of {rounding_of(name):.1e} of each entry" in c for c in found.certificate.conditions)
        assert found.certificate.noise == TINY[name]  # of the smallest numbers


@pytest.mark.parametrize("name", DIGITS)
def test_facts_of_a_rounded_update_are_true(name: str, lab: Any) -> None:
    graph, space = lab.random(6, 5), dataclasses.replace(lab.space, mean=None, std=None)
    model = lab.model()
    seen = fedsgd(model, lab.params(model), [graph], space, loss="ce", defense=parse(name), key=jax.random.key(0))
    said = {one: fact.value for one, fact in facts(seen, space).found.items()}
    assert said["label"] == graph.y and said["different_nodes"] <= len({tuple(row) for row in graph.x})
    columns = [k for k, feature in enumerate(space.features) if feature.determined_by is None]
    for k in columns:
        feature = space.features[k]
        assert said["feature_values"][feature.name] == [feature.values[code] for code in np.unique(graph.x[:, k])]


def test_equations_are_as_sure_as_their_rows_are_large(lab: Any) -> None:
    """A row's rounding is relative to it; the upstream gradient's moves all equations alike."""
    seen = rounded(lab, lab.random(6, 5), "bfloat16", readout="pooled")
    plain = dataclasses.replace(seen, rounding=None)
    rough, exact = (arithmetic_of(one, 0.0, DEFAULTS) for one in (seen, plain))
    sizes, least = np.array([1e-3, 2.0]), DEFAULTS.tolerances.equation_rounding
    np.testing.assert_allclose(rough.scales(sizes), np.hypot(rounding_of("bfloat16"), least) * sizes)
    np.testing.assert_allclose(exact.scales(sizes), least * sizes)
    assert rough.pooled_scale(3.0, seen) == pytest.approx(3.0 * np.hypot(rounding_of("bfloat16"), least))
    observed = np.array([3.0, 4.0])
    assert exact.slack(plain, observed) == pytest.approx(5.0 * least)
    assert 5.0 * rounding_of("bfloat16") < rough.slack(seen, observed) < 100.0 * rounding_of("bfloat16")


def test_rounding_is_kept_with_the_update(lab: Any, tmp_path: Path) -> None:
    seen = rounded(lab, lab.random(4, 1), "bfloat16")
    assert seen.rounding == rounding_of("bfloat16") and seen.noise == 0.0
    assert rounded(lab, lab.random(4, 1), "float16").noise == TINY["float16"]
    save(tmp_path / "seen", seen, lab.space)
    assert load(tmp_path / "seen")[0].rounding == seen.rounding and load(tmp_path / "seen")[0].noise == 0.0
    assert dataclasses.replace(seen, noise=0.1).noise == 0.1
    for wrong in (0.0, 1.0, float("nan")):
        with pytest.raises(ValueError, match="rounding: a relative error is above 0 and below 1"):
            dataclasses.replace(seen, rounding=wrong)
    with pytest.raises(ValueError, match="rounded_to: expected one of float16, bfloat16, got 'int8'"):
        rounding_of("int8")


@pytest.mark.parametrize(
    ("noise", "rounding", "words"),
    [
        (0.25, None, "noise of deviation 2.5e-01"),
        (0.0, None, "noise of deviation 0.0e+00"),
        (0.0, 0.002, "rounding of 2.0e-03 of each entry"),
        (TINY["float16"], 0.002, "noise of deviation 1.7e-08 and rounding of 2.0e-03 of each entry"),
        (0.25, 0.002, "noise of deviation 2.5e-01 and rounding of 2.0e-03 of each entry"),
    ],
)
def test_noise_in_words(noise: float, rounding: float | None, words: str) -> None:
    assert described(noise, rounding) == words
