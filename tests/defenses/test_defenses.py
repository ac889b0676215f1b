"""Defences: closed forms, distributions, and the texts that name them."""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jgleak.defenses import KINDS, Defense, parse
from jgleak.defenses.defense import Kind, Step
from jgleak.defenses.prune import largest

GUIDE = Path(__file__).parents[2] / "docs" / "adding-a-defence.md"
KEY = jax.random.key(0)
UPDATE: dict[str, Any] = {
    "kernel": np.linspace(-3.0, 5.0, 24, dtype=np.float32).reshape(6, 4),
    "bias": np.array([0.5, -0.25, 0.0], np.float32),
}


def entries(update: Any) -> np.ndarray:
    return np.concatenate([np.asarray(leaf, np.float64).ravel() for leaf in jax.tree.leaves(update)])


def applied(text: str, update: Any = UPDATE, key: Any = KEY) -> Any:
    return parse(text).apply(update, key=key)


@pytest.mark.parametrize("text", ["gaussian:0.3", "laplace:0.3"])
def test_noise_has_the_stated_deviation_and_is_fresh_in_every_tensor(text: str) -> None:
    zeros = {"a": np.zeros((200, 100), np.float32), "b": np.zeros((200, 100), np.float32)}
    out = applied(text, zeros)
    both = np.stack([np.asarray(out["a"]).ravel(), np.asarray(out["b"]).ravel()])
    assert np.allclose(both.std(axis=1), 0.3, rtol=0.03) and abs(both.mean()) < 0.01
    assert abs(np.corrcoef(both)[0, 1]) < 0.03
    # E|x| / std tells the two distributions apart: sqrt(2/pi) against 1/sqrt(2).
    expected = math.sqrt(2 / math.pi) if text.startswith("gaussian") else math.sqrt(0.5)
    assert np.abs(both).mean() / 0.3 == pytest.approx(expected, rel=0.02)
    assert parse(text).deviation(zeros) == pytest.approx(0.3)


@given(bound=st.floats(1e-3, 1e3))
@settings(max_examples=5, deadline=None)
def test_clipping_bounds_norms_and_leaves_small_updates_alone(bound: float) -> None:
    whole, every, tensors = (applied(f"{name}:{bound}") for name in ("clip", "clip-inf", "clip-layer"))
    assert np.linalg.norm(entries(whole)) <= bound * (1 + 1e-5)
    assert np.abs(entries(every)).max() <= bound * (1 + 1e-6)
    assert all(np.linalg.norm(leaf) <= bound * (1 + 1e-5) for leaf in jax.tree.leaves(tensors))
    if bound > np.linalg.norm(entries(UPDATE)):
        for out in (whole, every, tensors):
            np.testing.assert_allclose(entries(out), entries(UPDATE), rtol=1e-6)
    np.testing.assert_allclose(  # only the length changes
        entries(whole) * np.linalg.norm(entries(UPDATE)), entries(UPDATE) * np.linalg.norm(entries(whole)), rtol=1e-4
    )


@pytest.mark.parametrize(("share", "left"), [(0.5, 12), (0.9, 3), (0.99, 1)])
def test_pruning_keeps_the_largest_entries_of_every_tensor(share: float, left: int) -> None:
    out = np.asarray(applied(f"prune:{share}")["kernel"]).ravel()
    kept = np.argsort(-np.abs(UPDATE["kernel"].ravel()))[:left]
    assert set(np.flatnonzero(out)) == set(kept)
    np.testing.assert_array_equal(out[kept], UPDATE["kernel"].ravel()[kept])


def test_quantisation_is_right_on_average_and_has_the_stated_levels() -> None:
    keys = jax.random.split(KEY, 4000)
    many = jax.vmap(lambda key: parse("quantise:3").apply(UPDATE, key=key)["kernel"])(keys)
    unit = 5.0 / 3.0
    levels = np.asarray(many) / unit
    assert np.allclose(levels, np.round(levels), atol=1e-5) and np.abs(levels).max() <= 3 + 1e-5
    np.testing.assert_allclose(np.mean(many, axis=0), UPDATE["kernel"], atol=0.06)
    measured = np.sqrt(np.mean((np.asarray(many) - UPDATE["kernel"]) ** 2))
    assert parse("quantise:3").deviation({"kernel": UPDATE["kernel"]}) == pytest.approx(measured, rel=0.25)


