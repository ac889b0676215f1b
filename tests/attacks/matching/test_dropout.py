"""Clients that train with dropout: the gradient of masked states, and gradient matching through the masks."""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from models import some_params

from jgleak.attacks.attack import Budget
from jgleak.attacks.registry import get_attack
from jgleak.federated import Knowledge, fedsgd, load, save
from jgleak.federated.factors import Outer, factored_gradients
from jgleak.gnn import GNN, MLP, GCNConv, Layer, NodeScores, Pooled, standard
from jgleak.gnn.dropout import MASKS
from jgleak.graph import DenseGraph, GraphBatch
from jgleak.metrics import score

RATE = 0.5


def model_of(lab: Any, rate: float) -> GNN:
    layer = Layer(GCNConv(16), dropout=rate)
    return standard(lab.space.width, layer, Pooled("mean", MLP((8, 2), dropout=rate)), layers=1, last_act=True)


@partial(jax.jit, static_argnums=0)
def formed(model: GNN, params: Any, graph: DenseGraph, masks: Any) -> Any:
    """The gradient of one graph of class 1 under masks, or keys of them."""
    graphs = jax.tree.map(lambda leaf: jnp.asarray(leaf)[None], graph)
    masks = masks if isinstance(masks, jax.Array) else jax.tree.map(lambda leaf: jnp.asarray(leaf)[None], masks)
    shares = jnp.zeros((1, 1, graph.mask.size))
    found = factored_gradients(model, params, graphs, jnp.array([1]), "ce", shares, masks)
    return jax.tree.map(
        lambda leaf: leaf.rows.T @ leaf.slopes[0] if isinstance(leaf, Outer) else leaf[0],
        found,
        is_leaf=lambda leaf: isinstance(leaf, Outer),
    )


def test_the_gradient_is_that_of_the_masked_states(lab: Any) -> None:
    model, graph = model_of(lab, RATE), lab.random(6, 0)
    params, batch = lab.params(model), GraphBatch.from_graphs([graph], lab.space)
    dense, rng = jax.tree.map(lambda leaf: jnp.asarray(leaf[0]), batch.dense), np.random.default_rng(0)
    chances = jax.jit(lambda p: model.apply({"params": p}, *dense, mutable=[MASKS])[1])(params)
    masks = jax.tree.map(lambda kept: (rng.random(kept.shape) < kept).astype(np.float32), chances[MASKS])
    states, hidden = masks["layers_0"]["mask"] / RATE, masks["readout"]["mlp"]["mask_0"] / RATE

    def plain(params: Any) -> Any:
        closed = dense.adjacency + jnp.diag(dense.mask.astype(jnp.float32))
        sizes = jnp.where(dense.mask, closed.sum(axis=1), 1.0)
        mixed = closed / jnp.sqrt(sizes[:, None] * sizes[None])
        h = jax.nn.relu(mixed @ dense.nodes @ params["layers_0"]["conv"]["kernel"]) * states
        first, last = (params["readout"]["mlp"][f"linears_{i}"] for i in range(2))
        pooled = jnp.where(dense.mask[:, None], h, 0.0).sum(axis=0) / dense.mask.sum()
        logits = (jax.nn.relu(pooled @ first["kernel"] + first["bias"]) * hidden) @ last["kernel"] + last["bias"]
        return -jax.nn.log_softmax(logits)[1]

    jax.tree.map(
        lambda a, b: np.testing.assert_allclose(a, b, atol=2e-6),
        formed(model, params, dense, masks),
        jax.jit(jax.grad(plain))(params),
    )


def test_averaged_gradients_are_the_mean_over_draws_of_masks(lab: Any) -> None:
    model = model_of(lab, RATE)
    dense = jax.tree.map(lambda leaf: leaf[0], GraphBatch.from_graphs([lab.random(6, 0)], lab.space).dense)
    one, other = (jax.random.key(seed)[None] for seed in (0, 1))
    keys = one, other, jnp.concatenate([one, other])
    each = [jax.tree.map(np.asarray, formed(model, lab.params(model), dense, key)) for key in keys]
    jax.tree.map(lambda a, b, both: np.testing.assert_allclose(both, (a + b) / 2, atol=2e-6), *each)
    assert not np.allclose(
        each[0]["readout"]["mlp"]["linears_1"]["kernel"], each[1]["readout"]["mlp"]["linears_1"]["kernel"]
    )


