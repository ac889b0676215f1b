"""Defences that frameworks apply, against closed forms, and against NVFlare's own filters where it is installed."""

from __future__ import annotations

import math
from typing import Any

import jax
import numpy as np
import pytest
from models import some_params
from scipy.special import ndtr, ndtri

from jgleak.attacks.facts.registry import facts
from jgleak.datasets import load
from jgleak.defenses import parse, sparse_vector
from jgleak.defenses.privacy import privacy
from jgleak.defenses.sparse_vector import scales
from jgleak.federated import LocalTraining, fedavg, fedsgd
from jgleak.gnn import Pooled, standard

KEY = jax.random.key(0)
RNG = np.random.default_rng(0)
UPDATE = {"kernel": RNG.normal(size=(40, 25)).astype(np.float32), "bias": RNG.normal(size=25).astype(np.float32) / 10}


def entries(update: Any) -> np.ndarray:
    return np.concatenate([np.ravel(update[name]) for name in sorted(update)])


@pytest.mark.parametrize("percent", [10.0, 33.3, 99.9])
def test_a_percentile_is_taken_of_the_whole_update(percent: float) -> None:
    """Of the bias, whose entries are small, more is left out than of the kernel."""
    left, before = parse(f"percentile:{percent}").apply(UPDATE, key=KEY), entries(UPDATE)
    cutoff = np.percentile(np.abs(before), percent)
    np.testing.assert_array_equal(entries(left), np.where(np.abs(before) < cutoff, 0.0, before))
    shares = {name: np.mean(np.asarray(left[name]) == 0) for name in UPDATE}
    assert shares["bias"] > shares["kernel"] and parse("percentile:10").drops


def test_entries_of_the_percentiles_own_size_and_numbers_without_an_axis_stay() -> None:
    even = {"a": np.array([1.0, -1.0, 2.0, 3.0, 0.5], np.float32), "eps": np.array(0.01, np.float32)}
    left = parse("percentile:40").apply(even, key=KEY)  # of 0.01, 0.5, 1, 1, 2, 3 the 2nd and a half is 1
    np.testing.assert_array_equal(left["a"], [1, -1, 2, 3, 0])
    assert float(left["eps"]) == np.float32(0.01)


@pytest.mark.parametrize(("gamma", "entries"), [(1e-5, 1025), (0.01, 7)])
def test_the_sparse_vectors_scales_are_those_of_its_budgets(gamma: float, entries: int) -> None:
    """Lyu, Su and Li 2017: of ``c`` answers that are not monotonic, threshold to comparisons as 1 to (2 c)^(2/3)."""
    found = scales(gamma, entries)
    assert found.count == math.ceil(entries / 10)
    threshold, query = gamma / found.threshold, 2 * gamma * found.count / found.query
    assert threshold + query == pytest.approx(0.1) and query / threshold == pytest.approx((2 * found.count) ** (2 / 3))
    assert found.release == pytest.approx(2 * gamma * found.count / (found.count * 0.1))


@pytest.mark.parametrize("gamma", [1e-5, 0.3])
def test_normal_noise_of_the_stated_deviation_exceeds_bounds_as_often(gamma: float) -> None:
    """As the noise on what leaves, at rates from a tenth to 1e-12, and with nothing to spare at the last."""
    update = {"a": np.zeros(30, np.float32)}
    deviation, scale = parse(f"sparse-vector:{gamma}").deviation(update), 20 * gamma
    assert deviation is not None
    rates = np.logspace(-12, -1, 50)
    bounds = -scale * np.log(rates)  # what |Laplace| exceeds so often
    assert np.all(2 * ndtr(-bounds / deviation) >= rates) and 2 * ndtr(-bounds[0] / (0.9 * deviation)) < rates[0]


def test_a_tenth_of_the_entries_leave_with_noise() -> None:
    gamma, large = 1e-3, {"a": np.full(20_000, 5.0, np.float32), "eps": np.array(7.0, np.float32)}
    left = parse(f"sparse-vector:{gamma}").apply(large, key=KEY)
    sent = np.asarray(left["a"])[np.asarray(left["a"]) != 0]
    asked = 10_000  # the noise on the comparisons hides the sizes: half of all entries pass at once
    assert sent.size == pytest.approx(asked * (1 - (1 - 1 / asked) ** 2001), rel=0.03) and float(left["eps"]) == 7.0
    deviation = math.sqrt(2) * 20 * gamma
    assert np.std(sent) == pytest.approx(deviation, rel=0.06)
    assert np.mean(sent) == pytest.approx(gamma, abs=4 * deviation / math.sqrt(sent.size))


