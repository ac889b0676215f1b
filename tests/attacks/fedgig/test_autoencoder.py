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
from jgleak.graph import DenseGraph, Graph, GraphBatch

N = 8


@pytest.fixture(scope="module")
def public(lab: Any) -> tuple[Graph, ...]:
    """Connected graphs of 8 nodes that state their degrees."""
    return tuple(lab.random(N, seed, extra=2) for seed in range(140))


@pytest.fixture(scope="module")
def weights(lab: Any, public: tuple[Graph, ...]) -> Any:
    return trained(public[:100], lab.space, random_marks, autoencoder.TRAINING)


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


def test_edges_are_those_of_two_convolutions_written_out(lab: Any) -> None:
    """``Z = S relu(S [X | M] W1 + b1) W2 + b2`` with ``S`` of real nodes, then ``sigmoid(Z Z^T + s A + b)``."""
    rng, slots, graph = np.random.default_rng(0), N + 2, lab.random(N, 3)
    rows, edges, mask = np.zeros((slots, lab.space.width)), np.zeros((slots, slots)), np.arange(slots) < N
    rows[:N], edges[:N, :N] = lab.space.encode(graph.x), graph.adjacency
    marks = rng.normal(size=(slots, autoencoder.WIDTH))
    parts = [jnp.asarray(part, jnp.float32) for part in (rows, edges)] + [jnp.asarray(mask), jnp.asarray(marks)]
    shapes = jax.eval_shape(Autoencoder().init, jax.random.key(0), *parts)["params"]
    params = jax.tree.map(lambda leaf: (0.3 * rng.normal(size=leaf.shape)).astype(np.float32), shapes)
    layers = [{"bias": np.zeros(autoencoder.WIDTH)} | params[f"GCNConv_{k}"] for k in range(2)]
    looped = edges + np.diag(mask.astype(float))
    degree = np.maximum(looped.sum(axis=1), 1.0)
    mixing = looped / np.sqrt(np.outer(degree, degree))
    hidden = np.maximum(mixing @ np.hstack([rows, marks]) @ layers[0]["kernel"] + layers[0]["bias"], 0.0)
    latent = mixing @ hidden @ layers[1]["kernel"] + layers[1]["bias"]
    odds = latent @ latent.T + float(params["own"]) * edges + float(params["offset"])
    pairs = np.outer(mask, mask) & ~np.eye(slots, dtype=bool)
    found = jax.jit(Autoencoder().apply)({"params": params}, *parts)
    np.testing.assert_allclose(found, np.where(pairs, 1 / (1 + np.exp(-odds)), 0.0), atol=1e-4)
    assert all(np.any(layer["bias"]) for layer in layers)


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


def test_padding_is_no_node(lab: Any) -> None:
    """Slots without a node gain no edges, by chance or from the network, and change nothing between real nodes."""
    graph, slots = lab.random(N, 3), 16
    batches = [GraphBatch.from_graphs([graph], lab.space, slots=s) for s in (N, slots)]
    marks = np.asarray(jax.jit(random_marks, static_argnums=1)(jax.random.key(2), slots))
    parts = [(b.nodes[0], b.adjacency[0], b.node_mask[0], marks[:s]) for b, s in zip(batches, (N, slots), strict=True)]
    weights = jax.jit(Autoencoder().init)(jax.random.key(3), *parts[0])
    whole, padded = (np.asarray(jax.jit(Autoencoder().apply)(weights, *part)) for part in parts)
    np.testing.assert_allclose(padded[:N, :N], whole, atol=1e-6)
    assert not padded[N:].any() and not padded[:, N:].any() and not padded.diagonal().any()
    mask = np.asarray(batches[1].node_mask[0])
    seen = np.asarray(jax.jit(corrupt)(jax.random.key(0), batches[1].adjacency[0], mask, 0.0, 10.0))
    assert seen[:N, :N].sum() > graph.adjacency.sum() + 10
    assert not seen[N:].any() and not seen[:, N:].any() and not seen.diagonal().any()


@pytest.mark.parametrize(("hidden", "false"), [(0.0, 0.0), (0.6, 0.0), (0.0, 0.6), (0.6, 0.6)])
def test_what_is_learnt_is_the_whole_graph_from_a_masked_one(
    hidden: float, false: float, lab: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An auto-encoder that returns the edges it is shown errs on those hidden or added, and on no others.

    Shares are uniform up to their limits: on average half of either limit, of the graph's edges, of all pairs.
    """
    monkeypatch.setattr(autoencoder, "HIDDEN", hidden)
    monkeypatch.setattr(autoencoder, "FALSE", false)
    graph, copies = lab.random(N, 3), 2000
    batch = GraphBatch.from_graphs([graph], lab.space, slots=12)
    parts = [jnp.asarray(part) for part in (batch.nodes, batch.adjacency, batch.node_mask)]

    def blank(key: Any, slots: int) -> Any:
        return jnp.zeros((slots, autoencoder.WIDTH))

    weights = Autoencoder().init(jax.random.key(0), *(part[0] for part in parts), blank(None, 12))["params"]
    shown = jax.tree.map(jnp.zeros_like, weights) | {"own": jnp.asarray(200.0), "offset": jnp.asarray(-100.0)}
    many = DenseGraph(*(jnp.repeat(part, copies, axis=0) for part in parts))
    found = jax.jit(partial(autoencoder.error, blank))(shown, jax.random.key(1), many)
    density = 2 * len(graph.edges) / (N * (N - 1))
    assert float(found) == pytest.approx((hidden + false) / 2 * density, rel=0.05, abs=1e-6)


def test_marks_are_orthogonal_while_there_is_room() -> None:
    for marks in (random_marks, place_marks):
        rows = np.asarray(jax.jit(marks, static_argnums=1)(jax.random.key(0), 24))
        np.testing.assert_allclose(rows @ rows.T, autoencoder.MARK**2 * np.eye(24), atol=1e-4)
        assert jax.eval_shape(partial(marks, slots=104), jax.random.key(0)).shape == (104, autoencoder.WIDTH)


def test_beyond_the_room_marks_keep_their_length_in_the_mean() -> None:
    """Columns of a rotation of 104 nodes: orthogonal, and no shorter than those of 64."""
    slots, width = 104, autoencoder.WIDTH
    rows = np.asarray(jax.jit(random_marks, static_argnums=1)(jax.random.key(0), slots))
    np.testing.assert_allclose(rows.T @ rows, autoencoder.MARK**2 * slots / width * np.eye(width), atol=1e-4)
