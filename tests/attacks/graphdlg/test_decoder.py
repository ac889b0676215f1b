"""GraphDLG's decoder: it learns public graphs, its adapter has a gradient, and what it learns from is what it says."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jgleak.attacks.graphdlg import decoder, training_data
from jgleak.attacks.graphdlg.decoder import DecoderTraining
from jgleak.attacks.public.rows import padded
from jgleak.datasets.auxiliary import random_graphs
from jgleak.federated import Knowledge
from jgleak.graph import Graph


@pytest.fixture(scope="module")
def small() -> decoder.Lesson:
    """Four embeddings, each with edges of its own."""
    rng = np.random.default_rng(0)
    edges = np.triu(rng.random((4, 6, 6)) < 0.4, 1).astype(np.float32)
    rows = rng.normal(3.0, 2.0, (4, 8)).astype(np.float32)
    return decoder.Lesson(rows, edges + edges.swapaxes(1, 2), rows[:2] + 1.0)


def test_public_graphs_are_learnt_by_heart(small: decoder.Lesson) -> None:
    found = decoder.trained(small, DecoderTraining(steps=200, adapter=0.0))
    logits = np.asarray(jax.vmap(found.logits)(small.embeddings))
    off = ~np.eye(6, dtype=bool)
    np.testing.assert_array_equal(logits[:, off] > 0, small.edges[:, off] > 0.5)
    np.testing.assert_allclose(logits, logits.swapaxes(1, 2), atol=1e-5)
    assert not logits[:, ~off].any()


def test_equal_numbers_are_learnt_once(small: decoder.Lesson) -> None:
    again = decoder.Lesson(*(part.copy() for part in (small.embeddings, small.edges, small.victims)))
    assert decoder.trained(small, DecoderTraining(steps=200, adapter=0.0)) is decoder.trained(
        again, DecoderTraining(steps=200, adapter=0.0)
    )
    assert again != decoder.Lesson(small.embeddings + 1, small.edges, small.victims)


def test_the_adapter_has_a_gradient_and_the_printed_one_has_none(small: decoder.Lesson) -> None:
    network = decoder.DecoderNetwork(6)
    params = decoder.trained(small, DecoderTraining(steps=200, adapter=0.0)).params

    @jax.jit
    def slope(weight: float, victims: np.ndarray) -> Any:
        run = jax.grad(lambda p: decoder.loss(network, p, small.embeddings, small.edges, victims, weight=weight))
        return jnp.concatenate([leaf.ravel() for leaf in jax.tree.leaves(run(params))])

    plain = slope(0.0, small.victims)
    assert float(jnp.abs(slope(0.2, small.victims) - plain).max()) > 1e-4
    alike = np.repeat(small.embeddings, 2, axis=0)[::2]
    np.testing.assert_allclose(slope(0.2, alike), plain, atol=1e-4)  # nothing lies apart


@pytest.mark.parametrize("value", [0.0, 1.0])
def test_alike_embeddings_do_no_harm(value: float) -> None:
    """Those of dead units are all zero."""
    rows = np.full((4, 4), value, np.float32)
    same = decoder.Lesson(rows[:3], np.zeros((3, 6, 6), np.float32), rows[:1])
    found = decoder.trained(same, DecoderTraining(steps=20, adapter=0.2))
    assert bool(jnp.all(jnp.isfinite(found.logits(jnp.full(4, 7.0))))) and not np.any(found.scale)


@pytest.mark.parametrize("size", [1e-5, 1.0, 1e5])
def test_embeddings_go_in_by_column_in_units_of_their_deviation(small: decoder.Lesson, size: float) -> None:
    """Whatever their unit; a column that all graphs share says nothing."""
    rows = (size * small.embeddings * np.linspace(0.5, 2.0, 8)).astype(np.float32)
    rows[:, 3] = 2.0 * size
    found = decoder.trained(decoder.Lesson(rows, small.edges, rows[:2]), DecoderTraining(steps=20, adapter=0.0))
    live, moments = np.arange(8) != 3, (rows.mean(axis=0), rows.std(axis=0))
    units = (rows - moments[0]) / np.where(live, moments[1], np.inf)
    np.testing.assert_allclose(found.mean, moments[0], rtol=1e-5)
    np.testing.assert_allclose(found.scale[live], 1 / moments[1][live], rtol=1e-4)
    assert found.scale[3] == 0
    np.testing.assert_allclose(found.low, units.min(axis=0), atol=1e-4)
    np.testing.assert_allclose(found.high, units.max(axis=0), atol=1e-4)
    inside = decoder.DecoderNetwork(6).apply({"params": found.params}, jnp.asarray(units[0], jnp.float32))
    np.testing.assert_allclose(found.logits(rows[0]), inside[1], atol=1e-4)  # type: ignore[index]


@pytest.mark.parametrize("weight", [0.0, 0.7])
def test_the_loss_is_squared_errors_of_edges_and_the_way_between_mean_hidden_states(
    small: decoder.Lesson, weight: float
) -> None:
    network = decoder.DecoderNetwork(6)
    params = decoder.trained(small, DecoderTraining(steps=20, adapter=0.0)).params
    run = jax.jit(jax.vmap(lambda row: network.apply({"params": params}, row)))
    (hidden, odds), (there, _) = (map(np.asarray, run(rows)) for rows in (small.embeddings, small.victims))
    errors = (1 / (1 + np.exp(-odds)) - small.edges) * ~np.eye(6, dtype=bool)
    wanted = (errors**2).sum() / 4 + weight * np.linalg.norm(hidden.mean(axis=0) - there.mean(axis=0))
    found = decoder.loss(network, params, small.embeddings, small.edges, small.victims, weight=weight)
    assert float(found) == pytest.approx(wanted, rel=1e-4)


def test_beyond_the_public_embeddings_the_decoder_stays_at_their_border(small: decoder.Lesson) -> None:
    found = decoder.trained(small, DecoderTraining(steps=20, adapter=0.0))
    top = small.embeddings.max(axis=0)
    np.testing.assert_allclose(found.logits(top + 100.0), found.logits(top), atol=1e-5)
    assert np.abs(np.asarray(found.logits(top - 0.1) - found.logits(top))).max() > 1e-4


def test_the_adapter_compares_embeddings_as_the_decoder_will_see_them(small: decoder.Lesson) -> None:
    low, high = small.embeddings.min(axis=0), small.embeddings.max(axis=0)
    far = high + np.array([[100.0], [3.0]], np.float32)
    found, border, apart = (
        decoder.trained(decoder.Lesson(small.embeddings, small.edges, victims), DecoderTraining(steps=20, adapter=0.2))
        for victims in (far, np.stack([high, high]), np.stack([low, high]))
    )
    np.testing.assert_allclose(found.logits(high), border.logits(high), atol=1e-4)
    assert np.abs(np.asarray(apart.logits(high) - border.logits(high))).max() > 1e-3


def test_the_lesson_holds_distinct_public_graphs_and_leaked_embeddings(lab: Any) -> None:
    model = lab.model(hidden=16, readout="pooled", readout_widths=())
    public = [lab.random(7, seed) for seed in range(3)]
    shuffled = public[0].permute(np.arange(7)[::-1].copy())
    truth = public[1]
    known = Knowledge(lab.space, n=7, auxiliary=(*public, shuffled))
    made = training_data.training_graphs([lab.observe(model, truth)], [known], 64)
    assert made.embeddings.shape == (3, 16) and made.edges.shape == (3, 8, 8)
    np.testing.assert_array_equal(made.edges[2, :7, :7], public[2].adjacency)
    np.testing.assert_allclose(made.victims[0], made.embeddings[1], rtol=1e-3, atol=1e-5)


def test_public_graphs_larger_than_the_clients_are_cut(lab: Any) -> None:
    model = lab.model(hidden=16, readout="pooled", readout_widths=())
    public = (lab.random(12, 0), lab.random(100, 1))
    truth = lab.random(6, 2)
    made = training_data.training_graphs([lab.observe(model, truth)], [Knowledge(lab.space, n=6, auxiliary=public)], 64)
    assert made.edges.shape == (1, 8, 8)
    np.testing.assert_array_equal(made.edges[0], public[0].adjacency[:8, :8])
    made = training_data.training_graphs([lab.observe(model, truth)], [Knowledge(lab.space, n=12, auxiliary=public)], 8)
    assert made.edges.shape[0] == 1, "no larger than the client is small enough"
    np.testing.assert_array_equal(made.edges[0, :12, :12], public[0].adjacency)


def test_encoded_rows_go_in_as_they_are(lab: Any) -> None:
    made = random_graphs(lab.space, 2, 0.1, "normal", [5], np.random.default_rng(0))
    rows, _, mask = padded([*made, Graph(lab.random(5, 0).x, np.zeros((0, 2), int))], lab.space)
    np.testing.assert_allclose(rows[0, :5], made[0].x, rtol=1e-6)
    np.testing.assert_allclose(rows[2, :5], lab.space.encode(lab.random(5, 0).x), rtol=1e-6)
    assert mask.sum() == 15