@pytest.mark.parametrize("broken", [np.nan, np.inf])
def test_of_an_update_that_is_not_finite_nothing_leaves(broken: float) -> None:
    """Where most entries are NaN, too few would ever pass."""
    left = parse("sparse-vector:1").apply({"a": np.where(np.arange(40) < 38, broken, 1.0).astype(np.float32)}, key=KEY)
    assert np.all(np.isnan(left["a"]))


def test_normal_noise_of_the_stated_deviation_covers_the_noise_that_leaves() -> None:
    """At every rate at which something here is tested Laplace noise exceeds the normal quantile less often."""
    deviation = parse("sparse-vector:1").deviation({})
    assert deviation is not None
    for rate in (1e-1, 1e-3, 1e-5, 1e-8, 1e-12):
        assert math.exp(-(-float(ndtri(rate)) * deviation - 1) / scales(1.0, 1).release) / 2 < 1.1 * rate


@pytest.mark.parametrize("gamma", [1e-5, 1e-2, 10.0])
def test_of_a_sparse_vector_nothing_is_said_that_is_not_so(client: Any, gamma: float) -> None:
    """Each entry is mostly noise: its sign and size tell nothing, and the zeros were drawn."""
    model, params, graphs, space = client
    defense = parse(f"sparse-vector:{gamma}")
    assert defense.drops
    for number, graph in enumerate(graphs * 23):
        given = {"loss": "bce", "defense": defense, "key": jax.random.key(number)}
        seen = fedsgd(model, params, [graph], space, **given)
        assert seen.pruned and facts(seen, space, noise=defense.deviation(seen.update)).found == {}


def test_entries_above_the_threshold_are_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without noise to speak of, those larger than a tenth of gamma, cut to gamma."""
    monkeypatch.setattr(sparse_vector, "EPSILON", 1e9)
    monkeypatch.setattr(sparse_vector, "NOISE_VAR", 1e9)
    sizes = np.where(np.arange(400) % 2, 1e-4, 5.0).astype(np.float32)
    left = np.asarray(parse("sparse-vector:0.002").apply({"a": sizes}, key=KEY)["a"])
    assert 0 < np.count_nonzero(left[::2]) <= 40 and not np.any(left[1::2])
    np.testing.assert_allclose(left[left != 0], 0.002, rtol=1e-3)


def test_the_threshold_has_noise_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where it is drawn at one scale and the rest at none: of 40 entries four leave, so that the scale is gamma / 2."""
    monkeypatch.setattr(sparse_vector, "EPSILON", 10.0)
    monkeypatch.setattr(jax.random, "laplace", lambda key, shape=(): np.full(shape, float(shape == ()), np.float32))
    sizes = np.where(np.arange(40) % 10, 0.0055, 0.0065).astype(np.float32)  # as many are above it as leave
    left = np.asarray(parse("sparse-vector:0.01").apply({"a": sizes}, key=KEY)["a"])
    assert np.any(left[::10]) and not np.any(left.reshape(4, 10)[:, 1:])


def test_what_nvflares_accountant_says_is_told_and_not_promised() -> None:
    found = privacy(parse("sparse-vector:1e-5"), [1000, 25], rounds=10)
    assert found.epsilon == math.inf and f"epsilon {10 * (0.1 + 103 * 0.1):.4g};" in found.reason
    assert privacy(parse("clip:1+percentile:10+gaussian:10"), [5]).epsilon < 2


@pytest.fixture(scope="module")
def client() -> Any:
    data = load("embedded", graphs=3, max_nodes=8)
    model = standard(data.space.width, "gcn", Pooled(), layers=1, hidden=8)
    return model, some_params(model), list(data.graphs), data.space


