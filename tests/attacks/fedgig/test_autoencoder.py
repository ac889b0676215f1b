"""The masked graph auto-encoder: it knows no node order, learns, and tells hidden edges from pairs without one."""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from jgleak.attacks.fedgig import autoencoder
from jgleak.attacks.fedgig.autoencoder import Autoencoder, complete, corrupt, place_marks, random_marks, trained
from jgleak.graph import Graph, GraphBatch

N = 8


@pytest.fixture(scope="module")
def public(lab: Any) -> tuple[Graph, ...]:
    """Connected graphs of 8 nodes that state their degrees."""
    return tuple(lab.random(N, seed, extra=2) for seed in range(140))


@pytest.fixture(scope="module")
def weights(lab: Any, public: tuple[Graph, ...]) -> Any:
    return trained(public[:100], lab.space)


def test_renumbered_nodes_give_renumbered_edges(lab: Any) -> None:
    graph = lab.random(N, 3)
    order = np.random.default_rng(1).permutation(N)
    marks = np.asarray(random_marks(jax.random.key(2), N))
    mask = np.ones(N, bool)
    x, a = lab.space.encode(graph.x), graph.adjacency
    weights = jax.jit(Autoencoder().init)(jax.random.key(3), x, a, mask, marks)
    apply = jax.jit(lambda *parts: Autoencoder().apply(weights, *parts))
    straight, other = apply(x, a, mask, marks), apply(x[order], a[np.ix_(order, order)], mask, marks[order])
    np.testing.assert_allclose(np.asarray(straight)[np.ix_(order, order)], other, atol=1e-5)
    np.testing.assert_allclose(straight, straight.T, atol=1e-6)


@pytest.mark.slow
def test_training_reduces_the_loss(weights: Any) -> None:
    losses = weights[1]
    assert losses[-20:].mean() < 0.85 * losses[:5].mean()


@pytest.mark.slow
def test_hidden_edges_stand_out(lab: Any, public: tuple[Graph, ...], weights: Any) -> None:
    """Of the pairs that go in without an edge, those that lost one come out with more than the others."""
    batch = GraphBatch.from_graphs(public[100:], lab.space, slots=N)
    seen, rng = np.array(batch.adjacency), np.random.default_rng(1)
    for k, graph in enumerate(public[100:]):
        u, v = rng.choice(graph.edges)
        seen[k, u, v] = seen[k, v, u] = 0.0
    out = np.asarray(complete(random_marks, weights[0], batch.nodes, seen, batch.node_mask))
    asked = np.triu(np.ones((N, N), bool), 1) & (seen == 0)
    assert roc_auc_score(np.asarray(batch.adjacency)[asked], out[asked]) > 0.6


def test_corruption_hides_and_adds_edges(lab: Any) -> None:
    graph = lab.ring([0] * 40)
    edges, mask = jnp.asarray(graph.adjacency), jnp.ones(40, bool)
    keys = jax.random.split(jax.random.key(0), 50)
    corrupted = jax.jit(jax.vmap(lambda k, hidden, false: corrupt(k, edges, mask, hidden, false), (0, None, None)))
    seen = np.asarray(corrupted(keys, 0.25, 0.5))
    kept, added = seen[:, graph.adjacency > 0].mean(), seen[:, graph.adjacency == 0].sum() / 50 / 80
    assert kept == pytest.approx(0.75, abs=0.04)
    assert added == pytest.approx(0.5, abs=0.06)
    np.testing.assert_array_equal(seen, seen.transpose(0, 2, 1))
    np.testing.assert_array_equal(corrupted(keys, 0.0, 0.0)[0], graph.adjacency)


def test_marks_are_orthogonal_while_there_is_room() -> None:
    for marks in (random_marks, place_marks):
        rows = np.asarray(jax.jit(marks, static_argnums=1)(jax.random.key(0), 24))
        np.testing.assert_allclose(rows @ rows.T, autoencoder.MARK**2 * np.eye(24), atol=1e-4)
        assert jax.eval_shape(partial(marks, slots=104), jax.random.key(0)).shape == (104, autoencoder.WIDTH)