def test_losses_of_nodes_are_averaged_over_draws_too(lab: Any) -> None:
    model = standard(lab.space.width, Layer(GCNConv(8), dropout=RATE), NodeScores(2), layers=1)
    params = some_params(model)
    graphs = jax.tree.map(jnp.asarray, GraphBatch.from_graphs([lab.random(6, 0)], lab.space).dense)
    labels, shares = jnp.zeros(graphs.mask.shape, int), graphs.mask[None] / graphs.mask.sum()
    keys = jax.random.split(jax.random.key(1), 2)

    @jax.jit
    def kernel(draws: Any) -> Any:
        found = factored_gradients(model, params, graphs, labels, "ce", shares, draws)["layers_0"]["conv"]["kernel"]
        return found.rows.T @ found.slopes[0]

    np.testing.assert_allclose(kernel(keys), (kernel(keys[:1]) + kernel(keys[1:])) / 2, atol=2e-6)


def test_a_client_draws_masks_by_its_key_and_the_file_tells_the_rate_alone(lab: Any, tmp_path: Any) -> None:
    model, graph = model_of(lab, RATE), lab.random(6, 0)
    with pytest.raises(ValueError, match="key: the masks of dropout are drawn under a key"):
        lab.observe(model, graph)
    one, again, other = (
        fedsgd(model, lab.params(model), [graph], lab.space, loss="ce", key=jax.random.key(seed)) for seed in (0, 0, 1)
    )
    shown = [np.asarray(seen.update["readout"]["mlp"]["linears_1"]["kernel"]) for seen in (one, again, other)]
    np.testing.assert_array_equal(shown[0], shown[1])
    assert not np.array_equal(shown[0] == 0, shown[2] == 0), "other units of the head are masked"
    save(tmp_path / "seen", one, lab.space)
    loaded, _ = load(tmp_path / "seen")
    assert loaded.model == model and loaded.model.readout.dropout == RATE and loaded.model.layers[0].dropout == RATE


@pytest.mark.parametrize("masked", [False, True])
def test_exact_attacks_refuse_and_say_what_still_holds(lab: Any, masked: bool) -> None:
    model = model_of(lab, RATE).clone(dropout=0.2 if masked else 0.0)
    seen = fedsgd(model, lab.params(model), [lab.random(6, 0)], lab.space, loss="ce", key=jax.random.key(0))
    for name in ("census", "grain", "closed-form", "graphdlg"):
        reason = get_attack(name).refusal(seen, Knowledge(lab.space, n=6, auxiliary=(lab.random(5, 0),)))
        assert reason is not None and "trains with dropout" in reason and "gradient matching" in reason
        assert ("span of its gradient still shows" in reason) == (not masked)
    assert model.masks_input == masked and bool(model.input_taps) == (not masked)


@pytest.mark.long
def test_matching_through_dropout_beats_matching_that_ignores_it(lab: Any) -> None:
    model, graphs = model_of(lab, RATE), [lab.random(6, seed) for seed in range(8)]
    keys = list(jax.random.split(jax.random.key(7), 8))
    seen = [
        fedsgd(model, lab.params(model), [graph], lab.space, loss="ce", key=key)
        for graph, key in zip(graphs, keys, strict=True)
    ]
    known, right, far = [Knowledge(lab.space, n=6)] * 8, {}, {}
    for masks in ("searched", "none"):
        attack = get_attack("invergrad").with_options({"steps": "150", "masks": masks})
        found = attack.on_many(seen, known, keys=keys, budget=Budget(time_limit=100.0))
        right[masks] = np.mean([score(g, one.best, lab.space).gsm0 for g, one in zip(graphs, found, strict=True)])
        far[masks] = np.mean([one.info["matching_loss"] for one in found])
    assert right["searched"] > right["none"] and far["searched"] < 0.5 * far["none"]