@pytest.mark.parametrize("local", [None, LocalTraining(0.1, steps=1)])
def test_every_graphs_gradient_is_clipped_before_the_mean(client: Any, local: LocalTraining | None) -> None:
    model, params, graphs, space = client

    def seen(some: list[Any], text: str = "") -> Any:
        given = {"loss": "bce", "defense": parse(text), "key": KEY}
        return (
            fedsgd(model, params, some, space, **given)
            if local is None
            else fedavg(model, params, some, space, local=local, **given)
        )

    each = [np.concatenate([np.ravel(x) for x in jax.tree.leaves(seen([graph]).update)]) for graph in graphs]
    norms = [float(np.linalg.norm(gradient)) for gradient in each]
    bound = float(np.median(norms))
    found = seen(graphs, f"clip-graph:{bound}")
    wanted = np.mean([g * min(1.0, bound / norm) for g, norm in zip(each, norms, strict=True)], axis=0)
    flat = np.concatenate([np.ravel(leaf) for leaf in jax.tree.leaves(found.update)])
    np.testing.assert_allclose(flat, wanted, atol=1e-6)
    assert found.scaled and np.linalg.norm(flat - np.mean(each, axis=0)) > 1e-3
    whole = seen(graphs, f"clip:{bound}")
    assert np.linalg.norm(flat - np.concatenate([np.ravel(x) for x in jax.tree.leaves(whole.update)])) > 1e-3


def test_opacus_by_parts_promises_what_a_clipped_mean_does() -> None:
    """A client's mean of clipped gradients is no longer than one of them."""
    sizes = [10, 5]
    assert (
        privacy(parse("clip-graph:1+gaussian:3"), sizes).epsilon == privacy(parse("clip:1+gaussian:3"), sizes).epsilon
    )
    with pytest.raises(ValueError, match="clip-graph:1.0 acts on each graph's gradient, .* put it first"):
        parse("gaussian:1+clip-graph:1")
    assert str(parse("activations:0.1+clip-graph:1+gaussian:1")) == "activations:0.1+clip-graph:1.0+gaussian:1.0"


@pytest.fixture
def filters() -> Any:
    pytest.importorskip("nvflare", reason="nvflare is not installed: pip install 'jgleak[nvflare]'")
    from nvflare.app_common import filters  # pyright: ignore[reportMissingImports]

    return filters


def filtered(one: Any, update: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """What a filter of NVFlare makes of a difference of weights after one step."""
    from nvflare.apis.dxo import DXO, from_shareable  # pyright: ignore[reportMissingImports]
    from nvflare.apis.fl_context import FLContext  # pyright: ignore[reportMissingImports]

    sent = DXO("WEIGHT_DIFF", data={name: array.copy() for name, array in update.items()}).to_shareable()
    return from_shareable(one.process(sent, FLContext())).data


@pytest.mark.parametrize(("percent", "gamma"), [(10, 0.01), (50, 0.3)])
def test_nvflares_percentile_privacy_is_two_steps(percent: float, gamma: float, filters: Any) -> None:
    wanted = filtered(filters.PercentilePrivacy(percent, gamma), UPDATE)
    found = parse(f"percentile:{percent}+clip-inf:{gamma}").apply(UPDATE, key=KEY)
    np.testing.assert_array_equal(entries(found), entries(wanted).astype(np.float32))


def test_nvflares_sparse_vector_has_the_same_distribution(filters: Any) -> None:
    """As many entries leave, with noise of the same size, in 20 draws of either."""
    np.random.seed(0)  # noqa: NPY002 - NVFlare draws from it
    gamma = 1e-2
    theirs = [entries(filtered(filters.SVTPrivacy(gamma=gamma, tau=gamma / 10), UPDATE)) for _ in range(20)]
    defense = parse(f"sparse-vector:{gamma}")
    ours = [entries(defense.apply(UPDATE, key=jax.random.key(i))) for i in range(20)]
    counts = [np.mean([np.count_nonzero(one) for one in some]) for some in (theirs, ours)]
    assert counts[0] == pytest.approx(counts[1], rel=0.02)
    sent = [np.concatenate([one[one != 0] for one in some]) for some in (theirs, ours)]
    assert np.median(np.abs(sent[0])) == pytest.approx(np.median(np.abs(sent[1])), rel=0.1)