def test_quantisation_leaves_zeros_and_knows_no_unit() -> None:
    np.testing.assert_array_equal(applied("quantise:3", {"bias": np.zeros(4, np.float32)})["bias"], 0.0)
    small = {"kernel": UPDATE["kernel"] / 1024}
    np.testing.assert_array_equal(
        1024 * applied("quantise:3", small)["kernel"], applied("quantise:3", {"kernel": UPDATE["kernel"]})["kernel"]
    )


@pytest.mark.parametrize(("name", "digits"), [("float16", 11), ("bfloat16", 8)])
def test_half_precision_rounds_within_half_a_unit(name: str, digits: int) -> None:
    update = {"a": np.random.default_rng(0).normal(size=5000).astype(np.float32)}
    gap = np.asarray(applied(name, update)["a"]) - update["a"]
    assert np.all(np.abs(gap) <= 2.0**-digits * np.abs(update["a"])) and np.any(gap != 0)
    defense, size = parse(name), np.sqrt(np.mean(update["a"] ** 2))
    measured, bound = np.sqrt(np.mean(gap**2)) / size, defense.rounding(update)
    assert bound is not None and 0.5 * bound < measured < bound  # numbers just below a power of two have the bound's
    np.testing.assert_allclose(np.abs(gap) / np.abs(update["a"]), 0.0, atol=np.sqrt(3) * bound)


def test_numbers_too_small_for_all_digits_are_rounded_to_a_fixed_spacing() -> None:
    """Of float16, below 2^-14; those of bfloat16 are as small as those of 32 bits."""
    update = {"a": np.random.default_rng(0).uniform(-2e-5, 2e-5, 5000).astype(np.float32)}
    for name, share in (("float16", 1.0), ("bfloat16", 0.0)):
        gap = np.asarray(applied(name, update)["a"]) - update["a"]
        noise, defense = np.sqrt(np.mean(gap**2)), parse(name)
        floor, relative, size = defense.deviation(update), defense.rounding(update), np.sqrt(np.mean(update["a"] ** 2))
        assert floor is not None and relative is not None
        assert floor == pytest.approx(share * noise, rel=0.05) and noise <= np.hypot(floor, relative * size)


def test_rounding_is_known_as_far_as_noise_is() -> None:
    """Beside noise, and after a bound; not where entries are left out, or cut after they were rounded."""
    half, noisy = parse("bfloat16").rounding(UPDATE), parse("gaussian:0.3+bfloat16")
    assert half == pytest.approx(2.0**-8 / np.sqrt(3))
    assert noisy.rounding(UPDATE) == half and noisy.deviation(UPDATE) == pytest.approx(0.3)
    assert parse("clip:1+bfloat16").rounding(UPDATE) == half
    assert parse("float16+bfloat16").rounding(UPDATE) == parse("bfloat16+float16").rounding(UPDATE) == half
    for text in ("", "gaussian:0.3", "prune:0.5+bfloat16", "bfloat16+clip:1", "sign+bfloat16"):
        assert parse(text).rounding(UPDATE) is None
    zeros = jax.tree.map(np.zeros_like, UPDATE)
    assert parse("bfloat16").rounding(zeros) is None and parse("bfloat16").deviation(zeros) is None


def test_signs_keep_the_mean_size() -> None:
    out = applied("sign")
    for name, leaf in UPDATE.items():
        np.testing.assert_allclose(out[name], np.sign(leaf) * np.abs(leaf).mean(), rtol=1e-6)


def test_steps_are_taken_in_their_order() -> None:
    """Noise after clipping exceeds the bound; clipping after noise does not."""
    after, before = applied("clip:0.1+gaussian:1"), applied("gaussian:1+clip:0.1")
    assert np.linalg.norm(entries(after)) > 1 and np.linalg.norm(entries(before)) <= 0.1 * (1 + 1e-5)


def test_a_defence_is_an_optax_transformation_that_draws_afresh_in_every_round() -> None:
    transform = optax.chain(parse("clip:1+laplace:0.5").transform(key=KEY), optax.scale(2.0))
    state = transform.init(UPDATE)
    first, state = transform.update(UPDATE, state)
    second, _ = transform.update(UPDATE, state)
    assert not np.allclose(entries(first), entries(second))
    np.testing.assert_allclose(entries(first), 2 * entries(applied("clip:1+laplace:0.5")), rtol=1e-5)


@pytest.mark.parametrize("text", ["activations:0.2", "activations-gaussian:0.2"])
def test_activation_noise_has_the_stated_deviation_and_differs_between_layers(text: str) -> None:
    disturb = parse(text).disturb(key=KEY)
    assert disturb is not None
    state = jnp.ones((300, 100))
    first, second = (np.asarray(disturb(layer, state) - state) for layer in (0, 1))
    assert first.std() == pytest.approx(0.2, rel=0.03)
    assert abs(np.corrcoef(first.ravel(), second.ravel())[0, 1]) < 0.03
    assert parse(text).deviation(UPDATE) is None and not parse(text).on_update


def test_hybrid_is_half_the_variance_inside_and_outside() -> None:
    half = 0.3 / math.sqrt(2)
    assert str(parse("hybrid:0.3")) == f"activations:{half!r}+laplace:{half!r}"


def test_only_noise_around_the_gradient_has_a_deviation() -> None:
    for text in (
        "",
        "prune:0.5",
        "sign",
        "clip:1",
        "gaussian:0.1+clip:1",
        "clip-inf:1+gaussian:0.1",
        "gaussian:0.1+prune:0.5",
        "hybrid:0.1",
    ):
        assert parse(text).deviation(UPDATE) is None
    assert parse("clip:1+gaussian:0.1").deviation(UPDATE) == pytest.approx(0.1) and parse("clip:1").scales
    assert parse("gaussian:0.3+laplace:0.4").deviation(UPDATE) == pytest.approx(0.5)


@pytest.mark.parametrize("kind", ["clip-inf", "clip-layer"])
def test_a_bound_that_the_update_shows_was_never_reached_leaves_the_noise_known(kind: str) -> None:
    """FedGNN's combination: noise after a bound on entries."""
    largest = max(float(np.linalg.norm(np.ravel(leaf))) for leaf in jax.tree.leaves(UPDATE))
    for bound, known in ((3.0 * largest, True), (0.5 * largest if kind == "clip-layer" else 1e-3, False)):
        defense = parse(f"{kind}:{bound}+gaussian:1e-5")
        left = defense.apply(UPDATE, key=jax.random.key(0))
        assert defense.deviation(left) == (pytest.approx(1e-5) if known else None)
    loud = parse(f"{kind}:{3.0 * largest}+gaussian:{largest}")
    assert loud.deviation(loud.apply(UPDATE, key=jax.random.key(0))) is None


@pytest.mark.parametrize("kind", ["clip-inf", "clip-layer"])
def test_an_update_at_the_bound_may_have_been_larger(kind: str) -> None:
    update, idle = {"a": np.array([3.0, 4.0], np.float32)}, KINDS[kind].idle
    reached = 4.0 if kind == "clip-inf" else 5.0
    assert idle is not None and not idle(reached, update, 0.0) and idle(1.001 * reached, update, 0.0)
    assert idle(1.001 * reached, update | {"without entries": np.zeros((0, 3), np.float32)}, 0.0)


def test_noise_leaves_room_below_a_bound() -> None:
    """Ten deviations: of an entry, and of a norm, whose square noise moves by ``2 bound deviation`` each."""
    for kind, least, size in (("clip-inf", 4.5, 1.0), ("clip-layer", math.sqrt(20.0), 2.0)):
        idle = KINDS[kind].idle
        assert idle is not None
        for factor, wanted in ((0.999, True), (1.001, False)):
            update = {"small": np.zeros(3, np.float32), "a": np.full(int(size**2), factor * least / size, np.float32)}
            assert idle(5.0, update, 0.05) == wanted


@pytest.mark.parametrize(
    "text",
    ["clip:1.0+gaussian:0.123456789", "prune:0.9", "sign", "clip:1e+20+quantise:16.0", "quantise:2.0", ""],
)
def test_texts_come_back(text: str) -> None:
    assert str(parse(text)) == text
    assert parse(text) == parse(str(parse(text))) and hash(parse(text)) == hash(parse(text))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("gausian:1", "did you mean 'gaussian'"),
        ("gaussian", "needs a strength"),
        ("gaussian:much", "needs a strength"),
        ("gaussian:-1", "above 0"),
        ("gaussian:nan", "finite"),
        ("clip:inf", "finite"),
        ("prune:1", "between 0 and 1"),
        ("quantise:1", "from 2 to 16"),
        ("quantise:2.5", "whole number"),
        ("quantise:17", "from 2 to 16"),
        ("prune:0", "between 0 and 1"),
        ("percentile:0", "between 0 and 100"),
        ("percentile:100", "between 0 and 100"),
        ("sign:2", "has no strength"),
        ("hybrid", "needs a strength"),
        ("clip:1+", "unknown ''"),
    ],
)
def test_mistakes_are_named(text: str, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        parse(text)


def test_no_defence_changes_nothing() -> None:
    assert Defense().apply(UPDATE, key=KEY) is UPDATE
    assert Defense().disturb(key=KEY) is None
    for text in ("", "activations:0.1"):  # nothing is done to the update itself
        out, _ = parse(text).transform(key=KEY).update(UPDATE, parse(text).transform(key=KEY).init(UPDATE))
        np.testing.assert_array_equal(entries(out), entries(UPDATE))


@pytest.mark.parametrize("name", KINDS)
def test_every_kind_keeps_shapes_and_types_and_repeats_itself(name: str) -> None:
    check_kind(KINDS[name], {"prune": 0.5, "quantise": 4.0}.get(name, 0.1))


def test_the_guides_own_kind_passes_the_same_test(monkeypatch: pytest.MonkeyPatch) -> None:
    names: dict[str, Any] = {}
    for code in re.findall(r"```python\n(.*?)```", GUIDE.read_text(encoding="utf-8"), re.DOTALL):
        exec(compile(code, str(GUIDE), "exec"), names)
    check_kind(names["DROP"], 0.5)
    monkeypatch.setitem(KINDS, "drop", names["DROP"])
    ones = {"a": np.ones((200, 200), np.float32)}
    out = np.asarray(parse("drop:0.75").apply(ones, key=KEY)["a"])
    assert set(np.unique(out)) == {0.0, 4.0} and abs(out.mean() - 1.0) < 0.05, "the mean stays"
    with pytest.raises(ValueError, match=r"lies in \(0, 1\)"):
        parse("drop:1.5")


def check_kind(kind: Kind, strength: float) -> None:
    """What every kind promises: tensors keep their shapes and types, and one key gives one result."""
    defense = Defense((Step(kind) if kind.plain else Step(kind, strength),))
    once, again = (defense.apply(UPDATE, key=KEY) for _ in range(2))
    for a, b, c in zip(*map(jax.tree.leaves, (once, again, UPDATE)), strict=True):
        assert np.shape(a) == c.shape and np.asarray(a).dtype == c.dtype
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("text", ["gaussian:0.1", "laplace:0.1", "quantise:4"])
def test_random_kinds_draw_by_their_key(text: str) -> None:
    assert not np.array_equal(entries(applied(text)), entries(applied(text, key=jax.random.key(1))))


@pytest.mark.parametrize("dtype", [jnp.float32, jnp.float16, jnp.bfloat16])
@pytest.mark.parametrize("rank", [1, 7, 50])
def test_the_largest_entries_are_found_without_sorting(dtype: Any, rank: int) -> None:
    drawn = jnp.abs(jax.random.normal(KEY, (50,))).at[:20].set(0.0).at[20:25].set(1.5).at[25].set(3e-40)
    sizes = drawn.astype(dtype)
    assert largest(sizes, rank) == jnp.sort(sizes)[sizes.size - rank]


@pytest.mark.parametrize("broken", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize(
    "text", ["clip:1", "clip-inf:1", "clip-layer:1", "prune:0.5", "sign", "percentile:50", "clip-graph:1"]
)
def test_a_gradient_that_is_not_finite_leaves_as_nan(text: str, broken: float) -> None:
    """Bounds, pruning and signs would make numbers of it, or zeros."""
    update = {"a": np.full(8, broken, np.float32), "b": np.ones(4, np.float32)}
    defense = parse(text)
    if text.startswith("clip-graph"):
        whole = {"a": np.ones(8, np.float32), "b": np.ones(4, np.float32)}
        left = defense.on_graphs(jax.tree.map(lambda *leaves: np.stack(leaves), update, whole))
        assert all(np.all(np.isnan(leaf[0])) and np.all(np.isfinite(leaf[1])) for leaf in jax.tree.leaves(left))
        return
    assert all(np.all(np.isnan(leaf)) for leaf in jax.tree.leaves(defense.apply(update, key=jax.random.key(0))))


@pytest.mark.parametrize("text", ["gaussian:0.001", "prune:0.9", "sign"])
def test_large_entries_leave_as_they_do_elsewhere(text: str) -> None:
    """Of so many entries the length is beyond 16 bits, and no number that leaves is."""
    update = {"a": np.full(5000, 5.0, np.float16)}
    left = np.asarray(parse(text).apply(update, key=jax.random.key(0))["a"], np.float32)
    assert np.all(np.isfinite(left)) and np.max(np.abs(left)) == pytest.approx(5.0, rel=1e-2)
